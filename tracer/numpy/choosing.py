"""Choosing between arrays by conditions and numbers, and writing into parts of arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    as_arrays,
    as_shape,
    as_written,
    broadcast,
    broadcast_shape,
    convert,
    normalize_axis,
    reshape,
)
from tracer.array.dispatch import apply, compound
from tracer.array.placement import beside_arguments
from tracer.errors import ArgumentError, DTypeError, shown
from tracer.ir.types import require_countable
from tracer.numpy.bounds import looked_at
from tracer.numpy.creation import full_like, zeros
from tracer.numpy.elementwise import where
from tracer.numpy.index_parser import require_integers
from tracer.numpy.joining import stack
from tracer.numpy.logic import logical_and, logical_not
from tracer.numpy.reductions import refuse_out
from tracer.numpy.rounding import clip
from tracer.numpy.shaping import broadcast_to
from tracer.numpy.taking import take_along_axis


def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0
) -> Array:
    """Return for each element the first choice whose condition holds; see `numpy.select`.

    Parameters
    ----------
    condlist : sequence of array_like of bool
        The conditions.
    choicelist : sequence of array_like
        As many arrays.
    default : array_like
        Where no condition holds.

    Returns
    -------
    Array, the broadcast shape
        The chosen elements.
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ArgumentError(
            f"select: {len(condlist)} conditions for {len(choicelist)} choices",
            mend="give one condition for each choice, at least one",
        )
    conditions = [as_array(condition) for condition in condlist]
    if any(condition.dtype.kind != "b" for condition in conditions):
        raise DTypeError("select takes conditions of bool", mend="compare first: x != 0")
    *choices, result = as_arrays(*choicelist, default)
    dtype = promotion.result_type(*choicelist, default)
    result = convert(result, dtype)
    for condition, choice in zip(conditions[::-1], choices[::-1], strict=True):
        result = where(condition, convert(choice, dtype), result)
    return result


def choose(
    a: ArrayLike, choices: Sequence[ArrayLike], out: None = None, mode: str = "raise"
) -> Array:
    """Return for each element that of the choice that `a` numbers; see `numpy.choose`.

    Parameters
    ----------
    a : array_like of int
        Numbers of choices.
    choices : sequence of array_like
        Broadcast together with `a`.
    out : None
        Refused: arrays are not written in place.
    mode : {"raise", "wrap", "clip"}
        What happens to numbers out of bounds; traced ones cannot raise and choose NaN (see `take`).

    Returns
    -------
    Array, the broadcast shape
        The chosen elements.
    """
    refuse_out(out)
    number = as_array(a)
    if number.dtype == np.bool_:
        number = number.astype(np.int64)
    require_integers(number)
    options = as_arrays(*choices)
    count = len(options)
    if mode == "wrap":
        number = number % count
    elif mode == "clip":
        number = clip(number, 0, count - 1)
    elif mode != "raise":
        raise ArgumentError(
            f"choose: there is no mode {shown(mode)}", mend="use raise, wrap or clip"
        )
    else:
        known = looked_at(a)
        if known is not None and ((known < 0) | (known >= count)).any():
            raise ArgumentError(
                f"choose: a number is out of bounds for {count} choices", mend='use mode="clip"'
            )
        if number.dtype.kind == "i":  # no choice counts from the end
            number = where(number < 0, count, number)
    shape = broadcast_shape("choose", number.shape, *[option.shape for option in options])
    dtype = promotion.result_type(*options)
    rows = stack([broadcast(convert(option, dtype), shape) for option in options])
    return take_along_axis(rows, broadcast(number, shape)[None], 0)[0]


def _require_conditions(condlist: Any) -> None:
    if not isinstance(condlist, Array | np.ndarray | list | tuple) and not np.isscalar(condlist):
        raise DTypeError(
            f"piecewise: condlist is {shown(condlist)}", mend="give a list of conditions"
        )
    conditions: Any = condlist
    if _axes(condlist) and not len(conditions):
        raise ArgumentError("piecewise without conditions", mend="give one or more")


def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """Compute a function that is given piece by piece; see `numpy.piecewise`.

    Parameters
    ----------
    x : array_like
        The domain.
    condlist : sequence of array_like of bool
        Where each piece holds; the last one that does counts.
    funclist : sequence of callable or number
        One for each piece, and perhaps one more for elsewhere. Each callable is computed on all
        of `x`, and has a derivative where its piece is.
    *args, **kw
        Passed to the callables.

    Returns
    -------
    Array
        The shape and dtype of `x`.
    """
    domain = as_array(x)
    _require_conditions(condlist)
    single = _axes(condlist) == 0 or (_axes(condlist[0]) == 0 and domain.ndim > 0)
    conditions = [as_array(condlist)] if single else [as_array(one) for one in condlist]
    count = len(conditions)
    if len(funclist) not in (count, count + 1):
        raise ArgumentError(
            f"piecewise: {len(funclist)} functions for {count} conditions",
            mend=f"give {count}, or {count + 1} with one for elsewhere",
        )
    places = _places(domain, conditions)
    pieces = [
        piece(_only_there(here, domain), *args, **kw) if callable(piece) else piece
        for here, piece in zip(places, funclist, strict=False)
    ]
    values = [as_written(piece, domain.dtype) for piece in pieces]
    result = values[count] if len(values) > count else convert(as_array(0), domain.dtype)
    result = broadcast_to(result, domain.shape)
    for condition, value in zip(conditions, values, strict=False):
        result = where(condition, value, result)
    return result


def _places(domain: Array, conditions: Sequence[Array]) -> list[Array]:
    """Return where each piece counts, and where none does."""
    places: list[Array] = []
    free = full_like(domain, True, dtype="bool")
    for condition in reversed(conditions):
        places.insert(0, logical_and(free, condition))
        free = logical_and(free, logical_not(condition))
    return [*places, free]


def _only_there(here: Array, x: Array) -> Array:
    """Return `x`, which has a derivative in some places only: elsewhere a piece may be steep."""
    selected: Array = where(here, x, apply(ops.stop_gradient, x))
    return selected


def _axes(value: Any) -> int:
    """Count axes without a look at values; a list has at least one."""
    if isinstance(value, Array):
        return value.ndim
    return 1 if isinstance(value, list | tuple) else np.ndim(value)


def put_along_axis(arr: Any, indices: ArrayLike, values: ArrayLike, axis: int | None) -> None:
    """Write values along an axis at indices that differ from place to place, into `arr`.

    Parameters
    ----------
    arr : Array
        Gets a new buffer; arrays that shared the old one do not change.
    indices : array_like of int
        As many axes as `arr`.
    values : array_like
        Broadcast to the indices.
    axis : int or None
        The axis; None writes into the flattened array.
    """
    target = _target("put_along_axis", arr)
    index = as_array(indices)
    require_integers(index)
    if axis is None:
        flat = target.ravel().at[index.ravel()].set(broadcast_to(values, index.shape).ravel())
        target[...] = reshape(flat, target.shape)
        return
    number = normalize_axis(axis, target.ndim)
    grid = tuple(
        index if i == number else _range_along(size, i, target.ndim)
        for i, size in enumerate(target.shape)
    )
    target[grid] = values


def _range_along(size: int, axis: int, ndim: int) -> np.ndarray[Any, Any]:
    return np.arange(size).reshape(tuple(size if i == axis else 1 for i in range(ndim)))


def _target(name: str, value: Any) -> Array:
    if not isinstance(value, Array):
        raise DTypeError(
            f"{name} writes into an Array, not a {type(value).__name__}",
            mend="make one with tracer.numpy.array(x)",
        )
    return value


def fill_diagonal(a: Any, val: ArrayLike, wrap: bool = False) -> None:
    """Write a value on the main diagonal of `a`, which gets a new buffer.

    `wrap`, as in NumPy, goes on below in a tall matrix.
    """
    target = _target("fill_diagonal", a)
    if target.ndim < 2 or (target.ndim > 2 and len(set(target.shape)) != 1):
        raise ArgumentError(
            f"fill_diagonal does not fit shape {target.shape}",
            mend="give a matrix, or an array of equal sizes",
        )
    values = as_written(val, target.dtype).ravel()
    if target.ndim == 2 and target.shape[0] == target.shape[1] and values.size == 1:
        target[range(target.shape[0]), range(target.shape[0])] = values
        return
    step = 1 + int(np.cumprod(target.shape[:0:-1]).sum())
    end = target.size
    if target.ndim == 2:
        step = target.shape[1] + 1
        end = target.size if wrap else min(target.size, target.shape[1] ** 2)
    places = np.arange(0, end, step)
    values = values if values.size == 1 else values[np.arange(places.size) % values.size]
    target[...] = reshape(target.ravel().at[places].set(values), target.shape)


def put(a: Any, ind: ArrayLike, v: ArrayLike, mode: str = "raise") -> None:
    """Write values at flat indices of `a`, which gets a new buffer; see `numpy.put`."""
    target = _target("put", a)
    index = as_array(ind).ravel()
    if mode == "clip":
        index = clip(index, 0, target.size - 1)
    elif mode == "wrap":
        index = index % target.size
    else:
        known = looked_at(ind)
        if known is not None and ((known < -target.size) | (known >= target.size)).any():
            raise ArgumentError(
                f"put: an index is out of bounds for {target.size} elements", mend='use mode="clip"'
            )
    values = as_written(v, target.dtype).ravel()
    if values.size and index.size:
        repeated = values[np.arange(index.size) % values.size]
        target[...] = reshape(target.ravel().at[index].set(repeated), target.shape)


def putmask(a: Any, mask: ArrayLike, values: ArrayLike) -> None:
    """Write the elements of repeated values where a mask is true; see `numpy.putmask`."""
    target = _target("putmask", a)
    source = _safely_written("putmask", values, target.dtype).ravel()
    repeated = source[np.arange(target.size) % source.size].reshape(target.shape)
    target[...] = where(as_array(mask), repeated, target)


def place(arr: Any, mask: ArrayLike, vals: ArrayLike) -> None:
    """Write values, one after the other, where a mask holds; see `numpy.place`."""
    target = _target("place", arr)
    source = _safely_written("place", vals, target.dtype).ravel()
    target[...] = _placed(target, as_array(mask), source)


def _safely_written(name: str, values: Any, dtype: promotion.Dtype) -> Array:
    """Return what is written in the dtype of the array, which must hold all of its dtype."""
    has_dtype = isinstance(values, Array | np.ndarray) and promotion.weak_class(values) is None
    if has_dtype and not promotion.can_cast(values.dtype, dtype):
        raise DTypeError(
            f"{name} cannot cast {values.dtype} to {dtype}, the dtype of the array, safely",
            mend=f"convert the values first: values.astype({str(dtype)!r})",
        )
    return as_written(values, dtype)


@compound
def _placed(target: Array, mask: Array, source: Array) -> Array:
    flat = reshape(mask.astype(bool), (mask.size,))
    number = (flat.astype(int).cumsum() - 1) % source.size
    chosen: Array = where(flat, source[number], reshape(target, (target.size,)))
    return reshape(chosen, target.shape)


def copyto(dst: Any, src: ArrayLike, casting: str = "same_kind", where: ArrayLike = True) -> None:
    """Write an array into another, where a mask holds; see `numpy.copyto`."""
    target, source = _target("copyto", dst), as_array(src)
    promotion.require_fitting(src, target.dtype)
    weak = promotion.weak_class(src)
    given = source.dtype if weak is None else promotion.weak_dtype(target.dtype, weak)
    if not promotion.can_cast(given, target.dtype, casting):
        raise DTypeError(
            f"copyto cannot cast {given} to {target.dtype} by the rule {casting!r}",
            mend='convert with astype, or use casting="unsafe"',
        )
    chosen = _where(where, convert(source, target.dtype), target)
    target[...] = broadcast_to(chosen, target.shape)


def _where(condition: ArrayLike, x: Array, y: Array) -> Array:
    result: Array = where(condition, x, y)
    return result


@beside_arguments
def resize(a: ArrayLike, new_shape: Any) -> Array:
    """Return the elements, repeated as often as necessary, in a new shape."""
    source = as_array(a).ravel()
    shape = as_shape(new_shape)
    require_countable(shape, source.dtype)
    size = math.prod(shape)
    if not source.size:
        return zeros(shape, source.dtype)
    rows = -(-size // source.size)
    whole = reshape(broadcast(source, (rows, source.size)), (rows * source.size,))
    return reshape(whole[:size], shape)
