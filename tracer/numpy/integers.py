"""Integers and the parts of floats: gcd, lcm, bits, exponents, packed bits."""

from __future__ import annotations

import math

import numpy as np

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert
from tracer.array.dispatch import apply, compound
from tracer.array.placement import place_beside
from tracer.errors import ArgumentError, DTypeError
from tracer.ir import as_dtype
from tracer.ir.types import require_countable
from tracer.numpy.elementwise import float_binary, nextafter
from tracer.numpy.joining import concatenate
from tracer.numpy.rounding import trunc
from tracer.numpy.ufunc import (
    align,
    binary,
    compare,
    full_like,
    has_sign,
    is_integer,
    real_floats,
    select,
    unary,
)

_STEPS_PER_BIT = 1.4404
"""Euclid's algorithm takes at most log(n) / log(golden ratio) steps (Lame, 1844)."""


def _aligned_integers(name: str, x: Array, y: Array) -> tuple[Array, Array]:
    x, y = align(name, x, y)
    if not is_integer(x.dtype):
        raise DTypeError(f"{name} takes integers, not {x.dtype}", mend="convert with astype")
    return x, y


def _gcd(x: Array, y: Array) -> Array:
    x, y = _aligned_integers("gcd", x, y)
    zero = full_like(x, 0)
    for _ in range(math.ceil(8 * x.dtype.itemsize * _STEPS_PER_BIT) + 1):
        at_zero = compare(y, zero, "EQ")
        rest = apply(ops.remainder, x, select(at_zero, full_like(y, 1), y))
        x, y = select(at_zero, x, y), select(at_zero, zero, rest)
    return x if x.dtype.kind == "u" else apply(ops.abs, x)


gcd = binary("gcd", _gcd, "Greatest common divisor.")


def _lcm(x: Array, y: Array) -> Array:
    x, y = _aligned_integers("lcm", x, y)
    divisor = _gcd(x, y)
    at_zero = compare(divisor, full_like(divisor, 0), "EQ")
    part = apply(ops.divide, x, select(at_zero, full_like(divisor, 1), divisor))
    if x.dtype.kind == "i":  # before the product, which wraps around as NumPy's does
        part, y = apply(ops.abs, part), apply(ops.abs, y)
    return apply(ops.multiply, part, y)


lcm = binary("lcm", _lcm, "Least common multiple.")


def _bitwise_count(x: Array) -> Array:
    if x.dtype.kind not in "biu":
        raise DTypeError(f"bitwise_count takes integers, not {x.dtype}", mend="use astype")
    if x.dtype.kind == "b":
        return convert(x, as_dtype("uint8"))
    size = x if x.dtype.kind == "u" else apply(ops.abs, x)
    return convert(apply(ops.popcnt, size), as_dtype("uint8"))


bitwise_count = unary("bitwise_count", _bitwise_count, "Ones in the binary form of |x|; uint8.")


def _heaviside(x: Array, y: Array) -> Array:
    zero, one = full_like(x, 0), full_like(x, 1)
    result = select(compare(x, zero, "LT"), zero, one)
    result = select(compare(x, zero, "EQ"), y, result)
    return select(compare(x, x, "NE"), x, result)


heaviside = float_binary("heaviside", _heaviside, "0 below zero, 1 above, x2 at zero.")


def _logaddexp2(x: Array, y: Array) -> Array:
    scale = full_like(x, math.log(2))
    total = apply(ops.log_add_exp, apply(ops.multiply, x, scale), apply(ops.multiply, y, scale))
    return apply(ops.divide, total, scale)


logaddexp2 = float_binary("logaddexp2", _logaddexp2, "log2(2**x1 + 2**x2), without overflow.")


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return x1 * 2**x2 for integers x2, without overflow on the way; see `numpy.ldexp`.

    A Python integer `x1` beside an array is a float16, the smallest float, as in NumPy.
    """
    # Not promoted together: the integers would become floats.
    place = place_beside((x1, x2))
    x, exponent = as_array(x1, place), as_array(x2, place)
    found = promotion.weak_class(x1)
    is_weak = found is bool or (found is int and exponent.dtype.kind != "b")
    is_weak = is_weak and promotion.weak_class(x2) is None
    return _ldexp(convert(x, as_dtype("float16")) if is_weak else x, exponent)


@compound
def _ldexp(x: Array, exponent: Array) -> Array:
    if not is_integer(exponent.dtype) and exponent.dtype.kind != "b":
        raise DTypeError(f"ldexp takes integer exponents, not {exponent.dtype}", mend="use astype")
    x = real_floats("ldexp", x)
    x, wide = align("ldexp", x, convert(exponent, x.dtype), x.dtype)
    # In four steps, so that no power of two overflows or vanishes by itself.
    limits = promotion.finfo(x.dtype)
    bound = 4 * (int(limits.maxexp) - 2)
    wide = apply(ops.clamp, full_like(wide, -bound), wide, full_like(wide, bound))
    quarter = apply(ops.floor, apply(ops.divide, wide, full_like(wide, 4)))
    rest = apply(ops.subtract, wide, apply(ops.multiply, quarter, full_like(wide, 3)))
    for step in (quarter, quarter, quarter, rest):
        x = apply(ops.multiply, x, apply(ops.power, full_like(step, 2), step))
    return x


def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Return mantissas in [0.5, 1) and int32 exponents of two; see `numpy.frexp`."""
    return _frexp(as_array(x))


@compound
def _frexp(x: Array) -> tuple[Array, Array]:
    x = real_floats("frexp", x)
    limits = promotion.finfo(x.dtype)
    mantissa, bias = int(limits.nmant), int(limits.maxexp) - 2
    tail, sign = (1 << mantissa) - 1, 1 << (8 * x.dtype.itemsize - 1)
    bits = apply(ops.bitcast_convert, x, dtype=as_dtype(f"uint{8 * x.dtype.itemsize}"))
    is_tiny = _is(_exponent_bits(bits, mantissa), 0)
    # A subnormal number is read as a count of the smallest one: XLA takes it for zero.
    count = convert(_masked(bits, tail), x.dtype)
    digits = select(is_tiny, apply(ops.bitcast_convert, count, dtype=bits.dtype), bits)
    raw = _exponent_bits(digits, mantissa)
    half = apply(ops.or_, _masked(bits, sign), full_like(bits, bias << mantissa))
    half = apply(ops.bitcast_convert, apply(ops.or_, half, _masked(digits, tail)), dtype=x.dtype)
    is_zero = _is(_masked(bits, sign - 1), 0)
    is_plain = apply(ops.and_, apply(ops.is_finite, x), apply(ops.not_, is_zero))
    moved = _moved(x, select(is_plain, raw, full_like(raw, 1)), is_tiny, (mantissa, bias))
    exponent = convert(raw, as_dtype("int32"))
    lowest = select(is_tiny, full_like(exponent, 2 * bias + mantissa), full_like(exponent, bias))
    exponent = apply(ops.subtract, exponent, lowest)
    fraction = select(is_plain, apply(ops.add, half, moved), x)
    return fraction, select(is_plain, exponent, full_like(exponent, 0))


def _is(x: Array, value: int) -> Array:
    return compare(x, full_like(x, value), "EQ")


def _exponent_bits(bits: Array, mantissa: int) -> Array:
    """Return the exponent as it is stored in floats, of which the bits are given."""
    raw = apply(ops.shift_right_logical, bits, full_like(bits, mantissa))
    return _masked(raw, (1 << (8 * bits.dtype.itemsize - mantissa - 1)) - 1)


def _masked(bits: Array, mask: int) -> Array:
    return apply(ops.and_, bits, full_like(bits, mask))


def _moved(x: Array, raw: Array, is_tiny: Array, layout: tuple[int, int]) -> Array:
    """Return zero with the derivative of the mantissa: two to minus the exponent.

    The power is a product of several, of which none leaves the normal numbers.
    """
    mantissa, bias = layout
    stored = apply(ops.subtract, full_like(raw, 2 * bias + 3), raw)
    stored = apply(ops.shift_left, stored, full_like(stored, mantissa))
    power = apply(ops.bitcast_convert, stored, dtype=x.dtype)
    moved = apply(ops.subtract, x, apply(ops.stop_gradient, x))
    for factor in (2.0**bias, 2.0**mantissa):
        wide = select(is_tiny, full_like(x, factor), full_like(x, 1))
        moved = apply(ops.multiply, moved, wide)
    return apply(ops.multiply, apply(ops.multiply, moved, power), full_like(x, 0.25))


def modf(x: ArrayLike, /) -> tuple[Array, Array]:
    """Return the fractional and the integral part, both with the sign of `x`."""
    return _modf(as_array(x))


@compound
def _modf(x: Array) -> tuple[Array, Array]:
    x = real_floats("modf", x)
    whole = trunc(x)
    infinite = compare(apply(ops.abs, x), full_like(x, math.inf), "EQ")
    rest = select(infinite, full_like(x, 0), apply(ops.subtract, x, whole))
    size = apply(ops.abs, rest)
    negative = has_sign(x)
    return select(negative, apply(ops.negate, size), size), _signed(whole, negative)


def _signed(x: Array, negative: Array) -> Array:
    size = apply(ops.abs, x)
    return select(negative, apply(ops.negate, size), size)


def _spacing(x: Array) -> Array:
    x = real_floats("spacing", x)
    infinity = full_like(x, math.inf)
    outward = infinity
    if x.dtype != np.float16:  # whose distances in NumPy are those upwards
        outward = select(has_sign(x), apply(ops.negate, infinity), infinity)
    result = apply(ops.subtract, nextafter(x, outward), x)
    return select(apply(ops.is_finite, x), result, full_like(x, math.nan))


spacing = unary("spacing", _spacing, "Distance to the next float away from zero.")


def packbits(a: ArrayLike, /, axis: int | None = None, bitorder: str = "big") -> Array:
    """Pack truth values into the bits of uint8; see `numpy.packbits`."""
    x = as_array(a)
    x = x.ravel() if axis is None else x
    rows = (x != 0).swapaxes(-1, -1 if axis is None else axis)
    missing = -rows.shape[-1] % 8
    if missing:
        padding = np.zeros((*rows.shape[:-1], missing), bool)
        rows = concatenate([rows, padding], -1)
    groups = rows.reshape((*rows.shape[:-1], rows.shape[-1] // 8, 8))
    packed = (groups * _bit_values(bitorder)).sum(-1, dtype="uint8")
    return packed.swapaxes(-1, -1 if axis is None else axis)


def unpackbits(
    a: ArrayLike, /, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """Unpack the bits of uint8 into zeros and ones; see `numpy.unpackbits`."""
    x = as_array(a)
    if x.dtype != np.uint8:
        raise DTypeError(f"unpackbits takes uint8, not {x.dtype}", mend="use astype(uint8)")
    x = x.ravel() if axis is None else x
    rows = x.swapaxes(-1, -1 if axis is None else axis)
    ones = ((rows[..., None] & _bit_values(bitorder)) != 0).astype("uint8")
    flat = ones.reshape((*rows.shape[:-1], 8 * rows.shape[-1]))
    if count is not None:
        require_countable((*flat.shape, max(count, 1)), np.dtype(np.uint8))
        missing = count - flat.shape[-1]
        if count >= 0 and missing > 0:
            zeros = np.zeros((*flat.shape[:-1], missing), np.uint8)
            flat = concatenate([flat, zeros], -1)
        flat = flat[..., :count]
    return flat.swapaxes(-1, -1 if axis is None else axis)


def _bit_values(bitorder: str) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    if bitorder not in ("big", "little"):
        raise ArgumentError(f"bitorder {bitorder!r} is not known", mend='use "big" or "little"')
    values = np.array([1 << bit for bit in range(8)], np.uint8)
    return values[::-1] if bitorder == "big" else values
