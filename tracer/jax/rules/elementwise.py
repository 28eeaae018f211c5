"""Rules of functions of each element."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert, reshape
from tracer.array.dispatch import apply
from tracer.autodiff.transforms import custom_vjp
from tracer.errors import UnsupportedError
from tracer.ir import Op
from tracer.jax.table import RULES, Equation, rule
from tracer.numpy.ufunc import compare, full_like
from tracer.scipy.bessel import i0e, i1e

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
        x, y = (_ordered_bits(x) for x in spread(operands, equation.result.shape))
        return compare(x, y, direction)

    return compare_bits


def _ordered_bits(x: Array) -> Array:
    """Return integers that are in the total order of floats."""
    if x.dtype.kind in "biu":
        return x
    dtype = np.dtype(f"int{8 * x.dtype.itemsize}")
    bits = apply(ops.bitcast_convert, x, dtype=dtype)
    sign = apply(ops.shift_right_arithmetic, bits, full_like(bits, 8 * dtype.itemsize - 1))
    return apply(ops.xor, bits, apply(ops.and_, sign, full_like(bits, np.iinfo(dtype).max)))


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
    exponent = int(equation.params["y"])
    if exponent == 0:
        return full_like(x, 1)
    result = _repeated_product(x, abs(exponent))
    return result if exponent > 0 else apply(ops.divide, full_like(x, 1), result)


def _repeated_product(x: Array, exponent: int) -> Array:
    result: Array | None = None
    while exponent:
        if exponent & 1:
            result = x if result is None else apply(ops.multiply, result, x)
        exponent >>= 1
        if exponent:
            x = apply(ops.multiply, x, x)
    assert result is not None
    return result


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
    if x.dtype.kind != "c":
        return convert(x, equation.result.dtype)
    return apply(ops.complex, apply(ops.real, x), apply(ops.negate, apply(ops.imag, x)))


@rule("select_n")
def select_n(equation: Equation, which: Array, *cases: Array) -> Array:
    """Choose among any number of cases; JAX's first one is for False."""
    if len(cases) == 1:
        return cases[0]
    which, *values = spread((which, *cases), equation.result.shape)
    if which.dtype.kind == "b":
        return apply(ops.select, which, values[1], values[0])

    def choose(result: Array, item: tuple[int, Array]) -> Array:
        position, case = item
        return apply(ops.select, compare(which, full_like(which, position), "GE"), case, result)

    return functools.reduce(choose, enumerate(values[1:], 1), values[0])


@rule("convert_element_type")
def convert_element_type(equation: Equation, x: Array) -> Array:
    """Convert; `weak_type` changes nothing in the program, since jaxprs state every dtype."""
    return convert(x, equation.result.dtype)


@rule("bitcast_convert_type")
def bitcast_convert_type(equation: Equation, x: Array) -> Array:
    """Read the bits as another dtype; one of another width adds or takes the last axis."""
    dtype = equation.result.dtype
    narrow, wide = dtype.itemsize, x.dtype.itemsize
    if narrow == wide:
        return apply(ops.bitcast_convert, x, dtype=dtype)
    if narrow < wide:
        return _split_bits(x, dtype)
    return _joined_bits(x, dtype)


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
    if dtype.kind == "c" or dtype.kind == "b":
        raise UnsupportedError(
            f"JAX's bitcast_convert_type of {dtype} to another width",
            mend="go through real and imag, or astype",
        )
    return np.dtype(f"uint{8 * dtype.itemsize}")


@rule("round")
def round_elements(equation: Equation, x: Array) -> Array:
    """Round to the nearest; ties to even, or away from zero."""
    if equation.params["rounding_method"].name == "TO_NEAREST_EVEN":
        return apply(ops.round_nearest_even, x)
    size = apply(ops.abs, x)
    below = apply(ops.floor, size)
    is_up = compare(apply(ops.subtract, size, below), full_like(x, 0.5), "GE")
    rounded = apply(ops.add, below, convert(is_up, x.dtype))
    # The sign bit, so that what rounds to zero keeps it; infinities have no difference to below.
    signed = apply(ops.select, is_negative(x), apply(ops.negate, rounded), rounded)
    return apply(ops.select, apply(ops.is_finite, x), signed, x)


def is_negative(x: Array) -> Array:
    """Tell which elements have the sign bit."""
    bits = apply(ops.bitcast_convert, x, dtype=np.dtype(f"int{8 * x.dtype.itemsize}"))
    return compare(bits, full_like(bits, 0), "LT")


@rule("clz")
def count_leading_zeros(equation: Equation, x: Array) -> Array:
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
    """Round by integer ops, since XLA drops conversions there and back."""
    exponent, mantissa = equation.params["exponent_bits"], equation.params["mantissa_bits"]
    own = _FLOAT_BITS.get(x.dtype.name)
    if own is None or exponent > own[0] or mantissa > own[1]:
        raise UnsupportedError(
            f"JAX's reduce_precision of {x.dtype} to {exponent} and {mantissa} bits",
            mend="reduce float64, float32, float16 or bfloat16 to as many bits or fewer",
        )
    rounded = _rounded_mantissa(x, own[1] - mantissa) if mantissa < own[1] else x
    return _clipped_exponent(rounded, x, own[0], exponent, mantissa)


_FLOAT_BITS = {"float64": (11, 52), "float32": (8, 23), "float16": (5, 10), "bfloat16": (8, 7)}
"""Bits of the exponent and of the mantissa."""


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


@rule("bessel_i0e")
def bessel_i0e(equation: Equation, x: Array) -> Array:
    """Compute the Bessel function of order 0 times exp(-|x|)."""
    return i0e(x)


@rule("bessel_i1e")
def bessel_i1e(equation: Equation, x: Array) -> Array:
    """Compute the Bessel function of order 1 times exp(-|x|)."""
    return i1e(x)
