"""Element-wise ops of one operand.

Source: StableHLO and CHLO specifications. Gradients of complex functions follow JAX: the cotangent
`g` of `f(x)` represents the differential `Re(g * df)`, so a holomorphic `f` gives `g * f'(x)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import NotDifferentiable, Op, Value
from tracer.ir.combining import EXPONENTIAL, NEGATION, SAME_ELEMENTS
from tracer.ops.deferred import of_scipy
from tracer.ops.elementwise import FUNCTION, INTEGER, STEP, elementwise
from tracer.ops.helpers import full_like, scale, shift, square, zeros_like
from tracer.ops.rules import (
    elementwise_axes,
    elementwise_cost,
    real_dtype,
)

BOOL = np.dtype(bool)


def _abs_vjp(g: Value, out: Value, x: Value) -> tuple[Value]:
    """`g` or `-g`, 1 at 0; for complex x `g * conj(x) / |x|`, and 0 at 0: as JAX."""
    if x.dtype.kind != "c":
        is_positive = ops.compare(x, zeros_like(x), direction="GE")
        return (ops.select(is_positive, g, ops.negate(g)),)
    at_zero = ops.compare(out, zeros_like(out), direction="EQ")
    weight = ops.divide(g, ops.select(at_zero, full_like(out, 1), out))
    real, imag = ops.real(x), ops.imag(x)
    return (ops.complex(ops.multiply(weight, real), ops.negate(ops.multiply(weight, imag))),)


def _sign_vjp(g: Value, out: Value, x: Value) -> tuple[Value | None]:
    """Zero for real x; for complex x the derivative of `x / |x|`, and 0 at 0.

    `x / |x|` turns only: with `t = Im(g * out) / |x|` the cotangent is `i * t * conj(out)`.
    """
    if x.dtype.kind != "c":
        return (None,)
    size = ops.abs(x)
    at_zero = ops.compare(size, zeros_like(size), direction="EQ")
    turn = ops.imag(ops.multiply(g, out))
    turn = ops.divide(turn, ops.select(at_zero, full_like(size, 1), size))
    real, imag = ops.real(out), ops.imag(out)
    return (ops.complex(ops.multiply(turn, imag), ops.multiply(turn, real)),)


def _sign(x: np.ndarray[Any, Any]) -> Any:
    if x.dtype.kind == "c":  # of numbers whose size overflows NumPy has none of both parts
        largest = np.finfo(x.dtype).max / 4
        is_large = np.isfinite(x) & (np.maximum(np.abs(x.real), np.abs(x.imag)) > largest)
        x = np.where(is_large, x * x.dtype.type(0.25), x)
    return np.where(x == 0, x, np.sign(x))


_CUBE_ROOT_STEPS = {"float32": (2.0, 2.0**-50), "float64": (1.0, 2.0**-358)}
"""By dtype c and r with cbrt(m * 2**e) = cbrt(c * m) * r, for 2**e the smallest subnormal."""


def _lower_cbrt(b: Any, x: Any) -> Any:
    """Lower `cbrt`, of subnormal numbers through their bits.

    XLA:CPU computes with subnormal numbers read as zeros; its cube root makes -5.6e-16 of each
    subnormal float32, of 1e-40 as of -1e-40.
    """
    type = x.type
    if type.dtype.name == "bfloat16":
        wide = type.with_dtype(np.float32)
        return b.convert(type, _lower_cbrt(b, b.convert(wide, x)))
    if type.dtype.name not in _CUBE_ROOT_STEPS:
        return b.cbrt(x)
    limits = np.finfo(type.dtype)
    kind = type.with_dtype(f"uint{limits.bits}")
    bits = b.bitcast_convert(kind, x)
    sign = b.splat(1 << (limits.bits - 1), kind)
    size = b.and_(bits, b.not_(sign))
    is_small = b.compare("LT", size, b.splat(1 << limits.nmant, kind))
    scale, step = _CUBE_ROOT_STEPS[type.dtype.name]
    mantissa = b.multiply(b.convert(type, size), b.splat(scale, type))
    root = b.cbrt(b.select(is_small, mantissa, b.bitcast_convert(type, size)))
    root = b.multiply(root, b.select(is_small, b.splat(step, type), b.splat(1, type)))
    return b.bitcast_convert(type, b.or_(b.bitcast_convert(kind, root), b.and_(bits, sign)))


def _logistic(x: np.ndarray[Any, Any]) -> Any:
    return of_scipy("special.expit")(x) if x.dtype.kind == "f" else 1 / (1 + np.exp(-x))


abs: Op = elementwise(
    "abs",
    1,
    np.abs,
    _abs_vjp,
    doc="Absolute value; the modulus, real, of a complex number.",
    kinds="ifc",
    dtype=real_dtype,
)
negate: Op = elementwise(
    "negate",
    1,
    np.negative,
    lambda g, out, x: (ops.negate(g),),
    doc="-x; wraps for unsigned.",
    response=NEGATION,
)
sign: Op = elementwise(
    "sign", 1, _sign, _sign_vjp, doc="-1, 0 or 1; x / |x| for complex x.", kinds="ifc", jumps=(0,)
)
exponential: Op = elementwise(
    "exponential",
    1,
    np.exp,
    lambda g, out, x: (ops.multiply(g, out),),
    doc="e to the power of the element.",
    kinds="fc",
    flops=12,
    response=EXPONENTIAL,
    vectors=FUNCTION,
)
exponential_minus_one: Op = elementwise(
    "exponential_minus_one",
    1,
    np.expm1,
    lambda g, out, x: (ops.multiply(g, shift(out, 1)),),
    doc="exp(x) - 1, accurate near zero.",
    kinds="fc",
    flops=15,
    vectors=FUNCTION,
)
log: Op = elementwise(
    "log",
    1,
    np.log,
    lambda g, out, x: (ops.divide(g, x),),
    doc="Natural logarithm.",
    kinds="fc",
    flops=12,
    vectors=FUNCTION,
    jumps=(0,),
)
log_plus_one: Op = elementwise(
    "log_plus_one",
    1,
    np.log1p,
    lambda g, out, x: (ops.divide(g, shift(x, 1)),),
    doc="log(1 + x), accurate near zero.",
    kinds="fc",
    flops=15,
    vectors=("float64",),
    jumps=(0,),
)
sqrt: Op = elementwise(
    "sqrt",
    1,
    np.sqrt,
    lambda g, out, x: (ops.divide(scale(g, 0.5), out),),
    doc="Square root.",
    kinds="fc",
    flops=4,
    vectors=FUNCTION,
    jumps=(0,),
)
rsqrt: Op = elementwise(
    "rsqrt",
    1,
    lambda x: 1 / np.sqrt(x),
    lambda g, out, x: (ops.multiply(scale(g, -0.5), ops.multiply(out, square(out))),),
    doc="1 / sqrt(x).",
    kinds="fc",
    flops=5,
    vectors=FUNCTION,
    jumps=(0,),
)
cbrt: Op = elementwise(
    "cbrt",
    1,
    np.cbrt,
    lambda g, out, x: (ops.divide(g, scale(square(out), 3)),),
    doc="Cube root.",
    kinds="f",
    flops=15,
    composed=_lower_cbrt,
    jumps=(0,),
)
logistic: Op = elementwise(
    "logistic",
    1,
    _logistic,
    lambda g, out, x: (ops.multiply(g, ops.multiply(out, shift(ops.negate(out), 1))),),
    doc="1 / (1 + exp(-x)).",
    kinds="fc",
    flops=15,
    vectors=FUNCTION,
)
floor: Op = elementwise("floor", 1, np.floor, STEP, doc="Round down.", kinds="f")
ceil: Op = elementwise("ceil", 1, np.ceil, STEP, doc="Round up.", kinds="f")
round_nearest_even: Op = elementwise(
    "round_nearest_even", 1, np.rint, STEP, doc="Round to nearest, ties to even.", kinds="f"
)
is_finite: Op = elementwise(
    "is_finite",
    1,
    np.isfinite,
    STEP,
    doc="True where x is neither infinite nor NaN.",
    kinds="f",
    dtype=lambda _: BOOL,
)
not_: Op = elementwise(
    "not",
    1,
    np.invert,
    INTEGER,
    doc="Logical not of bools, bitwise not of integers.",
    kinds="biu",
    lower_name="not_",
)
popcnt: Op = elementwise(
    "popcnt",
    1,
    lambda x: np.bitwise_count(x.view(f"u{x.dtype.itemsize}")),
    INTEGER,
    doc="Number of bits set, in two's complement.",
    kinds="iu",
)
real: Op = elementwise(
    "real",
    1,
    np.real,
    lambda g, out, x: (ops.complex(g, zeros_like(g)),),
    doc="Real part of a complex array.",
    kinds="c",
    dtype=real_dtype,
)
imag: Op = elementwise(
    "imag",
    1,
    np.imag,
    lambda g, out, x: (ops.complex(zeros_like(g), ops.negate(g)),),
    doc="Imaginary part of a complex array.",
    kinds="c",
    dtype=real_dtype,
)
stop_gradient: Op = Op(
    "stop_gradient",
    doc="The operand itself, but no gradient passes.",
    infer=lambda x: x,
    evaluate=lambda x: x,
    lower=lambda b, types, x: x,
    vjp=NotDifferentiable("the gradient was stopped on purpose", zero=True),
    axes=elementwise_axes,
    cost=elementwise_cost(0),
    reuses=(0,),
    fusion="loop",
    response=SAME_ELEMENTS,
)
