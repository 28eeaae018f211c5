"""Rules of functions of each element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert
from tracer.array.dispatch import apply
from tracer.ir import Op
from tracer.lax.bits import (
    as_bits,
    can_be_reduced,
    leading_zeros,
    ordered_bits,
    rounded_away,
)
from tracer.numpy.bessel import i1e
from tracer.numpy.ufunc import compare, full_like
from tracer.scipy import factorials
from tracer.stablehlo import elements
from tracer.stablehlo.table import RULES, Instruction, rule

_BOOLEAN = {ops.add: ops.or_, ops.multiply: ops.and_, ops.maximum: ops.or_, ops.minimum: ops.and_}
"""What StableHLO's arithmetic means for truth values."""


def _inexact(instruction: Instruction) -> str | None:
    accuracy = str(instruction.attributes.get("result_accuracy", "DEFAULT"))
    return None if "DEFAULT" in accuracy else f"with {accuracy}"


def _spread(x: Array, shape: tuple[int, ...]) -> Array:
    return x if x.shape == shape else broadcast(x, shape)


def _of_op(op: Op) -> Any:
    def apply_op(instruction: Instruction, *operands: Array) -> Array:
        is_boolean = instruction.result.dtype.kind == "b"
        chosen = _BOOLEAN.get(op, op) if is_boolean else op
        return apply(chosen, *(_spread(x, instruction.result.shape) for x in operands))

    return apply_op


_OPS: dict[str, Op] = {
    "abs": ops.abs,
    "add": ops.add,
    "and": ops.and_,
    "atan2": ops.atan2,
    "cbrt": ops.cbrt,
    "ceil": ops.ceil,
    "clamp": ops.clamp,
    "complex": ops.complex,
    "cosine": ops.cosine,
    "divide": ops.divide,
    "exponential": ops.exponential,
    "exponential_minus_one": ops.exponential_minus_one,
    "floor": ops.floor,
    "is_finite": ops.is_finite,
    "log": ops.log,
    "log_plus_one": ops.log_plus_one,
    "logistic": ops.logistic,
    "maximum": ops.maximum,
    "minimum": ops.minimum,
    "multiply": ops.multiply,
    "negate": ops.negate,
    "not": ops.not_,
    "or": ops.or_,
    "popcnt": ops.popcnt,
    "power": ops.power,
    "remainder": ops.remainder,
    "round_nearest_even": ops.round_nearest_even,
    "rsqrt": ops.rsqrt,
    "shift_left": ops.shift_left,
    "shift_right_arithmetic": ops.shift_right_arithmetic,
    "shift_right_logical": ops.shift_right_logical,
    "sign": ops.sign,
    "sine": ops.sine,
    "sqrt": ops.sqrt,
    "subtract": ops.subtract,
    "tan": ops.tan,
    "tanh": ops.tanh,
    "xor": ops.xor,
}
_CHLO_OPS: dict[str, Op] = {
    "acos": ops.acos,
    "acosh": ops.acosh,
    "asin": ops.asin,
    "asinh": ops.asinh,
    "atan": ops.atan,
    "atanh": ops.atanh,
    "cosh": ops.cosh,
    "digamma": ops.digamma,
    "erf": ops.erf,
    "erf_inv": ops.erf_inv,
    "erfc": ops.erfc,
    "lgamma": ops.lgamma,
    "next_after": ops.next_after,
    "sinh": ops.sinh,
    "tan": ops.tan,
}
_BROADCASTING: dict[str, Op] = {
    "add": ops.add,
    "and": ops.and_,
    "atan2": ops.atan2,
    "complex": ops.complex,
    "divide": ops.divide,
    "maximum": ops.maximum,
    "minimum": ops.minimum,
    "multiply": ops.multiply,
    "next_after": ops.next_after,
    "or": ops.or_,
    "power": ops.power,
    "remainder": ops.remainder,
    "select": ops.select,
    "shift_left": ops.shift_left,
    "shift_right_arithmetic": ops.shift_right_arithmetic,
    "shift_right_logical": ops.shift_right_logical,
    "subtract": ops.subtract,
    "xor": ops.xor,
}


def _aligned(instruction: Instruction, operands: Sequence[Array]) -> list[Array]:
    """Broadcast as CHLO does: from the last axis on, or by the axes that it names."""
    shape = instruction.result.shape
    named = instruction.attributes.get("broadcast_dimensions")
    found = []
    for x in operands:
        axes = tuple(range(len(shape) - x.ndim, len(shape)))
        if named is not None and x.ndim < len(shape):
            axes = named
        same = x.shape == shape
        found.append(x if same else apply(ops.broadcast_in_dim, x, shape=shape, dimensions=axes))
    return found


def _broadcasting(op: Op) -> Any:
    inner = _of_op(op)

    def apply_op(instruction: Instruction, *operands: Array) -> Array:
        return inner(instruction, *_aligned(instruction, operands))  # type: ignore[no-any-return]

    return apply_op


for _name, _op in _OPS.items():
    rule(f"stablehlo.{_name}", unless=_inexact)(_of_op(_op))
for _name, _op in _CHLO_OPS.items():
    rule(f"chlo.{_name}", unless=_inexact)(_of_op(_op))
for _name, _op in _BROADCASTING.items():
    RULES[f"chlo.broadcast_{_name}"] = _broadcasting(_op)


@rule("stablehlo.select")
def select(instruction: Instruction, mask: Array, on_true: Array, on_false: Array) -> Array:
    """Choose by truth values; of LAPACK's results only the triangle that is read is computed."""
    mask = _spread(mask, instruction.result.shape)
    known = instruction.evaluator.triangles
    on_true = known.chosen(mask, on_true, where=True)
    return apply(ops.select, mask, on_true, known.chosen(mask, on_false, where=False))


@rule("stablehlo.compare")
def compare_elements(instruction: Instruction, x: Array, y: Array) -> Array:
    """Compare; in the total order of floats where it is asked for."""
    if instruction.attributes.get("compare_type") == "TOTALORDER":
        x, y = ordered_bits(x), ordered_bits(y)
    return compare(x, y, instruction.attributes["comparison_direction"])


@rule("chlo.broadcast_compare")
def broadcast_compare(instruction: Instruction, x: Array, y: Array) -> Array:
    """Broadcast and compare."""
    return compare_elements(instruction, *_aligned(instruction, (x, y)))  # type: ignore[no-any-return]


@rule("stablehlo.convert")
def convert_elements(instruction: Instruction, x: Array) -> Array:
    """Convert to another dtype."""
    return convert(x, instruction.result.dtype)


@rule("stablehlo.real")
def real(instruction: Instruction, x: Array) -> Array:
    """Take the real part; real numbers stay."""
    return apply(ops.real, x) if x.dtype.kind == "c" else x


@rule("stablehlo.imag")
def imag(instruction: Instruction, x: Array) -> Array:
    """Take the imaginary part: zero, for real numbers."""
    return apply(ops.imag, x) if x.dtype.kind == "c" else full_like(x, 0)


@rule("chlo.conj")
def conj(instruction: Instruction, x: Array) -> Array:
    """Change the sign of the imaginary part."""
    return elements.conjugate(x)


@rule("chlo.square")
def square(instruction: Instruction, x: Array) -> Array:
    """Multiply by itself."""
    return apply(ops.multiply, x, x)


@rule("chlo.bessel_i1e")
def bessel_i1e(instruction: Instruction, x: Array) -> Array:
    """Compute the Bessel function of order 1 times exp(-|x|)."""
    return i1e(x)


@rule("chlo.zeta")
def zeta(instruction: Instruction, x: Array, q: Array) -> Array:
    """Compute Hurwitz's zeta function."""
    return factorials.zeta(x, q)


@rule("chlo.is_inf")
def is_infinite(instruction: Instruction, x: Array) -> Array:
    """Tell which elements are infinite."""
    return compare(apply(ops.abs, x), full_like(x, np.inf), "EQ")


@rule("chlo.is_pos_inf")
def is_positive_infinity(instruction: Instruction, x: Array) -> Array:
    """Tell which elements are infinity."""
    return compare(x, full_like(x, np.inf), "EQ")


@rule("chlo.is_neg_inf")
def is_negative_infinity(instruction: Instruction, x: Array) -> Array:
    """Tell which elements are -infinity."""
    return compare(x, full_like(x, -np.inf), "EQ")


@rule("chlo.constant_like")
def constant_like(instruction: Instruction, x: Array) -> Array:
    """Fill an array of this type."""
    return full_like(x, instruction.attributes["value"])


def _has_other_widths(instruction: Instruction) -> str | None:
    (given,), made = instruction.operands, instruction.result
    widths_differ = given.dtype.itemsize != made.dtype.itemsize
    if widths_differ and not (elements.has_bits(given.dtype) and elements.has_bits(made.dtype)):
        return f"of {given.dtype} to {made.dtype}"
    return None


@rule("stablehlo.bitcast_convert", unless=_has_other_widths)
def bitcast_convert(instruction: Instruction, x: Array) -> Array:
    """Read the bits as another dtype; one of another width adds or takes the last axis."""
    return as_bits(x, instruction.result.dtype)


@rule("stablehlo.round_nearest_afz")
def round_nearest_afz(instruction: Instruction, x: Array) -> Array:
    """Round to the nearest, ties away from zero."""
    return rounded_away(x)


@rule("stablehlo.count_leading_zeros")
def count_leading_zeros(instruction: Instruction, x: Array) -> Array:
    """Count the zeros in front of the highest bit."""
    return leading_zeros(x)


def _cannot_reduce(instruction: Instruction) -> str | None:
    bits = instruction.attributes["exponent_bits"], instruction.attributes["mantissa_bits"]
    if can_be_reduced(instruction.result.dtype, *bits):
        return None
    return f"of {instruction.result.dtype} to {bits[0]} and {bits[1]} bits"


@rule("stablehlo.reduce_precision", unless=_cannot_reduce)
def reduce_precision(instruction: Instruction, x: Array) -> Any:
    """Round to fewer bits."""
    bits = instruction.attributes["exponent_bits"], instruction.attributes["mantissa_bits"]
    return elements.reduce_precision(x, *bits)


def _order(instruction: Instruction) -> int | None:
    """Return the order of a polygamma function, if it is one whole number."""
    known = instruction.known(0)
    if known is None or not known.size or (known != known.flat[0]).any():
        return None
    order = float(known.flat[0])
    return int(order) if order >= 0 and order == int(order) else None


def _unknown_order(instruction: Instruction) -> str | None:
    return "of an order that is computed" if _order(instruction) is None else None


@rule("chlo.polygamma", unless=_unknown_order)
def polygamma(instruction: Instruction, order: Array, x: Array) -> Array:
    """Take the order from the module, where it is a constant."""
    number = _order(instruction)
    return apply(ops.polygamma, x, order=number) if number else apply(ops.digamma, x)
