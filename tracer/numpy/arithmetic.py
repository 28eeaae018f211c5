"""Arithmetic: sums, products, quotients, powers, extremes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, scalar
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import promote_types
from tracer.errors import ArgumentError, DTypeError
from tracer.ir import Op, as_dtype
from tracer.numpy.complex_order import EXTREMES, pick
from tracer.numpy.ufunc import (
    align,
    binary,
    compare,
    full_like,
    has_sign,
    is_integer,
    operands,
    real_floats,
    require_no_bool,
    select,
    unary,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def _by_kind(name: str, op: Op, bool_op: Op | None) -> Callable[[Array, Array], Array]:
    def body(x: Array, y: Array) -> Array:
        x, y = align(name, x, y)
        if x.dtype.kind == "c" and op in EXTREMES:
            return pick(op, x, y)
        if x.dtype.kind != "b":
            return apply(op, x, y)
        if bool_op is None:
            require_no_bool(name, x.dtype, "use logical_xor (^), or convert with astype first")
        return apply(bool_op, x, y)  # type: ignore[arg-type] # refused above where None

    return body


add = binary("add", _by_kind("add", ops.add, ops.or_), "Sum; logical or of bools.")
subtract = binary("subtract", _by_kind("subtract", ops.subtract, None), "Difference; not of bools.")
multiply = binary(
    "multiply", _by_kind("multiply", ops.multiply, ops.and_), "Product; logical and of bools."
)
maximum = binary(
    "maximum", _by_kind("maximum", ops.maximum, ops.or_), "The larger; NaN when either is NaN."
)
minimum = binary(
    "minimum", _by_kind("minimum", ops.minimum, ops.and_), "The smaller; NaN when either is NaN."
)


def _divide(x: Array, y: Array) -> Array:
    dtype = promotion.division_dtype(promote_types(x.dtype, y.dtype))
    return apply(ops.divide, *align("divide", x, y, dtype))


divide = binary(
    "divide",
    _divide,
    "Quotient, in floats.",
    returns="Floats.",
    beyond=promotion.division_dtype,
)
true_divide = divide


def _integer_arithmetic_dtype(x: Array, y: Array) -> promotion.Dtype:
    dtype = promote_types(x.dtype, y.dtype)
    if dtype.kind == "c":
        raise DTypeError(
            "floor division and remainder are not defined for complex numbers",
            mend="use /, or take the real part first",
        )
    return as_dtype("int8") if dtype.kind == "b" else dtype


def _safe_divisor(y: Array) -> tuple[Array, Array]:
    """Return where an integer divisor is zero, and the divisor with ones there."""
    at_zero = compare(y, full_like(y, 0), "EQ")
    return at_zero, select(at_zero, full_like(y, 1), y)


def _signs_differ(remainder: Array, y: Array) -> Array:
    """Tell where a truncated remainder is nonzero and its sign is not the divisor's."""
    zero = full_like(y, 0)
    differ = apply(ops.xor, compare(remainder, zero, "LT"), compare(y, zero, "LT"))
    return apply(ops.and_, compare(remainder, zero, "NE"), differ)


def _remainder(x: Array, y: Array) -> Array:
    x, y = align("remainder", x, y, _integer_arithmetic_dtype(x, y))
    if is_integer(x.dtype):
        at_zero, divisor = _safe_divisor(y)
        result = apply(ops.remainder, x, divisor)
        if x.dtype.kind == "i":
            shifted = apply(ops.add, result, divisor)
            result = select(_signs_differ(result, divisor), shifted, result)
        return select(at_zero, full_like(x, 0), result)
    result = apply(ops.remainder, x, y)
    shifted = select(_signs_differ(result, y), apply(ops.add, result, y), result)
    # A zero remainder has the sign of the divisor, as in Python. Not a constant, which has no
    # gradient: |r| is 0 with slope 1, and -|-r| is -0 with slope 1.
    below = apply(ops.negate, apply(ops.abs, apply(ops.negate, result)))
    zero = full_like(y, 0)
    signed_zero = select(compare(y, zero, "LT"), below, apply(ops.abs, result))
    return select(compare(result, zero, "EQ"), signed_zero, shifted)


remainder = mod = binary("remainder", _remainder, "Remainder with the sign of the divisor.")


def _floor_divide(x: Array, y: Array) -> Array:
    x, y = align("floor_divide", x, y, _integer_arithmetic_dtype(x, y))
    if is_integer(x.dtype):
        at_zero, divisor = _safe_divisor(y)
        result = apply(ops.divide, x, divisor)
        if x.dtype.kind == "i":
            rest = apply(ops.remainder, x, divisor)
            lower = apply(ops.subtract, result, full_like(result, 1))
            result = select(_signs_differ(rest, divisor), lower, result)
        return select(at_zero, full_like(x, 0), result)
    return _floor_divide_floats(x, y)


def _floor_divide_floats(x: Array, y: Array) -> Array:
    # NumPy's npy_divmod: divide exactly after taking the remainder off, then round the quotient.
    # As there inf // 1 is NaN and 1 // -inf is -1; the array API standard allows it.
    rest = apply(ops.remainder, x, y)
    exact = apply(ops.divide, apply(ops.subtract, x, rest), y)
    lower = apply(ops.subtract, exact, full_like(exact, 1))
    exact = select(_signs_differ(rest, y), lower, exact)
    floor = apply(ops.floor, exact)
    distance = apply(ops.subtract, exact, floor)
    above = apply(ops.add, floor, full_like(floor, 1))
    rounded = select(compare(distance, full_like(distance, 0.5), "GT"), above, floor)
    # A zero quotient has the sign of x / y.
    is_negative = apply(ops.xor, has_sign(x), has_sign(y))
    zero = full_like(x, 0)
    signed_zero = select(is_negative, full_like(x, -0.0), zero)
    rounded = select(compare(exact, zero, "EQ"), signed_zero, rounded)
    return select(compare(y, zero, "NE"), rounded, apply(ops.divide, x, y))


floor_divide = binary(
    "floor_divide",
    _floor_divide,
    "Quotient rounded down.",
)


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Array, Array]:  # noqa: A001 - NumPy's name
    """Return quotient rounded down and remainder; see `numpy.divmod`."""
    x, y = operands(x1, x2)
    return floor_divide(x, y), remainder(x, y)


def _fmod(x: Array, y: Array) -> Array:
    x, y = align("fmod", x, y, _integer_arithmetic_dtype(x, y))
    if not is_integer(x.dtype):
        return apply(ops.remainder, x, y)
    at_zero, divisor = _safe_divisor(y)
    return select(at_zero, full_like(x, 0), apply(ops.remainder, x, divisor))


fmod = binary("fmod", _fmod, "Remainder with the sign of the dividend.")


def _power(x: Array, y: Array) -> Array:
    dtype = promote_types(x.dtype, y.dtype)
    dtype = as_dtype("int8") if dtype.kind == "b" else dtype
    return apply(ops.power, *align("power", x, y, dtype))


_general_power = binary("power", _power, "Power.")
_LARGEST_PRODUCT = 3


def power(x1: ArrayLike, x2: Any, /) -> Array:
    """Raise `x1` to the power `x2`.

    Python exponents 2 and 3 become products, 0.5 a square root and -1 a reciprocal.

    Parameters
    ----------
    x1, x2 : array_like
        Base and exponent, broadcast together.

    Returns
    -------
    Array
        The promoted dtype.

    Raises
    ------
    ArgumentError
        A negative Python exponent of an integer base. (Where `x2` is an array of integers,
        negative exponents give 0, except for the bases 1 and -1.)
    """
    if isinstance(x2, int | float) and isinstance(x1, Array) and not _are_bools(x1, x2):
        base = convert(as_array(x1), promotion.weak_dtype(x1.dtype, type(x2)))
        if base.dtype.kind == "i" and x2 < 0:
            raise ArgumentError(
                f"integers to negative integer powers ({x2}) are not allowed",
                mend="make the base a float first: x.astype(float)",
            )
        if _is_simple(x2, base):
            return _simple_power(base, exponent=x2)
    return _general_power(x1, x2)


pow = power


def _are_bools(x: Array, number: float) -> bool:
    return x.dtype.kind == "b" and isinstance(number, bool)


def _is_simple(exponent: float, base: Array) -> bool:
    if exponent in (1, 2, 3):
        return True
    return exponent in (0.5, -1) and not is_integer(base.dtype)


@compound
def _simple_power(x: Array, *, exponent: float) -> Array:
    if exponent == 0.5:
        return apply(ops.sqrt, x)
    if exponent == -1:
        return apply(ops.divide, full_like(x, 1), x)
    result = x
    for _ in range(int(exponent) - 1):
        result = apply(ops.multiply, result, x)
    return result


def float_power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Raise to a power in at least float64; see `numpy.float_power`.

    Python numbers keep their own digits, whatever the dtype of the other.
    """
    wide = as_dtype("float64")
    x, y = (scalar(x, wide) if type(x) is int else as_array(x) for x in (x1, x2))
    wide = promote_types(promote_types(x.dtype, y.dtype), wide)
    return power(convert(x, wide), convert(y, wide))


def _square(x: Array) -> Array:
    x = convert(x, as_dtype("int8")) if x.dtype.kind == "b" else x
    return apply(ops.multiply, x, x)


square = unary("square", _square, "The element times itself.")


def _negative(x: Array) -> Array:
    require_no_bool("negative", x.dtype, "use logical_not (~), or convert with astype first")
    return apply(ops.negate, x)


negative = unary("negative", _negative, "The element with its sign reversed.")


def _positive(x: Array) -> Array:
    require_no_bool("positive", x.dtype, "convert with astype first")
    return x


positive = unary("positive", _positive, "The element itself.")


def _absolute(x: Array) -> Array:
    return x if x.dtype.kind in "bu" else apply(ops.abs, x)


absolute = abs = unary("absolute", _absolute, "Absolute value.", returns="The real dtype of `x`.")


def _fabs(x: Array) -> Array:
    return apply(ops.abs, real_floats("fabs", x))


fabs = unary("fabs", _fabs, "Absolute value in floats.", returns="Floats.")


def _sign(x: Array) -> Array:
    require_no_bool("sign", x.dtype, "convert with astype first")
    if x.dtype.kind == "u":
        return apply(ops.minimum, x, full_like(x, 1))
    zero = full_like(x, 0)  # of -0.0 too
    return select(compare(x, zero, "EQ"), zero, apply(ops.sign, x))


sign = unary("sign", _sign, "-1, 0 or 1; x / |x| for complex x.")


def _reciprocal(x: Array) -> Array:
    x = convert(x, as_dtype("int8")) if x.dtype.kind == "b" else x
    one = full_like(x, 1)
    if not is_integer(x.dtype):
        return apply(ops.divide, one, x)
    at_zero, divisor = _safe_divisor(x)
    return select(at_zero, full_like(x, 0), apply(ops.divide, one, divisor))


reciprocal = unary("reciprocal", _reciprocal, "One divided by the element.")
