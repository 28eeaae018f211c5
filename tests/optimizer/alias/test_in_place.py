"""Kernels that wait for what reads the memory they write over: text, guards, copies that go."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, ops_of, text, traced
from tests.optimizer.random_programs import programs
from tracer import lowering
from tracer.array.dispatch import apply_graph
from tracer.ir import Graph
from tracer.optimizer.alias.in_place import in_place_pass
from tracer.target import Sizes, Target, planned_for

LARGE, SMALL = ((100, 50), "float32"), ((10, 5), "float32")
TYPE = tracer.ShapeDtype((1000, 100), "float32")


def kept(graph: Graph, *donated: int) -> tuple[Graph, tuple[str, ...]]:
    result, log = apply(in_place_pass(frozenset(donated)), graph)
    return result, tuple(log.applied)


def test_text_before_and_after() -> None:
    before = traced(lambda x: (x.sum(), x + x), LARGE)
    after, applied = kept(before, 0)
    assert text(before) == (
        "graph(%0: float32[100,50]) {\n"
        "  %1: float32[] = reduce_add(%0) {axes=(0, 1)}\n"
        "  %2: float32[100,50] = add(%0, %0)\n"
        "  return %1, %2\n}"
    )
    assert text(after) == (
        "graph(%0: float32[100,50]) {\n"
        "  %1: float32[] = reduce_add(%0) {axes=(0, 1)}\n"
        "  %2: float32[100,50], %3: float32[] = optimization_barrier(%0, %1)\n"
        "  %4: float32[100,50] = add(%2, %2)\n"
        "  return %3, %4\n}"
    )
    assert applied == ("add waits for reduce_add: it writes over 20 kB",)


def test_a_result_goes_behind_the_other_readers() -> None:
    after, _ = kept(traced(lambda x: (x + x, x.sum()), LARGE), 0)
    assert ops_of(after) == ["reduce_add", "optimization_barrier", "add"]


def test_what_the_kernel_computes_on_the_way_is_behind_the_barrier() -> None:
    def program(x: Any) -> Any:
        y = x + x
        return y.sum(), y * x

    after, _ = kept(traced(program, LARGE), 0)
    assert ops_of(after) == ["add", "reduce_add", "optimization_barrier", "add", "multiply"]


def test_an_update_is_made_once() -> None:
    def program(x: Any) -> Any:
        y = x.at[0].set(1)
        return y, y.sum()

    after, applied = kept(traced(program, LARGE), 0)
    assert "dynamic_update_slice is made once for all readers" in applied
    names = ops_of(after)
    assert names.index("optimization_barrier") == names.index("dynamic_update_slice") + 1


def sum_then_add(x: Any) -> Any:
    return x.sum(), x + x


def read_twice_by_one(x: Any) -> Any:
    return (x + x.sum(),)


def written_elsewhere(x: Any) -> Any:
    return x.sum(), x.T @ x


def update_without_other_readers(x: Any) -> Any:
    return (x.at[0].set(1),)


@pytest.mark.parametrize(
    ("function", "type", "donated", "why"),
    [
        (sum_then_add, LARGE, (), "the argument is kept: nothing may write over it"),
        (sum_then_add, SMALL, (0,), "a copy is cheaper than a barrier"),
        (read_twice_by_one, LARGE, (0,), "the kernel waits for the sum already"),
        (written_elsewhere, LARGE, (0,), "the result has other memory"),
        (update_without_other_readers, LARGE, (0,), "nobody else computes the update"),
    ],
)
def test_nothing_to_do(function: Any, type: Any, donated: Any, why: str) -> None:
    graph = traced(function, type)
    after, applied = kept(graph, *donated)
    assert after is graph, why
    assert not applied


def test_results_stay_where_moving_them_would_take_more_memory() -> None:
    def program(x: Any, y: Any) -> Any:
        large = tnp.sort(tnp.concatenate([y, y, y, y]), axis=1)
        near = x + large[:100]
        other = tnp.sort(tnp.concatenate([y * 2, y, y, y]), axis=1)
        return near, other.sum() + x.sum()

    graph = traced(program, LARGE, LARGE)
    order = ops_of(kept(graph, 0)[0])
    assert order.index("add") < order.index("reduce_add")


@pytest.mark.parametrize("smallest", [1])
@given(program=programs("integer", maximum_steps=14), data=st.data())
def test_random_programs_compute_the_same(smallest: int, program: Any, data: Any) -> None:
    graph = program.graph
    donated = [i for i in range(len(graph.inputs)) if data.draw(st.booleans())]
    with planned_for(Target(sizes=Sizes(copy_bytes=smallest))):
        after, _ = kept(graph, *donated)
    expected, found = (evaluated(g, *program.arrays) for g in (graph, after))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


# What XLA makes of it


def scan_with_update(x: Any) -> Any:
    def step(carry: Any, i: Any) -> Any:
        x, total = carry
        x = x.at[i].set(x[i] * 2)
        return (x, total + x.sum()), None

    return tracer.scan(step, (x, tnp.float32(0)), tnp.arange(5))[0]


def loop_with_reader(x: Any) -> Any:
    step = lambda i, carry: (carry[0] + 1, carry[1] + carry[0].sum())
    return tracer.fori_loop(0, 5, step, (x, tnp.float32(0)))


def two_updates(x: Any) -> Any:
    y = x.at[0].set(1)
    return y.at[1].set(2), y.sum()


def begins_a_loop(x: Any) -> Any:
    return tracer.fori_loop(0, 5, lambda i, x: x.at[i].set(0), x), x.sum()


@pytest.mark.xla
def test_a_sum_of_what_a_scan_updates_reads_it_in_place() -> None:
    for passes in (None, "-keep-in-place"):
        plan = tracer.compile(scan_with_update, donate_argnums=0, passes=passes).plan(TYPE)
        assert plan.aliases.copied_bytes == 0


@pytest.mark.xla
@pytest.mark.parametrize(
    "function",
    [sum_then_add, lambda x: (x + x, x.sum()), loop_with_reader, two_updates, begins_a_loop],
)
def test_copies_go(function: Any) -> None:
    plain = tracer.compile(function, donate_argnums=0, passes="-keep-in-place")
    better = tracer.compile(function, donate_argnums=0)
    assert plain.plan(TYPE).aliases.copied_bytes >= TYPE.nbytes
    assert better.plan(TYPE).aliases.copied_bytes == 0
    assert better.plan(TYPE).compiled_bytes < plain.plan(TYPE).compiled_bytes
    x = np.random.default_rng(0).normal(size=TYPE.shape).astype(TYPE.dtype)
    for one, other in zip(plain(x), better(x), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.xla
@settings(max_examples=12)
@given(program=programs("integer", maximum_steps=10), data=st.data())
def test_compiled_with_donation_and_barriers_they_give_the_same_bits(
    program: Any, data: Any
) -> None:
    chosen = tuple(i for i in range(len(program.arrays)) if data.draw(st.booleans()))

    def run(*arrays: Any) -> Any:
        return apply_graph(program.graph, arrays)

    arrays = [tnp.asarray(array) for array in program.arrays]
    expected = tracer.compile(run)(*arrays)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", tracer.DonationWarning)
        here = replace(lowering.target_of("cpu"), sizes=Sizes(copy_bytes=1))
        patch.setattr(lowering, "target_of", lambda device=None: here)
        found = tracer.compile(run, donate_argnums=chosen)(*arrays)
    assert [array.is_deleted() for array in arrays] == [i in chosen for i in range(len(arrays))]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
