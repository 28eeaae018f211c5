"""Reductions: sums, products, extremes, truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer import ops
from tracer.errors import ArgumentError
from tracer.ir import Op, as_dtype
from tracer.numpy import promotion
from tracer.numpy.base import ArrayLike
from tracer.numpy.convert import (
    as_array,
    broadcast,
    broadcast_shape,
    convert,
    normalize_axes,
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


def refuse_out(out: object) -> None:
    """Raise `ArgumentError` when a function is asked to write into an array."""
    if out is not None:
        raise ArgumentError(
            "out= is not supported: arrays are not written in place", mend="use the result"
        )


def _operands(x: Array, where: ArrayLike | None) -> tuple[Array, ...]:
    return (x,) if where is None else (x, as_array(where))


def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
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
    out : None
        Refused: arrays are not written in place.
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
    refuse_out(out)
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
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Product of the elements over axes; the parameters are those of `sum`."""
    refuse_out(out)
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
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Tell whether any element over axes is true (not zero); see `numpy.any`."""
    refuse_out(out)
    return _truth(ops.reduce_or, False, a, axis, keepdims, where)


def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Tell whether all elements over axes are true (not zero); see `numpy.all`."""
    refuse_out(out)
    return _truth(ops.reduce_and, True, a, axis, keepdims, where)


def count_nonzero(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Count the elements that are true (not zero) over axes; int64."""
    x = as_array(a)
    return _count_nonzero(x, axes=normalize_axes(axis, x.ndim), keepdims=bool(keepdims))


@compound
def _count_nonzero(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    ones = convert(is_nonzero(x), as_dtype("int64"))
    return reduce(ops.reduce_add, ones, axes, keepdims)
