"""Short loops are written out where that pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, ops_of, text
from tracer.array.trace import trace
from tracer.ir import Graph
from tracer.optimizer.loops.unrolling import unrolling_pass
from tracer.optimizer.passes import PassLog, PassManager
from tracer.optimizer.rewrite.expand import EXPAND
from tracer.target import DEFAULT_TARGET, Prices

Array = np.ndarray[Any, Any]
PASS = unrolling_pass(DEFAULT_TARGET)
X = np.linspace(0.5, 1.0, 100, dtype=np.float32)


def unrolled(
    function: Callable[..., Any], *arrays: Array, machine: Any = DEFAULT_TARGET
) -> tuple[Graph, PassLog]:
    graph = PassManager().run(trace(function, arrays).graph, (EXPAND,))
    result, log = apply(unrolling_pass(machine), graph)
    for one, other in zip(evaluated(result, *arrays), evaluated(graph, *arrays), strict=True):
        np.testing.assert_array_equal(one, other)
    return result, log


def newton(x: Any, steps: int) -> Any:
    return tracer.fori_loop(0, steps, lambda i, y: y * (1.5 - 0.5 * x * y * y), x)


def nested(steps: int) -> Callable[[Any], Any]:
    return lambda x: tracer.fori_loop(0, 9, lambda i, y: newton(y, steps), x)


def test_a_loop_of_one_trip_is_its_body() -> None:
    def run(x: Any) -> Any:
        return tracer.scan(lambda c, _: (c * x, c), x, None, 1)

    graph, log = unrolled(run, X)
    assert "while" not in ops_of(graph)
    assert "1 steps written out" in log.applied[0]


@pytest.mark.parametrize("steps", [2, 4])
def test_a_short_loop_in_a_loop_is_written_out(steps: int) -> None:
    graph, log = unrolled(nested(steps), X)
    assert ops_of(graph).count("while") == 1
    assert f"{steps} steps written out" in log.applied[0]


# Guards.


def test_counters_that_do_not_count_by_one_do_not_say_how_often_a_loop_runs() -> None:
    def run(x: Any) -> Any:
        return tracer.while_loop(
            lambda carry: carry[0] < 1, lambda carry: (carry[0] + 2, carry[1] * 2), (-3, x)
        )

    graph, log = unrolled(lambda x: tracer.fori_loop(0, 9, lambda i, y: run(y)[1], x), X)
    assert ops_of(graph).count("while") == 2
    assert log.applied == []


@pytest.mark.parametrize(
    ("stop", "step"), [(0.5, 1.0), (2.5, 1.0), (1.0, 1.9), (np.inf, np.inf), (np.nan, 1.0)]
)
def test_counters_that_are_no_integers_do_not_say_how_often_a_loop_runs(
    stop: float, step: float
) -> None:
    """0.0 < 0.5 holds once: the loop was taken for one of no trips."""

    def run(x: Any) -> Any:
        return tracer.while_loop(
            lambda carry: carry[0] < stop, lambda carry: (carry[0] + step, carry[1] * 2), (0.0, x)
        )

    graph, log = unrolled(run, X)
    assert "while" in ops_of(graph)
    assert log.applied == []


def test_short_loops_that_run_once_stay() -> None:
    graph, log = unrolled(lambda x: newton(x, 4), X)
    assert ops_of(graph).count("while") == 1
    assert "4 trips are not written out" in str(log.refusals[0])


def test_longer_loops_stay_and_the_plan_says_what_two_steps_would_take() -> None:
    graph, log = unrolled(nested(5), X)
    assert ops_of(graph).count("while") == 2
    reasons = [str(refusal) for refusal in log.refusals]
    assert all("by the model two steps in one take" in reason for reason in reasons)
    assert len(reasons) == 2


def test_the_model_counts_what_kernels_compute_again() -> None:
    """Of Cartpole's step every part is read by several others: written out it is slower."""

    def swing(carry: Any) -> Any:
        x, v, w = carry
        for _ in range(3):
            push = tnp.sin(x) / (1.5 - tnp.cos(x) * tnp.cos(v))
            x, v, w = x + v * push, v + push / (2 + w * w), w + tnp.exp(push * x)
        return x, v, w

    def run(x: Any) -> Any:
        def outer(i: Any, carry: Any) -> Any:
            return tracer.fori_loop(0, 4, lambda j, c: swing(c), carry)

        return tracer.fori_loop(0, 9, outer, (x, x, x))

    idle = replace(DEFAULT_TARGET, prices=Prices(kernel_seconds=1e-9))
    large = np.linspace(0.5, 1.0, 1500, dtype=np.float32)
    graph, log = unrolled(run, large, machine=idle)
    assert ops_of(graph).count("while") == 2
    assert "kernels compute what they share again" in str(log.refusals[0])


def test_large_steps_stay_in_turn() -> None:
    large = np.ones(1 << 17, np.float32)

    def run(x: Any) -> Any:
        def outer(i: Any, y: Any) -> Any:
            return tracer.fori_loop(0, 3, lambda j, z: tnp.sort(z) * tnp.sin(z).sum(), y)

        return tracer.fori_loop(0, 2, outer, x)

    log = unrolled(run, large)[1]
    assert "steps at a time could take" in str(log.refusals[0])


def test_unknown_trip_counts_stay() -> None:
    def run(x: Any) -> Any:
        return tracer.while_loop(lambda y: y.sum() < 500.0, lambda y: y * 2, x)

    graph, log = unrolled(run, X)
    assert ops_of(graph).count("while") == 1
    assert not log.applied + log.refusals


@pytest.mark.xla
def test_compiled_values_are_the_same_with_and_without() -> None:
    for function in (nested(3), tracer.grad(lambda x: nested(2)(x).sum())):
        plain = tracer.compile(function, passes="-loop-unrolling")
        np.testing.assert_allclose(tracer.compile(function)(X), plain(X), rtol=1e-5)
    rows = {row.name: row for row in tracer.compile(nested(3)).plan(X).passes}
    assert rows["loop unrolling"].applied


def test_the_text_of_a_loop_of_one_trip() -> None:
    graph, _ = unrolled(lambda x: tracer.fori_loop(0, 1, lambda i, y: tnp.sin(y) * x, x), X[:3])
    assert text(graph) == (
        "graph(%0: float32[3]) {\n"
        "  %1: float32[3] = sine(%0)\n"
        "  %2: float32[3] = multiply(%1, %0)\n"
        "  return %2\n"
        "}"
    )


@pytest.mark.parametrize(
    ("step", "named"),
    [
        (lambda y: y + 0.01 * tnp.tanh(y), "tanh"),
        (lambda y: y + 0.1 * tnp.roll(y, 1), "slice"),
        (lambda y: y + 0.1 * tnp.sum(y), "reduce_add"),
    ],
)
def test_steps_that_are_slow_when_they_are_fused_stay_in_turn(step: Any, named: str) -> None:
    """Measured: 1.4 times slower for `tanh`, 3.5 for a shift (docs/fusion.md)."""

    def run(x: Any) -> Any:
        return tracer.fori_loop(
            0, 9, lambda i, x: tracer.fori_loop(0, 3, lambda _, y: step(y), x), x
        )

    graph, log = unrolled(run, X)
    assert ops_of(graph).count("while") == 2
    assert f"slow for {named}" in str(log.refusals[0])
