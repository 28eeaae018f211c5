"""Gradients where formulas break: ties, zeros, ends, infinities; known values, and JAX's.

Where our convention is not JAX's, `docs/differentiation.md` says so, and JAX is not asked here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.nn as tnn
import tracer.numpy as tnp
from tracer.scipy import special

pytestmark = pytest.mark.xla
NAN, INF = np.nan, np.inf
HALF = 0.5


class Ours:
    """The names that a case uses."""

    np, nn, special, grad = tnp, tnn, special, staticmethod(tracer.grad)


def gradients(names: Any, function: Callable[..., Any], *points: Any) -> list[list[float]]:
    """Return the gradients of the sum of an element-wise function, one for each argument."""
    arrays = [names.np.asarray(np.asarray(point, float)) for point in points]
    found = names.grad(lambda *x: function(names, *x).sum(), tuple(range(len(points))))(*arrays)
    return [np.asarray(gradient).tolist() for gradient in found]


def lookup(room: Any, path: str) -> Any:
    for name in path.split("."):
        room = getattr(room, name)
    return room


def named(room: str, path: str, **options: Any) -> Callable[..., Any]:
    return lambda names, *arrays: lookup(getattr(names, room), path)(*arrays, **options)


def first_row(names: Any, x: Any, name: str) -> Any:
    """Weight the elements, since those of a softmax have a constant sum."""
    return getattr(names.nn, name)(x) * np.array([1.0, 2.0, 3.0])


SOFTMAX = float(np.exp(-1) / (1 + np.exp(-1)))
LN2 = float(np.log(2))
# name: (function, points, gradients)
CASES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "where, the branch taken has the gradient": (
        lambda m, x: m.np.where(x > 0, x * x, -x), [[-1.0, 2.0]], [[-1, 4]]),
    "where, NaN of the branch not taken": (
        lambda m, x: m.np.where(x > 0, m.np.sqrt(x), 0.0), [[-1.0, 4.0]], [[NAN, 0.25]]),
    "where, infinite slope of the branch not taken": (
        lambda m, x: m.np.where(x > 0, m.np.sqrt(x), 0.0), [[0.0]], [[NAN]]),
    "where, made safe inside": (
        lambda m, x: m.np.where(x > 0, m.np.sqrt(m.np.where(x > 0, x, 1.0)), 0.0),
        [[-1.0, 0.0, 4.0]], [[0, 0, 0.25]]),
    "piecewise, steep where another piece is": (
        lambda m, x: m.np.piecewise(x, [x > 0, x > 3], [m.np.sqrt, lambda v: 1 / (v - 3), 0.0]),
        [[-1.0, 0, 1, 3, 4]], [[0, 0, HALF, HALF / 3**0.5, -1]]),
    "maximum": (named("np", "maximum"), [[1.0, 2, 3], [1.0, 3, 2]], [[HALF, 0, 1], [HALF, 1, 0]]),
    "minimum": (named("np", "minimum"), [[1.0, 2, 3], [1.0, 3, 2]], [[HALF, 1, 0], [HALF, 0, 1]]),
    "max": (named("np", "max"), [[3.0, 1, 3]], [[HALF, 0, HALF]]),
    "min": (named("np", "min"), [[1.0, 1, 3]], [[HALF, HALF, 0]]),
    "abs": (named("np", "abs"), [[0.0, -0.0, 2, -2]], [[1, 1, 1, -1]]),
    "sign": (named("np", "sign"), [[0.0, 2, -2]], [[0, 0, 0]]),
    "sqrt": (named("np", "sqrt"), [[0.0, 4, INF]], [[INF, 0.25, 0]]),
    "cbrt": (named("np", "cbrt"), [[0.0, 1]], [[INF, 1 / 3]]),
    "clip": (
        lambda m, x: m.np.clip(x, 0.0, 1.0), [[-1.0, 0, 0.5, 1, 2]], [[0, HALF, 1, HALF, 0]]),
    "clip to equal bounds": (lambda m, x: m.np.clip(x, 1.0, 1.0), [[1.0]], [[0.25]]),
    "remainder at multiples": (
        named("np", "mod"), [[0.0, 4, -4, 5], [1.0, 2, -2, 3]], [[1, 1, 1, 1], [0, -2, -2, -1]]),
    "copysign": (named("np", "copysign"), [[0.0, 1, -1], [1.0, -1, 1]], [[1, -1, -1], [0, 0, 0]]),
    "arccos": (named("np", "arccos"), [[-1.0, 0, 1]], [[-INF, -1, -INF]]),
    "arcsin": (named("np", "arcsin"), [[-1.0, 0, 1]], [[INF, 1, INF]]),
    "log1p": (named("np", "log1p"), [[-1.0, 0, 1e-20, INF]], [[INF, 1, 1, 0]]),
    "expm1": (named("np", "expm1"), [[-INF, -1e4, 0, 1e-20]], [[0, 0, 1, 1]]),
    "tanh": (named("np", "tanh"), [[-1e4, 0, 1e4, INF]], [[0, 1, 0, 0]]),
    "sigmoid": (named("nn", "sigmoid"), [[-INF, -1e4, 0, 1e4, INF]], [[0, 0, 0.25, 0, 0]]),
    "softplus": (
        named("nn", "softplus"), [[-INF, -1e4, 0, 1e4, INF]], [[0, 0, HALF, 1, 1]]),
    "log_sigmoid": (named("nn", "log_sigmoid"), [[-INF, -1e4, 0, 1e4]], [[1, 1, HALF, 0]]),
    "relu": (named("nn", "relu"), [[-1.0, 0, 1]], [[0, 0, 1]]),
    "logaddexp": (
        named("np", "logaddexp"), [[0.0, 1e4, -1e4], [0.0, 0, -1e4]],
        [[HALF, 1, HALF], [HALF, 0, HALF]]),
    "power": (
        named("np", "power"), [[0.0, 0, 0, 2, -2], [1.0, 2, 0.5, 0, 3]],
        [[1, 0, INF, 0, 12], [0, 0, 0, LN2, NAN]]),
    "integer powers": (lambda m, x: x**0 + x**1 + x**2, [[0.0, 1]], [[1, 3]]),
    "arctan2": (
        named("np", "arctan2"), [[0.0, 1, 0, 0], [0.0, 0, 1, -1]],
        [[NAN, 0, 1, -1], [NAN, -1, 0, 0]]),
    "prod": (named("np", "prod"), [[2.0, 0, 3]], [[0, 6, 0]]),
    "cumprod": (named("np", "cumprod"), [[2.0, 0, 3]], [[1, 8, 0]]),
    "sort with ties is stable": (
        lambda m, x: m.np.sort(x) * np.array([1.0, 2, 3, 4]), [[2.0, 1, 2, 1]], [[3, 1, 4, 2]]),
    "norm": (named("np", "linalg.norm"), [[3.0, 4]], [[0.6, 0.8]]),
    "norm at zero": (named("np", "linalg.norm"), [[0.0, 0]], [[NAN, NAN]]),
    "norm of order 1": (named("np", "linalg.norm", ord=1), [[0.0, 1, -2]], [[1, 1, -1]]),
    "norm of infinite order": (
        named("np", "linalg.norm", ord=INF), [[2.0, 1, -2]], [[HALF, 0, -HALF]]),
    "logsumexp of large numbers": (named("special", "logsumexp"), [[1e4, -1e4, 1e4]],
                                   [[HALF, 0, HALF]]),
    "logsumexp with -inf": (named("special", "logsumexp"), [[-INF, 0, 0]], [[0, HALF, HALF]]),
    "softmax of large numbers": (
        lambda m, x: first_row(m, x, "softmax"), [[1e4, -1e4, 0.0]], [[0, 0, 0]]),
    "softmax with -inf": (
        lambda m, x: first_row(m, x, "softmax"), [[-INF, 0, 1.0]],
        [[0, -SOFTMAX * (1 - SOFTMAX), SOFTMAX * (1 - SOFTMAX)]]),
    "softmax of -inf alone": (
        lambda m, x: first_row(m, x, "softmax"), [[-INF] * 3], [[NAN] * 3]),
    "log_softmax of large numbers": (
        lambda m, x: first_row(m, x, "log_softmax"), [[1e4, -1e4, 0.0]], [[-5, 2, 3]]),
    "x log y away from the pole": (
        named("special", "xlogy"), [[0.0, 1], [2.0, 2]], [[LN2, LN2], [0, HALF]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_known_gradients(name: str) -> None:
    function, points, wanted = CASES[name]
    found = gradients(Ours, function, *points)
    for got, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("name", CASES)
def test_jax_agrees(name: str) -> None:
    jax = pytest.importorskip("jax")
    import jax.scipy.special as jax_special

    class Theirs:
        np, nn, special, grad = jax.numpy, jax.nn, jax_special, staticmethod(jax.grad)

    function, points, wanted = CASES[name]
    with jax.enable_x64(True):
        found = gradients(Theirs, function, *points)
    for got, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-300)
