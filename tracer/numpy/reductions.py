"""Reductions: sums, products, extremes, truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from tracer.numpy.promotion import Dtype
from tracer.numpy.ufunc import full_like, is_nonzero, select

if TYPE_CHECKING:
    from tracer.numpy.array import Array

Axis = int | tuple[int, ...] | None


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape after a reduction with `keepdims`."""
    return tuple([1 if axis in axes else size for axis, size in enumerate(shape)])


def finish(x: Array, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Array:
    """Give a reduced array its axes of size one back when `keepdims` asks for them."""
    return reshape(x, kept_shape(shape, axes)) if keepdims else x


def reduce(op: Op, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Reduce over axes; no op when there is none to reduce."""
    if not axes:
        return x
    return finish(apply(op, x, axes=axes), x.shape, axes, keepdims)


def accumulation_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype in which sums are accumulated: at least float32 for floats."""
    if dtype.itemsize <= 2 and dtype.kind not in "biu":
        return as_dtype("float32")
    return dtype


def masked(x: Array, where: Array | None, identity: Any) -> Array:
    """Put the identity of a reduction where `where` does not hold."""
    if where is None:
        return x
    shape = broadcast_shape("where", x.shape, where.shape)
    x = broadcast(x, shape)
    return select(broadcast(is_nonzero(where), shape), x, full_like(x, identity))


def _operands(x: Array, where: ArrayLike | None) -> tuple[Array, ...]:
    return (x,) if where is None else (x, as_array(where))


def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Sum of the elements over axes.

    Parameters
    ----------
    a : array_like
        Numbers.
    axis : int or tuple of int, optional
        Axes to sum over; all by default.
    dtype : dtype, optional
        Of the sum. By default that of `a`, and int64 or uint64 for smaller integers. Floats of 16
        bits and less are accumulated in float32.
    keepdims : bool
        Keep the axes with size one.
    initial : array_like, optional
        Added to the sum.
    where : array_like of bool, optional
        Elements to include.

    Returns
    -------
    Array
        The sums.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> tnp.sum(tnp.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    Array([4., 6.])
    """
    x = as_array(a)
    wanted = promotion.sum_dtype(x.dtype) if dtype is None else as_dtype(dtype)
    result = _sum(
        *_operands(x, where),
        axes=normalize_axes(axis, x.ndim),
        dtype=wanted,
        keepdims=bool(keepdims),
    )
    return result if initial is None else convert(result + initial, wanted)


@compound
def _sum(
    x: Array,
    where: Array | None = None,
    /,
    *,
    axes: tuple[int, ...],
    dtype: Dtype,
    keepdims: bool,
) -> Array:
    if dtype.kind == "b":
        return reduce(ops.reduce_or, masked(convert(x, dtype), where, False), axes, keepdims)
    x = masked(convert(x, accumulation_dtype(dtype)), where, 0)
    return convert(reduce(ops.reduce_add, x, axes, keepdims), dtype)


def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Product of the elements over axes; the parameters are those of `sum`."""
    x = as_array(a)
    wanted = promotion.sum_dtype(x.dtype) if dtype is None else as_dtype(dtype)
    result = _prod(
        *_operands(x, where),
        axes=normalize_axes(axis, x.ndim),
        dtype=wanted,
        keepdims=bool(keepdims),
    )
    return result if initial is None else convert(result * initial, wanted)


@compound
def _prod(
    x: Array,
    where: Array | None = None,
    /,
    *,
    axes: tuple[int, ...],
    dtype: Dtype,
    keepdims: bool,
) -> Array:
    if dtype.kind == "b":
        return reduce(ops.reduce_and, masked(convert(x, dtype), where, True), axes, keepdims)
    x = masked(convert(x, accumulation_dtype(dtype)), where, 1)
    return convert(reduce(ops.reduce_multiply, x, axes, keepdims), dtype)


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
    *,
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
    return _extreme("max", as_array(a), axis, keepdims, initial, where)


def min(
    a: ArrayLike,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the smallest element over axes; the parameters are those of `max`."""
    return _extreme("min", as_array(a), axis, keepdims, initial, where)


amax, amin = max, min


def _truth(
    op: Op, identity: bool, a: ArrayLike, axis: Axis, keepdims: bool, where: ArrayLike | None
) -> Array:
    x = as_array(a)
    axes = normalize_axes(axis, x.ndim)
    arrays = _operands(x, where)
    return _reduce_truth(*arrays, op=op, identity=identity, axes=axes, keepdims=bool(keepdims))


@compound
def _reduce_truth(
    x: Array,
    where: Array | None = None,
    /,
    *,
    op: Op,
    identity: bool,
    axes: tuple[int, ...],
    keepdims: bool,
) -> Array:
    return reduce(op, masked(is_nonzero(x), where, identity), axes, keepdims)


def any(
    a: ArrayLike, axis: Axis = None, *, keepdims: bool = False, where: ArrayLike | None = None
) -> Array:
    """Tell whether any element over axes is true (not zero); see `numpy.any`."""
    return _truth(ops.reduce_or, False, a, axis, keepdims, where)


def all(
    a: ArrayLike, axis: Axis = None, *, keepdims: bool = False, where: ArrayLike | None = None
) -> Array:
    """Tell whether all elements over axes are true (not zero); see `numpy.all`."""
    return _truth(ops.reduce_and, True, a, axis, keepdims, where)


def count_nonzero(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Count the elements that are true (not zero) over axes; int64."""
    x = as_array(a)
    return _count_nonzero(x, axes=normalize_axes(axis, x.ndim), keepdims=bool(keepdims))


@compound
def _count_nonzero(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    ones = convert(is_nonzero(x), as_dtype("int64"))
    return reduce(ops.reduce_add, ones, axes, keepdims)


def ptp(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Return the largest minus the smallest element over axes; see `numpy.ptp`."""
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


def argmax(a: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """Return the index of the largest element, the first of equal ones; NaN counts as largest.

    Parameters
    ----------
    a : array_like
        Real numbers or bools.
    axis : int, optional
        The axis; by default the index is into the flattened array.
    keepdims : bool
        Keep the axis with size one.

    Returns
    -------
    Array of int64
        The indices.
    """
    return _arg_extreme(ops.argmax, a, axis, keepdims)


def argmin(a: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """Return the index of the smallest element; the parameters are those of `argmax`."""
    return _arg_extreme(ops.argmin, a, axis, keepdims)


def _cumulative(op: Op, a: ArrayLike, axis: int | None, dtype: Any) -> Array:
    x = as_array(a)
    if axis is None:
        x = reshape(x, (x.size,))
    number = normalize_axis(axis or 0, x.ndim)
    wanted = promotion.sum_dtype(x.dtype) if dtype is None else as_dtype(dtype)
    return _accumulate(x, op=op, axis=number, dtype=wanted)


@compound
def _accumulate(x: Array, *, op: Op, axis: int, dtype: Dtype) -> Array:
    return apply(op, convert(x, dtype), axis=axis, reverse=False)


def cumsum(a: ArrayLike, axis: int | None = None, dtype: Any = None) -> Array:
    """Return running sums along an axis (of the flattened array by default).

    Parameters
    ----------
    a : array_like
        Numbers.
    axis : int, optional
        The axis.
    dtype : dtype, optional
        Of the result; chosen as by `sum`.

    Returns
    -------
    Array, the shape of `a`, or its size
        The running sums.
    """
    return _cumulative(ops.cumulative_add, a, axis, dtype)


def cumprod(a: ArrayLike, axis: int | None = None, dtype: Any = None) -> Array:
    """Return running products along an axis; the parameters are those of `cumsum`."""
    return _cumulative(ops.cumulative_multiply, a, axis, dtype)
