"""An axis is spread through loops: the same values, less memory, and what forbids it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from benchmarks.peak_programs import recurrent_loss
from tests.optimizer.graphs import of, ops_of, traced
from tests.optimizer.partition.test_shard import assert_same, sharded
from tracer.ir import Graph
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.partition import device_view, input_axes, output_axes
from tracer.optimizer.passes import PassManager
from tracer.optimizer.rewrite.expand import EXPAND

STEPS, BATCH, WIDTH = 12, 8, 5
COUNT = 4


def graph_of(function: Callable[..., Any], arrays: list[Any]) -> Graph:
    return PassManager().run(traced(function, *of(*arrays)), (EXPAND,))


def arrays_for(batch: int = BATCH) -> list[Any]:
    rng = np.random.default_rng(2)
    return [rng.standard_normal((WIDTH, WIDTH)) / 4, rng.standard_normal((STEPS, batch, WIDTH))]


def scanned(step: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a program that runs a step of (w, state, x) over time, from a state of zeros."""

    def program(w: Any, xs: Any) -> Any:
        start = tnp.zeros(xs.shape[1:], dtype=xs.dtype)

        def body(state: Any, x: Any) -> Any:
            state = step(w, state, x)
            return state, state

        return tracer.scan(body, start, xs)[1]

    return program


def view_of(graph: Graph) -> Graph:
    return device_view(graph, input_axes(graph), output_axes(graph), COUNT)


def test_the_gradient_of_a_recurrence_runs_on_parts_of_the_batch() -> None:
    arrays = arrays_for()
    graph = graph_of(tracer.grad(recurrent_loss), arrays)
    assert ops_of(graph).count("while") == 2
    result, log = sharded(graph)
    assert_same(graph, result, arrays)
    # One computation of each device holds both loops; only the weights' gradient is added up.
    assert ops_of(result).count("shard") == 1
    assert ops_of(result).count("while") == 2
    assert input_axes(result) == (None, 1)
    (line,) = log.applied
    assert line.startswith("axis of 8 of float64[12,8,5]: 4 devices, 2 on each, through 2 loops")


def test_a_device_takes_a_share_of_the_memory() -> None:
    arrays = arrays_for(batch=64)
    graph = graph_of(tracer.grad(recurrent_loss), arrays)
    result, _ = sharded(graph)
    assert Liveness(view_of(result)).peak_bytes < 0.3 * Liveness(graph).peak_bytes


def numbered(w: Any, state: Any, x: Any) -> Any:
    # What is made inside of a trip is made for the part, too.
    return tnp.tanh(state @ w + x * tnp.arange(x.shape[0])[:, None])


def weighted(w: Any, state: Any, x: Any) -> Any:
    return tnp.where(x > 0, state @ w, x) + x.max(axis=1, keepdims=True)


def nested(w: Any, state: Any, x: Any) -> Any:
    return tracer.fori_loop(0, 3, lambda i, y: tnp.tanh(y @ w + i * x), state)


@pytest.mark.parametrize("step", [numbered, weighted, nested])
def test_states_lie_in_parts(step: Any) -> None:
    arrays = arrays_for()
    graph = graph_of(scanned(step), arrays)
    result, log = sharded(graph)
    assert_same(graph, result, arrays)
    assert "through 1 loop" in log.applied[0]
    assert output_axes(result) == (1,)


def test_sums_over_the_batch_begin_once() -> None:
    """What a sum begins with, and what every trip adds to it, is one device's term."""

    def program(w: Any, xs: Any) -> Any:
        def body(total: Any, x: Any) -> Any:
            return total + x.T @ x + w, x * 2

        return tracer.scan(body, w + 3.0, xs)

    arrays = arrays_for()
    graph = graph_of(program, arrays)
    result, log = sharded(graph)
    assert_same(graph, result, arrays)
    assert "through 1 loop" in log.applied[0]


def test_sums_of_inner_loops_are_terms_too() -> None:
    def program(w: Any, xs: Any) -> Any:
        def body(total: Any, x: Any) -> Any:
            return tracer.fori_loop(0, 2, lambda i, t: t + x.T @ x, total), x * 2

        return tracer.scan(body, w, xs)

    arrays = arrays_for()
    graph = graph_of(program, arrays)
    result, log = sharded(graph)
    assert_same(graph, result, arrays)
    assert "through 1 loop" in log.applied[0]


def branches(w: Any, state: Any, x: Any) -> Any:
    return tracer.cond(x.shape[0] > w[0, 0], lambda y: y @ w, lambda y: y + 1.0, state + x)


def test_maxima_over_the_batch_are_joined() -> None:
    def program(w: Any, xs: Any) -> Any:
        def body(highest: Any, x: Any) -> Any:
            return tnp.maximum(highest, x.max(axis=0)), x * 2

        return tracer.scan(body, w[0] + 1.0, xs)

    arrays = arrays_for()
    graph = graph_of(program, arrays)
    result, _ = sharded(graph)
    assert_same(graph, result, arrays)
    assert ops_of(result).count("shard") == 1


def test_what_follows_may_need_everything() -> None:
    def program(w: Any, xs: Any) -> Any:
        states = scanned(numbered)(w, xs)
        return tnp.sort(states, axis=1)[0], tnp.exp(states.sum()), states

    arrays = arrays_for()
    graph = graph_of(program, arrays)
    result, _ = sharded(graph)
    assert_same(graph, result, arrays)
    assert ops_of(result).count("shard") >= 1


def mixes(w: Any, state: Any, x: Any) -> Any:
    return state @ w + x - x.mean(axis=0)


def shares(w: Any, state: Any, x: Any) -> Any:
    return tnp.tanh(state @ w) @ (x.T @ x)


def sorts(w: Any, state: Any, x: Any) -> Any:
    return tnp.sort(state @ w + x, axis=0)


def shifts(w: Any, state: Any, x: Any) -> Any:
    return tnp.concatenate([state[1:], state[:1]]) @ w + x


def adds_up(w: Any, state: Any, x: Any) -> Any:
    return tnp.cumsum(state @ w + x, axis=0)


def groups(w: Any, state: Any, x: Any) -> Any:
    # Two groups of four: a part of two would be half of one.
    four = (state @ w + x).reshape(2, 4, WIDTH)
    return (four - four.mean(axis=1, keepdims=True)).reshape(BATCH, WIDTH)


def in_twos(w: Any, state: Any, x: Any) -> Any:
    # Blocks of four rows, of which a part of two rows has no whole number.
    two = (state @ w + x).reshape(2, 4 * WIDTH)
    return (two * tnp.arange(4.0 * WIDTH)).reshape(BATCH, WIDTH)


@pytest.mark.parametrize("step", [mixes, shares, sorts, shifts, adds_up, groups, in_twos, branches])
def test_a_step_that_cannot_run_on_parts_is_left_alone(step: Any) -> None:
    arrays = arrays_for()
    graph = graph_of(scanned(step), arrays)
    result, log = sharded(graph)
    assert_same(graph, result, arrays)
    assert not any(", through " in line for line in log.applied)


def test_a_sum_that_steps_read_is_left_alone() -> None:
    def program(w: Any, xs: Any) -> Any:
        def body(total: Any, x: Any) -> Any:
            return tnp.tanh(total) + x.T @ x, x @ total

        return tracer.scan(body, w, xs)

    arrays = arrays_for()
    graph = graph_of(program, arrays)
    result, log = sharded(graph)
    assert_same(graph, result, arrays)
    assert not any(", through " in line for line in log.applied)


def test_a_loop_whose_end_hangs_on_the_batch_is_left_alone() -> None:
    def program(w: Any, xs: Any) -> Any:
        return tracer.while_loop(lambda x: tnp.abs(x).max() > 0.5, lambda x: x * 0.5 @ w, xs)

    arrays = arrays_for()
    graph = graph_of(program, arrays)
    result, log = sharded(graph)
    assert_same(graph, result, arrays)
    assert not any(", through " in line for line in log.applied)


def test_a_loop_that_turns_the_batch_around_is_left_alone() -> None:
    def program(w: Any, x: Any) -> Any:
        return tracer.fori_loop(0, 3, lambda _, x: x.T, x) + w[0, 0]

    arrays = [arrays_for()[0], np.random.default_rng(0).standard_normal((16, 16))]
    graph = graph_of(program, arrays)
    result, log = sharded(graph)
    assert_same(graph, result, arrays)
    assert not any(", through " in line for line in log.applied)


@pytest.mark.parametrize("batch", [5, 7, 9, 31])
def test_what_remains_of_a_batch_goes_through_the_loops_on_every_device(batch: int) -> None:
    arrays = arrays_for(batch)
    graph = graph_of(tracer.grad(recurrent_loss), arrays)
    result, log = sharded(graph)
    assert_same(graph, result, arrays)
    # Those of the parts, and those of what remains.
    assert ops_of(result).count("while") == 4
    assert input_axes(result) == (None, None)
    each, last = divmod(batch, COUNT)
    share = f"{each} on each and the last {last} on all, through 2 loops"
    assert share in log.applied[0]


def test_what_remains_takes_little_memory() -> None:
    arrays = arrays_for(batch=63)
    graph = graph_of(tracer.grad(recurrent_loss), arrays)
    fixed = arrays[1].nbytes
    part = Liveness(view_of(sharded(graph)[0])).peak_bytes - fixed
    assert part < 0.4 * (Liveness(graph).peak_bytes - fixed)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(16, 24))
@pytest.mark.parametrize("step", [numbered, weighted, nested])
def test_sums_and_maxima_see_each_row_of_a_batch_once(step: Any, batch: int) -> None:
    """Exactly: sums of integers do not hang on their order."""

    def program(w: Any, xs: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            total, highest, state = carry
            state = tnp.round(8 * step(w, state, x))
            carry = total + x.T @ state + w, tnp.maximum(highest, state.max(axis=0)), state
            return carry, None

        start = w + 3.0, w[0] - 1.0, tnp.zeros(xs.shape[1:], dtype=xs.dtype)
        return tracer.scan(body, start, xs)[0][:2]

    arrays = [np.round(4 * array) for array in arrays_for(batch)]
    graph = graph_of(program, arrays)
    result, log = sharded(graph)
    assert "through 1 loop" in log.applied[0]
    assert_same(graph, result, arrays, 0)


def test_results_of_an_uneven_batch_that_are_most_of_it_keep_it_whole() -> None:
    arrays = arrays_for(batch=7)
    graph = graph_of(scanned(numbered), arrays)
    result, log = sharded(graph)
    assert_same(graph, result, arrays)
    assert not any("through" in line for line in log.applied)
