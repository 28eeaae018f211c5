"""Optimizers and schedules beside optax's, step by step; L-BFGS by where it gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import optimizers
from tracer.errors import ArgumentError

pytestmark = pytest.mark.xla

CHAINS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda o: o.sgd(0.1),
    "momentum": lambda o: o.sgd(0.1, momentum=0.9),
    "nesterov": lambda o: o.sgd(0.1, momentum=0.9, nesterov=True),
    "adam": lambda o: o.adam(0.05, b1=0.8, b2=0.95),
    "adam with a root": lambda o: o.adam(0.05, eps_root=1e-6),
    "adamw": lambda o: o.adamw(0.05, weight_decay=0.1),
    "lion": lambda o: o.lion(0.01, weight_decay=0.1),
    "clipped": lambda o: o.chain(o.clip(0.3), o.sgd(0.1)),
    "clipped by norm": lambda o: o.chain(o.clip_by_global_norm(0.5), o.adam(0.1)),
    "decayed": lambda o: o.chain(o.add_decayed_weights(0.1), o.trace(0.5), o.scale(-0.1)),
    "by schedule": lambda o: o.adam(o.warmup_cosine_decay_schedule(0.0, 0.1, 2, 8, 0.01)),
    "by linear schedule": lambda o: o.sgd(o.linear_schedule(0.2, 0.0, 5, 1)),
}
SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "constant": lambda o: o.constant_schedule(0.3),
    "linear": lambda o: o.linear_schedule(1.0, 0.1, 7, 2),
    "polynomial": lambda o: o.polynomial_schedule(1.0, 0.1, 2.5, 7),
    "no steps": lambda o: o.linear_schedule(1.0, 0.1, 0),
    "exponential": lambda o: o.exponential_decay(1.0, 3, 0.5, 1),
    "staircase": lambda o: o.exponential_decay(1.0, 3, 0.5, 1, True, 0.2),
    "growing": lambda o: o.exponential_decay(1.0, 3, 1.5, 0, False, 2.0),
    "cosine": lambda o: o.cosine_decay_schedule(1.0, 8, 0.1, 1.5),
    "warm-up": lambda o: o.warmup_cosine_decay_schedule(0.1, 1.0, 3, 9, 0.05),
    "no warm-up": lambda o: o.warmup_cosine_decay_schedule(0.1, 1.0, 0, 9, 0.05),
    "pieces": lambda o: o.piecewise_constant_schedule(1.0, {3: 0.5, 6: 0.1}),
    "joined": lambda o: o.join_schedules(
        [o.linear_schedule(0.0, 1.0, 4), o.constant_schedule(0.3)], [5]
    ),
}


def tree_of_numbers(dtype: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"w": rng.normal(size=(3, 2)).astype(dtype), "b": (rng.normal(size=4).astype(dtype),)}


def steps(o: Any, make: Callable[[Any], Any], grad: Callable[..., Any], params: Any) -> list[Any]:
    optimizer, found = make(o), []
    state = optimizer.init(params)
    for _ in range(9):
        updates, state = optimizer.update(grad(params), state, params)
        params = o.apply_updates(params, updates)
        found.append(params)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CHAINS)
def test_steps_are_those_of_optax(name: str, dtype: str) -> None:
    jax, optax = pytest.importorskip("jax"), pytest.importorskip("optax")
    given = tree_of_numbers(dtype)
    with jax.enable_x64(True):
        params = jax.tree.map(jax.numpy.asarray, given)
        wanted = steps(optax, CHAINS[name], jax.grad(loss_of(jax.numpy)), params)
        wanted = jax.tree.map(np.asarray, wanted)
    gradient = tracer.compile(tracer.grad(loss_of(tnp)))
    found = steps(optimizers, CHAINS[name], gradient, tracer.tree.map(tnp.asarray, given))
    # optax computes schedules in float32 whatever the parameters are.
    digits = 1e-6 if "schedule" in name else 1e-12
    compare(found, wanted, 2e-5 if dtype == "float32" else digits)


def loss_of(xp: Any) -> Callable[[Any], Any]:
    return lambda p: (xp.sin(p["w"]) ** 2).sum() + (p["b"][0] ** 4).sum()


def compare(found: Any, wanted: Any, rtol: float) -> None:
    pairs = zip(tracer.tree.leaves(found), tracer.tree.leaves(wanted), strict=True)
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_those_of_optax(name: str) -> None:
    optax = pytest.importorskip("optax")
    ours, theirs = SCHEDULES[name](optimizers), SCHEDULES[name](optax)
    for step in range(13):
        found = float(ours(tnp.asarray(float(step))))
        assert found == pytest.approx(float(theirs(step)), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_states_and_updates_keep_the_dtype(name: str, dtype: str) -> None:
    optimizer = CHAINS[name](optimizers)
    params = {"w": tnp.ones(3, dtype)}
    state = optimizer.init(params)
    updates, after = optimizer.update(params, state, params)
    assert updates["w"].dtype == dtype
    types = [[leaf.dtype for leaf in tracer.tree.leaves(s)] for s in (state, after)]
    assert types[0] == types[1]
    assert tracer.tree.structure(state) == tracer.tree.structure(after)


def test_a_step_as_a_whole_keeps_a_limit_and_writes_over_its_state() -> None:
    optimizer = optimizers.adam(optimizers.linear_schedule(0.1, 0.01, 100))

    def loss(p: Any, x: Any) -> Any:
        return (tnp.exp(-((x[:, None] - p[None]) ** 2)).sum(1) ** 2).mean()

    def step(p: Any, state: Any, x: Any) -> tuple[Any, Any]:
        updates, state = optimizer.update(tracer.grad(loss)(p, x), state, p)
        return optimizers.apply_updates(p, updates), state

    rng = np.random.default_rng(0)
    x, p = (tnp.asarray(rng.normal(size=n).astype("float32")) for n in (3000, 2000))
    wanted = step(p, optimizer.init(p), x)[0]
    limited = tracer.compile(step, donate_argnums=(0, 1), memory_limit="1MB")
    plan = limited.plan(p, optimizer.init(p), x)
    assert plan.baseline_peak_bytes > 1e7
    assert len(plan.aliases.aliases) == 5
    found = limited(p, optimizer.init(p), x)[0]
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-4)


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def run_lbfgs(loss: Callable[[Any], Any], x: Any, count: int) -> Any:
    optimizer = optimizers.lbfgs(memory_size=5)

    @tracer.compile
    def step(x: Any, state: Any) -> Any:
        value, grad = optimizers.value_and_grad_from_state(loss)(x, state=state)
        updates, state = optimizer.update(grad, state, x, value=value, value_fn=loss)
        return optimizers.apply_updates(x, updates), state

    state = optimizer.init(x)
    for _ in range(count):
        x, state = step(x, state)
    return x, state


@pytest.mark.parametrize("size", [2, 10, 101])
def test_lbfgs_finds_the_minimum_of_a_curved_valley(size: int) -> None:
    x, state = run_lbfgs(rosenbrock, tnp.linspace(-1.0, 1.5, size), 60 + 4 * size)
    np.testing.assert_allclose(np.asarray(x), 1, atol=1e-6)
    # At the minimum no step is taken, and nothing becomes NaN.
    assert np.isfinite(np.asarray(state.steps)).all()


def test_lbfgs_of_a_tree_and_of_a_quadratic() -> None:
    rng = np.random.default_rng(1)
    factor = rng.normal(size=(12, 12))
    matrix, goal = tnp.asarray(factor @ factor.T + np.eye(12)), rng.normal(size=12)

    def loss(p: Any) -> Any:
        rest = tnp.concatenate([p["a"], p["b"].reshape(8)]) - goal
        return rest @ matrix @ rest

    x, _ = run_lbfgs(loss, {"a": tnp.zeros(4), "b": tnp.zeros((2, 4))}, 60)
    found = np.concatenate([np.asarray(x["a"]), np.asarray(x["b"]).ravel()])
    np.testing.assert_allclose(found, goal, atol=1e-6)


def test_lbfgs_never_goes_up() -> None:
    def loss(x: Any) -> Any:
        return tnp.abs(x).sum() + tnp.cos(3 * x).sum()

    x, before = tnp.asarray([2.0, -1.3, 0.4]), np.inf
    optimizer = optimizers.lbfgs()
    state = optimizer.init(x)
    for _ in range(20):
        value, grad = tracer.value_and_grad(loss)(x)
        assert float(value) <= before
        before = float(value)
        updates, state = optimizer.update(grad, state, x, value=value, value_fn=loss)
        x = optimizers.apply_updates(x, updates)


def test_what_is_known_is_that_of_the_parameters() -> None:
    x, state = run_lbfgs(rosenbrock, tnp.asarray([-1.0, 2.0]), 7)
    value, grad = optimizers.value_and_grad_from_state(rosenbrock)(x, state=state)
    wanted = tracer.value_and_grad(rosenbrock)(x)
    np.testing.assert_allclose(float(value), float(wanted[0]), rtol=1e-9)
    np.testing.assert_allclose(np.asarray(grad), np.asarray(wanted[1]), rtol=1e-6)


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ArgumentError, match="keeps one step"):
        optimizers.lbfgs(memory_size=0)
    optimizer = optimizers.lbfgs()
    x = tnp.ones(2)
    with pytest.raises(ArgumentError, match="needs params and value_fn"):
        optimizer.update(x, optimizer.init(x))
    with pytest.raises(ArgumentError, match="positive number of steps"):
        optimizers.cosine_decay_schedule(1.0, 0)
    with pytest.raises(ArgumentError, match="1 boundaries between them, not 2"):
        optimizers.join_schedules([optimizers.constant_schedule(1.0)] * 2, [1, 2])
