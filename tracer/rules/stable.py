"""Logarithms and exponentials that keep their digits: the same numbers, without overflow."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer import nn
from tracer.numpy import linalg
from tracer.numpy.array import Array
from tracer.rules.guards import not_enlarged, not_shifted, real_floating
from tracer.rules.notation import rule
from tracer.rules.places import reduced_axes, reduced_axes_kept
from tracer.scipy import special

_KAHAN = "Kahan, Branch Cuts for Complex Elementary Functions (1987), section 4; C99 log1p, expm1"
_BLANCHARD = "Blanchard, Higham, Higham, Accurately computing the log-sum-exp and softmax (2021)"
_AXIS = ({"axis": (1,)},)
_KEPT = tuple({"axis": (1,), "keepdims": kept} for kept in (False, True))

RULES = (
    rule(
        "log1p",
        [lambda x: tnp.log(1 + x), lambda x: tnp.log(x - (-1))],
        lambda x: tnp.log1p(x),
        samples=["i"],
        source=_KAHAN,
        guards=[real_floating],
        purpose="accuracy",
    ),
    rule(
        "log1p-of-negative",
        [lambda x: tnp.log(1 - x)],
        lambda x: tnp.log1p(-x),
        samples=["i"],
        source=_KAHAN,
        guards=[real_floating],
        purpose="accuracy",
    ),
    rule(
        "expm1",
        [lambda x: tnp.exp(x) - 1, lambda x: tnp.exp(x) + (-1)],
        lambda x: tnp.expm1(x),
        samples=["i"],
        source=_KAHAN,
        guards=[real_floating],
        purpose="accuracy",
    ),
    rule(
        "softplus",
        [lambda x: tnp.log(1 + tnp.exp(x)), lambda x: tnp.log1p(tnp.exp(x))],
        lambda x: nn.softplus(x),
        samples=["i"],
        source="Maechler, Accurately Computing log(1 - exp(-|a|)) (2012)",
        guards=[real_floating],
        purpose="accuracy",
    ),
    rule(
        "log-sigmoid",
        [lambda x: tnp.log(nn.sigmoid(x)), lambda x: tnp.log(1 / (1 + tnp.exp(-x)))],
        lambda x: nn.log_sigmoid(x),
        samples=["i"],
        source="Maechler, Accurately Computing log(1 - exp(-|a|)) (2012)",
        guards=[real_floating],
        purpose="accuracy",
    ),
    rule(
        "log-sum-exp",
        [lambda x, *, axis, keepdims: tnp.log(tnp.sum(tnp.exp(x), axis=axis, keepdims=keepdims))],
        lambda x, *, axis, keepdims: special.logsumexp(x, axis=axis, keepdims=keepdims),
        samples=["ij"],
        numbers=reduced_axes_kept,
        sample_numbers=_KEPT,
        source=_BLANCHARD,
        guards=[real_floating, not_shifted, not_enlarged],
        purpose="accuracy",
    ),
    rule(
        "softmax",
        [
            lambda x, *, axis: tnp.exp(x) / tnp.sum(tnp.exp(x), axis=axis, keepdims=True),
            lambda x, *, axis: tnp.exp(x) / tnp.sum(tnp.exp(x), axis=axis),
        ],
        lambda x, *, axis: nn.softmax(x, axis=axis),
        samples=["ij", "i"],
        numbers=reduced_axes,
        sample_numbers=[{"axis": (1,)}, {"axis": (0,)}],
        source=_BLANCHARD,
        guards=[real_floating, not_shifted, not_enlarged],
        purpose="accuracy",
    ),
    rule(
        "log-softmax",
        [
            lambda x, *, axis: tnp.log(nn.softmax(x, axis=axis)),
            lambda x, *, axis: tnp.log(tnp.exp(x) / tnp.sum(tnp.exp(x), axis=axis, keepdims=True)),
        ],
        lambda x, *, axis: nn.log_softmax(x, axis=axis),
        samples=["ij"],
        numbers=reduced_axes,
        sample_numbers=_AXIS,
        source=_BLANCHARD,
        guards=[real_floating, not_shifted, not_enlarged],
        purpose="accuracy",
    ),
    rule(
        "log-of-determinant",
        [lambda a: tnp.log(linalg.det(a))],
        lambda a: _positive_log(*linalg.slogdet(a)),
        samples=["ii"],
        source="numpy.linalg.slogdet: the determinant of a large matrix overflows",
        guards=[real_floating],
        purpose="accuracy",
    ),
)


def _positive_log(sign: Array, logarithm: Array) -> Array:
    result: Array = tnp.where(sign < 0, tnp.nan, logarithm)
    return result
