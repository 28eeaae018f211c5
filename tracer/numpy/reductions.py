"""Reductions: sums, products, extremes, truth."""

from __future__ import annotations

from typing import Any

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    as_keepdims,
    broadcast,
    broadcast_shape,
    convert,
    reduced_axes,
    reshape,
    scalar,
)
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import Dtype
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import Op, as_dtype
from tracer.numpy.ufunc import full_like, is_nonzero, select

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
    return select(broadcast(where, x.shape), x, full_like(x, identity))


def as_mask(name: str, x: Array, where: ArrayLike) -> Array:
    """Return a `where=` argument as an Array of truth values that fits the array it belongs to.

    Raises
    ------
    DTypeError
        It holds something else: numbers are taken for weights or indices as easily.
    ShapeError
        It cannot be broadcast to the shape of `x`.
    """
    mask = as_array(where)
    if mask.dtype.kind != "b":
        raise DTypeError(
            f"{name}: where= holds {mask.dtype}, not truth values",
            mend="compare (where=mask != 0), or convert it with astype(bool)",
        )
    if mask.ndim > x.ndim or broadcast_shape(name, x.shape, mask.shape) != x.shape:
        raise ShapeError(
            f"{name}: where= of shape {mask.shape} for an array of shape {x.shape}",
            mend="give a mask that broadcasts to the shape of the array",
        )
    return mask


def start_value(name: str, initial: ArrayLike, dtype: Dtype) -> Array:
    """Return an `initial=` argument as a 0-d Array of the dtype in which the reduction computes.

    Raises
    ------
    ShapeError
        It is no scalar.
    DTypeError
        It is complex and the reduction is not.
    """
    if promotion.weak_class(initial) is not None:
        return scalar(initial, dtype)
    start = as_array(initial)
    if start.ndim:
        raise ShapeError(
            f"{name}: initial= of shape {start.shape}, which is no scalar",
            mend="give one number, or combine the result with the array yourself",
        )
    if start.dtype.kind == "c" and dtype.kind != "c":
        raise DTypeError(
            f"{name}: initial= is {start.dtype} for a result of {dtype}",
            mend="give a real number, or a complex dtype=",
        )
    return convert(start, dtype)


def refuse_out(out: object) -> None:
    """Raise `ArgumentError` when a function is asked to write into an array."""
    if out is not None:
        raise ArgumentError(
            "out= is not supported: arrays are not written in place", mend="use the result"
        )


def operands_with(name: str, x: Array, where: ArrayLike | None) -> tuple[Array, ...]:
    """Return an array, and the mask of its elements when there is one."""
    return (x,) if where is None else (x, as_mask(name, x, where))


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
    initial : scalar, optional
        Added to the sum, converted to its dtype first.
    where : array_like of bool, optional
        Elements to include; broadcast to the shape of `a`.

    Returns
    -------
    Array
        The sums.

    Raises
    ------
    ShapeError, DTypeError
        `initial` is no scalar, or `where` holds no truth values or does not fit.

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
        *operands_with("sum", x, where),
        axes=reduced_axes(axis, x.ndim),
        dtype=wanted,
        keepdims=as_keepdims(keepdims),
    )
    return result if initial is None else result + start_value("sum", initial, wanted)


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
        *operands_with("prod", x, where),
        axes=reduced_axes(axis, x.ndim),
        dtype=wanted,
        keepdims=as_keepdims(keepdims),
    )
    return result if initial is None else result * start_value("prod", initial, wanted)


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
    axes = reduced_axes(axis, x.ndim)
    arrays = operands_with("all" if identity else "any", x, where)
    return _reduce_truth(
        *arrays, op=op, identity=identity, axes=axes, keepdims=as_keepdims(keepdims)
    )


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
    return _count_nonzero(x, axes=reduced_axes(axis, x.ndim), keepdims=as_keepdims(keepdims))


@compound
def _count_nonzero(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    ones = convert(is_nonzero(x), as_dtype("int64"))
    return reduce(ops.reduce_add, ones, axes, keepdims)
