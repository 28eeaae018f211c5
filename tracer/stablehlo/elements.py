"""Functions of each element that StableHLO has and tracer composes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import convert, reshape
from tracer.array.dispatch import apply
from tracer.autodiff.transforms import custom_vjp
from tracer.errors import UnsupportedError
from tracer.numpy.ufunc import compare, full_like

_FLOAT_BITS = {"float64": (11, 52), "float32": (8, 23), "float16": (5, 10), "bfloat16": (8, 7)}
"""Bits of the exponent and of the mantissa."""


def ordered_bits(x: Array) -> Array:
    """Return integers in the total order of floats: -NaN < -inf < -0 < +0 < inf < NaN."""
    if x.dtype.kind in "biu":
        return x
    dtype = np.dtype(f"int{8 * x.dtype.itemsize}")
    bits = apply(ops.bitcast_convert, x, dtype=dtype)
    sign = apply(ops.shift_right_arithmetic, bits, full_like(bits, 8 * dtype.itemsize - 1))
    return apply(ops.xor, bits, apply(ops.and_, sign, full_like(bits, np.iinfo(dtype).max)))


def conjugate(x: Array) -> Array:
    """Change the sign of the imaginary part; real arrays stay."""
    if x.dtype.kind != "c":
        return x
    return apply(ops.complex, apply(ops.real, x), apply(ops.negate, apply(ops.imag, x)))


def adjoint(x: Array) -> Array:
    """Transpose the last two axes, and conjugate."""
    order = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    return conjugate(apply(ops.transpose, x, permutation=order))


def bitcast(x: Array, dtype: np.dtype[Any]) -> Array:
    """Read the bits as another dtype; one of another width adds or takes the last axis."""
    narrow, wide = dtype.itemsize, x.dtype.itemsize
    if narrow == wide:
        return apply(ops.bitcast_convert, x, dtype=dtype)
    if narrow < wide:
        return _split_bits(x, dtype)
    return _joined_bits(x, dtype)


def has_bits(dtype: np.dtype[Any]) -> bool:
    """Tell whether the bits of a dtype can be cut or joined."""
    return dtype.kind not in "bc"


def _split_bits(x: Array, dtype: np.dtype[Any]) -> Array:
    """Cut each element into narrower ones, the lowest bits first."""
    whole, part = _unsigned(x.dtype), _unsigned(dtype)
    bits = apply(ops.bitcast_convert, x, dtype=whole) if x.dtype != whole else x
    pieces = []
    for place in range(whole.itemsize // part.itemsize):
        moved = apply(ops.shift_right_logical, bits, full_like(bits, 8 * part.itemsize * place))
        masked = apply(ops.and_, moved, full_like(bits, np.iinfo(part).max))
        pieces.append(reshape(convert(masked, part), (*x.shape, 1)))
    joined = apply(ops.concatenate, *pieces, dimension=x.ndim)
    return joined if dtype == part else apply(ops.bitcast_convert, joined, dtype=dtype)


def _joined_bits(x: Array, dtype: np.dtype[Any]) -> Array:
    """Join the elements along the last axis, the lowest bits first."""
    whole, part = _unsigned(dtype), _unsigned(x.dtype)
    bits = apply(ops.bitcast_convert, x, dtype=part) if x.dtype != part else x
    shape = x.shape[:-1]
    result: Array | None = None
    for place in range(x.shape[-1]):
        start, limit = (0,) * len(shape), shape
        piece = apply(
            ops.slice,
            bits,
            start=(*start, place),
            limit=(*limit, place + 1),
            strides=(1,) * x.ndim,
        )
        wide = convert(reshape(piece, shape), whole)
        moved = apply(ops.shift_left, wide, full_like(wide, 8 * part.itemsize * place))
        result = moved if result is None else apply(ops.or_, result, moved)
    assert result is not None
    return result if dtype == whole else apply(ops.bitcast_convert, result, dtype=dtype)


def _unsigned(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if not has_bits(dtype):
        raise UnsupportedError(
            f"a bitcast of {dtype} to another width",
            mend="go through real and imag, or astype",
        )
    return np.dtype(f"uint{8 * dtype.itemsize}")


def is_negative(x: Array) -> Array:
    """Tell which elements have the sign bit."""
    bits = apply(ops.bitcast_convert, x, dtype=np.dtype(f"int{8 * x.dtype.itemsize}"))
    return compare(bits, full_like(bits, 0), "LT")


def round_away_from_zero(x: Array) -> Array:
    """Round to the nearest, ties away from zero."""
    size = apply(ops.abs, x)
    below = apply(ops.floor, size)
    is_up = compare(apply(ops.subtract, size, below), full_like(x, 0.5), "GE")
    rounded = apply(ops.add, below, convert(is_up, x.dtype))
    # The sign bit, so that what rounds to zero keeps it; infinities have no difference to below.
    signed = apply(ops.select, is_negative(x), apply(ops.negate, rounded), rounded)
    return apply(ops.select, apply(ops.is_finite, x), signed, x)


def count_leading_zeros(x: Array) -> Array:
    """Set all bits below the highest one, and count what is left."""
    width = 8 * x.dtype.itemsize
    unsigned = np.dtype(f"uint{x.dtype.itemsize * 8}")
    bits = x if x.dtype == unsigned else apply(ops.bitcast_convert, x, dtype=unsigned)
    distance = 1
    while distance < width:
        moved = apply(ops.shift_right_logical, bits, full_like(bits, distance))
        bits = apply(ops.or_, bits, moved)
        distance *= 2
    count = apply(ops.subtract, full_like(bits, width), apply(ops.popcnt, bits))
    return count if x.dtype == unsigned else apply(ops.bitcast_convert, count, dtype=x.dtype)


def can_reduce(dtype: np.dtype[Any], exponent: int, mantissa: int) -> bool:
    """Tell whether floats of a dtype can be rounded to so many bits."""
    own = _FLOAT_BITS.get(dtype.name)
    return own is not None and exponent <= own[0] and mantissa <= own[1]


def reduce_precision(
    x: Array, exponent: int, mantissa: int, *, is_differentiated: bool = True
) -> Any:
    """Round to fewer bits; the tangent too, as in JAX."""
    reduced = functools.partial(_reduced, exponent=exponent, mantissa=mantissa)
    if not is_differentiated:
        return reduced(x)
    function = custom_vjp(reduced)
    function.defvjp(lambda x: (reduced(x), None), lambda _, g: (reduced(g),))
    return function(x)


def _reduced(x: Array, *, exponent: int, mantissa: int) -> Array:
    """Round by integer ops, since XLA drops conversions there and back."""
    if not can_reduce(x.dtype, exponent, mantissa):
        raise UnsupportedError(
            f"reduce_precision of {x.dtype} to {exponent} and {mantissa} bits",
            mend="reduce float64, float32, float16 or bfloat16 to as many bits or fewer",
        )
    own = _FLOAT_BITS[x.dtype.name]
    rounded = _rounded_mantissa(x, own[1] - mantissa) if mantissa < own[1] else x
    return _clipped_exponent(rounded, x, own[0], exponent, mantissa)


def _rounded_mantissa(x: Array, dropped: int) -> Array:
    unsigned = np.dtype(f"uint{8 * x.dtype.itemsize}")
    bits = apply(ops.bitcast_convert, x, dtype=unsigned)
    last = apply(ops.shift_right_logical, bits, full_like(bits, dropped))
    last = apply(ops.and_, last, full_like(bits, 1))
    bias = apply(ops.add, last, full_like(bits, (1 << (dropped - 1)) - 1))
    mask = full_like(bits, (1 << (8 * unsigned.itemsize)) - (1 << dropped))
    rounded = apply(ops.and_, apply(ops.add, bits, bias), mask)
    result = apply(ops.bitcast_convert, rounded, dtype=x.dtype)
    return apply(ops.select, apply(ops.is_finite, x), result, x)


def _clipped_exponent(rounded: Array, x: Array, own: int, exponent: int, mantissa: int) -> Array:
    """Make infinities of what is too large, and signed zeros of what is no normal number."""
    if exponent == own:
        return rounded
    bias = (1 << (exponent - 1)) - 1
    largest, smallest = (2.0 - 2.0**-mantissa) * 2.0**bias, 2.0 ** (1 - bias)
    size = apply(ops.abs, rounded)
    infinite = apply(ops.select, is_negative(x), full_like(x, -np.inf), full_like(x, np.inf))
    zero = apply(ops.select, is_negative(x), full_like(x, -0.0), full_like(x, 0.0))
    result = apply(ops.select, compare(size, full_like(x, largest), "GT"), infinite, rounded)
    return apply(ops.select, compare(size, full_like(x, smallest), "LT"), zero, result)
