"""Running sums and products."""

from __future__ import annotations

from typing import Any

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, normalize_axis, reshape, scalar
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import Dtype
from tracer.errors import ArgumentError
from tracer.ir import Op, as_dtype
from tracer.numpy.joining import concatenate
from tracer.numpy.reductions import refuse_out


def _cumulative(op: Op, a: ArrayLike, axis: int | None, dtype: Any) -> Array:
    x = as_array(a)
    if axis is None or not x.ndim:  # a number counts as a vector of one, as in NumPy
        x = reshape(x, (x.size,))
    number = normalize_axis(0 if axis is None else axis, x.ndim)
    wanted = promotion.sum_dtype(x.dtype) if dtype is None else as_dtype(dtype)
    return _accumulate(x, op=op, axis=number, dtype=wanted)


@compound
def _accumulate(x: Array, *, op: Op, axis: int, dtype: Dtype) -> Array:
    x = convert(x, dtype)
    if dtype.kind != "b":
        return apply(op, x, axis=axis, reverse=False)
    # Sums of truth values in truth values are "or", products "and".
    op = ops.cumulative_maximum if op is ops.cumulative_add else ops.cumulative_minimum
    return convert(apply(op, convert(x, as_dtype("int8")), axis=axis, reverse=False), dtype)


def cumsum(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """Return running sums along an axis (of the flattened array by default).

    Parameters
    ----------
    a : array_like
        Numbers.
    axis : int, optional
        The axis.
    dtype : dtype, optional
        Of the result; chosen as by `sum`.
    out : None
        Refused: arrays are not written in place.

    Returns
    -------
    Array, the shape of `a`, or its size
        The running sums.
    """
    refuse_out(out)
    return _cumulative(ops.cumulative_add, a, axis, dtype)


def cumprod(a: ArrayLike, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """Return running products along an axis; the parameters are those of `cumsum`."""
    refuse_out(out)
    return _cumulative(ops.cumulative_multiply, a, axis, dtype)


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: None = None,
    include_initial: bool = False,
) -> Array:
    """Return running sums along an axis, as the array API standard names them.

    Parameters
    ----------
    x : array_like
        Numbers.
    axis : int, optional
        The axis; may be left out for a vector and a number, which counts as a vector of one.
    dtype : dtype, optional
        Of the result; chosen as by `sum`.
    out : None
        Refused: arrays are not written in place.
    include_initial : bool
        Begin with 0, which makes the result one longer.

    Returns
    -------
    Array
        The running sums.
    """
    refuse_out(out)
    return _with_initial(ops.cumulative_add, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: Any = None,
    out: None = None,
    include_initial: bool = False,
) -> Array:
    """Return running products along an axis; see `cumulative_sum` (they begin with 1)."""
    refuse_out(out)
    return _with_initial(ops.cumulative_multiply, 1, x, axis, dtype, include_initial)


def _with_initial(
    op: Op, initial: int, x: ArrayLike, axis: int | None, dtype: Any, include_initial: bool
) -> Array:
    array = as_array(x)
    if not array.ndim:
        array = reshape(array, (1,))
    if axis is None and array.ndim != 1:
        raise ArgumentError(
            f"a cumulative sum or product of an array of {array.ndim} axes needs an axis",
            mend="give axis=",
        )
    result = _cumulative(op, array, 0 if axis is None else axis, dtype)
    if not include_initial:
        return result
    number = normalize_axis(0 if axis is None else axis, array.ndim)
    shape = tuple(1 if i == number else size for i, size in enumerate(array.shape))
    first = broadcast(scalar(initial, result.dtype), shape)
    return concatenate([first, result], number)
