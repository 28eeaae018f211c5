"""Rounding and limiting: floor, round, clip, nan_to_num."""

from __future__ import annotations

import math
import operator
from typing import Any, TypeGuard

import numpy as np

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays, broadcast, broadcast_shape, convert
from tracer.array.dispatch import apply, compound
from tracer.ir import Op, as_dtype
from tracer.numpy.arithmetic import maximum, minimum
from tracer.numpy.complex_order import pick
from tracer.numpy.reductions import refuse_out
from tracer.numpy.ufunc import Unary, compare, full_like, is_complex, select, unary


def _rint(x: Array) -> Array:
    return _round(convert(x, promotion.float_ufunc_dtype(x.dtype)), decimals=0)


rint = unary("rint", _rint, "Round to the nearest integer, ties to even.", returns="Floats.")


def _rounding(name: str, op: Op, summary: str) -> Unary:
    def body(x: Array) -> Array:
        return x if x.dtype.kind in "biu" else apply(op, x)

    return unary(name, body, summary)


floor = _rounding("floor", ops.floor, "Round down.")
ceil = _rounding("ceil", ops.ceil, "Round up.")


def _trunc(x: Array) -> Array:
    if x.dtype.kind in "biu":
        return x
    is_negative = compare(x, full_like(x, 0), "LT")
    return select(is_negative, apply(ops.ceil, x), apply(ops.floor, x))


trunc = fix = unary("trunc", _trunc, "Round towards zero.")


def round(a: ArrayLike, decimals: int = 0) -> Array:
    """Round to a number of decimals, ties to even.

    Parameters
    ----------
    a : array_like
        Numbers.
    decimals : int
        Digits kept after the point; negative ones count to the left of it.

    Returns
    -------
    Array, the shape and dtype of `a`
        The rounded numbers; integers stay as they are unless `decimals` is negative.
    """
    x = as_array(a)
    if x.dtype.kind == "b":
        return convert(x, as_dtype("float16"))
    if x.dtype.kind in "iu" and decimals >= 0:
        return x._snapshot()
    return _round(x, decimals=operator.index(decimals))


around = round


@compound
def _round(x: Array, *, decimals: int) -> Array:
    if is_complex(x):
        parts = [_round(apply(part, x), decimals=decimals) for part in (ops.real, ops.imag)]
        return apply(ops.complex, *parts)
    if decimals == 0:
        return apply(ops.round_nearest_even, x)
    if x.dtype.kind in "iu":
        wide = convert(x, as_dtype("float64"))
        return convert(_round(wide, decimals=decimals), x.dtype)
    if abs(decimals) > math.log10(promotion.finfo(x.dtype).max):
        # More digits than there are, or none that is kept.
        zero = apply(ops.multiply, x, full_like(x, 0))
        return x if decimals > 0 else select(apply(ops.is_finite, x), zero, x)
    scale = full_like(x, 10.0 ** abs(decimals))
    up, down = (ops.multiply, ops.divide) if decimals > 0 else (ops.divide, ops.multiply)
    return apply(down, apply(ops.round_nearest_even, apply(up, x, scale)), scale)


def clip(
    a: ArrayLike,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    out: None = None,
    *,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
) -> Array:
    """Limit the elements to an interval.

    Parameters
    ----------
    a : array_like
        Numbers.
    min, max : array_like or None
        Bounds, broadcast together with `a`; None leaves that side open, as do Python integers
        beyond the dtype. Where the lower exceeds the upper the result is the upper. The array API
        standard asks for these names here.
    out : None
        Refused: arrays are not written in place.
    a_min, a_max : array_like or None
        NumPy's names of `min` and `max`.

    Returns
    -------
    Array, the broadcast shape, the promoted dtype
        The limited elements; NaN stays NaN.
    """
    refuse_out(out)
    low = a_min if min is None else min
    high = a_max if max is None else max
    x = as_array(a)
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        low = None if _is_integer(low) and low < limits.min else low
        high = None if _is_integer(high) and high > limits.max else high
    if low is None:
        return x._snapshot() if high is None else minimum(a, high)
    if high is None:
        return maximum(a, low)
    return _clip(*as_arrays(a, low, high))


def _is_integer(bound: Any) -> TypeGuard[int]:
    return type(bound) is int


@compound
def _clip(x: Array, low: Array, high: Array) -> Array:
    dtype = promotion.result_type(x, low, high)
    shape = broadcast_shape("clip", x.shape, low.shape, high.shape)
    low, x, high = [broadcast(convert(part, dtype), shape) for part in (low, x, high)]
    if is_complex(x):
        return pick(ops.minimum, pick(ops.maximum, x, low), high)
    # Not `clamp`, which has no gradient at a bound: as in JAX it is halved there.
    return apply(ops.minimum, apply(ops.maximum, x, low), high)


def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Array:
    """Replace NaN and infinities by numbers, in both parts of complex numbers.

    Parameters
    ----------
    x : array_like
        Numbers.
    copy : bool
        Without effect: arrays are never changed in place.
    nan : float
        Put where `x` is NaN.
    posinf, neginf : float, optional
        Put where `x` is infinite; by default the largest and the smallest number of the dtype.

    Returns
    -------
    Array, the shape and dtype of `x`
        Finite numbers.
    """
    del copy
    array = as_array(x)
    if array.dtype.kind in "biu":
        return array._snapshot()
    return _nan_to_num(array, nan=nan, posinf=posinf, neginf=neginf)


@compound
def _nan_to_num(x: Array, *, nan: float, posinf: float | None, neginf: float | None) -> Array:
    if is_complex(x):
        parts = [apply(op, x) for op in (ops.real, ops.imag)]
        return apply(
            ops.complex, *[_nan_to_num(y, nan=nan, posinf=posinf, neginf=neginf) for y in parts]
        )
    largest = float(promotion.finfo(x.dtype).max)
    result = select(compare(x, x, "NE"), full_like(x, nan), x)
    infinity = full_like(x, math.inf)
    high = full_like(x, largest if posinf is None else posinf)
    low = full_like(x, -largest if neginf is None else neginf)
    result = select(compare(x, infinity, "EQ"), high, result)
    return select(compare(x, apply(ops.negate, infinity), "EQ"), low, result)
