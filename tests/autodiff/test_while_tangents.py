"""Forward mode through loops of unknown length, beside differences of the compiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import NotDifferentiableError

pytestmark = pytest.mark.xla

X = np.random.default_rng(5).uniform(0.3, 1.0, (3, 2))


def newton(x: Any) -> Any:
    """Square roots: the number of steps depends on the values, the derivative does not."""
    return tracer.while_loop(
        lambda s: (abs(s * s - x) > 1e-13).any(), lambda s: (s + x / s) / 2, tnp.ones_like(x)
    )


def counted(x: Any) -> Any:
    """A carry without a tangent, one that gets its tangent from another, one that has none."""
    state = tracer.while_loop(
        lambda s: s["n"] < 4,
        lambda s: {
            "n": s["n"] + 1, "a": s["b"] * s["k"], "b": tnp.sin(s["a"] + s["b"]), "k": s["k"]
        },
        {"n": 0, "a": tnp.zeros_like(x), "b": x, "k": tnp.cos(x[0])},
    )  # fmt: skip
    return state["a"] + state["n"]


def array_bounds(x: Any) -> Any:
    return tracer.fori_loop(0, tnp.sum(x > 0), lambda i, c: tnp.sin(c) * x + i, x * x)


def in_a_scan(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        carry = tracer.while_loop(lambda c: (c < 1).any(), lambda c: c * 1.7 + row, carry * row)
        return tnp.sin(carry), carry * row

    return tracer.scan(step, x[0], x)


def in_itself(x: Any) -> Any:
    def outer(state: Any) -> Any:
        n, c = state
        inner = tracer.while_loop(lambda s: s.sum() < 3, lambda s: s * 1.3 + tnp.cos(c), c)
        return n + 1, tnp.tanh(inner) * x

    return tracer.while_loop(lambda s: s[0] < 3, outer, (0, x))[1]


def with_a_scan(x: Any) -> Any:
    def outer(c: Any) -> Any:
        return tracer.scan(lambda c, r: (c * 1.1 + r * r, None), c, x)[0]

    return tracer.while_loop(lambda c: c.sum() < 9, outer, x[0])


def in_a_branch(x: Any) -> Any:
    return tracer.cond(x.sum() > 0, newton, lambda x: x * 2, x) * x


def checkpointed(x: Any) -> Any:
    return tracer.checkpoint(lambda x: tnp.sin(newton(x)) * x)(x)


def batched(x: Any) -> Any:
    """Elements end after different numbers of steps."""
    return tracer.vmap(lambda r: tracer.while_loop(lambda c: c[0] < 5, lambda c: c * 2 + r, r))(x)


def complex_carry(x: Any) -> Any:
    z = tracer.while_loop(lambda z: abs(z).sum() < 20, lambda z: z * z + x + 1j, x * (1 + 1j))
    return z.real * z.imag


def no_steps(x: Any) -> Any:
    return tracer.while_loop(lambda c: c.sum() > 1e9, lambda c: c * c, x * 3) * x


def with_its_own_rule(x: Any) -> Any:
    @tracer.custom_jvp
    def root(x: Any) -> Any:
        return newton(x)

    @root.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        y = root(x)
        return y, t / (2 * y)

    return tracer.while_loop(lambda c: c.sum() < 30, lambda c: 2 * root(c) + 3 * c, x)


PROGRAMS: list[Callable[[Any], Any]] = [
    newton, counted, array_bounds, in_a_scan, in_itself, with_a_scan, in_a_branch, checkpointed,
    batched, complex_carry, no_steps, with_its_own_rule,
]  # fmt: skip


def weighed(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return one number for the results, each element with its own weight."""

    def total(x: Any) -> Any:
        leaves = tracer.tree.leaves(program(x))
        return sum(
            (leaf * np.cos(np.arange(leaf.size)).reshape(leaf.shape)).sum() for leaf in leaves
        )

    return total


def along(f: Callable[[Any], Any], v: np.ndarray[Any, Any]) -> Callable[[Any], Any]:
    return lambda x: tracer.jvp(f, (x,), (v,))[1]


def slope(f: Callable[[Any], Any], x: np.ndarray[Any, Any], v: np.ndarray[Any, Any]) -> float:
    step = 1e-5
    ends = [float(tracer.compile(f)(x + s * step * v)) for s in (2, 1, -1, -2)]
    return (-ends[0] + 8 * ends[1] - 8 * ends[2] + ends[3]) / (12 * step)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_tangents_are_slopes_to_second_order(program: Callable[[Any], Any]) -> None:
    f = weighed(program)
    v, w = np.random.default_rng(1).normal(size=(2, *X.shape))
    first = along(f, v)
    wanted = slope(f, X, v)
    for found in (first(tnp.array(X)), tracer.compile(first)(X)):
        np.testing.assert_allclose(float(found), wanted, rtol=1e-7, atol=1e-8)
    second = tracer.compile(along(first, w))(X)
    np.testing.assert_allclose(float(second), slope(first, X, w), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_jacobians_and_linear_maps_agree(program: Callable[[Any], Any]) -> None:
    f = weighed(program)
    v = np.random.default_rng(2).normal(size=X.shape)
    jacobian = tracer.compile(tracer.jacfwd(f))(X)
    _, push = tracer.linearize(f, X)
    tangent = float(tracer.jvp(f, (X,), (v,))[1])
    np.testing.assert_allclose(float((np.asarray(jacobian) * v).sum()), tangent, rtol=1e-10)
    np.testing.assert_allclose(float(push(v)), tangent, rtol=1e-12)
    directions = np.stack([v, 2 * v])
    several = tracer.vmap(lambda v: tracer.jvp(f, (X,), (v,))[1])(directions)
    np.testing.assert_allclose(several, [tangent, 2 * tangent], rtol=1e-10)


@pytest.mark.parametrize("program", [newton, in_a_scan, in_itself, in_a_branch])
def test_reverse_mode_is_refused_where_the_loop_is(program: Callable[[Any], Any]) -> None:
    f = weighed(program)
    reverse = [
        tracer.grad(f), lambda x: tracer.vjp(f, x)[1](1.0), tracer.jacrev(f),
        tracer.hessian(f), tracer.grad(lambda x: tracer.jvp(f, (x,), (x,))[1]),
        lambda x: tracer.jvp(tracer.grad(f), (x,), (x,)),
    ]  # fmt: skip
    for derivative in reverse:
        for way in (lambda f: f, tracer.compile):
            with pytest.raises(NotDifferentiableError, match="while has no gradient") as caught:
                way(derivative)(X)
            assert caught.value.where is not None
            assert "while_loop" in str(caught.value.where)


def test_tangents_are_limited() -> None:
    """The loop of the tangents holds the carry and its tangent, whatever the number of steps."""
    x = np.ones(100_000)
    f = tracer.compile(lambda x, v: tracer.jvp(newton, (x,), (v,)), memory_limit=12 * x.nbytes)
    value, tangent = f(2 * x, x)
    np.testing.assert_allclose(value, np.sqrt(2 * x))
    np.testing.assert_allclose(tangent, 0.5 / np.sqrt(2 * x))
    assert f.plan(x, x).compiled_bytes <= 12 * x.nbytes
