"""Running sums and products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer import ops
from tracer.ir import Op, as_dtype
from tracer.numpy import promotion
from tracer.numpy.base import ArrayLike
from tracer.numpy.convert import (
    as_array,
    convert,
    normalize_axis,
    reshape,
)
from tracer.numpy.dispatch import apply, compound
from tracer.numpy.promotion import Dtype

if TYPE_CHECKING:
    from tracer.numpy.array import Array
from tracer.numpy.reductions import refuse_out


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
