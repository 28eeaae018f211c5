"""Rules of functions of each element; numbers take the dtype of the tensors that they meet."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.array.dispatch import apply
from tracer.ir import Op, ShapeDtype
from tracer.numpy.arithmetic import floor_divide, fmod, remainder
from tracer.numpy.bessel import i0e, i1e
from tracer.numpy.elementwise import copysign
from tracer.numpy.integers import gcd, lcm
from tracer.numpy.ufunc import compare, full_like, is_nonzero, select
from tracer.torch.rules.operands import filled, operand, promoted
from tracer.torch.table import RULES, Node, rule


def _of_op(op: Op) -> Any:
    """Make the rule of an op whose operands have the type of its result."""

    def apply_op(node: Node, *operands: Any) -> Array:
        return apply(op, *(operand(x, node.result) for x in operands))

    return apply_op


RULES.update(
    {
        f"aten.{name}": _of_op(op)
        for name, op in {
            "acos": ops.acos,
            "acosh": ops.acosh,
            "asin": ops.asin,
            "asinh": ops.asinh,
            "atan": ops.atan,
            "atan2": ops.atan2,
            "atanh": ops.atanh,
            "bitwise_and": ops.and_,
            "bitwise_not": ops.not_,
            "bitwise_or": ops.or_,
            "bitwise_xor": ops.xor,
            "__lshift__": ops.shift_left,
            "__rshift__": ops.shift_right_arithmetic,
            "bitwise_left_shift": ops.shift_left,
            "bitwise_right_shift": ops.shift_right_arithmetic,
            "cos": ops.cosine,
            "cosh": ops.cosh,
            "digamma": ops.digamma,
            "erf": ops.erf,
            "erfc": ops.erfc,
            "erfinv": ops.erf_inv,
            "exp": ops.exponential,
            "expm1": ops.exponential_minus_one,
            "hypot": ops.hypot,
            "lgamma": ops.lgamma,
            "log": ops.log,
            "log1p": ops.log_plus_one,
            "logaddexp": ops.log_add_exp,
            "maximum": ops.maximum,
            "minimum": ops.minimum,
            "neg": ops.negate,
            "nextafter": ops.next_after,
            "rsqrt": ops.rsqrt,
            "sigmoid": ops.logistic,
            "sin": ops.sine,
            "sinh": ops.sinh,
            "sqrt": ops.sqrt,
            "tan": ops.tan,
            "tanh": ops.tanh,
        }.items()
    }
)


def _of_function(function: Any) -> Any:
    def apply_function(node: Node, *operands: Any) -> Array:
        found: Array = function(*(operand(x, node.result) for x in operands))
        return found

    return apply_function


RULES.update(
    {
        f"aten.{name}": _of_function(function)
        for name, function in {
            "copysign": copysign,
            "fmod": fmod,
            "gcd": gcd,
            "lcm": lcm,
            "remainder": remainder,
            "special_i0e": i0e,
            "special_i1e": i1e,
        }.items()
    }
)


@rule("mul")
def multiply(node: Node, x: Any, y: Any) -> Array:
    """Multiply; of truth values, both."""
    op = ops.and_ if node.result.dtype.kind == "b" else ops.multiply
    return apply(op, operand(x, node.result), operand(y, node.result))


@rule("add")
def add(node: Node, x: Any, y: Any, *, alpha: Any = 1) -> Array:
    """Add `alpha` times the second operand; of truth values, either."""
    first, second = operand(x, node.result), _scaled(operand(y, node.result), alpha)
    return apply(ops.or_ if node.result.dtype.kind == "b" else ops.add, first, second)


@rule("sub")
def subtract(node: Node, x: Any, y: Any, *, alpha: Any = 1) -> Array:
    """Subtract `alpha` times the second operand."""
    second = _scaled(operand(y, node.result), alpha)
    return apply(ops.subtract, operand(x, node.result), second)


@rule("rsub")
def reverse_subtract(node: Node, x: Any, y: Any, alpha: Any = 1) -> Array:
    """Subtract `alpha` times the first operand from the second."""
    return subtract(node, y, x, alpha=alpha)


# torch's own ops for tensors that it knows to be zero.
RULES["prims.add"], RULES["prims.sub"], RULES["prims.mul"] = add, subtract, multiply


def _scaled(x: Array, alpha: Any) -> Array:
    if alpha == 1:
        return x
    op = ops.and_ if x.dtype.kind == "b" else ops.multiply
    return apply(op, x, filled(alpha, x.type))


@rule("div")
def divide(node: Node, x: Any, y: Any, *, rounding_mode: str | None = None) -> Array:
    """Divide, and round toward zero or down where that is asked for."""
    first, second = operand(x, node.result), operand(y, node.result)
    if rounding_mode == "floor":
        return floor_divide(first, second)
    quotient = apply(ops.divide, first, second)
    is_integer = node.result.dtype.kind in "iu"
    return quotient if rounding_mode is None or is_integer else truncated(quotient)


def truncated(x: Array) -> Array:
    """Round toward zero."""
    is_negative = compare(x, full_like(x, 0), "LT")
    rounded = select(is_negative, apply(ops.ceil, x), apply(ops.floor, x))
    return copysign(rounded, x)


def _rounding(function: Any) -> Any:
    def round_elements(node: Node, x: Array) -> Array:
        return function(x) if x.dtype.kind == "f" else x

    return round_elements


RULES["aten.ceil"] = _rounding(functools.partial(apply, ops.ceil))
RULES["aten.floor"] = _rounding(functools.partial(apply, ops.floor))
RULES["aten.trunc"] = RULES["aten.fix"] = _rounding(truncated)


@rule("round")
def round_elements(node: Node, x: Array, *, decimals: int = 0) -> Array:
    """Round to even, or to so many decimal places."""
    if x.dtype.kind != "f":
        return x
    factor = full_like(x, 10.0 ** abs(decimals))
    before, after = (ops.multiply, ops.divide) if decimals > 0 else (ops.divide, ops.multiply)
    scaled = apply(before, x, factor) if decimals else x
    rounded = apply(ops.round_nearest_even, scaled)
    return apply(after, rounded, factor) if decimals else rounded


@rule("abs")
def absolute(node: Node, x: Array) -> Array:
    """Take the size; that of what has no sign is itself."""
    return x if x.dtype.kind in "bu" else apply(ops.abs, x)


@rule("sign")
def sign(node: Node, x: Array) -> Array:
    """-1, 0 or 1; 0 for NaN, and 1 for True, as in torch."""
    if x.dtype.kind == "b":
        return x
    if x.dtype.kind == "u":
        return convert(is_nonzero(x), x.dtype)
    found = apply(ops.sign, x)
    return select(compare(x, x, "EQ"), found, full_like(x, 0))


@rule("signbit")
def sign_bit(node: Node, x: Array) -> Array:
    """Tell which are negative; -0 is."""
    if x.dtype.kind in "bu":
        return filled(False, node.result)
    if x.dtype.kind == "i":
        return compare(x, full_like(x, 0), "LT")
    return compare(copysign(full_like(x, 1), x), full_like(x, 0), "LT")


@rule("relu")
def relu(node: Node, x: Array) -> Array:
    """Return the larger one of x and 0."""
    return apply(ops.maximum, x, full_like(x, 0))


@rule("clamp")
def clamp(node: Node, x: Array, min: Any = None, max: Any = None) -> Array:
    """Return the smaller one of `max` and the larger one of x and `min`: `max` wins."""
    x = operand(x, node.result)
    x = x if min is None else apply(ops.maximum, x, operand(min, node.result))
    return x if max is None else apply(ops.minimum, x, operand(max, node.result))


@rule("clamp_min")
def clamp_min(node: Node, x: Array, min: Any) -> Array:
    """Return the larger one of x and `min`."""
    return clamp(node, x, min)


@rule("clamp_max")
def clamp_max(node: Node, x: Array, max: Any) -> Array:
    """Return the smaller one of x and `max`."""
    return clamp(node, x, None, max)


@rule("reciprocal")
def reciprocal(node: Node, x: Array) -> Array:
    """Divide 1."""
    return apply(ops.divide, filled(1, node.result), operand(x, node.result))


def _logarithm(base: float) -> Any:
    def logarithm(node: Node, x: Array) -> Array:
        found = apply(ops.log, operand(x, node.result))
        return apply(ops.divide, found, filled(math.log(base), found.type))

    return logarithm


RULES["aten.log2"] = _logarithm(2)
RULES["aten.log10"] = _logarithm(10)


@rule("exp2")
def exp2(node: Node, x: Array) -> Array:
    """Raise 2 to the element."""
    return apply(ops.power, filled(2, node.result), operand(x, node.result))


@rule("special_i0", "i0")
def i0(node: Node, x: Array) -> Array:
    """Compute the Bessel function of order 0."""
    x = operand(x, node.result)
    return apply(ops.multiply, i0e(x), apply(ops.exponential, apply(ops.abs, x)))


@rule("special_i1")
def i1(node: Node, x: Array) -> Array:
    """Compute the Bessel function of order 1."""
    x = operand(x, node.result)
    return apply(ops.multiply, i1e(x), apply(ops.exponential, apply(ops.abs, x)))


def _without_nan(op: Op) -> Any:
    """Make the rule of an extreme that leaves out NaN."""

    def choose(node: Node, x: Array, y: Array) -> Array:
        first, second = operand(x, node.result), operand(y, node.result)
        found = apply(op, first, second)
        found = select(compare(second, second, "NE"), first, found)
        return select(compare(first, first, "NE"), second, found)

    return choose


RULES["aten.fmax"] = _without_nan(ops.maximum)
RULES["aten.fmin"] = _without_nan(ops.minimum)


@rule("polygamma")
def polygamma(node: Node, n: int, x: Array) -> Array:
    """Differentiate digamma n times."""
    x = operand(x, node.result)
    return apply(ops.digamma, x) if n == 0 else apply(ops.polygamma, x, order=n)


_LARGEST_PRODUCT = 4


@rule("pow")
def power(node: Node, x: Any, exponent: Any) -> Array:
    """Raise to a power; small whole ones are products, as torch has squares and cubes."""
    if isinstance(exponent, Array):
        return apply(ops.power, operand(x, node.result), operand(exponent, node.result))
    base = operand(x, node.result)
    if exponent == 0.5:
        return apply(ops.sqrt, base)
    if exponent == -0.5:
        return apply(ops.rsqrt, base)
    is_whole = exponent == int(exponent) if math.isfinite(exponent) else False
    if not is_whole or abs(exponent) > _LARGEST_PRODUCT:
        return apply(ops.power, base, filled(exponent, base.type))
    product = _product(base, abs(int(exponent)))
    return product if exponent >= 0 else apply(ops.divide, filled(1, base.type), product)


def _product(x: Array, count: int) -> Array:
    result = filled(1, x.type) if count == 0 else x
    for _ in range(count - 1):
        result = apply(ops.multiply, result, x)
    return result


def _comparison(direction: str) -> Any:
    def compare_elements(node: Node, x: Any, y: Any) -> Array:
        type = ShapeDtype(node.result.shape, promoted(node))
        return compare(operand(x, type), operand(y, type), direction)

    return compare_elements


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    RULES[f"aten.{_name}"] = _comparison(_name.upper())


def _logical(op: Op) -> Any:
    def combine(node: Node, *operands: Array) -> Array:
        return apply(op, *(operand(is_nonzero(x), node.result) for x in operands))

    return combine


RULES["aten.logical_and"] = _logical(ops.and_)
RULES["aten.logical_or"] = _logical(ops.or_)
RULES["aten.logical_xor"] = _logical(ops.xor)
RULES["aten.logical_not"] = _logical(ops.not_)


@rule("isnan")
def is_nan(node: Node, x: Array) -> Array:
    """Tell which are NaN."""
    return compare(x, x, "NE")


@rule("isinf")
def is_infinite(node: Node, x: Array) -> Array:
    """Tell which are infinite."""
    if x.dtype.kind != "f":
        return filled(False, node.result)
    return compare(apply(ops.abs, x), full_like(x, np.inf), "EQ")


@rule("where.self")
def where(node: Node, condition: Array, x: Any, y: Any) -> Array:
    """Choose."""
    chosen = operand(is_nonzero(condition), ShapeDtype(node.result.shape, "bool"))
    return select(chosen, operand(x, node.result), operand(y, node.result))


@rule("masked_fill")
def masked_fill(node: Node, x: Array, mask: Array, value: Any) -> Array:
    """Put a number where the mask holds."""
    return where(node, mask, value, x)


@rule("_to_copy")
def to_copy(node: Node, x: Array, **_: Any) -> Array:
    """Convert; where it is to be has no meaning on one device."""
    return convert(x, node.result.dtype)


@rule("real")
def real(node: Node, x: Array) -> Array:
    """Take real parts."""
    return apply(ops.real, x) if x.dtype.kind == "c" else x


@rule("imag")
def imaginary(node: Node, x: Array) -> Array:
    """Take imaginary parts."""
    return apply(ops.imag, x)


@rule("complex")
def make_complex(node: Node, x: Array, y: Array) -> Array:
    """Make complex numbers of two real ones."""
    parts = ShapeDtype(node.result.shape, x.dtype)
    return apply(ops.complex, operand(x, parts), operand(y, parts))


@rule("angle")
def angle(node: Node, x: Array) -> Array:
    """Return angles; of real numbers 0 or pi, and NaN of NaN."""
    if x.dtype.kind == "c":
        return apply(ops.atan2, apply(ops.imag, x), apply(ops.real, x))
    x = operand(x, node.result)
    found = select(compare(x, full_like(x, 0), "LT"), full_like(x, math.pi), full_like(x, 0))
    return select(compare(x, x, "NE"), x, found)


@rule("_neg_view")
def negative_view(node: Node, x: Array) -> Array:
    """Change the sign."""
    return apply(ops.negate, x)


@rule("_conj", "conj_physical", "_conj_physical")
def conjugate(node: Node, x: Any) -> Array:
    """Change the sign of the imaginary part; the gradient of a product asks it of a number."""
    array = operand(x, node.result)
    if array.dtype.kind != "c":
        return array
    return apply(ops.complex, apply(ops.real, array), apply(ops.negate, apply(ops.imag, array)))
