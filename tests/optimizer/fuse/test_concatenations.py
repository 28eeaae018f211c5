"""Reductions of a concatenation become reductions of its parts: meaning, guards, memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tracer import ops
from tracer.array.trace import trace
from tracer.ir import Builder, Graph, ShapeDtype, interpret, print_graph
from tracer.ir.verify import verify, verify_same_signature
from tracer.optimizer.fuse import concatenations
from tracer.optimizer.fuse.concatenations import reduce_parts
from tracer.optimizer.passes import PassLog
from tracer.target import Sizes, Target, planned_for

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((6, 4)), RNG.standard_normal((6, 3))


@pytest.fixture(autouse=True)
def _any_size() -> Iterator[None]:
    with planned_for(Target(sizes=Sizes(part_bytes=1))):
        yield


def distributed(function: Any, *arrays: Any) -> tuple[Graph, Graph, PassLog]:
    graph = trace(function, arrays).graph
    log = PassLog()
    result = reduce_parts(graph, log)
    verify(result)
    verify_same_signature(graph, result)
    for one, other in zip(interpret(result, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    return graph, result, log


def concatenations_in(graph: Graph) -> list[tuple[int, ...]]:
    return [node.types[0].shape for node in graph.nodes if node.op is ops.concatenate]


def test_golden_text_of_a_sum_over_the_joined_axis() -> None:
    _, after, log = distributed(lambda x, y: tnp.concatenate([x, y], 1).sum(1), X, Y)
    names = [node.name for node in after.nodes]
    assert names == ["reduce_add", "reduce_add", "add"]
    assert "concatenate" not in print_graph(after, sources=False)
    assert log.applied == ["float64[6,7] of 2 parts, read by 1 reductions"]


def test_several_readers_and_what_lies_between() -> None:
    def moments(x: Any, y: Any) -> Any:
        both = tnp.concatenate([x * 2, y + 1], 1)
        return both.sum(1), (both * both).max(1), tnp.exp(both - 1.5).sum()

    _, after, _ = distributed(moments, X, Y)
    assert concatenations_in(after) == []


def test_over_another_axis_the_small_results_are_joined() -> None:
    _, after, _ = distributed(lambda x, y: tnp.concatenate([x, y], 1).sum(0), X, Y)
    assert concatenations_in(after) == [(7,)]


def test_other_operands_are_cut() -> None:
    def weighted(x: Any, y: Any, w: Any) -> Any:
        return (tnp.concatenate([x, y], 1) * w).sum(1)

    _, after, _ = distributed(weighted, X, Y, RNG.standard_normal((6, 7)))
    assert [node.types[0].shape for node in after.nodes if node.op is ops.slice] == [(6, 4), (6, 3)]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x, y: (c := tnp.concatenate([x, y], 1), c.sum(1)), "is a result"),
        (lambda x, y: ((c := tnp.concatenate([x, y], 1)) + 1, c.sum(1)), "is a result"),
        (lambda x, y: (tnp.sort(c := tnp.concatenate([x, y], 1)).sum(), c.sum(1)), "sort"),
        (lambda x, y: (c := tnp.concatenate([x, y], 1)).T @ c, "reads it whole"),
        (lambda x, y: tnp.argmax(tnp.concatenate([x, y], 1), axis=1), "reads it whole"),
        (lambda x, y: tnp.concatenate([x, y], 1)[:, ::-1].sum(1), "reads it whole"),
        (lambda x, y: tnp.concatenate([x, y] * 20, 1).sum(1), "more than 32 nodes"),
    ],
)
def test_guards(function: Any, reason: str) -> None:
    before, after, log = distributed(function, X, Y)
    assert after is before
    assert reason in log.refusals[0].reason


def test_narrow_floats_are_not_rounded_part_by_part() -> None:
    """They are summed in float32 and rounded once."""

    def graph(axis: int) -> Graph:
        with Builder() as builder:
            x = builder.input(ShapeDtype((6, 4), np.float16))
            both = ops.concatenate(x, x, dimension=1)
            return builder.finish([ops.reduce_add(both, axes=(axis,))])

    assert reduce_parts(narrow := graph(1), PassLog()) is narrow
    assert concatenations_in(reduce_parts(graph(0), PassLog())) == [(8,)]


@given(
    widths=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    axis=st.integers(0, 1),
    reduced=st.sampled_from([0, 1, (0, 1)]),
    kinds=st.lists(st.sampled_from(["sum", "max", "min", "prod"]), min_size=1, max_size=3),
)
@run_settings(max_examples=60, deadline=None)
def test_random_reductions(widths: Any, axis: int, reduced: Any, kinds: list[str]) -> None:
    rng = np.random.default_rng(len(widths))
    shapes = [(width, 3) if axis == 0 else (3, width) for width in widths]
    arrays = [rng.integers(-3, 4, shape) for shape in shapes]

    def function(*parts: Any) -> Any:
        both = tnp.concatenate(parts, axis)
        return [getattr(both * i - both, kind)(axis=reduced) for i, kind in enumerate(kinds)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(concatenations, "MOST_COPIES", 1000)
        _, after, _ = distributed(function, *arrays)
    assert all(len(shape) < 2 for shape in concatenations_in(after))


@pytest.mark.xla
def test_xla_stores_no_concatenation() -> None:
    x = RNG.standard_normal((500, 500))

    def moments(x: Any) -> Any:
        both = tnp.concatenate([x * 2, x + 1], 1)
        return both.sum(1), (both * both).sum(1)

    on, off = (
        tracer.compile(moments, split="never", passes=passes)
        for passes in (None, ["-reduce-through-concatenate"])
    )
    for one, other in zip(on(x), off(x), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-10)
    bytes_on, bytes_off = (compiled.plan(x).compiled_bytes for compiled in (on, off))
    assert bytes_off - bytes_on > x.nbytes
