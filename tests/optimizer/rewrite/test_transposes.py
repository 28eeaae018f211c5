"""Transpose sinking: reductions over transposed arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import text
from tracer.array.trace import trace
from tracer.ir import Graph
from tracer.ir.interpret import interpret
from tracer.ir.verify import verify
from tracer.optimizer.passes import PassLog
from tracer.optimizer.rewrite.transposes import TRANSPOSES, sink_transposes

N, M = 90, 60


def floats(*shape: int) -> tracer.ShapeDtype:
    return tracer.ShapeDtype(shape, "float32")


def sunk(function: Callable[..., object], *types: tracer.ShapeDtype) -> tuple[Graph, Graph, int]:
    graph = trace(function, types).graph
    log = PassLog()
    after = sink_transposes(graph, log)
    verify(after)
    return graph, after, len(log.applied)


def transposed(graph: Graph) -> set[int]:
    """Return how many elements the transposes of a graph have."""
    return {node.types[0].size for node in graph.nodes if node.op is tracer.ops.transpose}


def test_log_sums_of_the_transpose_read_the_matrix() -> None:
    def program(cost: tracer.Array, potential: tracer.Array) -> tracer.Array:
        return tracer.scipy.special.logsumexp(potential[None, :] - cost.T, axis=1)

    before, after, count = sunk(program, floats(N, M), floats(N))
    assert count == 2
    assert N * M in transposed(before)
    assert N * M not in transposed(after)


def test_axes_that_are_kept_come_back_in_their_order() -> None:
    def program(x: tracer.Array) -> tracer.Array:
        return tnp.exp(x.transpose(2, 0, 1)).max(1)

    before, after, count = sunk(program, floats(20, 16, 30))
    assert count == 1
    x = np.random.default_rng(0).standard_normal((20, 16, 30)).astype(np.float32)
    np.testing.assert_array_equal(interpret(after, [x])[0], interpret(before, [x])[0])


def both(x: tracer.Array) -> tuple[tracer.Array, tracer.Array]:
    y = tnp.exp(x.T)
    return y, y.sum(1)


def computed(x: tracer.Array) -> tracer.Array:
    return (x[:, None] * x[None, :]).T.sum(1)


def two_ways(x: tracer.Array) -> tracer.Array:
    return (x + x.T).sum(1)


def other_operand(x: tracer.Array, y: tracer.Array) -> tracer.Array:
    return (x.T + y).sum(1)


@pytest.mark.parametrize(
    ("program", "types"),
    [
        (both, (floats(N, M),)),
        (computed, (floats(N),)),
        (two_ways, (floats(N, N),)),
        (other_operand, (floats(N, M), floats(M, N))),
        (lambda x: x.T.sum(1), (floats(20, 30),)),
    ],
    ids=["read elsewhere", "lies in no order", "two ways", "another array", "small"],
)
def test_left_alone(program: Callable[..., object], types: tuple[tracer.ShapeDtype, ...]) -> None:
    before, after, count = sunk(program, *types)
    assert count == 0
    assert after is before


@pytest.mark.xla
@settings(max_examples=40, deadline=None)
@given(
    st.permutations([0, 1, 2]),
    st.sets(st.integers(0, 2), min_size=1, max_size=3),
    st.lists(st.sampled_from(["row", "iota", "scale", "same", "exp"]), max_size=4),
    st.sampled_from(["sum", "max", "min"]),
)
def test_random_programs_agree(
    order: list[int], axes: set[int], steps: list[str], reduce: str
) -> None:
    shape = (17, 16, 18)

    def program(x: tracer.Array, rows: list[tracer.Array]) -> tracer.Array:
        y = x.transpose(*order)
        for i, step in enumerate(steps):
            along = [1, 1, 1]
            along[i % 3] = -1
            if step == "row":
                y = y + rows[order[i % 3]].reshape(along)
            elif step == "iota":
                y = y * tnp.arange(y.shape[i % 3]).reshape(along)
            elif step == "same":
                y = y - x.transpose(*order)
            else:
                y = tnp.exp(-abs(y)) if step == "exp" else y * 0.5
        return getattr(y, reduce)(axis=tuple(sorted(axes)))

    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    rows = [rng.standard_normal(size) for size in shape]
    plain = np.asarray(tracer.compile(program, passes="-sink-transposes")(x, rows))
    found = np.asarray(tracer.compile(program, passes=[TRANSPOSES.option])(x, rows))
    np.testing.assert_allclose(found, plain, rtol=1e-10, atol=1e-10)


def test_the_text_of_a_sum_over_a_transpose() -> None:
    _, after, _ = sunk(lambda x: tnp.exp(x.T).sum(1), floats(N, M))
    assert text(after) == (
        "graph(%0: float32[90,60]) {\n"
        "  %1: float32[90,60] = exponential(%0)\n"
        "  %2: float32[60] = reduce_add(%1) {axes=(0,)}\n"
        "  return %2\n"
        "}"
    )


def test_arrays_that_are_transposed_in_two_ways_stay() -> None:
    """There is no one order in which to read both."""

    def function(x: tracer.Array) -> tracer.Array:
        return tnp.sum(tnp.transpose(x, (1, 0, 2)) - tnp.transpose(x, (2, 1, 0)), axis=0)

    before, after, applied = sunk(function, floats(17, 17, 17))
    assert after is before
    assert not applied
