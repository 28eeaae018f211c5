"""How integer powers are lowered: XLA reads only six bits of the exponent.

XLA's integer `power` squares and multiplies six times, so `0 ** 64` is 1 and `3 ** 65` is 3. Here
the exponent is cut into pieces of six bits, most significant first, which XLA computes correctly: x
** (64 a + b) = (x ** a) ** 64 * x ** b. Products wrap around, so a result that overflows has the
low bits of the exact one, as in NumPy.
"""

from __future__ import annotations

from typing import Any

_BITS = 6


def lower_power(b: Any, x: Any, y: Any) -> Any:
    """Lower `power`: of floats and complex numbers as it is, of integers piece by piece."""
    if x.type.dtype.kind == "u":
        return _by_pieces(b, x, y)
    if x.type.dtype.kind == "i":
        return _signed_power(b, x, y)
    return b.power(x, y)


def _signed_power(b: Any, x: Any, y: Any) -> Any:
    """Write negative exponents out: XLA:CPU gives 0 for (-1) ** -3 in some loops.

    That is where it compiles a small loop as one function, with another emitter.
    """
    type = x.type
    zero, one, minus = (b.splat(value, type) for value in (0, 1, -1))
    is_odd = b.compare("NE", b.and_(y, one), zero)
    of_minus = b.select(is_odd, minus, one)
    inverse = b.select(b.compare("EQ", x, minus), of_minus, zero)
    inverse = b.select(b.compare("EQ", x, one), one, inverse)
    return b.select(b.compare("LT", y, zero), inverse, _by_pieces(b, x, b.maximum(y, zero)))


def _by_pieces(b: Any, x: Any, y: Any) -> Any:
    """Raise to exponents that are not negative; the sign bit needs no piece of its own."""
    type = x.type
    width = 8 * type.dtype.itemsize - (type.dtype.kind == "i")
    lowest = b.splat((1 << _BITS) - 1, type)
    half, two = b.splat(1 << (_BITS - 1), type), b.splat(2, type)
    result = None
    for start in reversed(range(0, width, _BITS)):
        moved = b.shift_right_logical(y, b.splat(start, type)) if start else y
        part = b.power(x, b.and_(moved, lowest))
        if result is not None:
            part = b.multiply(b.power(b.power(result, half), two), part)
        result = part
    return result
