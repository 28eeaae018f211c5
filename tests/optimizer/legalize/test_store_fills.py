"""Fills of masks that are read from memory: what is written, and that it computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, ops_of, rewritten
from tracer.ir import Graph, parse_graph
from tracer.optimizer.legalize.fills import stored_fills_pass
from tracer.target import DEFAULT_TARGET

PASS = stored_fills_pass(DEFAULT_TARGET)


def masked(fill: str, columns: int = 600, op: str = "reduce_add", dtype: str = "float32") -> str:
    return f"""
        graph(%0: bool[4,{columns}], %1: {dtype}[4,{columns}]) {{
          %2: {dtype}[] = constant() {{value={dtype}[] {fill}}}
          %3: {dtype}[4,{columns}] = broadcast_in_dim(%2) {{shape=(4, {columns}), dimensions=()}}
          %4: {dtype}[4,{columns}] = select(%0, %1, %3) {{}}
          %5: {dtype}[4] = {op}(%4) {{axes=(1,)}}
          return %5, %4
        }}"""


def barriers(text: str) -> int:
    return rewritten(PASS, text).count("optimization_barrier")


def test_infinities_are_read_wherever_a_choice_puts_them_in() -> None:
    assert rewritten(PASS, masked("-inf", op="reduce_maximum")) == (
        """
graph(%0: bool[4,600], %1: float32[4,600]) {
  %2: float32[600] = constant() {value=float32[600] splat -inf}
  %3: float32[600] = optimization_barrier(%2)
  %4: float32[4,600] = broadcast_in_dim(%3) {shape=(4, 600), dimensions=(1,)}
  %5: float32[4,600] = select(%0, %1, %4)
  %6: float32[4] = reduce_maximum(%5) {axes=(1,)}
  return %6, %5
}""".strip()
    )


def test_other_numbers_are_read_where_a_reduction_reads_the_choice() -> None:
    assert rewritten(PASS, masked("0.0")) == (
        """
graph(%0: bool[4,600], %1: float32[4,600]) {
  %2: float32[] = constant() {value=float32[] 0.0}
  %3: float32[4,600] = broadcast_in_dim(%2) {shape=(4, 600), dimensions=()}
  %4: float32[4,600] = select(%0, %1, %3)
  %5: float32[600] = constant() {value=float32[600] splat 0.0}
  %6: float32[600] = optimization_barrier(%5)
  %7: float32[4,600] = broadcast_in_dim(%6) {shape=(4, 600), dimensions=(1,)}
  %8: float32[4,600] = select(%0, %1, %7)
  %9: float32[4] = reduce_add(%8) {axes=(1,)}
  return %9, %4
}""".strip()
    )


@pytest.mark.parametrize("fill", ["0.0", "-0.0", "nan", "-inf", "2.5"])
@pytest.mark.parametrize("op", ["reduce_add", "reduce_maximum"])
def test_values_are_the_same(fill: str, op: str) -> None:
    before = parse_graph(masked(fill, op=op))
    after, log = apply(PASS, before)
    assert log.applied
    rng = np.random.default_rng(0)
    mask, x = rng.random((4, 600)) < 0.5, rng.standard_normal((4, 600), np.float32)
    for got, wanted in zip(evaluated(after, mask, x), evaluated(before, mask, x), strict=True):
        assert got.tobytes() == wanted.tobytes()


def test_rows_of_a_kilobyte_and_less_stay_constants() -> None:
    """XLA makes one function of a loop with so few bytes, where no barrier may stand."""
    assert barriers(masked("-inf", 257)) == 1
    assert barriers(masked("-inf", 256)) == 0


@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_of_every_real_type(dtype: str) -> None:
    assert barriers(masked("7", dtype=dtype)) == 1


def test_what_is_no_constant_stays() -> None:
    graph = parse_graph("""
        graph(%0: bool[4,600], %1: float32[4,600], %2: float32[4,600]) {
          %3: float32[4,600] = select(%0, %1, %2) {}
          %4: float32[4] = reduce_add(%3) {axes=(1,)}
          return %4
        }""")
    assert apply(PASS, graph)[0] is graph


@pytest.mark.xla
def test_the_plan_names_the_pass_and_its_name_switches_it_off() -> None:
    def program(x: Any) -> Any:
        return tnp.where(x > 0, x, -tnp.inf).max(-1)

    x = np.random.default_rng(0).standard_normal((4, 600))
    stored, plain = tracer.compile(program), tracer.compile(program, passes="-store-fills")
    assert "store fills" in str(stored.plan(x))
    assert "store fills" not in str(plain.plan(x))
    assert "optimization_barrier" in stored.stablehlo(x)
    assert "optimization_barrier" not in plain.stablehlo(x)
    np.testing.assert_array_equal(np.asarray(stored(x)), np.asarray(plain(x)))


@pytest.mark.xla
def test_in_bodies() -> None:
    def program(x: Any) -> Any:
        def step(_: Any, best: Any) -> Any:
            return tnp.where(x > best[:, None], x, -tnp.inf).max(-1)

        return tracer.fori_loop(0, 3, step, x[:, 0])

    def graph(passes: str) -> Graph:
        return tracer.compile(program, passes=passes).graph(np.ones((4, 600)))

    off = ops_of(graph("-store-fills")).count("optimization_barrier")
    assert ops_of(graph("-split")).count("optimization_barrier") > off
