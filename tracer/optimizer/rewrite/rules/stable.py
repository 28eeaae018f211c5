"""Logarithms and exponentials that keep their digits and do not overflow."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.autodiff.transforms import vjp
from tracer.numpy import linalg
from tracer.optimizer.rewrite.rules.guards import not_enlarged, not_shifted, real_floating
from tracer.optimizer.rewrite.rules.notation import rule
from tracer.optimizer.rewrite.rules.places import (
    gradient_axes_kept,
    reduced_axes,
    reduced_axes_kept,
)
from tracer.scipy import special

_KAHAN = "Kahan, Branch Cuts for Complex Elementary Functions (1987), section 4; C99 log1p, expm1"
_MAECHLER = "Maechler, Accurately Computing log(1 - exp(-|a|)) (2012)"
_BLANCHARD = "Blanchard, Higham, Higham, Accurately computing the log-sum-exp and softmax (2021)"


def _backward(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the gradient of a function of one array, as the reverse sweep writes it."""

    def pulled(x: Array, g: Array, **numbers: Any) -> Array:
        _, pull_back = vjp(functools.partial(function, **numbers), x)
        gradient: Array = pull_back(g)[0]
        return gradient

    return pulled


def _softplus(x: Array) -> Array:
    return tnp.log(1 + tnp.exp(x))


def _stable_softplus(x: Array) -> Array:
    return tnp.logaddexp(x, 0)


def _log_sum_exp(x: Array, *, axis: tuple[int, ...], keepdims: bool) -> Array:
    return tnp.log(tnp.sum(tnp.exp(x), axis=axis, keepdims=keepdims))


def _softmax(x: Array, *, axis: tuple[int, ...]) -> Array:
    return tnp.exp(x) / tnp.sum(tnp.exp(x), axis=axis, keepdims=True)


def _log_softmax(x: Array, *, axis: tuple[int, ...]) -> Array:
    return tnp.log(_softmax(x, axis=axis))


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
        [_softplus, lambda x: tnp.log1p(tnp.exp(x))],
        _stable_softplus,
        samples=["i"],
        source=_MAECHLER,
        guards=[real_floating],
        purpose="accuracy",
    ),
    rule(
        "log-sigmoid",
        [lambda x: tnp.log(special.expit(x)), lambda x: tnp.log(1 / (1 + tnp.exp(-x)))],
        special.log_expit,
        samples=["i"],
        source=_MAECHLER,
        guards=[real_floating],
        purpose="accuracy",
    ),
    rule(
        "log-sum-exp",
        [_log_sum_exp],
        special.logsumexp,
        samples=["ij"],
        numbers=reduced_axes_kept,
        sample_numbers=_KEPT,
        source=_BLANCHARD,
        guards=[real_floating, not_shifted, not_enlarged],
        purpose="accuracy",
    ),
    rule(
        "softplus-gradient",
        [_backward(_softplus)],
        _backward(_stable_softplus),
        samples=["i i"],
        source=_MAECHLER,
        guards=[real_floating],
        purpose="accuracy",
    ),
    rule(
        "log-sum-exp-gradient",
        [_backward(_log_sum_exp)],
        _backward(special.logsumexp),
        samples=["ij i", "ij iu"],
        numbers=gradient_axes_kept,
        sample_numbers=_KEPT,
        source=_BLANCHARD,
        guards=[real_floating, not_shifted, not_enlarged],
        purpose="accuracy",
    ),
    rule(
        "softmax",
        [
            _softmax,
            # Without kept axes the sum is broadcast from the right: right for leading axes only.
            lambda x, *, axis: tnp.exp(x) / tnp.sum(tnp.exp(x), axis=tuple(range(len(axis)))),
        ],
        special.softmax,
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
            lambda x, *, axis: tnp.log(special.softmax(x, axis=axis)),
            _log_softmax,
        ],
        special.log_softmax,
        samples=["ij"],
        numbers=reduced_axes,
        sample_numbers=_AXIS,
        source=_BLANCHARD,
        guards=[real_floating, not_shifted, not_enlarged],
        purpose="accuracy",
    ),
    *(
        rule(
            f"{name}-gradient",
            [_backward(naive)],
            _backward(stable),
            samples=["ij ij"],
            numbers=reduced_axes,
            sample_numbers=_AXIS,
            source=_BLANCHARD,
            guards=[real_floating, not_shifted, not_enlarged],
            purpose="accuracy",
        )
        for name, naive, stable in (
            ("softmax", _softmax, special.softmax),
            ("log-softmax", _log_softmax, special.log_softmax),
        )
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
