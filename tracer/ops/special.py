"""Element-wise special functions of one operand. Source: CHLO; evaluated by scipy.special."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError
from tracer.ir import Op, ShapeDtype
from tracer.ops.deferred import of_scipy
from tracer.ops.elementwise import elementwise
from tracer.ops.helpers import scale, square
from tracer.ops.rules import elementwise_axes, elementwise_cost, require_kind, widened

erf: Op = elementwise(
    "erf",
    1,
    of_scipy("special.erf"),
    lambda g, out, x: (
        ops.multiply(scale(g, 2 / math.sqrt(math.pi)), ops.exponential(ops.negate(square(x)))),
    ),
    doc="Error function.",
    kinds="f",
    flops=20,
    vectors=("float32",),
)
erfc: Op = elementwise(
    "erfc",
    1,
    of_scipy("special.erfc"),
    lambda g, out, x: (
        ops.multiply(scale(g, -2 / math.sqrt(math.pi)), ops.exponential(ops.negate(square(x)))),
    ),
    doc="1 - erf(x), accurate for large x.",
    kinds="f",
    flops=30,
)
erf_inv: Op = elementwise(
    "erf_inv",
    1,
    of_scipy("special.erfinv"),
    lambda g, out, x: (
        ops.multiply(scale(g, math.sqrt(math.pi) / 2), ops.exponential(square(out))),
    ),
    doc="Inverse of erf on (-1, 1).",
    kinds="f",
    flops=30,
)
lgamma: Op = elementwise(
    "lgamma",
    1,
    of_scipy("special.gammaln"),
    lambda g, out, x: (ops.multiply(g, ops.digamma(x)),),
    doc="Logarithm of the absolute value of the gamma function.",
    kinds="f",
    flops=40,
    jumps=(0,),
)
digamma: Op = elementwise(
    "digamma",
    1,
    of_scipy("special.digamma"),
    lambda g, out, x: (ops.multiply(g, ops.polygamma(x, order=1)),),
    doc="Derivative of lgamma.",
    kinds="f",
    flops=40,
    jumps=(0,),
)


def _infer_polygamma(x: ShapeDtype, *, order: int) -> ShapeDtype:
    require_kind("polygamma", x, "f")
    if order < 1:
        raise ArgumentError(
            f"polygamma needs an order of 1 or more, not {order}", mend="use digamma for order 0"
        )
    return x


def _evaluate_polygamma(x: np.ndarray[Any, Any], *, order: int) -> Any:
    return np.asarray(of_scipy("special.polygamma")(order, widened(x))).astype(x.dtype)


polygamma: Op = Op(
    "polygamma",
    doc="The derivative of digamma of the given order (1 or more). Source: CHLO.",
    infer=_infer_polygamma,
    evaluate=_evaluate_polygamma,
    lower=lambda b, types, x, *, order: b.polygamma(b.splat(order, types[0]), x),
    vjp=lambda g, out, x, *, order: (ops.multiply(g, ops.polygamma(x, order=order + 1)),),
    axes=elementwise_axes,
    cost=elementwise_cost(60),
    reuses=(0,),
    fusion="loop",
)
