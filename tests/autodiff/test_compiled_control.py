"""Derivatives of compiled control flow and of functions with rules: both orders, both modes.

Against differences, and against JAX where it is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.autodiff.compiled import Case, check

pytestmark = pytest.mark.xla


class Ours:
    """The names that a program uses."""

    np, control, functions, grad = tnp, tracer, tracer, staticmethod(tracer.grad)


def jaxs() -> Any:
    jax = pytest.importorskip("jax")

    class Theirs:
        np, control, functions, grad = jax.numpy, jax.lax, jax, staticmethod(jax.grad)

    return Theirs


def cond(m: Any, x: Any) -> Any:
    inner = lambda y: m.control.cond(y.sum() > 0, lambda v: v**3, lambda v: m.np.cos(v), y)
    outer = lambda y: m.control.cond(y[0] > y[1], lambda v: m.np.sin(v) * v, inner, y)
    return outer(x), outer(-x), outer(-x[::-1])


def switch(m: Any, x: Any) -> Any:
    branches = [m.np.sin, lambda v: v**4 / 3, lambda v: v * v[::-1]]
    chosen = (x[0] * 0).astype("int32")
    return [m.control.switch(chosen + i, branches, x) for i in (-3, 0, 1, 2, 7)]


def while_loop(m: Any, x: Any) -> Any:
    """Of what has no derivative: reverse mode does not go through an unknown count of steps."""
    held = m.control.stop_gradient(m.np.sign(x))
    more = lambda state: state[0] < 4
    step = lambda state: (state[0] + 1, m.np.sin(state[1]) + held)
    _, power = m.control.while_loop(more, step, (0, held))
    return power * x**2


def fori_loop(m: Any, x: Any) -> Any:
    step = lambda i, v: m.np.sin(v) * x + i * v[::-1] / 4
    return m.control.fori_loop(0, 5, step, x), m.control.fori_loop(2, 2, step, x)


def nested_loops(m: Any, x: Any) -> Any:
    inner = lambda v: m.control.fori_loop(0, 2, lambda _, w: m.np.tanh(w * x), v)
    return m.control.fori_loop(0, 3, lambda i, v: inner(v) + v / 2, x)


def scan(m: Any, x: Any) -> Any:
    weights = m.np.stack([x, x**2, m.np.cos(x)])

    def step(carry: Any, row: Any) -> Any:
        state, total = carry
        state = m.np.tanh(state * x + row)
        return (state, total + state @ row), state * row

    start = (x, x.sum())
    forward = m.control.scan(step, start, weights)
    return forward, m.control.scan(step, start, weights, reverse=True), _without_slices(m, x)


def _without_slices(m: Any, x: Any) -> Any:
    return m.control.scan(lambda c, _: (m.np.sin(c) * x, c * c), x, None, length=3)


def associative_scan(m: Any, x: Any) -> Any:
    def combine(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    factors, terms = m.np.stack([x, m.np.sin(x), x + 1, x**2]), m.np.stack([x, x, -x, x**3])
    return m.control.associative_scan(combine, (factors, terms))


def mapped(m: Any, x: Any) -> Any:
    rows = m.np.stack([x, x**2, m.np.sin(x)])
    branch = lambda r: m.control.cond(r[0] > 0.5, lambda v: v * x, lambda v: m.np.exp(v), r)
    return m.control.map(lambda row: m.np.tanh(row @ x) * branch(row), rows)


def vmapped(m: Any, x: Any) -> Any:
    rows = m.np.stack([x, x**2, m.np.sin(x)])
    step = lambda _, v: m.np.cos(v) * x
    return m.functions.vmap(lambda row: m.control.fori_loop(0, 3, step, row))(rows)


def checkpoint(m: Any, x: Any) -> Any:
    block = m.functions.checkpoint(lambda v, w: m.np.tanh(v * w) @ w)
    within = m.functions.checkpoint(lambda c, r: (m.np.sin(c * block(r, x)), c * r))
    policy = m.functions.checkpoint_policies.everything_saveable
    kept = m.functions.checkpoint(lambda v: m.np.exp(m.np.sin(v)), policy=policy)
    return block(x, x**2), m.control.scan(within, x, m.np.stack([x, x**2])), kept(x)


def custom_vjp(m: Any, x: Any) -> Any:
    @m.functions.custom_vjp
    def cubed(v: Any, w: Any) -> Any:
        return v**3 * w

    cubed.defvjp(
        lambda v, w: (cubed(v, w), (v, w)),
        lambda kept, g: (3 * kept[0] ** 2 * kept[1] * g, kept[0] ** 3 * g),
    )
    step = lambda c, r: (cubed(c, r) / 4, c)
    return cubed(x, m.np.sin(x)), m.control.scan(step, x, m.np.stack([x, x**2, x]))


def custom_jvp(m: Any, x: Any) -> Any:
    squared = m.functions.custom_jvp(lambda v: v * v)
    squared.defjvps(lambda t, ans, v: 2 * v * t)
    doubled = m.functions.custom_jvp(lambda v: 2 * v)
    doubled.defjvp(lambda p, t: (doubled(p[0]), doubled(t[0])))
    step = lambda _, v: m.np.sin(squared(v)) * doubled(x)
    return squared(doubled(m.np.sin(x))), m.control.fori_loop(0, 3, step, x)


PROGRAMS = {
    function.__name__: function
    for function in (
        cond,
        switch,
        while_loop,
        fori_loop,
        nested_loops,
        scan,
        associative_scan,
        mapped,
        vmapped,
        checkpoint,
        custom_vjp,
        custom_jvp,
    )
}
POINT = np.array([0.7, -0.4, 1.3])
ALONG, THEN = np.array([0.3, 1.1, -0.6]), np.array([-0.9, 0.4, 0.8])


def losses(name: str, m: Any) -> Callable[[Any], Any]:
    """Return a weighted sum of all results of a program."""

    def loss(x: Any) -> Any:
        leaves = tracer.tree.leaves(PROGRAMS[name](m, x))
        weights = (np.cos(i + np.arange(y.size)).reshape(y.shape) for i, y in enumerate(leaves))
        return sum((y * w).sum() for y, w in zip(leaves, weights, strict=True))

    return loss


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_of_compiled_control_flow(name: str, order: int) -> None:
    loss = losses(name, Ours)
    check([Case(name, lambda points: loss(points[0]), (POINT,), (ALONG,), (THEN,))], order)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_derivatives_are_jaxs(name: str) -> None:
    jax = pytest.importorskip("jax")

    def derivatives(m: Any) -> Any:
        loss = losses(name, m)
        slope = lambda x: m.grad(loss)(x) @ THEN
        return lambda x: (loss(x), m.grad(loss)(x), m.grad(slope)(x))

    with jax.enable_x64(True):
        wanted = [np.asarray(x) for x in jax.jit(derivatives(jaxs()))(POINT)]
    for found, other in zip(tracer.compile(derivatives(Ours))(POINT), wanted, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-10, atol=1e-12)
