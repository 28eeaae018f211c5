"""A loop over a stacked state becomes a loop over its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, ops_of, text
from tracer.array.trace import trace
from tracer.ir import Graph, parse_graph
from tracer.optimizer.loops.scalar_replacement import scalar_replacement_pass
from tracer.optimizer.passes import PassLog, PassManager
from tracer.optimizer.rewrite.expand import EXPAND
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS, CONSTANT_FOLDING

Array = np.ndarray[Any, Any]
STATE = np.linspace(-1.0, 1.0, 20, dtype=np.float32).reshape(5, 4)
PASS = scalar_replacement_pass()


def prepared(function: Callable[..., Any], *arrays: Array) -> Graph:
    graph = trace(function, arrays).graph
    return PassManager().run(graph, (EXPAND, COMMON_SUBEXPRESSIONS, CONSTANT_FOLDING))


def replaced(function: Callable[..., Any], *arrays: Array) -> tuple[Graph, PassLog]:
    """Run the pass, and check that the bits are the same."""
    graph = prepared(function, *arrays)
    result, log = apply(PASS, graph)
    for one, other in zip(evaluated(result, *arrays), evaluated(graph, *arrays), strict=True):
        np.testing.assert_array_equal(one, other)
    return result, log


def body_ops(graph: Graph) -> list[str]:
    (loop,) = [node for node in graph.nodes if node.name == "while"]
    return ops_of(loop.params["body"])


def step(state: Any) -> Any:
    x, v = state[:, 0], state[:, 1]
    return tnp.stack([x + v, v - tnp.sin(x), state[:, 2] * x, state[:, 3]], axis=1)


def steps(count: int) -> Callable[[Any], Any]:
    return lambda state: tracer.fori_loop(0, count, lambda i, s: step(s), state)


def test_text_before_and_after() -> None:
    before = """
        graph(%0: float32[2,3]) {
          %1: int32[] = constant() {value=int32[] 0}
          %2: int32[], %3: float32[2,3] = while(%1, %0) with
            condition=graph(%0: int32[], %1: float32[2,3]) {
              %2: int32[] = constant() {value=int32[] 7}
              %3: bool[] = compare(%0, %2) {direction='LT'}
              return %3
            }
            body=graph(%0: int32[], %1: float32[2,3]) {
              %2: float32[1,3] = slice(%1) {start=(0, 0), limit=(1, 3), strides=(1, 1)}
              %3: float32[1,3] = slice(%1) {start=(1, 0), limit=(2, 3), strides=(1, 1)}
              %4: float32[1,3] = sine(%2) {}
              %5: float32[2,3] = concatenate(%3, %4) {dimension=0}
              %6: int32[] = constant() {value=int32[] 1}
              %7: int32[] = add(%0, %6) {}
              return %7, %5
            }
          return %3
        }"""
    result, log = apply(PASS, parse_graph(before))
    assert log.applied == [
        "carry 1, float32[2,3]: 2 parts along axis 0; 24 bytes put together in a trip, 0 in parts"
    ]
    assert text(result) == _AFTER


_AFTER = """\
graph(%0: float32[2,3]) {
  %1: int32[] = constant() {value=int32[] 0}
  %2: float32[1,3] = slice(%0) {start=(0, 0), limit=(1, 3), strides=(1, 1)}
  %3: float32[1,3] = slice(%0) {start=(1, 0), limit=(2, 3), strides=(1, 1)}
  %4: float32[3] = reshape(%2) {shape=(3,)}
  %5: float32[3] = reshape(%3) {shape=(3,)}
  %6: int32[], %7: float32[3], %8: float32[3] = while(%1, %4, %5) with
    condition=graph(%0: int32[], %1: float32[3], %2: float32[3]) {
      %3: int32[] = constant() {value=int32[] 7}
      %4: bool[] = compare(%0, %3) {direction='LT'}
      return %4
    }
    body=graph(%0: int32[], %1: float32[3], %2: float32[3]) {
      %3: float32[1,3] = reshape(%1) {shape=(1, 3)}
      %4: float32[1,3] = reshape(%2) {shape=(1, 3)}
      %5: float32[1,3] = sine(%3)
      %6: int32[] = constant() {value=int32[] 1}
      %7: int32[] = add(%0, %6)
      %8: float32[3] = reshape(%4) {shape=(3,)}
      %9: float32[3] = reshape(%5) {shape=(3,)}
      return %7, %8, %9
    }
  %9: float32[1,3] = reshape(%7) {shape=(1, 3)}
  %10: float32[1,3] = reshape(%8) {shape=(1, 3)}
  %11: float32[2,3] = concatenate(%9, %10) {dimension=0}
  return %11
}"""


def test_nothing_is_joined_in_the_loop_and_once_after_it() -> None:
    graph, log = replaced(steps(6), STATE)
    assert len(log.applied) == 1
    assert "concatenate" not in body_ops(graph)
    assert "slice" not in body_ops(graph)
    assert [node.name for node in graph.nodes].count("concatenate") == 1


def test_rows_set_in_place_are_parts() -> None:
    def update(state: Any) -> Any:
        def body(i: Any, s: Any) -> Any:
            return s.at[:, 0].set(s[:, 1] * 2).at[:, 1].add(s[:, 2])

        return tracer.fori_loop(0, 4, body, state)

    graph, log = replaced(update, STATE)
    assert "dynamic_update_slice" not in body_ops(graph)
    assert "4 parts" in log.applied[0]


def turned(state: Any) -> Any:
    x, v, w, u = state.T
    return tnp.stack([x + v, v - tnp.sin(x), w * x, u], axis=-1)


def split(state: Any) -> Any:
    x, v, w, u = tnp.split(state, 4, axis=1)
    return tnp.concatenate([x + v, v - tnp.sin(x), w * x, u], axis=1)


def single(state: Any) -> Any:
    x, v, w, u = state
    return tnp.stack([x + v, v - tnp.sin(x), w * x, u])


@pytest.mark.parametrize("written", [turned, split, tracer.vmap(single)])
def test_other_ways_to_take_a_state_apart(written: Callable[[Any], Any]) -> None:
    def run(state: Any) -> Any:
        return tracer.fori_loop(0, 6, lambda i, s: written(s), state)

    graph, log = replaced(run, STATE)
    assert "4 parts along axis 1" in log.applied[0]
    assert "concatenate" not in body_ops(graph)


def test_padded_parts_that_are_summed() -> None:
    def update(state: Any) -> Any:
        def body(i: Any, s: Any) -> Any:
            return tnp.pad(s[:1] * 2, ((0, 3), (0, 0))) + tnp.pad(s[1:], ((1, 0), (0, 0)))

        return tracer.fori_loop(0, 4, body, state)

    graph, _ = replaced(update, STATE[:4])
    assert "pad" not in body_ops(graph)


def test_a_reset_by_a_mask_over_the_whole_state() -> None:
    def run(state: Any, start: Any) -> Any:
        def body(i: Any, s: Any) -> Any:
            new = step(s)
            return tnp.where((tnp.abs(new[:, 0]) > 0.5)[:, None], start, new)

        return tracer.fori_loop(0, 9, body, state)

    graph, _ = replaced(run, STATE, STATE[::-1].copy())
    assert "concatenate" not in body_ops(graph)


def test_states_that_are_stacked_are_put_together_for_it_only() -> None:
    def run(state: Any) -> Any:
        def body(s: Any, _: Any) -> Any:
            new = step(s)
            return new, new

        return tracer.scan(body, state, None, 5)

    replaced(run, STATE)


def test_the_carry_is_used_elsewhere_before_and_after() -> None:
    def run(state: Any) -> Any:
        last = steps(3)(state)
        return last, last.sum(), state * 2, steps(3)(last)

    graph, log = replaced(run, STATE)
    assert len(log.applied) == 2
    # The second loop starts from the parts of the first: only the argument is cut.
    assert [node.name for node in graph.nodes].count("slice") == 4


def test_a_condition_that_reads_a_part() -> None:
    def run(state: Any) -> Any:
        return tracer.while_loop(lambda s: tnp.abs(s[0, 0]) < 3.0, step, state)

    graph, log = replaced(run, STATE)
    assert len(log.applied) == 1
    (loop,) = [node for node in graph.nodes if node.name == "while"]
    assert "concatenate" not in ops_of(loop.params["condition"])


def test_a_loop_that_never_runs() -> None:
    def run(state: Any) -> Any:
        return tracer.while_loop(lambda s: s[0, 0] > 100.0, step, state)

    graph, log = replaced(run, STATE)
    assert log.applied
    np.testing.assert_array_equal(evaluated(graph, STATE)[0], STATE)


# Guards: each program would be wrong, or no better, if it were rewritten.


def refusals(function: Callable[..., Any], *arrays: Array) -> str:
    log = replaced(function, *arrays)[1]
    assert not log.applied
    return " / ".join(map(str, log.refusals))


def test_a_state_that_is_needed_whole_stays() -> None:
    def body(i: Any, s: Any) -> Any:
        return tnp.sort(step(s), axis=1) + s[:, :1]

    assert refusals(lambda s: tracer.fori_loop(0, 3, body, s), STATE) == ""

    def mixed(i: Any, s: Any) -> Any:
        return step(s) * tnp.sort(s, axis=1).sum()

    why = refusals(lambda s: tracer.fori_loop(0, 3, mixed, s), STATE)
    assert "sort needs it whole" in why


def test_a_loop_of_one_step_stays() -> None:
    def run(state: Any) -> Any:
        return tracer.scan(lambda s, _: (step(s), s[0, 0]), state, None, 1)

    assert "the loop runs 1 times" in refusals(run, STATE)


def test_many_parts_stay() -> None:
    def body(i: Any, s: Any) -> Any:
        return tnp.stack([s[k] * (k + 1) for k in range(40)])

    wide = np.ones((40, 3), np.float32)
    assert "40 parts" in refusals(lambda s: tracer.fori_loop(0, 3, body, s), wide)


def test_under_a_limit_a_large_state_stays() -> None:
    graph = prepared(steps(6), STATE)
    assert apply(scalar_replacement_pass(8 * STATE.nbytes), graph)[1].applied
    result, log = apply(scalar_replacement_pass(8 * STATE.nbytes - 1), graph)
    assert result is graph
    assert "much of the limit" in str(log.refusals[0])


def test_starts_that_are_computed_stay() -> None:
    def body(i: Any, s: Any) -> Any:
        return s.at[:, i].set(s[:, 0] * 2)

    assert refusals(lambda s: tracer.fori_loop(0, 3, body, s), STATE) == ""


def test_a_state_in_reversed_order_stays_right() -> None:
    def body(i: Any, s: Any) -> Any:
        return tnp.stack([s[:, 3], s[:, 2] + s[:, 0], s[:, 1], s[:, 0]], axis=1)[:, ::-1]

    replaced(lambda s: tracer.fori_loop(0, 3, body, s), STATE)


# Random programs.

columns = st.integers(0, 3)
formula = st.tuples(st.sampled_from(["add", "multiply", "where", "copy", "sine"]), columns, columns)
joins = st.sampled_from(["stack", "concatenate", "set", "mask", "roll"])


def random_body(formulas: list[Any], join: str, axis: int) -> Callable[[Any, Any], Any]:
    def column(s: Any, k: int) -> Any:
        return s[:, k] if axis == 1 else s[k]

    def value(s: Any, kind: str, a: int, b: int) -> Any:
        x, y = column(s, a), column(s, b)
        if kind == "where":
            return tnp.where(x > y, x, y * np.float32(0.5))
        return {
            "add": lambda: x + y,
            "multiply": lambda: x * y,
            "copy": lambda: x,
            "sine": lambda: tnp.sin(x) - y,
        }[kind]()

    def body(i: Any, s: Any) -> Any:
        rows = [value(s, *item) for item in formulas]
        if join == "set":
            for k, row in enumerate(rows[:2]):
                s = s.at[:, k].set(row) if axis == 1 else s.at[k].set(row)
            return s
        new = tnp.stack(rows, axis=axis)
        if join == "concatenate":
            rest = s[:, 2:] if axis == 1 else s[2:]
            new = tnp.concatenate([new[:, :2] if axis == 1 else new[:2], rest], axis=axis)
        if join == "mask":
            new = tnp.where(tnp.abs(new) > np.float32(2), s, new)
        return tnp.roll(new, 1, axis=axis) if join == "roll" else new

    return body


@settings(max_examples=40, deadline=None)
@given(st.lists(formula, min_size=4, max_size=4), joins, st.sampled_from([0, 1]), st.booleans())
def test_random_bodies_give_the_same_bits(
    formulas: list[Any], join: str, axis: int, stacked: bool
) -> None:
    body = random_body(formulas, join, axis)
    state = STATE if axis == 1 else np.ascontiguousarray(STATE[:4])

    def run(s: Any) -> Any:
        if stacked:
            return tracer.scan(lambda c, _: (body(0, c), c), s, None, 3)
        return tracer.fori_loop(0, 3, body, s)

    replaced(run, state)


# Through the compiler.


def loss(state: Any) -> Any:
    return (steps(4)(state) ** 2).sum()


@pytest.mark.xla
@pytest.mark.parametrize(
    ("function", "state"),
    [
        (tracer.grad(loss), STATE),
        (tracer.vmap(steps(4)), np.stack([STATE, STATE * 2])),
        (tracer.vmap(tracer.grad(loss)), np.stack([STATE, STATE * 2])),
    ],
    ids=["grad", "vmap", "vmap of grad"],
)
def test_derivatives_and_batches_are_the_same_with_and_without(
    function: Callable[..., Any], state: Array
) -> None:
    run = tracer.compile(function)
    plain = tracer.compile(function, passes="-scalar-replacement")
    np.testing.assert_allclose(run(state), plain(state), rtol=1e-6)
    rows = {row.name: row for row in run.plan(state).passes}
    assert rows["scalar replacement"].applied


@pytest.mark.xla
def test_donated_state() -> None:
    run = tracer.compile(steps(5), donate_argnums=0)
    plain = tracer.compile(steps(5), passes="-scalar-replacement")
    np.testing.assert_allclose(run(tnp.asarray(STATE)), plain(STATE), rtol=1e-6)


@pytest.mark.xla
def test_the_compiled_loop_joins_nothing() -> None:
    wide = np.ones((512, 4), np.float32)
    run = tracer.compile(steps(50))
    plain = tracer.compile(steps(50), passes="-scalar-replacement")
    np.testing.assert_array_equal(run(wide), plain(wide))
    # Once after the loop; without the pass in every trip.
    assert run.hlo(wide).count(" concatenate(") == 1
    assert "f32[512]{0}" in run.hlo(wide)
    rows = {row.name: row for row in run.plan(wide).passes}
    assert "4 parts along axis 1" in rows["scalar replacement"].applied[0]


@pytest.mark.xla
@pytest.mark.parametrize("count", [0, 1, 2])
def test_short_loops(count: int) -> None:
    np.testing.assert_array_equal(
        tracer.compile(steps(count))(STATE),
        tracer.compile(steps(count), passes="-scalar-replacement")(STATE),
    )
