"""Every op of the registry under a batch, against a Python loop over the elements."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.ops.samples import SAMPLES, Sample
from tests.ops.test_every_op import graph_of
from tracer.batching import batch_graph
from tracer.ir import Graph, interpret, registry, verify
from tracer.ops.rules import dtype_kind

Array = np.ndarray[Any, Any]
SIZE = 3
CASES = [
    pytest.param(name, sample, id=f"{name}-{i}")
    for name in sorted(registry())
    for i, sample in enumerate(SAMPLES[name])
]


def combinations(count: int) -> Iterator[tuple[bool, ...]]:
    """Yield every choice of batched operands; of many operands none, each alone and all."""
    if count <= 3:
        yield from itertools.product((False, True), repeat=count)
        return
    yield (False,) * count
    yield (True,) * count
    for i in range(count):
        yield tuple(i == j for j in range(count))


def elements(x: Array, rng: np.random.Generator, size: int) -> list[Array]:
    """Return arrays of the type of `x`, the first of them `x`, that an op of `x` accepts too."""
    found = [x]
    for _ in range(size - 1):
        if x.dtype.kind == "b":
            found.append(rng.integers(0, 2, x.shape).astype(bool))
        elif x.dtype.kind in "iu":
            found.append(np.asarray(x + rng.integers(0, 2, x.shape).astype(x.dtype), x.dtype))
        else:
            found.append(np.asarray(x * x.dtype.type(rng.uniform(0.9, 1.0)), x.dtype))
    return found


def check(
    graph: Graph, samples: Sequence[Sequence[Array]], flags: Sequence[bool], size: int
) -> tuple[Graph, tuple[bool, ...]]:
    """Compare the batched graph with the graph on each element; `samples` by operand."""
    batched, found = batch_graph(graph, flags, size)
    verify(batched)
    given = [np.stack(xs) if flag else xs[0] for xs, flag in zip(samples, flags, strict=True)]
    results = interpret(batched, given)
    for n in range(size):
        element = [xs[n] if flag else xs[0] for xs, flag in zip(samples, flags, strict=True)]
        for got, wanted, flag in zip(results, interpret(graph, element), found, strict=True):
            assert_close(got[n] if flag else got, wanted)
    return batched, found


def assert_close(got: Array, wanted: Array) -> None:
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    if dtype_kind(wanted.dtype) in "biu":
        np.testing.assert_array_equal(got, wanted)
    else:
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_batched_is_a_loop(name: str, sample: Sample, rng: np.random.Generator) -> None:
    graph = graph_of(registry()[name], sample)
    samples = [elements(x, rng, SIZE) for x in sample.operands]
    for flags in combinations(len(samples)):
        _, found = check(graph, samples, flags, SIZE)
        assert any(found) == any(flags)


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_batches_nest(name: str, sample: Sample, rng: np.random.Generator) -> None:
    graph = graph_of(registry()[name], sample)
    samples = [elements(x, rng, SIZE) for x in sample.operands]
    for flags in combinations(len(samples)):
        inner, _ = batch_graph(graph, flags, SIZE)
        given = [np.stack(xs) if flag else xs[0] for xs, flag in zip(samples, flags, strict=True)]
        outer = [elements(x, rng, 2) for x in given]
        for others in {flags, tuple(not flag for flag in flags), (True,) * len(flags)}:
            check(inner, outer, others, 2)


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("name", sorted(registry()))
def test_small_batches(name: str, size: int, rng: np.random.Generator) -> None:
    sample = SAMPLES[name][0]
    graph = graph_of(registry()[name], sample)
    flags = (True,) * len(sample.operands)
    batched, found = batch_graph(graph, flags, size)
    given = [
        np.stack([x] * size) if size else np.zeros((0, *x.shape), x.dtype) for x in sample.operands
    ]
    results = interpret(batched, given)
    if not flags:
        assert found == (False,) * len(results)
        return
    for got, wanted in zip(results, interpret(graph, list(sample.operands)), strict=True):
        assert got.shape == (size, *wanted.shape)
        for element in got:
            assert_close(element, wanted)
