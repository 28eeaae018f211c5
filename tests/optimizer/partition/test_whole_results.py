"""What loops leave whole comes out of the parts of a batch, and what hangs on it."""

from __future__ import annotations

from typing import Any

import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import ops_of
from tests.optimizer.partition.test_shard import assert_same, sharded
from tests.optimizer.partition.test_through_loops import arrays_for, graph_of, view_of
from tracer.ir import verify
from tracer.ops import shard
from tracer.optimizer.partition import input_axes, output_axes, through_loops


def counted(w: Any, xs: Any) -> Any:
    """A recurrence whose loop carries a number that is read behind it."""

    def body(carry: Any, x: Any) -> Any:
        state, count = carry
        return (tnp.tanh(state @ w + x), count + 1.5), None

    start = tnp.zeros(xs.shape[1:], dtype=xs.dtype)
    return tracer.scan(body, (start, 0.0), xs)[0]


def scaled(w: Any, xs: Any) -> Any:
    """What hangs on the number alone is read by what runs on parts."""
    state, count = counted(w, xs)
    return state * (2.0 + count)


def looked_up(w: Any, xs: Any) -> Any:
    """What hangs on the number is read outside, also beside what needs the whole batch."""
    state, count = counted(w, xs)
    return tnp.sort(state, axis=0) * count, tnp.exp(-count), state


def powers(w: Any, xs: Any) -> Any:
    """The weights change on the way, in the same way for all of the batch."""

    def body(carry: Any, x: Any) -> Any:
        state, w = carry
        w = tnp.tanh(w @ w)
        return (tnp.tanh(state @ w + x), w), None

    start = tnp.zeros(xs.shape[1:], dtype=xs.dtype)
    return tracer.scan(body, (start, w), xs)[0]


@pytest.mark.parametrize(
    ("program", "axes"),
    [(counted, (0, None)), (scaled, (0,)), (looked_up, (None, None, 0)), (powers, (0, None))],
)
def test_whole_results_of_a_loop_come_out_of_it(program: Any, axes: Any) -> None:
    arrays = arrays_for()
    graph = graph_of(program, arrays)
    result, log = sharded(graph)
    assert_same(graph, result, arrays)
    assert "through 1 loop" in log.applied[0]
    assert output_axes(result) == axes
    assert input_axes(result) == (None, 1)
    verify(view_of(result))


def test_what_hangs_on_whole_results_is_computed_outside_where_no_part_reads_it() -> None:
    arrays = arrays_for()
    result, _ = sharded(graph_of(looked_up, arrays))
    (node,) = [node for node in result.nodes if node.op is shard]
    assert "exponential" in ops_of(result)
    assert "exponential" not in ops_of(node.params["body"])
    assert node.params["result_axes"].count(None) == 1


def test_a_sum_of_parts_is_no_whole_result() -> None:
    """The mean over the batch is read by the next trip: no device has it alone."""

    def program(w: Any, xs: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            state, mean = carry
            return (tnp.tanh(state @ w + x), mean * 0.5 + x.mean()), None

        start = tnp.zeros(xs.shape[1:], dtype=xs.dtype)
        return tracer.scan(body, (start, 1.0), xs)[0]

    arrays = arrays_for()
    graph = graph_of(program, arrays)
    result, log = sharded(graph)
    assert_same(graph, result, arrays)
    assert not any(", through " in line for line in log.applied)


def summed(w: Any, xs: Any) -> Any:
    """Whole numbers, the sum over the batch, and the largest of its states."""
    state, count = counted(w, xs)
    return count, state.sum(axis=0), state.max(axis=0), count * 2.0


@pytest.mark.parametrize("program", [counted, scaled, looked_up, powers, summed])
@pytest.mark.parametrize("batch", [30, 63])
def test_whole_results_beside_an_uneven_batch_are_those_of_the_parts(
    program: Any, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Here it would: the states, joined with what remains, are most of what is computed.
    monkeypatch.setattr(through_loops, "_takes_more", lambda *_: False)
    arrays = arrays_for(batch)
    graph = graph_of(program, arrays)
    result, log = sharded(graph)
    assert_same(graph, result, arrays)
    assert f"the last {batch % 4} on all, through 1 loop" in log.applied[0]
    parts, rest = [node for node in result.nodes if node.op is shard]
    whole = parts.params["result_axes"].count(None)
    assert whole == (0 if program is scaled else 1)
    assert len(rest.results) == len(parts.results) - whole
    verify(view_of(result))


def table(w: Any, xs: Any) -> Any:
    """What hangs on the number has the axis of the batch, and is read in its parts."""
    state, count = counted(w, xs)
    return state * tnp.exp(-count * tnp.arange(xs.shape[1]))[:, None]


@pytest.mark.parametrize("batch", [8, 64, 63])
def test_what_hangs_on_whole_results_is_cut_where_parts_read_it(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(through_loops, "_takes_more", lambda *_: False)
    arrays = arrays_for(batch)
    graph = graph_of(table, arrays)
    result, log = sharded(graph)
    assert_same(graph, result, arrays)
    assert "through 1 loop" in log.applied[0]
