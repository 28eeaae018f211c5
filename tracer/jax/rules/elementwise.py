"""Rules of functions of each element."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert
from tracer.array.dispatch import apply
from tracer.autodiff.transforms import custom_vjp
from tracer.errors import UnsupportedError
from tracer.ir import Op
from tracer.jax.table import RULES, Equation, rule
from tracer.lax.bits import as_bits, in_fewer_bits, leading_zeros, ordered_bits, rounded_away
from tracer.lax.choosing import chosen
from tracer.lax.elementwise import conjugated, repeated_product
from tracer.numpy.bessel import i0e, i1e
from tracer.numpy.ufunc import compare, full_like
from tracer.scipy import factorials

_ACCURACY = "accuracy"


def spread(operands: tuple[Array, ...], shape: tuple[int, ...]) -> list[Array]:
    """Repeat operands of the result's rank, or without axes, as JAX's functions of elements do."""
    return [broadcast(x, shape) if x.shape != shape else x for x in operands]


def _of_op(op: Op) -> Any:
    def apply_op(equation: Equation, *operands: Array) -> Array:
        _require_default_accuracy(equation)
        return apply(op, *spread(operands, equation.result.shape))

    return apply_op


def _require_default_accuracy(equation: Equation) -> None:
    if equation.params.get(_ACCURACY) is not None:
        raise UnsupportedError(
            f"JAX's {equation.name} with accuracy={equation.params[_ACCURACY]}",
            mend="leave accuracy out: tracer computes with XLA's default",
        )


RULES.update(
    {
        "abs": _of_op(ops.abs),
        "acos": _of_op(ops.acos),
        "acosh": _of_op(ops.acosh),
        "add": _of_op(ops.add),
        "add_any": _of_op(ops.add),
        "and": _of_op(ops.and_),
        "asin": _of_op(ops.asin),
        "asinh": _of_op(ops.asinh),
        "atan": _of_op(ops.atan),
        "atan2": _of_op(ops.atan2),
        "atanh": _of_op(ops.atanh),
        "cbrt": _of_op(ops.cbrt),
        "ceil": _of_op(ops.ceil),
        "clamp": _of_op(ops.clamp),
        "complex": _of_op(ops.complex),
        "cos": _of_op(ops.cosine),
        "cosh": _of_op(ops.cosh),
        "digamma": _of_op(ops.digamma),
        "div": _of_op(ops.divide),
        "erf": _of_op(ops.erf),
        "erf_inv": _of_op(ops.erf_inv),
        "erfc": _of_op(ops.erfc),
        "exp": _of_op(ops.exponential),
        "expm1": _of_op(ops.exponential_minus_one),
        "floor": _of_op(ops.floor),
        "imag": _of_op(ops.imag),
        "is_finite": _of_op(ops.is_finite),
        "lgamma": _of_op(ops.lgamma),
        "log": _of_op(ops.log),
        "log1p": _of_op(ops.log_plus_one),
        "logistic": _of_op(ops.logistic),
        "max": _of_op(ops.maximum),
        "min": _of_op(ops.minimum),
        "mul": _of_op(ops.multiply),
        "neg": _of_op(ops.negate),
        "nextafter": _of_op(ops.next_after),
        "not": _of_op(ops.not_),
        "or": _of_op(ops.or_),
        "population_count": _of_op(ops.popcnt),
        "real": _of_op(ops.real),
        "rem": _of_op(ops.remainder),
        "rsqrt": _of_op(ops.rsqrt),
        "shift_left": _of_op(ops.shift_left),
        "shift_right_arithmetic": _of_op(ops.shift_right_arithmetic),
        "shift_right_logical": _of_op(ops.shift_right_logical),
        "sign": _of_op(ops.sign),
        "sin": _of_op(ops.sine),
        "sinh": _of_op(ops.sinh),
        "sqrt": _of_op(ops.sqrt),
        "stop_gradient": _of_op(ops.stop_gradient),
        "sub": _of_op(ops.subtract),
        "tan": _of_op(ops.tan),
        "tanh": _of_op(ops.tanh),
        "xor": _of_op(ops.xor),
    }
)


def _comparison(direction: str) -> Any:
    def compare_elements(equation: Equation, *operands: Array) -> Array:
        x, y = spread(operands, equation.result.shape)
        return compare(x, y, direction)

    return compare_elements


def _total_order(direction: str) -> Any:
    """Compare in the order in which -NaN < -inf < -0 < +0 < inf < NaN."""

    def compare_bits(equation: Equation, *operands: Array) -> Array:
        x, y = (ordered_bits(x) for x in spread(operands, equation.result.shape))
        return compare(x, y, direction)

    return compare_bits


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    RULES[_name] = _comparison(_name.upper())
for _name in ("eq", "le", "lt"):
    RULES[f"{_name}_to"] = _total_order(_name.upper())


@rule("pow")
def power(equation: Equation, x: Array, y: Array) -> Array:
    """JAX's exponent may be an integer while the base is not."""
    base, exponent = spread((x, y), equation.result.shape)
    return apply(ops.power, base, convert(exponent, base.dtype))


@rule("integer_pow")
def integer_power(equation: Equation, x: Array) -> Array:
    """Multiply, as JAX does: by squaring."""
    return repeated_product(x, int(equation.params["y"]))


@rule("square")
def square(equation: Equation, x: Array) -> Array:
    """Multiply by itself."""
    return apply(ops.multiply, x, x)


@rule("exp2")
def exp2(equation: Equation, x: Array) -> Array:
    """Raise e to log(2) x, as JAX does."""
    _require_default_accuracy(equation)
    return apply(ops.exponential, apply(ops.multiply, x, full_like(x, np.log(2.0))))


@rule("conj")
def conjugate(equation: Equation, x: Array) -> Array:
    """Change the sign of the imaginary part; a real operand becomes complex."""
    return conjugated(x)


@rule("select_n")
def select_n(equation: Equation, which: Array, *cases: Array) -> Array:
    """Choose among any number of cases; JAX's first one is for False."""
    which, *values = spread((which, *cases), equation.result.shape)
    return chosen(which, *values)


@rule("convert_element_type")
def convert_element_type(equation: Equation, x: Array) -> Array:
    """Convert; `weak_type` changes nothing in the program, since jaxprs state every dtype."""
    return convert(x, equation.result.dtype)


@rule("bitcast_convert_type")
def bitcast_convert_type(equation: Equation, x: Array) -> Array:
    """Read the bits as another dtype; one of another width adds or takes the last axis."""
    return as_bits(x, equation.result.dtype)


@rule("round")
def round_elements(equation: Equation, x: Array) -> Array:
    """Round to the nearest; ties to even, or away from zero."""
    if equation.params["rounding_method"].name == "TO_NEAREST_EVEN":
        return apply(ops.round_nearest_even, x)
    return rounded_away(x)


@rule("clz")
def count_leading_zeros(equation: Equation, x: Array) -> Array:
    """Set all bits below the highest one, and count what is left."""
    return leading_zeros(x)


@rule("zeta")
def zeta(equation: Equation, x: Array, q: Array) -> Any:
    """Compute Hurwitz's zeta function."""
    return factorials.zeta(x, q)


@rule("polygamma")
def polygamma(equation: Equation, order: Array, x: Array) -> Array:
    """Take the order from the program, where it is written as a number."""
    value = _known_number(equation.original.invars[0])
    if value is None or value < 0 or value != int(value):
        raise UnsupportedError(
            "JAX's polygamma of an order that is computed, or no whole number",
            mend="write the order as a number",
        )
    x = broadcast(x, equation.result.shape)
    if value == 0:
        return apply(ops.digamma, x)
    return apply(ops.polygamma, x, order=int(value))


def _known_number(atom: Any) -> float | None:
    value = getattr(atom, "val", None)
    return None if value is None or np.ndim(value) else float(value)


@rule("reduce_precision")
def reduce_precision(equation: Equation, x: Array) -> Any:
    """Round to fewer bits; the tangent too, as in JAX."""
    if not equation.evaluator.is_differentiated:
        return _reduced(equation, x)
    function = custom_vjp(functools.partial(_reduced, equation))
    function.defvjp(lambda x: (_reduced(equation, x), None), lambda _, g: (_reduced(equation, g),))
    return function(x)


def _reduced(equation: Equation, x: Array) -> Array:
    return in_fewer_bits(x, equation.params["exponent_bits"], equation.params["mantissa_bits"])


@rule("bessel_i0e")
def bessel_i0e(equation: Equation, x: Array) -> Array:
    """Compute the Bessel function of order 0 times exp(-|x|)."""
    return i0e(x)


@rule("bessel_i1e")
def bessel_i1e(equation: Equation, x: Array) -> Array:
    """Compute the Bessel function of order 1 times exp(-|x|)."""
    return i1e(x)
