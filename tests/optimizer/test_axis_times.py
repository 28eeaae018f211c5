"""Of the axes that save as much, the one that is clearly faster is cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.array.trace import trace
from tracer.ir import ShapeDtype
from tracer.optimizer.pipeline import PlannerOptions
from tracer.optimizer.planner import Planner

ROWS, FEATURES, CLASSES = 256, 64, 20_000


def cross_entropy(features: Any, weights: Any, labels: Any) -> Any:
    scores = features @ weights
    right = tnp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    return (tracer.scipy.special.logsumexp(scores, axis=1) - right).mean()


GRADIENT = tracer.grad(cross_entropy, argnums=(0, 1))


def test_classes_are_cut_where_rows_would_pack_all_weights_again() -> None:
    """Rows take no operation twice; classes take a product twice, and half of the time."""
    types = [
        ShapeDtype((ROWS, FEATURES), "float32"),
        ShapeDtype((FEATURES, CLASSES), "float32"),
        ShapeDtype((ROWS,), "int32"),
    ]
    options = PlannerOptions(limit_bytes=24_000_000)
    found = next(Planner(trace(GRADIENT, types).graph, options).candidates())
    outer = [loop.axis for loop in found.loops if f"[{ROWS},{CLASSES}]" in loop.axis]
    assert len(outer) == 2
    assert all(axis.startswith(f"axis of {CLASSES} of") for axis in outer)


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["int32", "int16", "uint16", "int64"])
def test_labels_that_lie_elsewhere_are_dropped(dtype: str, rng: np.random.Generator) -> None:
    """Each slice of the classes takes all labels."""
    features = rng.standard_normal((ROWS, FEATURES)).astype(np.float32)
    weights = rng.standard_normal((FEATURES, CLASSES)).astype(np.float32) / 8
    labels = rng.integers(0, CLASSES, ROWS).astype(dtype)
    labels[:2] = (0, CLASSES - 1)
    whole = tracer.compile(GRADIENT, split="never")(features, weights, labels)
    program = tracer.compile(GRADIENT, memory_limit=24_000_000)
    assert program.plan(features, weights, labels).loops
    for mine, wanted in zip(program(features, weights, labels), whole, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.xla
@pytest.mark.parametrize("name", ["set", "add", "max", "min"])
def test_few_updates_of_a_large_array(name: str, rng: np.random.Generator) -> None:
    """Each slice takes all updates, and drops those that lie elsewhere."""
    n = 1 << 16
    places = np.array([3, -1, 7, 3, n - 1, 40_000], np.int32)
    updates = rng.standard_normal(len(places)).astype(np.float32)

    def function(x: Any, updates: Any) -> Any:
        changed = getattr(tnp.exp(-x[:, None] * x[None, :64]).sum(1).at[places], name)(updates)
        return (changed[:, None] * tnp.sin(x)[None, :64]).max(1)

    x = rng.standard_normal(n).astype(np.float32)
    whole = tracer.compile(function, split="never")(x, updates)
    program = tracer.compile(function, tensor_size_threshold=100_000, tensor_split_size=100_000)
    assert program.plan(x, updates).loops
    np.testing.assert_allclose(program(x, updates), whole, rtol=1e-6)


@pytest.mark.xla
@pytest.mark.parametrize("name", ["max", "min"])
def test_what_is_compared_with_a_stored_result_is_not_computed_again(
    name: str, rng: np.random.Generator
) -> None:
    """The gradient asks which values reached the extreme: to the last digit."""
    n, width = 40_000, 64
    w, x = (rng.standard_normal(size).astype(np.float32) for size in (width, n))
    places = np.array([3, n - 1, 3], np.int32)
    updates = 60 * rng.standard_normal(3).astype(np.float32)

    def sums(x: Any, updates: Any) -> Any:
        changed = getattr(tnp.exp(-((x[:, None] - w) ** 2)).sum(1).at[places], name)(updates)
        return (changed[:, None] * tnp.cos(w)).max(1).sum()

    gradient = tracer.grad(sums, argnums=(0, 1))
    whole = tracer.compile(gradient, split="never")(x, updates)
    program = tracer.compile(gradient, tensor_size_threshold=8000)
    assert len(program.plan(x, updates).loops) == 2
    for mine, wanted in zip(program(x, updates), whole, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-4, atol=1e-5)
