"""Functions of each element. Unlike those of `tracer.numpy` they convert nothing."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

import numpy as np

from tracer import ops, tree
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays, convert
from tracer.array.dispatch import apply, apply_many, compound
from tracer.errors import ArgumentError, DTypeError, TracingError, shown
from tracer.ir import as_dtype
from tracer.lax.bits import leading_zeros, rounded_away
from tracer.lax.operands import (
    binary,
    integer,
    of_binary_op,
    of_one_dtype,
    of_op,
    unary,
)
from tracer.numpy import bessel
from tracer.numpy.complex_order import EXTREMES, pick
from tracer.numpy.ufunc import compare, full_like

acos = of_op("acos", ops.acos)
acosh = of_op("acosh", ops.acosh)
asin = of_op("asin", ops.asin)
asinh = of_op("asinh", ops.asinh)
atan = of_op("atan", ops.atan)
atanh = of_op("atanh", ops.atanh)
cbrt = of_op("cbrt", ops.cbrt)
ceil = of_op("ceil", ops.ceil)
cos = of_op("cos", ops.cosine)
cosh = of_op("cosh", ops.cosh)
digamma = of_op("digamma", ops.digamma)
erf = of_op("erf", ops.erf)
erf_inv = of_op("erf_inv", ops.erf_inv)
erfc = of_op("erfc", ops.erfc)
exp = of_op("exp", ops.exponential)
expm1 = of_op("expm1", ops.exponential_minus_one)
floor = of_op("floor", ops.floor)
imag = of_op("imag", ops.imag)
is_finite = of_op("is_finite", ops.is_finite)
lgamma = of_op("lgamma", ops.lgamma)
log = of_op("log", ops.log)
log1p = of_op("log1p", ops.log_plus_one)
logistic = of_op("logistic", ops.logistic)
neg = of_op("neg", ops.negate)
bitwise_not = of_op("bitwise_not", ops.not_)
population_count = of_op("population_count", ops.popcnt)
real = of_op("real", ops.real)
rsqrt = of_op("rsqrt", ops.rsqrt)
sin = of_op("sin", ops.sine)
sinh = of_op("sinh", ops.sinh)
sqrt = of_op("sqrt", ops.sqrt)
tan = of_op("tan", ops.tan)
tanh = of_op("tanh", ops.tanh)

add = of_binary_op("add", ops.add)
atan2 = of_binary_op("atan2", ops.atan2)
bitwise_and = of_binary_op("bitwise_and", ops.and_)
bitwise_or = of_binary_op("bitwise_or", ops.or_)
bitwise_xor = of_binary_op("bitwise_xor", ops.xor)
complex = of_binary_op("complex", ops.complex)
div = of_binary_op("div", ops.divide)
mul = of_binary_op("mul", ops.multiply)
nextafter = of_binary_op("nextafter", ops.next_after)
rem = of_binary_op("rem", ops.remainder)
shift_left = of_binary_op("shift_left", ops.shift_left)
shift_right_arithmetic = of_binary_op("shift_right_arithmetic", ops.shift_right_arithmetic)
shift_right_logical = of_binary_op("shift_right_logical", ops.shift_right_logical)
sub = of_binary_op("sub", ops.subtract)


def _extreme(name: str, op: Any) -> Any:
    def body(x: Array, y: Array) -> Array:
        return pick(op, x, y) if x.dtype.kind == "c" and op in EXTREMES else apply(op, x, y)

    return binary(name, body, op.doc)


max = _extreme("max", ops.maximum)
min = _extreme("min", ops.minimum)


def _comparison(name: str, summary: str) -> Any:
    return binary(name, lambda x, y: compare(x, y, name.upper()), summary, returns="Bools.")


eq = _comparison("eq", "Tell where x = y.")
ne = _comparison("ne", "Tell where x is not y.")
lt = _comparison("lt", "Tell where x < y.")
le = _comparison("le", "Tell where x <= y.")
gt = _comparison("gt", "Tell where x > y.")
ge = _comparison("ge", "Tell where x >= y.")

_FLOATS = "Floats or complex numbers."


def _abs(x: Array) -> Array:
    if x.dtype.kind in "bu":
        raise DTypeError(f"lax.abs of {x.type}", mend="they have no sign; leave it out")
    return apply(ops.abs, x)


def _sign(x: Array) -> Array:
    return apply(ops.minimum, x, full_like(x, 1)) if x.dtype.kind == "u" else apply(ops.sign, x)


def conjugated(x: Array) -> Array:
    """Change the sign of the imaginary part; a real operand becomes complex."""
    if x.dtype.kind != "c":
        return apply(ops.complex, x, full_like(x, 0))
    return apply(ops.complex, apply(ops.real, x), apply(ops.negate, apply(ops.imag, x)))


abs = unary("abs", _abs, "Absolute value.", accepts="Numbers with a sign.")
sign = unary("sign", _sign, "-1, 0 or 1; -0 and NaN stay; x / |x| of complex numbers.")
conj = unary("conj", conjugated, "Complex conjugate.", returns="Complex numbers.")
square = unary("square", lambda x: apply(ops.multiply, x, x), "The element times itself.")
reciprocal = unary(
    "reciprocal",
    lambda x: apply(ops.divide, full_like(x, 1), x),
    "One divided by the element.",
    accepts=_FLOATS,
)
exp2 = unary(
    "exp2",
    lambda x: apply(ops.exponential, apply(ops.multiply, x, full_like(x, np.log(2.0)))),
    "2 to the power x.",
    accepts=_FLOATS,
)
clz = unary("clz", leading_zeros, "Zero bits before the highest one.", accepts="Integers.")
bessel_i0e = unary(
    "bessel_i0e", bessel.i0e, "Modified Bessel function of order 0, times exp(-|x|)."
)
bessel_i1e = unary(
    "bessel_i1e", bessel.i1e, "Modified Bessel function of order 1, times exp(-|x|)."
)


def _high_product(x: Array, y: Array) -> Array:
    """Multiply in twice the width, or 64 bits by halves, which do not overflow."""
    if x.dtype.kind not in "iu":
        raise DTypeError(f"lax.mulhi of {x.type}", mend="give integers")
    half = 4 * x.dtype.itemsize
    if x.dtype.itemsize < 8:
        wide = as_dtype(f"{x.dtype.kind}{2 * x.dtype.itemsize}")
        product = apply(ops.multiply, convert(x, wide), convert(y, wide))
        return convert(_moved(product, 2 * half), x.dtype)
    mask = full_like(x, 2**half - 1)
    x_low, y_low = apply(ops.and_, x, mask), apply(ops.and_, y, mask)
    x_high, y_high = _moved(x, half), _moved(y, half)
    low = _unsigned_moved(apply(ops.multiply, x_low, y_low), half)
    middle = apply(ops.add, apply(ops.multiply, x_high, y_low), low)
    other = apply(ops.add, apply(ops.multiply, x_low, y_high), apply(ops.and_, middle, mask))
    high = apply(ops.add, apply(ops.multiply, x_high, y_high), _moved(middle, half))
    return apply(ops.add, high, _moved(other, half))


def _moved(x: Array, count: int) -> Array:
    op = ops.shift_right_arithmetic if x.dtype.kind == "i" else ops.shift_right_logical
    return apply(op, x, full_like(x, count))


def _unsigned_moved(x: Array, count: int) -> Array:
    return apply(ops.shift_right_logical, x, full_like(x, count))


mulhi = binary("mulhi", _high_product, "The upper half of the bits of a product of integers.")


def integer_pow(x: ArrayLike, y: int) -> Array:
    """Multiply `x` by itself: y - 1 times, by squaring.

    Parameters
    ----------
    x : array_like
        Numbers.
    y : int
        The power; negative ones are of floats and complex numbers only.

    Returns
    -------
    Array
        The dtype of `x`.

    Raises
    ------
    DTypeError
        A negative power of integers.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> float(lax.integer_pow(2.0, -3))
    0.125
    """
    base, exponent = as_array(x), integer("integer_pow", "y", y)
    if exponent < 0 and base.dtype.kind in "biu":
        raise DTypeError(
            f"lax.integer_pow: {base.type} cannot be raised to {exponent}", mend="give floats"
        )
    return _integer_pow(base, exponent=exponent)


@compound
def _integer_pow(x: Array, *, exponent: int) -> Array:
    return repeated_product(x, exponent)


def repeated_product(x: Array, exponent: int) -> Array:
    """Raise to an integer by squaring."""
    result: Array | None = None
    left = -exponent if exponent < 0 else exponent
    while left:
        if left & 1:
            result = x if result is None else apply(ops.multiply, result, x)
        left >>= 1
        if left:
            x = apply(ops.multiply, x, x)
    if result is None:
        return full_like(x, 1)
    return result if exponent > 0 else apply(ops.divide, full_like(result, 1), result)


def pow(x: ArrayLike, y: Any) -> Array:
    """Raise floats or complex numbers to a power.

    Parameters
    ----------
    x : array_like
        The bases.
    y : array_like
        The exponents: of the dtype of `x`, or integers. A Python integer multiplies, as
        `integer_pow`.

    Returns
    -------
    Array
        The dtype of `x`.

    Raises
    ------
    DTypeError
        Integers as bases, or exponents of another float dtype.
    ShapeError
        The shapes do not fit.
    """
    if isinstance(y, int) and not isinstance(y, bool):
        base, exponent = as_array(x), y
        _require_inexact("pow", base)
        return integer_pow(base, exponent)
    base, power = as_arrays(x, y)
    _require_inexact("pow", base)
    if power.dtype.kind in "iu":
        power = convert(power, base.dtype)
    return _pow(*of_one_dtype("pow", base, power))


def _require_inexact(name: str, x: Array) -> None:
    if x.dtype.kind in "biu":
        raise DTypeError(f"lax.{name} of {x.type}", mend="give floats or complex numbers")


_pow = binary("pow", lambda x, y: apply(ops.power, x, y), ops.power.doc)


class RoundingMethod(Enum):
    """Where `round` takes halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: ArrayLike, rounding_method: Any = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Round to whole numbers.

    Parameters
    ----------
    x : array_like
        Floats.
    rounding_method : RoundingMethod
        Where halves go: away from zero, or to the even neighbour.

    Returns
    -------
    Array
        The dtype of `x`.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> lax.round(tnp.array([0.5, 1.5, 2.5])).tolist()
    [1.0, 2.0, 3.0]
    """
    array = as_array(x)
    if array.dtype.kind in "biuc":
        raise DTypeError(f"lax.round of {array.type}", mend="give floats")
    try:
        method = RoundingMethod(rounding_method)
    except (ValueError, TypeError) as error:
        raise ArgumentError(
            f"lax.round: rounding_method is {rounding_method!r}",
            mend="give one of lax.RoundingMethod",
        ) from error
    return _round(array, to_even=method is RoundingMethod.TO_NEAREST_EVEN)


@compound
def _round(x: Array, *, to_even: bool) -> Array:
    return apply(ops.round_nearest_even, x) if to_even else rounded_away(x)


def convert_element_type(operand: ArrayLike, new_dtype: Any) -> Array:
    """Convert to another dtype.

    Parameters
    ----------
    operand : array_like
        Numbers.
    new_dtype : dtype
        The dtype; of complex numbers a real one takes the real part.

    Returns
    -------
    Array
        The converted numbers. NaN becomes 0 and what does not fit the nearest integer, as XLA has
        it.
    """
    return convert(as_array(operand), as_dtype(new_dtype))


def optimization_barrier(operand: Any) -> Any:
    """Keep arrays from being moved or merged: what reads the result waits for all of them.

    Parameters
    ----------
    operand
        Arrays in any nesting.

    Returns
    -------
    result
        The same arrays.
    """
    leaves, structure = tree.flatten(operand)
    if not leaves:
        return operand
    return tree.unflatten(structure, _barrier(*map(as_array, leaves)))


@compound
def _barrier(*arrays: Array) -> tuple[Array, ...]:
    return apply_many(ops.optimization_barrier, *arrays)


def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """Take the m-th derivative of digamma.

    Parameters
    ----------
    m : int or float
        The order, a known whole number; every order is a function of its own here.
    x : array_like
        Floats.

    Returns
    -------
    Array
        The dtype of `x`.

    Raises
    ------
    ArgumentError
        `m` is traced, an array of several orders, or not whole.
    """
    order = _known_order(m)
    x = as_array(x)
    return digamma(x) if order == 0 else _polygamma(x, order=order)


@compound
def _polygamma(x: Array, *, order: int) -> Array:
    return apply(ops.polygamma, x, order=order)


def _known_order(m: Any) -> int:
    try:
        value = float(m)
    except TracingError as error:
        raise ArgumentError(
            "lax.polygamma: the order is traced", mend="give the order as a number"
        ) from error
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"lax.polygamma: the order is {shown(m)}", mend="give a whole number"
        ) from error
    if not 0 <= value < math.inf or value != int(value):
        raise ArgumentError(f"lax.polygamma: the order is {m!r}", mend="give a whole number")
    return int(value)
