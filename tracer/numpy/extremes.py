"""The largest and the smallest: max, min, ptp, argmax, argmin."""

from __future__ import annotations

import math

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    as_keepdims,
    broadcast,
    convert,
    reduced_axes,
    reduced_axis,
    reshape,
    transpose,
)
from tracer.array.dispatch import apply, compound
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import Op, as_dtype
from tracer.numpy.complex_order import pick, place_of_extreme
from tracer.numpy.reductions import (
    Axis,
    finish,
    operands_with,
    reduce,
    refuse_out,
    start_value,
)
from tracer.numpy.taking import take_along_axis
from tracer.numpy.ufunc import is_complex, select


def _extreme(
    name: str,
    x: Array,
    axis: Axis,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Array:
    axes = reduced_axes(axis, x.ndim)
    if initial is None:
        if where is not None:
            raise ArgumentError(
                f"{name} with where needs an initial value, as it has no identity",
                mend=f"give initial=, for example {name}(x, initial=0, where=mask)",
            )
        if 0 in [x.shape[axis] for axis in axes]:
            raise ShapeError(
                f"{name} of no elements (shape {x.shape}, axes {axes}) is not defined",
                mend="give initial=, or make sure that there is an element",
            )
        return _reduce_extreme(x, name=name, axes=axes, keepdims=as_keepdims(keepdims))
    _, *mask = operands_with(name, x, where)
    start = start_value(name, initial, x.dtype)
    return _extreme_from(x, start, *mask, name=name, axes=axes, keepdims=as_keepdims(keepdims))


@compound
def _reduce_extreme(x: Array, *, name: str, axes: tuple[int, ...], keepdims: bool) -> Array:
    if is_complex(x):
        return _complex_extreme(x, "GT" if name == "max" else "LT", axes, keepdims)
    if name == "max":
        op = ops.reduce_or if x.dtype.kind == "b" else ops.reduce_maximum
    else:
        op = ops.reduce_and if x.dtype.kind == "b" else ops.reduce_minimum
    return reduce(op, x, axes, keepdims)


def _complex_extreme(x: Array, direction: str, axes: tuple[int, ...], keepdims: bool) -> Array:
    if not axes:
        return x
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    sizes = tuple(x.shape[axis] for axis in kept)
    rows = reshape(
        transpose(x, (*kept, *axes)), (*sizes, math.prod(x.shape[axis] for axis in axes))
    )
    place = reshape(place_of_extreme(rows, len(kept), direction), (*sizes, 1))
    return finish(reshape(take_along_axis(rows, place), sizes), x.shape, axes, keepdims)


@compound
def _extreme_from(
    x: Array,
    initial: Array,
    where: Array | None = None,
    /,
    *,
    name: str,
    axes: tuple[int, ...],
    keepdims: bool,
) -> Array:
    if where is not None:
        x = select(broadcast(where, x.shape), x, broadcast(initial, x.shape))
    shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
    first = finish(broadcast(initial, shape), x.shape, axes, keepdims)
    if 0 in [x.shape[axis] for axis in axes]:
        return first
    result = _reduce_extreme(x, name=name, axes=axes, keepdims=keepdims)
    op = ops.maximum if name == "max" else ops.minimum
    return pick(op, first, result) if is_complex(x) else apply(op, result, first)


def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the largest element over axes; NaN when there is one.

    Parameters
    ----------
    a : array_like
        Numbers or bools; complex ones are ordered by their real, then their imaginary parts.
    axis : int or tuple of int, optional
        Axes to reduce; all by default.
    out : None
        Refused: arrays are not written in place.
    keepdims : bool
        Keep the axes with size one.
    initial : scalar, optional
        A lower bound of the result, in its dtype; needed when there may be no elements.
    where : array_like of bool, optional
        Elements to include; needs `initial`. Broadcast to the shape of `a`.

    Returns
    -------
    Array, the dtype of `a`
        The largest elements.

    Raises
    ------
    ShapeError
        There are no elements and no `initial`; `initial` is no scalar; `where` does not fit.
    DTypeError
        `where` holds no truth values.
    """
    refuse_out(out)
    return _extreme("max", as_array(a), axis, keepdims, initial, where)


def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the smallest element over axes; the parameters are those of `max`."""
    refuse_out(out)
    return _extreme("min", as_array(a), axis, keepdims, initial, where)


amax, amin = max, min


def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Return the largest minus the smallest element over axes; see `numpy.ptp`."""
    refuse_out(out)
    x = as_array(a)
    return max(x, axis, keepdims=keepdims) - min(x, axis, keepdims=keepdims)


def _arg_extreme(op: Op, a: ArrayLike, axis: int | None, keepdims: bool) -> Array:
    x = as_array(a)
    number = reduced_axis(axis, x.ndim)
    if x.size == 0 and (number is None or x.shape[number] == 0):
        raise ShapeError(
            f"there is no {op.name} of no elements (shape {x.shape})",
            mend="make sure that there is an element",
        )
    return _reduce_arg(x, op=op, axis=number, keepdims=as_keepdims(keepdims))


@compound
def _reduce_arg(x: Array, *, op: Op, axis: int | None, keepdims: bool) -> Array:
    if x.dtype.kind == "b":
        x = convert(x, as_dtype("int8"))
    flat = reshape(x, (x.size,)) if axis is None else x
    if is_complex(x):
        result = place_of_extreme(flat, axis or 0, "GT" if op is ops.argmax else "LT")
    else:
        result = apply(op, flat, axis=axis or 0, index_dtype=as_dtype("int64"))
    axes = tuple(range(x.ndim)) if axis is None else (axis,)
    return finish(result, x.shape, axes, keepdims)


def argmax(
    a: ArrayLike, axis: int | None = None, out: None = None, *, keepdims: bool = False
) -> Array:
    """Return the index of the largest element, the first of equal ones; NaN counts as largest.

    Parameters
    ----------
    a : array_like
        Numbers or bools; complex ones are ordered by their real, then their imaginary parts.
    axis : int, optional
        The axis; by default the index is into the flattened array.
    out : None
        Refused: arrays are not written in place.
    keepdims : bool
        Keep the axis with size one.

    Returns
    -------
    Array of int64
        The indices.
    """
    refuse_out(out)
    return _arg_extreme(ops.argmax, a, axis, keepdims)


def argmin(
    a: ArrayLike, axis: int | None = None, out: None = None, *, keepdims: bool = False
) -> Array:
    """Return the index of the smallest element; the parameters are those of `argmax`."""
    refuse_out(out)
    return _arg_extreme(ops.argmin, a, axis, keepdims)
