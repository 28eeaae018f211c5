"""Element-wise ops of two operands of one shape and dtype.

Source: StableHLO specification. Where maximum and minimum tie, each operand gets half of the
gradient, as in JAX. Integer division follows XLA: it truncates, x / 0 is -1 and x % 0 is x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Op, Value
from tracer.ir.combining import DIFFERENCE, PRODUCT, QUOTIENT, SUM
from tracer.ops.elementwise import INTEGER, elementwise
from tracer.ops.helpers import ones_like, scale, shift, where, zeros_like
from tracer.ops.rules import complex_dtype

Array = np.ndarray[Any, Any]


def _divide(x: Array, y: Array) -> Any:
    if x.dtype.kind not in "iu":
        return np.divide(x, y)
    # XLA's fixed answers: x / 0 = -1 (all bits set), and the overflow MIN / -1 = MIN.
    safe = np.where(y == 0, np.ones_like(y), y)
    quotient = np.floor_divide(x, safe)
    remainder = x - quotient * safe
    quotient = np.where((remainder != 0) & ((x < 0) != (safe < 0)), quotient + 1, quotient)
    return np.where(y == 0, ~np.zeros_like(x), quotient.astype(x.dtype))


def _remainder(x: Array, y: Array) -> Any:
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, np.ones_like(y), y)))


def _power(x: Array, y: Array) -> Any:
    if x.dtype.kind != "i":
        return np.power(x, y)
    # A negative exponent gives the integer part of the true result; 0 for the base 0, as XLA.
    sign = np.where(y % 2 == 0, np.ones_like(x), -np.ones_like(x))
    inverse = np.where(x == 1, x, np.where(x == -1, sign, np.zeros_like(x)))
    return np.where(y < 0, inverse, np.power(x, np.maximum(y, 0)))


def _bits(x: Array) -> int:
    return 8 * int(x.dtype.itemsize)


def _in_width(x: Array, amount: Array) -> Array:
    """Tell where 0 <= amount < the number of bits."""
    return (amount >= 0) & (amount < _bits(x))


def _clipped(x: Array, amount: Array) -> Array:
    return np.where(_in_width(x, amount), amount, np.zeros_like(amount))


def _shift_left(x: Array, amount: Array) -> Any:
    return np.where(_in_width(x, amount), np.left_shift(x, _clipped(x, amount)), 0)


def _shift_right_logical(x: Array, amount: Array) -> Any:
    unsigned = x.view(f"u{x.dtype.itemsize}")
    moved = np.right_shift(unsigned, _clipped(x, amount).astype(unsigned.dtype))
    return np.where(_in_width(x, amount), moved, 0).astype(unsigned.dtype).view(x.dtype)


def _shift_right_arithmetic(x: Array, amount: Array) -> Any:
    signed = x.view(f"i{x.dtype.itemsize}")
    most = np.full_like(signed, _bits(x) - 1)
    moved = np.right_shift(signed, np.where(_in_width(x, amount), amount.astype(most.dtype), most))
    return moved.view(x.dtype)


def _remainder_vjp(g: Value, out: Value, x: Value, y: Value) -> tuple[Value, Value]:
    """`x - y * trunc(x / y)`: the quotient is constant between jumps."""
    quotient = ops.divide(x, y)
    whole = ops.multiply(ops.sign(quotient), ops.floor(ops.abs(quotient)))
    return g, ops.negate(ops.multiply(g, whole))


def _power_vjp(g: Value, out: Value, x: Value, y: Value) -> tuple[Value, Value]:
    """`y * x**(y - 1)` and `x**y * log(x)`, finite at y = 0 and at x = 0, as JAX."""
    y_is_zero = ops.compare(y, zeros_like(y), direction="EQ")
    x_is_zero = ops.compare(x, zeros_like(x), direction="EQ")
    exponent = ops.select(y_is_zero, ones_like(y), shift(y, -1))
    base = ops.select(x_is_zero, ones_like(x), x)
    slope = ops.multiply(y, ops.power(x, exponent))
    by_base = ops.multiply(g, ops.select(y_is_zero, zeros_like(y), slope))
    return by_base, ops.multiply(g, ops.multiply(out, ops.log(base)))


def _extremum_vjp(direction: str) -> Any:
    def vjp(g: Value, out: Value, x: Value, y: Value) -> tuple[Value, Value]:
        tie = ops.compare(x, y, direction="EQ")
        share = ops.select(tie, scale(g, 0.5), g)
        first = ops.compare(x, y, direction=direction)
        second = ops.compare(y, x, direction=direction)
        return where(first, share), where(second, share)

    return vjp


def _atan2_vjp(g: Value, out: Value, x: Value, y: Value) -> tuple[Value, Value]:
    weight = ops.divide(g, ops.add(ops.multiply(x, x), ops.multiply(y, y)))
    return ops.multiply(weight, y), ops.negate(ops.multiply(weight, x))


add: Op = elementwise(
    "add",
    2,
    np.add,
    lambda g, out, x, y: (g, g),
    doc="x + y.",
    commutes=True,
    response=SUM,
)
subtract: Op = elementwise(
    "subtract",
    2,
    np.subtract,
    lambda g, out, x, y: (g, ops.negate(g)),
    doc="x - y.",
    response=DIFFERENCE,
)
multiply: Op = elementwise(
    "multiply",
    2,
    np.multiply,
    lambda g, out, x, y: (ops.multiply(g, y), ops.multiply(g, x)),
    doc="x * y.",
    commutes=True,
    response=PRODUCT,
)


def _divide_vjp(g: Value, out: Value, x: Value, y: Value) -> tuple[Value, Value]:
    by_x = ops.divide(g, y)
    return by_x, ops.negate(ops.multiply(by_x, out))


divide: Op = elementwise(
    "divide",
    2,
    _divide,
    _divide_vjp,
    doc="x / y; truncates toward zero for integers, x / 0 is -1 there.",
    flops=4,
    response=QUOTIENT,
)
remainder: Op = elementwise(
    "remainder",
    2,
    _remainder,
    _remainder_vjp,
    doc="What truncating division leaves, with the sign of x; x % 0 is x for integers.",
    kinds="iuf",
    flops=8,
)


def _lower_power(b: Any, x: Any, y: Any) -> Any:
    """Negative exponents of integers are written out: XLA:CPU gives 0 for (-1) ** -3 in some loops.

    That is where it compiles a small loop as one function, with another emitter.
    """
    type = x.type
    if type.dtype.kind != "i":
        return b.power(x, y)
    zero, one, minus = (b.splat(value, type) for value in (0, 1, -1))
    is_odd = b.compare("NE", b.and_(y, one), zero)
    of_minus = b.select(is_odd, minus, one)
    inverse = b.select(b.compare("EQ", x, minus), of_minus, zero)
    inverse = b.select(b.compare("EQ", x, one), one, inverse)
    return b.select(b.compare("LT", y, zero), inverse, b.power(x, b.maximum(y, zero)))


power: Op = elementwise(
    "power",
    2,
    _power,
    _power_vjp,
    composed=_lower_power,
    doc="x to the power y. Of integers the exact result truncated, so 0, 1 or -1 for negative y; "
    "unspecified where it overflows.",
    flops=25,
)
maximum: Op = elementwise(
    "maximum",
    2,
    np.maximum,
    _extremum_vjp("GE"),
    doc="The larger one; NaN if one is NaN.",
    kinds="biuf",
    commutes=True,
)
minimum: Op = elementwise(
    "minimum",
    2,
    np.minimum,
    _extremum_vjp("LE"),
    doc="The smaller one; NaN if one is NaN.",
    kinds="biuf",
    commutes=True,
)
atan2: Op = elementwise(
    "atan2",
    2,
    np.arctan2,
    _atan2_vjp,
    doc="Angle of the point (y, x), for operands in the order (y, x).",
    kinds="f",
    flops=25,
)
and_: Op = elementwise(
    "and",
    2,
    np.bitwise_and,
    INTEGER,
    doc="Logical or bitwise and.",
    kinds="biu",
    lower_name="and_",
    commutes=True,
)
or_: Op = elementwise(
    "or",
    2,
    np.bitwise_or,
    INTEGER,
    doc="Logical or bitwise or.",
    kinds="biu",
    lower_name="or_",
    commutes=True,
)
xor: Op = elementwise(
    "xor",
    2,
    np.bitwise_xor,
    INTEGER,
    doc="Logical or bitwise exclusive or.",
    kinds="biu",
    commutes=True,
)
shift_left: Op = elementwise(
    "shift_left", 2, _shift_left, INTEGER, doc="x << y; 0 when y is out of range.", kinds="iu"
)
shift_right_arithmetic: Op = elementwise(
    "shift_right_arithmetic",
    2,
    _shift_right_arithmetic,
    INTEGER,
    doc="x >> y keeping the sign bit; all sign bits when y is out of range.",
    kinds="iu",
)
shift_right_logical: Op = elementwise(
    "shift_right_logical",
    2,
    _shift_right_logical,
    INTEGER,
    doc="x >> y filling with zeros; 0 when y is out of range.",
    kinds="iu",
)
next_after: Op = elementwise(
    "next_after",
    2,
    np.nextafter,
    lambda g, out, x, y: (g, None),
    doc="The next number from x toward y. It moves with x.",
    kinds="f",
    flops=10,
    widen=False,
)


def _log_add_exp_vjp(g: Value, out: Value, x: Value, y: Value) -> tuple[Value, Value]:
    """Weigh by exp(x - out) and exp(y - out), each to full relative accuracy."""
    difference = ops.subtract(x, y)
    # Equal infinities, whose difference is NaN, share evenly.
    is_number = ops.compare(difference, difference, direction="EQ")
    difference = where(is_number, difference)
    weights = ops.logistic(difference), ops.logistic(ops.negate(difference))
    return ops.multiply(g, weights[0]), ops.multiply(g, weights[1])


def _lower_log_add_exp(b: Any, x: Any, y: Any) -> Any:
    difference = b.subtract(x, y)
    is_number = b.compare("EQ", difference, difference)
    distance = b.select(is_number, b.abs(difference), b.splat(0, x.type))
    return b.add(b.maximum(x, y), b.log_plus_one(b.exponential(b.negate(distance))))


log_add_exp: Op = elementwise(
    "log_add_exp",
    2,
    np.logaddexp,
    _log_add_exp_vjp,
    doc="log(exp(x) + exp(y)) without overflow. One op, as its derivatives through maximum and "
    "abs would be wrong at ties and cost several times as much.",
    kinds="f",
    flops=25,
    composed=_lower_log_add_exp,
)


def _complex(x: Array, y: Array) -> Any:
    result = np.empty(x.shape, complex_dtype(x.dtype))
    result.real, result.imag = x, y
    return result


complex: Op = elementwise(
    "complex",
    2,
    _complex,
    lambda g, out, x, y: (ops.real(g), ops.negate(ops.imag(g))),
    doc="x + iy from two float32 or float64 arrays.",
    kinds="f",
    dtype=complex_dtype,
)
