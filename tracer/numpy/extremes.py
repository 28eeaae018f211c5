"""The largest and the smallest: max, min, ptp, argmax, argmin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer import ops
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import Op, as_dtype
from tracer.numpy import promotion
from tracer.numpy.base import ArrayLike
from tracer.numpy.convert import (
    as_array,
    as_arrays,
    broadcast,
    broadcast_shape,
    convert,
    normalize_axes,
    normalize_axis,
    reshape,
)
from tracer.numpy.dispatch import apply, compound
from tracer.numpy.ufunc import is_nonzero, select

if TYPE_CHECKING:
    from tracer.numpy.array import Array
from tracer.numpy.reductions import Axis, finish, reduce, refuse_out


def _extreme(
    name: str,
    x: Array,
    axis: Axis,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Array:
    axes = normalize_axes(axis, x.ndim)
    if initial is None:
        if where is not None:
            raise ArgumentError(
                f"{name} with where needs an initial value, as it has no identity",
                mend=f"give initial=, for example {name}(x, initial=0, where=mask)",
            )
        if 0 in [x.shape[axis] for axis in axes]:
            raise ShapeError(
                f"{name} of no elements (shape {x.shape}, axes {axes}) does not exist",
                mend="give initial=, or make sure that there is an element",
            )
        return _reduce_extreme(x, name=name, axes=axes, keepdims=bool(keepdims))
    x, start = as_arrays(x, initial)
    arrays = (x, start) if where is None else (x, start, as_array(where))
    return _extreme_from(*arrays, name=name, axes=axes, keepdims=bool(keepdims))


@compound
def _reduce_extreme(x: Array, *, name: str, axes: tuple[int, ...], keepdims: bool) -> Array:
    if name == "max":
        op = ops.reduce_or if x.dtype.kind == "b" else ops.reduce_maximum
    else:
        op = ops.reduce_and if x.dtype.kind == "b" else ops.reduce_minimum
    return reduce(op, x, axes, keepdims)


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
    dtype = promotion.promote_types(x.dtype, initial.dtype)
    x, initial = convert(x, dtype), convert(initial, dtype)
    if where is not None:
        shape = broadcast_shape("where", x.shape, where.shape)
        chosen = broadcast(is_nonzero(where), shape)
        x = select(chosen, broadcast(x, shape), broadcast(initial, shape))
    result = _reduce_extreme(x, name=name, axes=axes, keepdims=keepdims)
    op = ops.maximum if name == "max" else ops.minimum
    return apply(op, result, broadcast(initial, result.shape))


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
        Real numbers or bools.
    axis : int or tuple of int, optional
        Axes to reduce; all by default.
    out : None
        Refused: arrays are not written in place.
    keepdims : bool
        Keep the axes with size one.
    initial : array_like, optional
        A lower bound of the result; needed when there may be no elements.
    where : array_like of bool, optional
        Elements to include; needs `initial`.

    Returns
    -------
    Array, the dtype of `a`
        The largest elements.

    Raises
    ------
    ShapeError
        There are no elements and no `initial`.
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
    number = None if axis is None else normalize_axis(axis, x.ndim)
    if x.size == 0 and (number is None or x.shape[number] == 0):
        raise ShapeError(
            f"there is no {op.name} of no elements (shape {x.shape})",
            mend="make sure that there is an element",
        )
    return _reduce_arg(x, op=op, axis=number, keepdims=bool(keepdims))


@compound
def _reduce_arg(x: Array, *, op: Op, axis: int | None, keepdims: bool) -> Array:
    if x.dtype.kind == "b":
        x = convert(x, as_dtype("int8"))
    flat = reshape(x, (x.size,)) if axis is None else x
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
        Real numbers or bools.
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
