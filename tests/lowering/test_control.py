"""Loops, branches and barriers, nested in one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tracer import lowering, ops
from tracer.ir import ShapeDtype

pytestmark = pytest.mark.xla

COUNTER = ((), "i4")
VECTOR = ((3,), "f4")


def scalar(value: Any, dtype: Any = np.int32) -> Any:
    return ops.constant(value=np.asarray(value, dtype))


def count_to(graph: Any, limit: int) -> Any:
    return graph(lambda i, x: [ops.compare(i, scalar(limit), direction="LT")], COUNTER, VECTOR)


def test_while_runs_until_the_condition_fails(run: Any, graph: Any) -> None:
    body = graph(lambda i, x: [ops.add(i, scalar(1)), ops.add(x, x)], COUNTER, VECTOR)
    condition = count_to(graph, 5)
    steps, x = run(
        lambda i, x: ops.while_(i, x, condition=condition, body=body),
        np.int32(0)[None].reshape(()),
        np.ones(3, np.float32),
    )
    assert steps == 5
    np.testing.assert_array_equal(x, np.full(3, 32))


def test_while_may_run_no_time(run: Any, graph: Any) -> None:
    body = graph(lambda i, x: [ops.add(i, scalar(1)), ops.add(x, x)], COUNTER, VECTOR)
    condition = count_to(graph, -1)
    steps, x = run(
        lambda i, x: ops.while_(i, x, condition=condition, body=body),
        np.array(0, np.int32),
        np.ones(3, np.float32),
    )
    assert steps == 0
    np.testing.assert_array_equal(x, np.ones(3))


@pytest.mark.parametrize(("index", "wanted"), [(0, 2.0), (1, -1.0), (2, 0.0), (7, 0.0), (-1, 0.0)])
def test_case_takes_the_last_branch_out_of_bounds(
    run: Any, graph: Any, index: int, wanted: float
) -> None:
    branches = (
        graph(lambda x: [ops.add(x, x)], VECTOR),
        graph(lambda x: [ops.negate(x)], VECTOR),
        graph(lambda x: [ops.subtract(x, x)], VECTOR),
    )
    (x,) = run(
        lambda i, x: ops.case(i, x, branches=branches),
        np.array(index, np.int32),
        np.ones(3, np.float32),
    )
    np.testing.assert_array_equal(x, np.full(3, wanted))


def test_bodies_nest(run: Any, graph: Any) -> None:
    """A loop, in it a branch, in one branch a loop."""
    inner_body = graph(lambda i, x: [ops.add(i, scalar(1)), ops.add(x, x)], COUNTER, VECTOR)
    inner_condition = count_to(graph, 2)

    def run_inner(x: Any) -> Any:
        return [ops.while_(scalar(0), x, condition=inner_condition, body=inner_body)[1]]

    branches = (graph(lambda x: [ops.negate(x)], VECTOR), graph(run_inner, VECTOR))

    def outer(i: Any, x: Any) -> Any:
        odd = ops.remainder(i, scalar(2))
        return [ops.add(i, scalar(1)), *ops.case(odd, x, branches=branches)]

    body, condition = graph(outer, COUNTER, VECTOR), count_to(graph, 4)
    _, x = run(
        lambda i, x: ops.while_(i, x, condition=condition, body=body),
        np.array(0, np.int32),
        np.ones(3, np.float32),
    )
    np.testing.assert_array_equal(x, np.full(3, 16))


def test_names_lead_into_bodies(graph: Any) -> None:
    body = graph(lambda i, x: [ops.add(i, scalar(1)), ops.sine(x)], COUNTER, VECTOR)
    made = graph(
        lambda i, x: ops.while_(i, x, condition=count_to(graph, 5), body=body), COUNTER, VECTOR
    )
    hlo = lowering.compile_graph(made).hlo()
    place = body.nodes.index(next(node for node in body.nodes if node.name == "sine"))
    name = f"while.0/body/sine.{place}"
    assert f'op_name="{name}"' in hlo
    assert lowering.node_path(name) == (0, "body", place)


def recomputed(graph: Any, *, barrier: bool) -> Any:
    """Compute exp(sin(x)) twice, the second time from a copy that only a barrier keeps apart."""

    def build(x: Any) -> Any:
        first = ops.exponential(ops.sine(x))
        again = ops.optimization_barrier(x, first)[0] if barrier else x
        second = ops.exponential(ops.sine(again))
        return [ops.cumulative_add(first, axis=0, reverse=False), second]

    return graph(build, ((5000,), "f4"))


def test_barriers_survive_the_optimiser(graph: Any) -> None:
    counts = [
        lowering.compile_graph(recomputed(graph, barrier=barrier)).hlo().count(" sine(")
        for barrier in (False, True)
    ]
    assert counts[0] < counts[1]
    assert counts[1] >= 2


def test_barriers_survive_next_to_other_disabled_passes(graph: Any) -> None:
    options = {"xla_disable_hlo_passes": "nothing"}
    executable = lowering.compile_graph(recomputed(graph, barrier=True), options=options)
    assert executable.hlo().count(" sine(") >= 2


def test_barrier_passes_values_through(run: Any) -> None:
    x, y = np.ones(3, np.float32), np.arange(2)
    first, second = run(ops.optimization_barrier, x, y)
    np.testing.assert_array_equal(first, x)
    np.testing.assert_array_equal(second, y)


def test_stats_hold_the_carry_of_a_loop(graph: Any) -> None:
    big = ShapeDtype((1 << 16,), "f4")
    body = graph(lambda i, x: [ops.add(i, scalar(1)), ops.sine(x)], COUNTER, (big.shape, big.dtype))
    condition = graph(
        lambda i, x: [ops.compare(i, scalar(3), direction="LT")], COUNTER, (big.shape, big.dtype)
    )
    made = graph(
        lambda i, x: ops.while_(i, x, condition=condition, body=body),
        COUNTER,
        (big.shape, big.dtype),
    )
    assert lowering.compile_graph(made).memory.peak_bytes >= 2 * big.nbytes
