"""Trigonometric and hyperbolic functions and their inverses. Source: StableHLO and CHLO.

All take complex numbers. Derivatives follow the principal values; that of acosh is right for
negative real parts too, where JAX has the other sign.
"""

from __future__ import annotations

import numpy as np

from tracer import ops
from tracer.ir import Op, Value
from tracer.ops.elementwise import FUNCTION, elementwise
from tracer.ops.helpers import shift, square

sine: Op = elementwise(
    "sine",
    1,
    np.sin,
    lambda g, out, x: (ops.multiply(g, ops.cosine(x)),),
    doc="Sine.",
    kinds="fc",
    flops=15,
    vectors=FUNCTION,
    repeats=True,
)
cosine: Op = elementwise(
    "cosine",
    1,
    np.cos,
    lambda g, out, x: (ops.negate(ops.multiply(g, ops.sine(x))),),
    doc="Cosine.",
    kinds="fc",
    flops=15,
    vectors=FUNCTION,
    repeats=True,
)
tan: Op = elementwise(
    "tan",
    1,
    np.tan,
    lambda g, out, x: (ops.multiply(g, shift(square(out), 1)),),
    doc="Tangent.",
    kinds="fc",
    flops=20,
    vectors=FUNCTION,
    repeats=True,
    jumps=(0,),
)
tanh: Op = elementwise(
    "tanh",
    1,
    np.tanh,
    lambda g, out, x: (ops.multiply(g, ops.multiply(shift(ops.negate(out), 1), shift(out, 1))),),
    doc="Hyperbolic tangent.",
    kinds="fc",
    flops=15,
    vectors=FUNCTION,
)


def _inverse_root(*factors: Value) -> Value:
    """Return the product of the reciprocal square roots: right on the complex branch cuts too."""
    result = ops.rsqrt(factors[0])
    for factor in factors[1:]:
        result = ops.multiply(result, ops.rsqrt(factor))
    return result  # type: ignore[no-any-return]


def _asin_slope(x: Value) -> Value:
    return _inverse_root(shift(ops.negate(x), 1), shift(x, 1))


asin: Op = elementwise(
    "asin",
    1,
    np.arcsin,
    lambda g, out, x: (ops.multiply(g, _asin_slope(x)),),
    doc="Inverse sine.",
    kinds="fc",
    flops=20,
    jumps=(0,),
)
acos: Op = elementwise(
    "acos",
    1,
    np.arccos,
    lambda g, out, x: (ops.negate(ops.multiply(g, _asin_slope(x))),),
    doc="Inverse cosine.",
    kinds="fc",
    flops=20,
    jumps=(0,),
)
atan: Op = elementwise(
    "atan",
    1,
    np.arctan,
    lambda g, out, x: (ops.divide(g, shift(square(x), 1)),),
    doc="Inverse tangent.",
    kinds="fc",
    flops=20,
)
sinh: Op = elementwise(
    "sinh",
    1,
    np.sinh,
    lambda g, out, x: (ops.multiply(g, ops.cosh(x)),),
    doc="Hyperbolic sine.",
    kinds="fc",
    flops=20,
)
cosh: Op = elementwise(
    "cosh",
    1,
    np.cosh,
    lambda g, out, x: (ops.multiply(g, ops.sinh(x)),),
    doc="Hyperbolic cosine.",
    kinds="fc",
    flops=20,
)
asinh: Op = elementwise(
    "asinh",
    1,
    np.arcsinh,
    lambda g, out, x: (ops.multiply(g, ops.rsqrt(shift(square(x), 1))),),
    doc="Inverse hyperbolic sine.",
    kinds="fc",
    flops=20,
)
acosh: Op = elementwise(
    "acosh",
    1,
    np.arccosh,
    lambda g, out, x: (ops.multiply(g, _inverse_root(shift(x, -1), shift(x, 1))),),
    doc="Inverse hyperbolic cosine.",
    kinds="fc",
    flops=20,
    jumps=(0,),
)
atanh: Op = elementwise(
    "atanh",
    1,
    np.arctanh,
    lambda g, out, x: (ops.divide(g, shift(ops.negate(square(x)), 1)),),
    doc="Inverse hyperbolic tangent.",
    kinds="fc",
    flops=20,
    jumps=(0,),
)
