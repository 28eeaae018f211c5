"""Fusion merger: producers computed in each kernel that reads them; guards, price, memory."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.fuse.read_twice import check_same, read_twice
from tests.optimizer.random_programs import Program, programs
from tracer import ops
from tracer.array.trace import trace
from tracer.ir import Graph, Value, print_graph
from tracer.ops.helpers import ones_like
from tracer.optimizer.fuse import duplicate
from tracer.optimizer.fuse.duplicate import duplicate_pass
from tracer.optimizer.model.liveness import peak_bytes
from tracer.optimizer.passes import PassLog, PassManager
from tracer.optimizer.rewrite.expand import EXPAND
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS, CONSTANT_FOLDING
from tracer.target import DEFAULT_TARGET, Sizes, Target

X = np.random.default_rng(0).standard_normal((600, 600))
SMALL = X[:40, :40]


def merged(
    function: Any, *arrays: Any, machine: Target = DEFAULT_TARGET
) -> tuple[Graph, Graph, PassLog]:
    """Run the pass and check that the meaning is the same."""
    passes = (EXPAND, COMMON_SUBEXPRESSIONS, CONSTANT_FOLDING)
    graph = PassManager().run(trace(function, arrays).graph, passes)
    log = PassLog()
    result = duplicate_pass(machine).run(graph, log)
    check_same(result, graph, arrays)
    return graph, result, log


def count(graph: Graph, op: ops.Op) -> int:
    return sum(node.op is op for node in graph.nodes)


def both_ways(x: Any) -> Any:
    y = 1 / (1 + x * x)
    return y.sum(1), y.sum(0)


ANY_SIZE = replace(DEFAULT_TARGET, sizes=Sizes(kept_bytes=1))


def test_golden_text() -> None:
    _, after, _ = merged(both_ways, X)
    text = print_graph(after, sources=False)
    names = re.findall(r"= (\w+)\(", text)
    kept = [name for name in names if name not in ("constant", "broadcast_in_dim")]
    assert kept == [
        *("multiply", "add", "divide", "reduce_add"),
        *("optimization_barrier", "multiply", "add", "divide", "reduce_add"),
    ]


def test_the_modelled_peak_falls_by_the_value() -> None:
    before, after, log = merged(both_ways, X)
    assert peak_bytes(before) - peak_bytes(after) == X.nbytes
    assert "float64[600,600] of divide computed in 2 kernels" in log.applied[0]


def test_each_further_copy_has_one_barrier_more() -> None:
    def three(x: Any) -> Any:
        y = 1 / (1 + x * x)
        return y.sum(1), y.sum(0), (y * y).sum(0)

    _, after, _ = merged(three, X)
    assert count(after, ops.divide) == 3
    assert count(after, ops.optimization_barrier) == 3
    assert count(COMMON_SUBEXPRESSIONS.run(after, PassLog()), ops.divide) == 3


def test_what_lies_between_is_copied_too() -> None:
    def function(x: Any) -> Any:
        y = tnp.tanh(x)
        z = y + 1
        return (z * y).sum(1), (z - y).sum(0)

    _, after, _ = merged(function, X)
    assert count(after, ops.tanh) == 2


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: (y := tnp.tanh(x), y.sum(0), y.sum(1)), id="output"),
        pytest.param(lambda x: ((y := tnp.tanh(x)) @ x, y.sum(0)), id="read by a library"),
        pytest.param(lambda x: (tnp.sort(y := tnp.tanh(x)), y.sum(0)), id="read by a sort"),
        pytest.param(
            lambda x: (
                ((y := tnp.tanh(x[0]))[:, None] * x).sum(0),
                (y[None, :] + x).sum(1),
            ),
            id="broadcast",
        ),
        pytest.param(lambda x: tuple(tnp.tanh(x).sum(0) * i for i in range(2)), id="one kernel"),
        pytest.param(lambda x: ((tnp.exp(x) * 2).sum(0), x.sum(0)), id="one reader"),
    ],
)
def test_values_that_are_needed_in_memory_are_stored_once(function: Any) -> None:
    before, after, _ = merged(function, SMALL, machine=ANY_SIZE)
    assert after is before


def test_more_kernels_than_the_bound_read_it_from_memory() -> None:
    def many(x: Any, kernels: int) -> Any:
        y = 1 / (1 + x * x)
        return [(y * i).sum(0) for i in range(2, kernels + 2)]

    _, after, _ = merged(lambda x: many(x, duplicate.MOST_KERNELS), X, machine=ANY_SIZE)
    assert count(after, ops.divide) == duplicate.MOST_KERNELS
    before, after, _ = merged(lambda x: many(x, duplicate.MOST_KERNELS + 1), X, machine=ANY_SIZE)
    assert after is before


def test_a_value_that_is_compared_for_equality_is_computed_once() -> None:
    def gradient_of_maximum(x: Any) -> Any:
        y = 1 / (1 + x * x)
        return tnp.where(y == y.max(), y, 0.0).sum(1)

    before, after, log = merged(gradient_of_maximum, X, machine=ANY_SIZE)
    assert after is before
    assert "compared for equality" in log.refusals[0].reason


def test_dear_arithmetic_is_refused_with_the_models_figures() -> None:
    def dear(x: Any) -> Any:
        y = x
        for _ in range(20):
            y = tnp.tanh(y)
        return y.sum(0), y.sum(1)

    before, after, log = merged(dear, X)
    assert after is before
    assert "takes as long as to store it" in log.refusals[0].reason


def test_small_values_are_left_alone() -> None:
    """They are in memory that the process has, and nothing is gained (measured: 0.3 to 1.0)."""
    before, after, _ = merged(both_ways, X[:200, :200])
    assert after is before


def quotient(x: Value) -> Value:
    found: Value = ops.divide(x, ops.add(ops.multiply(x, x), ones_like(x)))
    return found


@pytest.mark.slow
@given(program=st.one_of(programs(), programs("float")))
@run_settings(max_examples=100, deadline=None)
def test_random_programs_keep_their_meaning(program: Program) -> None:
    graph = read_twice(
        program.graph, lambda x: ops.divide(x, ops.add(ops.multiply(x, x), ones_like(x)))
    )
    log = PassLog()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicate, "_SMALL_LEAF_BYTES", 0)
        patch.setattr(duplicate, "_WORTHWHILE", 0.0)
        result = duplicate_pass(ANY_SIZE).run(graph, log)
    event(f"merged {bool(log.applied)}")
    check_same(result, graph, program.arrays)


@pytest.mark.xla
def test_xla_stores_nothing_of_it() -> None:
    """Against the compiled program: the barriers keep XLA from merging the copies again."""
    on = tracer.compile(both_ways, split="never")
    off = tracer.compile(both_ways, split="never", passes=["-fusion-merger"])
    for one, other in zip(on(X), off(X), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12)
    bytes_on, bytes_off = (compiled.plan(X).compiled_bytes for compiled in (on, off))
    assert bytes_off - bytes_on > 0.9 * X.nbytes
    assert abs(bytes_on - on.plan(X).peak_bytes) < 0.1 * X.nbytes


@pytest.mark.xla
def test_the_plan_shows_what_it_bought() -> None:
    plan = tracer.compile(both_ways, split="never").plan(X)
    (row,) = [row for row in plan.passes if row.name == "fusion merger"]
    assert row.peak_bytes_before - row.peak_bytes_after == X.nbytes
    assert row.applied


@pytest.mark.parametrize(("length", "wanted"), [(10, 2), (40, 2), (9, 1), (64, 1)])
def test_short_rows_with_a_value_for_each_are_not_stored(length: int, wanted: int) -> None:
    def softmax(x: Any) -> Any:
        y = tnp.exp(x - x.max(1, keepdims=True))
        return y / y.sum(1, keepdims=True)

    x = np.random.default_rng(0).standard_normal((300_000 // length, length))
    assert count(merged(softmax, x.astype(np.float32))[1], ops.exponential) == wanted
    assert count(merged(softmax, x)[1], ops.exponential) == 1


def test_rows_without_a_value_for_each_are_stored() -> None:
    def normalised(x: Any) -> Any:
        y = tnp.exp(x)
        return y / y.sum(1, keepdims=True)

    x = np.random.default_rng(0).standard_normal((7_500, 40)).astype(np.float32)
    assert count(merged(normalised, x)[1], ops.exponential) == 1
