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
from tracer.ops.elementwise import FUNCTION, INTEGER, elementwise
from tracer.ops.helpers import ones_like, scale, shift, where, zeros_like
from tracer.ops.integer_power import lower_power
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
    vectors=FUNCTION,
    jumps=(1,),
)
remainder: Op = elementwise(
    "remainder",
    2,
    _remainder,
    _remainder_vjp,
    doc="What truncating division leaves, with the sign of x; x % 0 is x for integers.",
    kinds="iuf",
    flops=8,
    vectors=FUNCTION,
    jumps=(0, 1),
)


power: Op = elementwise(
    "power",
    2,
    _power,
    _power_vjp,
    composed=lower_power,
    doc="x to the power y. Of integers the exact result truncated, so 0, 1 or -1 for negative y; "
    "where it overflows, the low bits of the exact result.",
    flops=25,
    vectors=FUNCTION,
    jumps=(0,),
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
    vectors=FUNCTION,
    jumps=(0, 1),
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
    jumps=(0, 1),
    repeats=True,
)


def _log_add_exp_vjp(g: Value, out: Value, x: Value, y: Value) -> tuple[Value, Value]:
    """Weigh by exp(x - out) and exp(y - out), each to full relative accuracy."""
    difference = ops.subtract(x, y)
    # Equal infinities, whose difference is NaN, share evenly; the NaN of an operand stays.
    is_number = ops.compare(difference, difference, direction="EQ")
    differ = ops.compare(x, y, direction="NE")
    difference = where(ops.or_(is_number, differ), difference)
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


def _hypot_vjp(g: Value, out: Value, x: Value, y: Value) -> tuple[Value, Value]:
    """`x / out` and `y / out`; 0 at 0, as the modulus of a complex number has it."""
    at_zero = ops.compare(out, zeros_like(out), direction="EQ")
    length = ops.select(at_zero, ones_like(out), out)
    return ops.multiply(g, ops.divide(x, length)), ops.multiply(g, ops.divide(y, length))


def _lower_hypot(b: Any, x: Any, y: Any) -> Any:
    """Scale by the larger one, so that the squares neither overflow nor vanish."""
    one, infinity = b.splat(1, x.type), b.splat(np.inf, x.type)
    x, y = b.abs(x), b.abs(y)
    larger, smaller = b.maximum(x, y), b.minimum(x, y)
    at_zero = b.compare("EQ", larger, b.splat(0, x.type))
    ratio = b.divide(smaller, b.select(at_zero, one, larger))
    result = b.multiply(larger, b.sqrt(b.add(one, b.multiply(ratio, ratio))))
    is_infinite = b.or_(b.compare("EQ", x, infinity), b.compare("EQ", y, infinity))
    return b.select(is_infinite, infinity, result)


hypot: Op = elementwise(
    "hypot",
    2,
    np.hypot,
    _hypot_vjp,
    doc="sqrt(x * x + y * y) without overflow; infinite if one is, even if the other is NaN. One "
    "op, as its second derivatives through maximum and minimum would be wrong where |x| = |y|.",
    kinds="f",
    flops=14,
    composed=_lower_hypot,
    commutes=True,
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
