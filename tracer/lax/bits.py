"""Bits of elements: read as another dtype, counted, rounded to fewer, compared in total order."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, reshape
from tracer.array.dispatch import apply, compound
from tracer.autodiff.transforms import custom_linear_solve
from tracer.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from tracer.ir import as_dtype
from tracer.lax.operands import integer
from tracer.numpy.ufunc import compare, full_like, has_sign

Dtype = np.dtype[Any]


def bitcast_convert_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """Read the bits as another dtype; one of another width adds or takes the last axis.

    Parameters
    ----------
    operand : array_like
        Numbers; not complex ones where the width changes.
    new_dtype : dtype
        The dtype to read the bits as.

    Returns
    -------
    Array
        Of the same bits, the lowest first where an element is cut into several.

    Raises
    ------
    ShapeError
        The last axis does not have the elements that make one wide element.
    UnsupportedError
        Complex numbers or bools to another width.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> hex(int(lax.bitcast_convert_type(tnp.float32(1), "uint32")))
    '0x3f800000'
    """
    x, dtype = as_array(operand), as_dtype(new_dtype)
    narrow, wide = dtype.itemsize, x.dtype.itemsize
    if narrow > wide and (not x.ndim or x.shape[-1] != narrow // wide):
        raise ShapeError(
            f"lax.bitcast_convert_type: the last axis of {x.type} does not make {dtype}",
            mend=f"give a last axis of {narrow // wide} elements",
        )
    return _bitcast(x, dtype=dtype)


@compound
def _bitcast(x: Array, *, dtype: Dtype) -> Array:
    return as_bits(x, dtype)


def as_bits(x: Array, dtype: Dtype) -> Array:
    """Read bits as another dtype; see `bitcast_convert_type`."""
    narrow, wide = dtype.itemsize, x.dtype.itemsize
    if narrow == wide:
        return x if x.dtype == dtype else apply(ops.bitcast_convert, x, dtype=dtype)
    return _split_bits(x, dtype) if narrow < wide else _joined_bits(x, dtype)


def _split_bits(x: Array, dtype: Dtype) -> Array:
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


def _joined_bits(x: Array, dtype: Dtype) -> Array:
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


def _unsigned(dtype: Dtype) -> Dtype:
    if dtype.kind == "c" or dtype.kind == "b":
        raise UnsupportedError(
            f"bitcast_convert_type of {dtype} to another width",
            mend="go through real and imag, or astype",
        )
    return np.dtype(f"uint{8 * dtype.itemsize}")


def leading_zeros(x: Array) -> Array:
    """Set all bits below the highest one, and count what is left."""
    if x.dtype.kind not in "biu":
        raise DTypeError(f"lax.clz of {x.type}", mend="give integers")
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


def ordered_bits(x: Array) -> Array:
    """Return integers in the total order of floats: -NaN < -inf < -0 < +0 < inf < NaN."""
    if x.dtype.kind in "biu":
        return x
    dtype = np.dtype(f"int{8 * x.dtype.itemsize}")
    bits = apply(ops.bitcast_convert, x, dtype=dtype)
    sign = apply(ops.shift_right_arithmetic, bits, full_like(bits, 8 * dtype.itemsize - 1))
    return apply(ops.xor, bits, apply(ops.and_, sign, full_like(bits, np.iinfo(dtype).max)))


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round to a float format of fewer bits, and keep the dtype.

    Parameters
    ----------
    operand : array_like
        Floats.
    exponent_bits, mantissa_bits : int
        Bits of the format. What is too large becomes infinite, what is too small a zero.

    Returns
    -------
    Array
        Of the same dtype. Derivatives are rounded likewise.

    Raises
    ------
    DTypeError
        No floats.
    UnsupportedError
        The dtype has fewer bits than the format.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> float(lax.reduce_precision(1.001, 5, 3))
    1.0
    """
    x = as_array(operand)
    exponent = integer("reduce_precision", "exponent_bits", exponent_bits)
    mantissa = integer("reduce_precision", "mantissa_bits", mantissa_bits)
    if x.dtype.kind in "biuc":
        raise DTypeError(f"lax.reduce_precision of {x.type}", mend="give floats")

    def rounded(_: Any, x: Array) -> Array:
        return _reduced(x, exponent=exponent, mantissa=mantissa)

    # As the solution of a linear system it is its own derivative, forward and backward.
    result: Array = custom_linear_solve(lambda x: x, x, rounded, symmetric=True)
    return result


@compound
def _reduced(x: Array, *, exponent: int, mantissa: int) -> Array:
    return in_fewer_bits(x, exponent, mantissa)


def in_fewer_bits(x: Array, exponent: int, mantissa: int) -> Array:
    """Round by integer ops, since XLA drops conversions there and back."""
    if not can_be_reduced(x.dtype, exponent, mantissa):
        raise UnsupportedError(
            f"reduce_precision of {x.dtype} to {exponent} and {mantissa} bits",
            mend="reduce float64, float32, float16 or bfloat16 to as many bits or fewer",
        )
    own = _FLOAT_BITS[x.dtype.name]
    rounded = _rounded_mantissa(x, own[1] - mantissa) if mantissa < own[1] else x
    return _clipped_exponent(rounded, x, own[0], exponent, mantissa)


_FLOAT_BITS = {"float64": (11, 52), "float32": (8, 23), "float16": (5, 10), "bfloat16": (8, 7)}
"""Bits of the exponent and of the mantissa."""


def can_be_reduced(dtype: Dtype, exponent: int, mantissa: int) -> bool:
    """Tell whether floats of a dtype can be rounded to so many bits."""
    own = _FLOAT_BITS.get(dtype.name)
    return own is not None and exponent <= own[0] and mantissa <= own[1]


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
    if exponent < 1:
        raise ArgumentError(f"reduce_precision: {exponent} bits of exponent", mend="give 1 or more")
    bias = (1 << (exponent - 1)) - 1
    largest, smallest = (2.0 - 2.0**-mantissa) * 2.0**bias, 2.0 ** (1 - bias)
    size = apply(ops.abs, rounded)
    infinite = apply(ops.select, has_sign(x), full_like(x, -np.inf), full_like(x, np.inf))
    zero = apply(ops.select, has_sign(x), full_like(x, -0.0), full_like(x, 0.0))
    result = apply(ops.select, compare(size, full_like(x, largest), "GT"), infinite, rounded)
    return apply(ops.select, compare(size, full_like(x, smallest), "LT"), zero, result)


def rounded_away(x: Array) -> Array:
    """Round to the nearest whole number, and halves away from zero."""
    size = apply(ops.abs, x)
    below = apply(ops.floor, size)
    is_up = compare(apply(ops.subtract, size, below), full_like(x, 0.5), "GE")
    rounded = apply(ops.add, below, convert(is_up, x.dtype))
    # The sign bit, so that what rounds to zero keeps it; infinities have no difference to below.
    signed = apply(ops.select, has_sign(x), apply(ops.negate, rounded), rounded)
    return apply(ops.select, apply(ops.is_finite, x), signed, x)
