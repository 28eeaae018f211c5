"""Mathematical functions of each element: exponentials, logarithms, trigonometry, choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays, broadcast, broadcast_shape, convert
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import Dtype, promote_types
from tracer.errors import ArgumentError
from tracer.ir import Op, as_dtype
from tracer.numpy import complex_limits
from tracer.numpy.complex_order import has_nan, pick
from tracer.numpy.ufunc import (
    Binary,
    Unary,
    align,
    binary,
    compare,
    float_unary,
    full_like,
    has_sign,
    is_complex,
    is_nonzero,
    real_floats,
    select,
    unary,
)

exp = float_unary("exp", ops.exponential, complex_limits.exp)
expm1 = float_unary("expm1", ops.exponential_minus_one, complex_limits.expm1)
log = float_unary("log", ops.log, complex_limits.log)
log1p = float_unary("log1p", ops.log_plus_one, complex_limits.log)
sqrt = float_unary("sqrt", ops.sqrt, complex_limits.sqrt)
cbrt = float_unary("cbrt", ops.cbrt)
sin = float_unary("sin", ops.sine)
cos = float_unary("cos", ops.cosine)
tan = float_unary("tan", ops.tan)
arcsin = asin = float_unary("arcsin", ops.asin, complex_limits.asin)
arccos = acos = float_unary("arccos", ops.acos, complex_limits.acos)
arctan = atan = float_unary("arctan", ops.atan, complex_limits.atan)
sinh = float_unary("sinh", ops.sinh, complex_limits.sinh)
cosh = float_unary("cosh", ops.cosh, complex_limits.cosh)
tanh = float_unary("tanh", ops.tanh, complex_limits.tanh)
arcsinh = asinh = float_unary("arcsinh", ops.asinh, complex_limits.asinh)
arccosh = acosh = float_unary("arccosh", ops.acosh, complex_limits.acosh)
arctanh = atanh = float_unary("arctanh", ops.atanh, complex_limits.atanh)


def _scaled(name: str, factor: float, summary: str) -> Unary:
    def body(x: Array) -> Array:
        x = real_floats(name, x)
        return apply(ops.multiply, x, full_like(x, factor))

    return unary(name, body, summary, returns="Floats.")


deg2rad = _scaled("deg2rad", math.pi / 180, "Degrees to radians.")
radians = _scaled("radians", math.pi / 180, "Degrees to radians.")
rad2deg = _scaled("rad2deg", 180 / math.pi, "Radians to degrees.")
degrees = _scaled("degrees", 180 / math.pi, "Radians to degrees.")


def _log_base(name: str, base: float, summary: str) -> Unary:
    def body(x: Array) -> Array:
        x = convert(x, promotion.float_ufunc_dtype(x.dtype))
        if not is_complex(x):
            return apply(ops.divide, apply(ops.log, x), full_like(x, math.log(base)))
        # Part by part: a quotient of complex numbers is NaN where a part is infinite.
        found = complex_limits.log(x, apply(ops.log, x))
        parts = apply(ops.real, found), apply(ops.imag, found)
        return apply(
            ops.complex, *(apply(ops.divide, v, full_like(v, math.log(base))) for v in parts)
        )

    return unary(name, body, summary, returns="Floats.")


log2 = _log_base("log2", 2, "Logarithm to base 2.")
log10 = _log_base("log10", 10, "Logarithm to base 10.")


def _exp2(x: Array) -> Array:
    x = convert(x, promotion.float_ufunc_dtype(x.dtype))
    return apply(ops.power, full_like(x, 2), x)


exp2 = unary("exp2", _exp2, "2 to the power of the element.", returns="Floats.")


def _common_float(x: Dtype, y: Dtype) -> Dtype:
    """Return the first float that holds both, as NumPy looks for it: float16 of int8 and uint8."""
    if x.kind in "biu" and y.kind in "biu":
        return promote_types(promotion.float_ufunc_dtype(x), promotion.float_ufunc_dtype(y))
    return promotion.float_ufunc_dtype(promote_types(x, y))


def float_binary(name: str, body: Callable[[Array, Array], Array], summary: str) -> Binary:
    """Return a function of two arrays, which are in one real float dtype, integers by width."""

    def aligned(x: Array, y: Array) -> Array:
        dtype = _common_float(x.dtype, y.dtype)
        return body(*[real_floats(name, part) for part in align(name, x, y, dtype)])

    beyond = promotion.float_ufunc_dtype
    return binary(name, aligned, summary, returns="Floats.", beyond=beyond)


def _copysign(x: Array, y: Array) -> Array:
    size = apply(ops.abs, x)
    return select(has_sign(y), apply(ops.negate, size), size)


arctan2 = atan2 = float_binary(
    "arctan2", lambda x, y: apply(ops.atan2, x, y), "Angle of the point (x2, x1)."
)
hypot = float_binary(
    "hypot", lambda x, y: apply(ops.hypot, x, y), "Length of the vector (x1, x2), without overflow."
)
logaddexp = float_binary(
    "logaddexp",
    lambda x, y: apply(ops.log_add_exp, x, y),
    "log(exp(x1) + exp(x2)), without overflow.",
)
copysign = float_binary("copysign", _copysign, "The size of x1 with the sign of x2.")
nextafter = float_binary(
    "nextafter", lambda x, y: apply(ops.next_after, x, y), "The next float after x1 towards x2."
)


def _ignoring_nan(op: Op) -> Callable[[Array, Array], Array]:
    def body(x: Array, y: Array) -> Array:
        x, y = align("fmax", x, y)
        if is_complex(x):
            return select(has_nan(y), x, select(has_nan(x), y, pick(op, x, y)))
        if x.dtype.kind == "b":
            return apply(ops.or_ if op is ops.maximum else ops.and_, x, y)
        result = apply(op, x, y)
        result = select(compare(x, x, "NE"), y, result)
        return select(compare(y, y, "NE"), x, result)

    return body


fmax = binary("fmax", _ignoring_nan(ops.maximum), "The larger; the other one when one is NaN.")
fmin = binary("fmin", _ignoring_nan(ops.minimum), "The smaller; the other one when one is NaN.")


def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Choose from `x` where `condition` holds, elsewhere from `y`.

    Parameters
    ----------
    condition : array_like
        Truth values (other numbers: whether they are not zero).
    x, y : array_like, optional
        Broadcast together with `condition`; both are computed everywhere. Without them the result
        is that of `nonzero`.
    size, fill_value : optional
        Arguments of `nonzero`.

    Returns
    -------
    Array, the broadcast shape, the promoted dtype of `x` and `y`
        The chosen elements.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> tnp.where(tnp.array([True, False]), 1.0, tnp.array([2.0, 3.0]))
    Array([1., 3.])
    """
    if x is None and y is None:
        return as_array(condition).nonzero(size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ArgumentError("where got one of x and y only", mend="give both, or neither")
    return _where(as_array(condition), *as_arrays(x, y))


@compound
def _where(condition: Array, x: Array, y: Array) -> Array:
    dtype = promote_types(x.dtype, y.dtype)
    shape = broadcast_shape("where", condition.shape, x.shape, y.shape)
    chosen = broadcast(is_nonzero(condition), shape)
    return select(chosen, broadcast(convert(x, dtype), shape), broadcast(convert(y, dtype), shape))


def _conjugate(x: Array) -> Array:
    if not is_complex(x):
        return convert(x, as_dtype("int8")) if x.dtype.kind == "b" else x
    return apply(ops.complex, apply(ops.real, x), apply(ops.negate, apply(ops.imag, x)))


conjugate = conj = unary("conjugate", _conjugate, "Complex conjugate.")
real = unary(
    "real", lambda x: apply(ops.real, x) if is_complex(x) else x, "Real part.", returns="Reals."
)
imag = unary(
    "imag",
    lambda x: apply(ops.imag, x) if is_complex(x) else full_like(x, 0),
    "Imaginary part.",
    returns="Reals.",
)


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Return the angle of complex numbers in radians, or in degrees; see `numpy.angle`."""
    x = as_array(z)
    x = convert(x, promotion.division_dtype(x.dtype)) if x.dtype.kind == "b" else x
    result = arctan2(imag(x), real(x))
    return rad2deg(result) if deg else result


_SINC_TERMS = 12
"""Of the series: the first one left out is below float64's rounding in the fourth derivative."""


def _sinc(x: Array) -> Array:
    x = convert(x, promotion.division_dtype(x.dtype))
    turn = apply(ops.multiply, x, full_like(x, math.pi))
    size = apply(ops.abs, turn)
    is_near = compare(size, full_like(size, 1), "LT")
    far = select(is_near, full_like(turn, 1), turn)
    near = _sinc_series(select(is_near, turn, full_like(turn, 0)))
    return select(is_near, near, apply(ops.divide, apply(ops.sine, far), far))


def _sinc_series(x: Array) -> Array:
    """sin(x) / x for |x| < 1 by its series, so that all derivatives are right at and near zero."""
    square, total = apply(ops.multiply, x, x), full_like(x, 0)
    for power in reversed(range(_SINC_TERMS)):
        term = full_like(x, (-1) ** power / math.factorial(2 * power + 1))
        total = apply(ops.add, apply(ops.multiply, total, square), term)
    return total


sinc = unary("sinc", _sinc, "sin(pi x) / (pi x).", returns="Floats.")
