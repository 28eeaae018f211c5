"""Without a limit the machine's memory is one, where nothing else would run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import lowering

pytestmark = pytest.mark.xla

N, STEPS = 2_000, 300
MATRIX_BYTES = 4 * N * N
HERE = lowering.target_of()


def with_memory(nbytes: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the machine has so much memory, and caches that hold all."""
    target = replace(HERE, memory_bytes=nbytes, cache_bytes=100 * MATRIX_BYTES)
    monkeypatch.setattr(lowering, "target_of", lambda device: target)


def kernel_product(x: Any, v: Any) -> Any:
    """As fast in slices as whole, where the caches hold it whole."""
    return tnp.exp(-((x[:, None] - x) ** 2)) @ v


def trained(w: Any) -> Any:
    """Store the state of every step for the gradient."""

    def step(state: Any, _: Any) -> tuple[Any, None]:
        return tnp.tanh(state @ w), None

    return (tracer.scan(step, tnp.ones((N, 16), np.float32), None, length=STEPS)[0] ** 2).sum()


@pytest.mark.parametrize(("memory", "sliced"), [(100 * MATRIX_BYTES, False), (MATRIX_BYTES, True)])
def test_slices_are_taken_where_the_whole_needs_more(
    memory: float, sliced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_memory(memory, monkeypatch)
    points = tracer.ShapeDtype((N,), "float32")
    plan = tracer.compile(kernel_product).plan(points, points)
    assert bool(plan.loops) == sliced
    assert (plan.compiled_bytes <= 0.75 * MATRIX_BYTES) == sliced
    assert plan.limit_bytes is None


@pytest.mark.parametrize("times", [100, 0.5])
def test_loops_over_states_are_computed_again(
    times: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That takes another way to trace, which the planner alone does not know."""
    states = STEPS * N * 16 * 4
    with_memory(times * states, monkeypatch)
    plan = tracer.compile(tracer.grad(trained)).plan(tracer.ShapeDtype((16, 16), "float32"))
    assert (plan.compiled_bytes > states) == (times > 1)
    assert times > 1 or plan.compiled_bytes <= 0.75 * times * states


@pytest.mark.parametrize("options", [{}, {"split": "never"}, {"tensor_size_threshold": 1_000_000}])
def test_what_cannot_be_within_is_tried_all_the_same(
    options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_memory(1000, monkeypatch)
    x = np.linspace(-1, 1, 300, dtype=np.float32)
    found = tracer.compile(kernel_product, **options)(x, x)
    wanted = np.exp(-((x[:, None].astype(np.float64) - x) ** 2)) @ x
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
