"""Loops of small kernels that run as one function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.ops.samples import SAMPLES, Sample
from tests.optimizer.graphs import apply, ops_of, text
from tracer import lowering, ops
from tracer.array.trace import trace
from tracer.ir import Builder, Graph, Op, ShapeDtype, Value, interpret, registry
from tracer.ops.helpers import scalar
from tracer.optimizer.loops.small_calls import small_calls_pass
from tracer.optimizer.passes import PassLog, PassManager
from tracer.optimizer.rewrite.expand import EXPAND
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS
from tracer.target import DEFAULT_TARGET

Array = np.ndarray[Any, Any]
INDEX = np.dtype(np.int32)
PASS = small_calls_pass(DEFAULT_TARGET)
X = np.linspace(-1.0, 1.0, 256, dtype=np.float32)


def called(function: Callable[..., Any], *arrays: Array) -> tuple[Graph, PassLog]:
    graph = trace(function, arrays).graph
    graph = PassManager().run(graph, (EXPAND, COMMON_SUBEXPRESSIONS))
    result, log = apply(PASS, graph)
    for one, other in zip(interpret(result, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_array_equal(one, other)
    return result, log


def swings(count: int) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        def body(i: Any, carry: Any) -> Any:
            place, speed = carry
            return place + speed, speed - tnp.sin(place)

        return tracer.fori_loop(0, count, body, (x, x * 2))

    return run


def test_the_loop_goes_into_a_call() -> None:
    graph, log = called(swings(9), X)
    assert [node.name for node in graph.nodes if node.name in ("while", "small_call")] == [
        "small_call"
    ]
    assert "to start the kernels of a trip" in log.applied[0]


def test_without_loops_nothing_changes() -> None:
    assert called(lambda x: tnp.sin(x) + 1, X)[0].nodes[-1].name == "add"


# Guards.


def why_not(function: Callable[..., Any], *arrays: Array) -> str:
    graph, log = called(function, *arrays)
    assert "small_call" not in ops_of(graph)
    return " / ".join(map(str, log.refusals))


def test_library_calls_stay_outside() -> None:
    def run(x: Any) -> Any:
        return tracer.fori_loop(0, 5, lambda i, m: m @ m * 0.5, x)

    assert "dot_general calls a library" in why_not(run, np.eye(8, dtype=np.float32))

    def sorted_often(x: Any) -> Any:
        return tracer.fori_loop(0, 5, lambda i, v: tnp.sort(v) * 0.5, x)

    assert "sort calls a library" in why_not(sorted_often, X)


def test_large_kernels_stay_on_all_cores() -> None:
    large = np.zeros(1 << 20, np.float32)
    assert "other cores save" in why_not(swings(2), large)


def test_barriers_stay_outside() -> None:
    def run(x: Any) -> Any:
        def body(i: Any, v: Any) -> Any:
            return tracer.checkpoint(lambda u: tnp.sin(u) * v)(v)

        return tracer.fori_loop(0, 3, body, x)

    graph = trace(tracer.grad(lambda x: run(x).sum()), [X]).graph
    graph = PassManager().run(graph, (EXPAND, COMMON_SUBEXPRESSIONS))
    result, log = apply(PASS, graph)
    barriers = "optimization_barrier" in ops_of(graph)
    assert barriers == any("keeps an order" in str(refusal) for refusal in log.refusals)
    assert barriers
    assert "optimization_barrier" in ops_of(result)


def test_powers_of_integers_stay_outside() -> None:
    def run(x: Any) -> Any:
        return tracer.fori_loop(0, 3, lambda i, v: v**v, x)

    assert "may be defined differently" in why_not(run, np.array([-1, 1, 2], np.int32))


def test_a_single_trip_stays() -> None:
    def run(x: Any) -> Any:
        return tracer.scan(lambda c, _: (tnp.sin(c), c), x, None, 1)

    assert "it runs 1 times" in why_not(run, X)


def test_large_donated_state_stays_in_place() -> None:
    large = np.zeros(1 << 15, np.float32)
    graph = trace(swings(3), [large]).graph
    graph = PassManager().run(graph, (EXPAND, COMMON_SUBEXPRESSIONS))
    one_core = replace(DEFAULT_TARGET, cores=1)
    result, log = apply(small_calls_pass(one_core, frozenset({0})), graph)
    assert result is graph
    assert "donated memory" in str(log.refusals[0])
    assert apply(small_calls_pass(one_core), graph)[1].applied


# Through the compiler.


@pytest.mark.xla
@pytest.mark.parametrize("count", [0, 1, 2, 25])
def test_compiled_values_are_the_same(count: int) -> None:
    run, plain = swings(count), tracer.compile(swings(count), passes="-small-calls")
    for one, other in zip(tracer.compile(run)(X), plain(X), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.xla
def test_the_compiled_program_is_one_function() -> None:
    run = tracer.compile(swings(50))
    assert 'xla_cpu_small_call="true"' in run.hlo(X)
    plain = tracer.compile(swings(50), passes="-small-calls")
    assert "xla_cpu_small_call" not in plain.hlo(X)
    rows = {row.name: row for row in run.plan(X).passes}
    assert rows["small calls"].applied


@pytest.mark.xla
def test_gradients_and_batches() -> None:
    def loss(x: Any) -> Any:
        return (swings(6)(x)[0] ** 2).sum()

    batch = np.stack([X, -X])
    for function, x in ((tracer.grad(loss), X), (tracer.vmap(tracer.grad(loss)), batch)):
        plain = tracer.compile(function, passes="-small-calls")
        np.testing.assert_allclose(tracer.compile(function)(x), plain(x), rtol=1e-6)


@pytest.mark.xla
def test_donated_state_and_a_limit() -> None:
    plain = tracer.compile(swings(6), passes="-small-calls")(X)
    donated = tracer.compile(swings(6), donate_argnums=0)(tnp.asarray(X))
    limited = tracer.compile(swings(6), memory_limit="100kB")(X)
    for found in (donated, limited):
        np.testing.assert_array_equal(found[0], plain[0])
        np.testing.assert_array_equal(found[1], plain[1])


# Every op that may be part of such a function: XLA's emitter for them ends the process at what it
# does not know, so that this has to be checked for each.


def looped(op: Op, sample: Sample) -> Graph:
    """Return a program of three trips in a call, each of which runs the op."""
    types = [ShapeDtype(np.shape(x), np.asarray(x).dtype) for x in sample.operands]
    with Builder() as builder:
        inner = builder.finish(as_tuple(op(*map(builder.input, types), **sample.params)))
    carried = [ShapeDtype((), INDEX), *types, *inner.output_types]
    with Builder() as builder:
        first, *_ = map(builder.input, carried)
        condition = builder.finish([ops.compare(first, scalar(3, INDEX), direction="LT")])
    with Builder() as builder:
        count, *values = (builder.input(type) for type in carried)
        given = values[: len(types)]
        found = builder.inline(inner, given)
        body = builder.finish([ops.add(count, scalar(1, INDEX)), *given, *found])
    with Builder() as builder:
        given = [builder.input(type) for type in types]
        start = [ops.constant(value=np.zeros(t.shape, t.dtype)) for t in inner.output_types]
        loop = ops.while_(scalar(0, INDEX), *given, *start, condition=condition, body=body)
        outside = builder.finish(loop[1 + len(types) :])
    with Builder() as builder:
        given = [builder.input(type) for type in types]
        return builder.finish(ops.small_call(*given, body=outside))


def as_tuple(found: Any) -> tuple[Value, ...]:
    return found if isinstance(found, tuple) else (found,)


def may_be_inside(op: Op) -> bool:
    return op.fusion in ("loop", "view", "reduce") or op.pieces is not None


INSIDE = [
    pytest.param(name, SAMPLES[name][0], id=name)
    for name, op in sorted(registry().items())
    if may_be_inside(op) and SAMPLES.get(name) and SAMPLES[name][0].operands
]


@pytest.mark.xla
@pytest.mark.parametrize(("name", "sample"), INSIDE)
def test_every_op_that_may_be_inside(name: str, sample: Sample) -> None:
    graph = looped(registry()[name], sample)
    device = lowering.default_device()
    buffers = [lowering.to_device(np.asarray(x), device) for x in sample.operands]
    found = lowering.compile_graph(graph)(*buffers)
    wanted = registry()[name].evaluate(*sample.operands, **sample.params)
    for one, other in zip(found, as_tuple(wanted), strict=True):
        np.testing.assert_allclose(lowering.to_host(one), other, rtol=1e-6, atol=1e-9)


def test_the_text_of_a_loop_in_a_call() -> None:
    graph, _ = called(lambda x: tracer.fori_loop(0, 9, lambda i, y: tnp.sin(y) * x, x), X)
    expected = """
    graph(%0: float32[256]) {
      %1: int32[], %2: float32[256], %3: int64[], %4: float32[256] = small_call(%0, %0) with
        body=graph(%0: float32[256], %1: float32[256]) {
          %2: int32[] = constant() {value=int32[] 0}
          %3: int64[] = constant() {value=int64[] 0}
          %4: int32[], %5: float32[256], %6: int64[], %7: float32[256] = while(%2, %0, %3, %1) with
            condition=graph(%0: int32[], %1: float32[256], %2: int64[], %3: float32[256]) {
              %4: int32[] = constant() {value=int32[] 9}
              %5: bool[] = compare(%0, %4) {direction='LT'}
              return %5
            }
            body=graph(%0: int32[], %1: float32[256], %2: int64[], %3: float32[256]) {
              %4: int32[] = constant() {value=int32[] 1}
              %5: int64[] = constant() {value=int64[] 1}
              %6: int64[] = add(%2, %5)
              %7: float32[256] = sine(%3)
              %8: float32[256] = multiply(%7, %1)
              %9: int32[] = add(%0, %4)
              return %9, %1, %6, %8
            }
          return %4, %5, %6, %7
        }
      return %4
    }
    """
    assert text(graph) == dedent(expected).strip()


def solved_after_steps(x: Any) -> Any:
    """Return what XLA knows is 0 as the start of a small call, and of a small loop of XLA's own."""
    known = tnp.sum(x > 9).astype("int32") * tnp.int32(0)
    body = lambda c: (tnp.cos(c[0] * x), c[1] + 1, c[2] + tnp.int32(0))
    holds = lambda c: (c[2] == 0) & (c[1] < 20)
    y = tracer.while_loop(holds, body, (x, tnp.asarray(0), known))[0]
    return tnp.linalg.solve(tnp.outer(y, y) + tnp.eye(len(x)), y)


@pytest.mark.xla
@pytest.mark.parametrize("trips", [None, 3])
def test_xla_may_know_what_a_call_starts_with(trips: int | None) -> None:
    def run(x: Any) -> Any:
        if trips is None:
            return solved_after_steps(x)
        return tracer.fori_loop(0, trips, lambda _, x: tnp.sort(solved_after_steps(x)), x)

    wanted = x = np.linspace(0.1, 0.9, 3)
    for _ in range(trips or 1):
        y = wanted
        for _ in range(20):
            y = np.cos(y * wanted)
        wanted = np.linalg.solve(np.outer(y, y) + np.eye(3), y)
        wanted = wanted if trips is None else np.sort(wanted)
    np.testing.assert_allclose(tracer.compile(run)(x), wanted, rtol=1e-12)


@pytest.mark.xla
def test_xla_may_know_an_array_that_constants_make():
    """XLA made a count of it, wrote that into the function too, and ended the process."""
    x = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    twice = lambda row: row.at[np.array([1])].apply(lambda t: t * t + t)
    wanted = np.stack([x[:, 0], x[:, 1] ** 2 + x[:, 1]], axis=1)
    np.testing.assert_array_equal(tracer.compile(tracer.vmap(twice))(x), wanted)
