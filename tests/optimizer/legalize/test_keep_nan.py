"""Extremes that devices of a mesh join keep their NaNs: what is written, and what stays.

On eight devices: `tests/devices/awkward_on_eight_devices.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, ops_of, text, traced
from tracer import ops
from tracer.ir import Builder, Graph, Op, ShapeDtype, parse_graph
from tracer.optimizer.legalize.nan import kept_nan_pass
from tracer.optimizer.pipeline import Context, Stage, entries_in

PASS = kept_nan_pass()


def extreme(op: Op, dtype: Any, shape: tuple[int, ...] = (6, 5)) -> Graph:
    with Builder() as builder:
        return builder.finish([op(builder.input(ShapeDtype(shape, dtype)), axes=(0,))])


def test_whether_there_is_a_nan_is_found_beside_the_extreme() -> None:
    after, log = apply(PASS, extreme(ops.reduce_maximum, "float32"))
    assert log.applied == ["reduce_maximum of float32[6,5]"]
    assert text(after) == (
        """
graph(%0: float32[6,5]) {
  %1: bool[6,5] = compare(%0, %0) {direction='NE'}
  %2: bool[5] = reduce_or(%1) {axes=(0,)}
  %3: float32[5] = reduce_maximum(%0) {axes=(0,)}
  %4: float32[] = constant() {value=float32[] nan}
  %5: float32[5] = broadcast_in_dim(%4) {shape=(5,), dimensions=()}
  %6: float32[5] = select(%2, %5, %3)
  return %6
}""".strip()
    )


def test_updates_by_an_extreme_are_looked_through_as_well() -> None:
    graph = traced(lambda x, i, u: x.at[i].min(u), ((9,), "f4"), ((3,), "i4"), ((3,), "f4"))
    after, _ = apply(PASS, graph)
    assert ops_of(after).count("scatter") == 2
    x, places = np.arange(9, dtype=np.float32), np.array([1, 1, 7], np.int32)
    x[4] = np.nan
    updates = np.array([np.nan, -5, 3], np.float32)
    found, wanted = evaluated(after, x, places, updates), evaluated(graph, x, places, updates)
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_array_equal(np.isnan(found[0]), [0, 1, 0, 0, 1, 0, 0, 0, 0])


@pytest.mark.parametrize(
    "graph",
    [
        extreme(ops.reduce_maximum, "int32"),
        extreme(ops.reduce_minimum, "bool"),
        extreme(ops.reduce_add, "float32"),
        traced(lambda x, i, u: x.at[i].add(u), ((9,), "f4"), ((3,), "i4"), ((3,), "f4")),
    ],
    ids=["integers", "bools", "sums", "added updates"],
)
def test_what_has_no_nan_and_what_is_no_extreme_stays(graph: Graph) -> None:
    assert apply(PASS, graph)[0] is graph


@pytest.mark.parametrize("op", [ops.reduce_maximum, ops.reduce_minimum])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_values_are_the_same(op: Op, dtype: str) -> None:
    before = extreme(op, dtype)
    x = np.random.default_rng(0).standard_normal((6, 5)).astype(before.input_types[0].dtype)
    x[2, 1], x[3, 2], x[4, 3], x[:, 4] = np.nan, np.inf, -np.inf, -0.0
    (found,), (wanted,) = evaluated(apply(PASS, before)[0], x), evaluated(before, x)
    assert found.tobytes() == wanted.tobytes()


def test_bodies_are_written_but_not_what_a_device_runs_on_its_own_part() -> None:
    def program(x: Any) -> Any:
        return tracer.fori_loop(0, 3, lambda _, c: tnp.tanh(c - c.max()), x)

    after, log = apply(PASS, traced(program, ((9,), "f4")))
    assert log.applied == ["reduce_maximum of float32[9]"]
    assert ops_of(after).count("reduce_or") == 1
    parts = parse_graph(
        """
graph(%0: float32[6,5]) {
  %1: float32[6] = shard(%0) {count=2, operand_axes=(0,), result_axes=(0,)} with
    body=graph(%0: float32[3,5]) {
      %1: float32[3] = reduce_maximum(%0) {axes=(1,)}
      return %1
    }
  return %1
}"""
    )
    assert apply(PASS, parts)[0] is parts


def test_it_runs_on_meshes_only() -> None:
    for on_mesh in (False, True):
        rows = entries_in(Stage.TARGET, Context(on_mesh=on_mesh))
        assert ("keep-nan" in {row.option for row in rows}) == on_mesh
