"""Loops that write over what they read, and zeros of their own: rewritten, and left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as run_settings

import tracer
import tracer.numpy as tnp
from tests.optimizer import pattern_programs
from tests.optimizer.graphs import apply, evaluated, ops_of
from tests.optimizer.random_programs import settings
from tracer import ops
from tracer.ir import Builder, Graph, ShapeDtype, Value, interpret
from tracer.ops.helpers import full
from tracer.optimizer.alias.loop_fills import separate_fills_pass
from tracer.optimizer.alias.loop_operands import reused_operands_pass
from tracer.optimizer.loops.split import split_graph
from tracer.optimizer.model.liveness import peak_bytes
from tracer.optimizer.passes import PassLog
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS
from tracer.scipy.linalg import solve_triangular
from tracer.target import DEFAULT_TARGET, planned_for

REUSE, FILLS = reused_operands_pass(), separate_fills_pass()
ROWS, COLUMNS = 10, 6
MATRIX = ShapeDtype((ROWS, COLUMNS), "float64")
X = np.random.default_rng(0).standard_normal(MATRIX.shape)


def number(value: int) -> Value:
    return ops.constant(value=np.array(value, np.int32))


def turned(x: Value) -> Value:
    return ops.reverse(x, dimensions=(1,))  # type: ignore[no-any-return]


def turned_slice(carry: Value, read: Value, start: Value) -> Value:
    """Write a slice with its rows turned round where it was read."""
    part = ops.dynamic_slice(read, start, number(0), sizes=(3, COLUMNS))
    return ops.dynamic_update_slice(carry, turned(part), start, number(0))


def loop(
    x: Value,
    begin: Value,
    step: Callable[[Value, Value, Value], Value] = turned_slice,
    start: Callable[[Value], Value] = lambda i: ops.multiply(i, number(3)),
    trips: int = 3,
) -> tuple[Value, ...]:
    """Write a loop over slices of three rows; returns counter, carry and what is handed on."""
    with Builder() as body:
        i = body.input(ShapeDtype((), "int32"))
        carry, read = body.input(MATRIX), body.input(MATRIX)
        inside = body.finish([ops.add(i, number(1)), step(carry, read, start(i)), read])
    with Builder() as builder:
        inputs = [builder.input(type) for type in inside.input_types]
        condition = builder.finish([ops.compare(inputs[0], number(trips), direction="LT")])
    results: tuple[Value, ...] = ops.while_(number(0), begin, x, condition=condition, body=inside)
    return results


def last_row(carry: Value, read: Value, first: int = ROWS - 1, to: int = ROWS - 1) -> Value:
    part = ops.dynamic_slice(read, number(first), number(0), sizes=(1, COLUMNS))
    return ops.dynamic_update_slice(carry, turned(part), number(to), number(0))


def graph_of(write: Callable[[Value, Value], Any]) -> Graph:
    """Return a graph in which `write` gets a computed matrix, and zeros."""
    with Builder() as builder:
        x = ops.sine(builder.input(MATRIX))
        results = write(x, full(0, MATRIX))
        return builder.finish(results if isinstance(results, list) else [results])


def rows_turned(x: Value, zeros: Value) -> Value:
    carried = loop(x, zeros)[1]
    return last_row(carried, x)


def test_a_loop_writes_over_what_it_reads_and_so_does_what_is_left() -> None:
    graph = graph_of(rows_turned)
    after, log = apply(REUSE, graph)
    assert log.applied == ["float64[10,6] of sine, by a loop"]
    (node,) = (node for node in after.nodes if node.op is ops.while_)
    assert [value.node.name for value in node.operands] == ["constant", "sine"]
    assert "broadcast_in_dim" not in ops_of(after)
    np.testing.assert_array_equal(evaluated(after, X)[0], np.sin(X)[:, ::-1])
    assert peak_bytes(graph) - peak_bytes(after) == MATRIX.nbytes
    assert apply(REUSE, after)[0] is after


def backwards(x: Value, zeros: Value) -> Value:
    carried = loop(x, zeros, start=lambda i: ops.subtract(number(7), ops.multiply(number(3), i)))
    return last_row(carried[1], x, 0, 0)


def behind_a_barrier(x: Value, zeros: Value) -> Value:
    start, carried = ops.optimization_barrier(number(ROWS - 1), loop(x, zeros)[1])
    part = ops.dynamic_slice(x, start, number(0), sizes=(1, COLUMNS))
    return ops.dynamic_update_slice(carried, turned(part), start, number(0))


def read_twice(carry: Value, read: Value, start: Value) -> Value:
    one = ops.dynamic_slice(read, start, number(0), sizes=(3, COLUMNS))
    two = ops.dynamic_slice(read, start, number(0), sizes=(3, COLUMNS))
    part = ops.multiply(turned(one), two)
    return ops.dynamic_update_slice(carry, part, start, number(0))


TAKEN: dict[str, Callable[[Value, Value], Any]] = {
    "backwards": backwards,
    "the rest behind a barrier": behind_a_barrier,
    "two reads": lambda x, zeros: last_row(loop(x, zeros, read_twice)[1], x),
}


@pytest.mark.parametrize("name", TAKEN)
def test_other_forms_of_such_loops(name: str) -> None:
    graph = graph_of(TAKEN[name])
    after, _ = apply(REUSE, graph)
    assert after is not graph
    np.testing.assert_array_equal(evaluated(after, X)[0], evaluated(graph, X)[0])


def moved(carry: Value, read: Value, start: Value) -> Value:
    """Read the rows that the next trip writes."""
    next_rows = ops.add(start, number(1))
    part = ops.dynamic_slice(read, next_rows, number(0), sizes=(3, COLUMNS))
    return ops.dynamic_update_slice(carry, part, start, number(0))


def whole(carry: Value, read: Value, start: Value) -> Value:
    part = ops.dynamic_slice(
        ops.reverse(read, dimensions=(0,)), start, number(0), sizes=(3, COLUMNS)
    )
    return ops.dynamic_update_slice(carry, part, start, number(0))


def of_the_carry(carry: Value, read: Value, start: Value) -> Value:
    part = ops.add(
        ops.dynamic_slice(read, start, number(0), sizes=(3, COLUMNS)),
        ops.dynamic_slice(carry, number(0), number(0), sizes=(3, COLUMNS)),
    )
    return ops.dynamic_update_slice(carry, part, start, number(0))


def first_rows(carry: Value, read: Value, start: Value) -> Value:
    part = ops.slice(read, start=(0, 0), limit=(3, COLUMNS), strides=(1, 1))
    return ops.dynamic_update_slice(carry, part, start, number(0))


def not_needed(carry: Value, read: Value, start: Value) -> Value:
    """Write what is not computed from the slice that is read."""
    part = full(1, ShapeDtype((3, COLUMNS), "float64"))
    return ops.dynamic_update_slice(carry, part, start, number(0))


def overlapping(i: Value) -> Value:
    return ops.multiply(i, number(2))


def of_the_input(write: Callable[[Value, Value], Any]) -> Graph:
    with Builder() as builder:
        x = builder.input(MATRIX)
        return builder.finish([write(x, full(0, MATRIX))])


LEFT: dict[str, Callable[[Value, Value], Any]] = {
    "read behind the loop": lambda x, z: [rows_turned(x, z), ops.reduce_add(x, axes=(0,))],
    "a result itself": lambda x, z: [rows_turned(x, z), x],
    "handed on and read": lambda x, z: [
        last_row((found := loop(x, z))[1], x),
        ops.reduce_add(found[2], axes=(0,)),
    ],
    "read at another place": lambda x, z: last_row(loop(x, z, moved)[1], x),
    "read whole": lambda x, z: last_row(loop(x, z, whole)[1], x),
    "the carry is read": lambda x, z: last_row(loop(x, z, of_the_carry)[1], x),
    "read for nothing": lambda x, z: last_row(loop(x, z, not_needed)[1], x),
    "trips overlap": lambda x, z: last_row(loop(x, z, start=overlapping, trips=4)[1], x),
    "not all is written": lambda x, z: loop(x, z)[1],
    "the rest reads another row": lambda x, z: last_row(loop(x, z)[1], x, 0),
    "the rest overlaps": lambda x, z: last_row(last_row(loop(x, z)[1], x), x, 4, 4),
    "out of bounds": lambda x, z: loop(x, z, start=lambda i: ops.multiply(i, number(3)), trips=4)[
        1
    ],
    "read before all is written": lambda x, z: [
        last_row((found := loop(x, z))[1], x),
        ops.reduce_add(found[1], axes=(0,)),
    ],
    "no zeros": lambda x, z: last_row(loop(x, ops.cosine(z))[1], x),
    "a gap between": lambda x, z: last_row(loop(x, z, trips=2)[1], x),
    "read by a slice that stays": lambda x, z: last_row(loop(x, z, first_rows)[1], x),
}


@pytest.mark.parametrize("name", LEFT)
def test_left_alone(name: str) -> None:
    graph = graph_of(LEFT[name])
    assert apply(REUSE, graph)[0] is graph


def test_what_another_carry_reads_is_left_alone() -> None:
    """Nothing says that it is read before the slice is written."""
    with Builder() as body:
        i, carry, read = (body.input(t) for t in (ShapeDtype((), "int32"), MATRIX, MATRIX))
        total = body.input(ShapeDtype((), "float64"))
        start = ops.multiply(i, number(5))
        part = ops.dynamic_slice(read, start, number(0), sizes=(5, COLUMNS))
        ones = full(1, part.type)
        written = ops.dynamic_update_slice(carry, ones, start, number(0))
        more = ops.add(total, ops.reduce_add(part, axes=(0, 1)))
        inside = body.finish([ops.add(i, number(1)), written, read, more])
    with Builder() as builder:
        inputs = [builder.input(type) for type in inside.input_types]
        condition = builder.finish([ops.compare(inputs[0], number(2), direction="LT")])

    def write(x: Value, zeros: Value) -> list[Value]:
        begin = number(0), zeros, x, full(0, ShapeDtype((), "float64"))
        results = ops.while_(*begin, condition=condition, body=inside)
        return [results[1], results[3]]

    graph = graph_of(write)
    assert apply(REUSE, graph)[0] is graph


def test_an_argument_is_not_written_over() -> None:
    graph = of_the_input(rows_turned)
    assert apply(REUSE, graph)[0] is graph


def two_loops() -> Graph:
    with Builder() as builder:
        x = builder.input(MATRIX)
        zeros = full(0, MATRIX)
        first = last_row(loop(x, zeros)[1], x)
        scale = ops.reduce_add(first, axes=(0, 1))
        scaled = ops.multiply(x, ops.broadcast_in_dim(scale, shape=MATRIX.shape, dimensions=()))
        second = loop(ops.add(scaled, x), zeros, trips=3)[1]
        return builder.finish([ops.reduce_add(first, axes=(0,)), ops.reduce_add(second, axes=(0,))])


def everything_is_large() -> Any:
    sizes = replace(DEFAULT_TARGET.sizes, copy_bytes=0)
    return planned_for(replace(DEFAULT_TARGET, sizes=sizes))


def test_each_loop_begins_with_zeros_of_its_own() -> None:
    graph = two_loops()
    with everything_is_large():
        after, log = apply(FILLS, graph)
        assert len(log.applied) == 1
        assert apply(FILLS, after)[0] is after
    assert ops_of(graph).count("broadcast_in_dim") + 1 == ops_of(after).count("broadcast_in_dim")
    assert ops_of(after).count("optimization_barrier") == 1
    for got, want in zip(evaluated(after, X), evaluated(graph, X), strict=True):
        np.testing.assert_array_equal(got, want)
    # Small fills are not worth a barrier.
    assert apply(FILLS, graph)[0] is graph


@pytest.mark.slow
def test_what_loops_hand_on_is_computed_the_same() -> None:
    acted = {REUSE.name: 0, FILLS.name: 0}

    @run_settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(pattern_programs.handed_on(), settings())
    def check(program: Any, chosen: Any) -> None:
        graph = split_graph(program.graph, chosen, PassLog())[0]
        graph = apply(COMMON_SUBEXPRESSIONS, graph)[0]
        wanted = interpret(graph, program.arrays)
        with everything_is_large():
            for item in (REUSE, FILLS):
                after, _ = apply(item, graph)
                acted[item.name] += after is not graph
                graph = after
        for got, want in zip(interpret(graph, program.arrays), wanted, strict=True):
            np.testing.assert_array_equal(got, want)

    check()
    assert min(acted.values()) > 10, acted


@pytest.mark.xla
@pytest.mark.slow
def test_the_gradient_of_an_exact_gaussian_process_takes_two_matrices() -> None:
    n = 1200

    def loss(scale: Any, x: Any, y: Any) -> Any:
        squares = ((x[:, None] - x) ** 2).sum(-1)
        kernel = tnp.exp(-0.5 * squares / tnp.exp(scale) ** 2) + 0.1 * tnp.eye(n, dtype=x.dtype)
        factor = tnp.linalg.cholesky(kernel)
        half = solve_triangular(factor, y, lower=True)
        return half @ half / 2 + tnp.log(tnp.diagonal(factor)).sum()

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((n, 3)), rng.standard_normal(n)
    gradient = tracer.value_and_grad(loss, argnums=(0, 1))
    limited = tracer.compile(gradient, memory_limit=int(2.8 * 8 * n * n))
    plan = limited.plan(0.3, x, y)
    assert any(row.name == REUSE.name and row.applied for row in plan.passes)
    wanted = tracer.compile(gradient)(0.3, x, y)
    for got, want in zip(
        tracer.tree.leaves(limited(0.3, x, y)), tracer.tree.leaves(wanted), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * np.abs(want).max())
