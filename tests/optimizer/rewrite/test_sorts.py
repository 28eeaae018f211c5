"""Places of a sorted axis by counting, where it has no room to be sorted, and where it has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import evaluated, traced
from tracer import ops
from tracer.array import dispatch
from tracer.ir import Graph, verify
from tracer.lowering import compile_graph, to_device, to_host
from tracer.optimizer.legalize.reductions import staged_reductions_pass
from tracer.optimizer.passes import PassLog
from tracer.optimizer.rewrite.sorts import count_for_sort_pass, count_in_memory_pass
from tracer.target import DEFAULT_TARGET, Kernels
from tracer.target.record import ACCELERATOR_KERNELS

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "quantile": lambda x: tnp.quantile(x, 0.3, axis=0),
    "quantiles of rows": lambda x: tnp.quantile(x, np.array([0.0, 0.21, 1.0]), axis=1),
    "median of all": tnp.median,
    "an element": lambda x: tnp.quantile(x, 0.7, axis=0, method="lower"),
    "of what is computed": lambda x: tnp.median(x * x[::-1] + 1, axis=1),
    "without NaN": lambda x: tnp.nanquantile(x, np.array([0.2, 0.9]), axis=0),
    "places of a sorted array": lambda x: (tnp.sort(x, axis=0)[2], tnp.sort(x, axis=0)[-3::2]),
    "of what is sorted": lambda x: 2 * tnp.sort(x, axis=1)[:, :2] - 1,
    "places as given": lambda x: tnp.take_along_axis(
        tnp.sort(x, axis=1), np.array([[0, 3, 1]]) % x.shape[1], axis=1
    ),
}
DTYPES = ("float16", "float32", "float64", "int8", "int32", "uint8", "int64", "uint64")


def numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """With elements that are equal, and the ends of the dtype."""
    kind = np.dtype(dtype).kind
    if kind == "f":
        x = (rng.integers(-9, 9, shape) / 4 + rng.standard_normal(shape)).astype(dtype)
        special = [0.0, -0.0, np.inf, -np.inf, np.finfo(dtype).max, np.finfo(dtype).tiny]
    else:
        bounds = np.iinfo(dtype)
        x = rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)
        special = [bounds.min, bounds.max, 0, 1]
    where = rng.random(shape) < 0.2
    return np.where(where, rng.choice(np.array(special, dtype), shape), x)


ALWAYS = Kernels(counted_elements=0, counted_steps=math.inf)
PASSES = {
    "no room": count_for_sort_pass(1),
    "in memory": count_in_memory_pass(ALWAYS),
}


def counted(graph: Graph, form: str = "no room") -> tuple[Graph, PassLog]:
    log = PassLog()
    found = PASSES[form].run(graph, log)
    verify(found)
    return found, log


@pytest.mark.parametrize("form", PASSES)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_those_of_the_sort(
    name: str, dtype: str, form: str, rng: np.random.Generator
) -> None:
    for shape in ((17, 6), (1, 4), (5, 1), (33, 3)):
        if shape[0] < 3 and "places of" in name:
            continue
        x = numbers(rng, shape, dtype)
        graph = traced(PROGRAMS[name], (shape, np.dtype(dtype)))
        found, log = counted(graph, form)
        if min(shape) > 1:  # Of one element all is read.
            assert log.applied
            assert not any(node.name == "sort" for node in found.nodes)
        with_nan = np.where(rng.random(shape) < 0.1, np.nan, x) if x.dtype.kind == "f" else x
        for given in (x, with_nan.astype(dtype)):
            with np.errstate(all="ignore"):
                pairs = zip(evaluated(graph, given), evaluated(found, given), strict=True)
            for one, other in pairs:
                np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("form", PASSES)
@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), (1, 0)])
def test_any_axes(axis: Any, form: str, rng: np.random.Generator) -> None:
    x = numbers(rng, (4, 7, 3), "float32")
    last = axis if isinstance(axis, int) else 1
    taken = rng.integers(0, 3, tuple(2 if i == last else size for i, size in enumerate(x.shape)))

    def program(x: Any, taken: Any) -> Any:
        levels = tnp.quantile(x, np.array([0.2, 0.6]), axis=axis)
        return levels, tnp.take_along_axis(tnp.sort(x, axis=last), taken, axis=last)

    graph = traced(program, (x.shape, x.dtype), (taken.shape, taken.dtype))
    found, log = counted(graph, form)
    assert len(log.applied) == 2
    with np.errstate(all="ignore"):
        pairs = zip(evaluated(graph, x, taken), evaluated(found, x, taken), strict=True)
    for one, other in pairs:
        np.testing.assert_array_equal(other, one)


def test_places_may_be_of_narrow_integers(rng: np.random.Generator) -> None:
    x, places = rng.standard_normal((300, 2)), np.array([[5, 127], [0, 3]], np.int8)

    def program(x: Any, places: Any) -> Any:
        return tnp.take_along_axis(tnp.sort(x, axis=0), places, axis=0)

    graph = traced(program, ((300, 2), x.dtype), ((2, 2), places.dtype))
    found, log = counted(graph)
    assert log.applied
    np.testing.assert_array_equal(*(evaluated(g, x, places)[0] for g in (found, graph)))


def test_places_may_be_traced_and_are_kept_inside(rng: np.random.Generator) -> None:
    def program(x: Any, q: Any) -> Any:
        return tnp.quantile(x, q, axis=0), tnp.quantile(x, q[0] / 2)

    x, q = rng.standard_normal((40, 3)), np.array([0.05, 0.5, 1.0])
    graph = traced(program, ((40, 3), x.dtype), ((3,), q.dtype))
    found, log = counted(graph)
    assert len(log.applied) == 2
    for one, other in zip(evaluated(graph, x, q), evaluated(found, x, q), strict=True):
        np.testing.assert_array_equal(other, one)


LEFT_ALONE: dict[str, Callable[[Any], Any]] = {
    "a result": lambda x: tnp.sort(x, axis=0),
    "read whole": lambda x: tnp.cumsum(tnp.sort(x, axis=0), axis=0)[1],
    "places of it": lambda x: tnp.argsort(x, axis=0)[2],
    "a gradient": tracer.grad(lambda x: tnp.median(x)),
    "times what is computed": lambda x: (tnp.sort(x, axis=0) * x.sum())[2],
    "places that hang on others": lambda x: tnp.take_along_axis(
        (y := tnp.sort(x, axis=0)), (y[2:3] > 0).astype("int32"), axis=0
    ),
    "many places": lambda x: tnp.sort(x, axis=0)[:20],
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_other_sorts_are_left_alone(name: str) -> None:
    graph = traced(LEFT_ALONE[name], ((30, 5), np.dtype(np.float32)))
    found, log = counted(graph)
    assert found is graph
    assert not log.applied
    assert log.refusals


def test_few_elements_that_have_room_are_sorted() -> None:
    graph = traced(PROGRAMS["quantile"], ((1000, 4), np.dtype(np.float32)))
    least = 1000 * 4 * 4
    for limit in (None, 20 * least):
        assert count_for_sort_pass(limit).run(graph, PassLog()) is graph
    assert count_in_memory_pass(Kernels()).run(graph, PassLog()) is graph
    assert count_for_sort_pass(2 * least).run(graph, PassLog()) is not graph


@pytest.mark.parametrize(
    ("dtype", "rows", "q", "is_counted"),
    [("int8", 1, [0.2, 0.4], True), ("float16", 900, [0.5], False), ("float16", 1, [0.2], True)]
    + [("float32", 1, 0.5, False), ("float32", 900, 0.5, False), ("float64", 1, 0.5, False)],
)
def test_many_are_counted_where_few_words_are_compared(
    dtype: str, rows: int, q: Any, is_counted: bool
) -> None:
    graph = traced(
        lambda x: tnp.quantile(x, np.array(q, dtype), axis=1),
        ((rows, 900_000 // rows), np.dtype(dtype)),
    )
    assert count_in_memory_pass(ACCELERATOR_KERNELS).run(graph, PassLog()) is graph
    found = count_in_memory_pass(Kernels()).run(graph, PassLog())
    names = [node.name for node in found.nodes]
    assert ("while" in names) == ("sort" not in names) == is_counted


@pytest.mark.xla
def test_of_an_array_at_hand_a_median_is_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of the sort alone has to sort: nobody is seen to read few places of it."""
    seen: list[Graph] = []
    evaluator = dispatch.get_evaluator()
    monkeypatch.setattr(
        evaluator,
        "program",
        lambda graph, make=evaluator.program: seen.append(graph) or make(graph),
    )
    dispatch.forget_programs()
    assert tnp.median(np.arange(7.0)) == 3
    (graph,) = [g for g in seen if any(node.op is ops.sort for node in g.nodes)]
    assert [value.shape for value in graph.outputs] == [()]


@pytest.mark.xla
@pytest.mark.parametrize(
    ("dtype", "shape"), list(zip(DTYPES, 3 * [(131_072,), (400, 331), (331, 400)], strict=False))
)
def test_compiled_a_large_array_is_counted_in_a_loop(
    dtype: str, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    x, axis = numbers(rng, shape, dtype), len(shape) - 1
    middle = shape[axis] // 2

    def program(x: Any) -> Any:
        s = tnp.sort(x, axis=axis)
        return s[..., middle], s[..., -1:]

    graph = traced(program, (shape, x.dtype))
    found, _ = counted(graph, "in memory")
    found = staged_reductions_pass(DEFAULT_TARGET).run(found, PassLog())
    results = compile_graph(found)(to_device(x))
    wanted = np.sort(x, axis=axis)
    np.testing.assert_array_equal(to_host(results[0]), wanted[..., middle])
    np.testing.assert_array_equal(to_host(results[1]), wanted[..., -1:])


@pytest.mark.xla
def test_columns_of_storage_are_counted_though_one_has_room(rng: np.random.Generator) -> None:
    """Blocks are read along the first axis: columns cannot be sorted one after the other."""
    x = rng.standard_normal((20_000, 16)).astype("f")
    opened = tracer.open(np.broadcast_to(x, x.shape))
    median = tracer.compile(lambda x: tnp.median(x, axis=0), memory_limit="1MB")
    assert any("16 times" in note for note in median.plan(opened).notes)
    np.testing.assert_array_equal(median(opened), np.median(x, axis=0))
    of_rows = tracer.compile(lambda x: tnp.median(x, axis=1).sum(), memory_limit="1MB")
    assert any("1 times" in note for note in of_rows.plan(opened).notes)
    assert float(of_rows(opened)) == pytest.approx(np.median(x, axis=1).sum(), abs=1e-2)


@pytest.mark.xla
def test_an_array_in_storage_is_cut_although_columns_would_compute_less() -> None:
    """Blocks of columns are none: the array would be stored whole."""

    def scale(x: Any) -> Any:
        low, high = tnp.quantile(x, 0.25, axis=0), tnp.quantile(x, 0.75, axis=0)
        return tnp.median(x, 0) / (high - low)

    x = np.random.default_rng(0).lognormal(size=(200_000, 6)).astype("f")
    opened = tracer.open(np.broadcast_to(x, x.shape))
    found = tracer.compile(scale, memory_limit="1MB")(opened)
    np.testing.assert_array_equal(found, tracer.compile(scale, split="never")(x))


@pytest.mark.xla
@pytest.mark.parametrize("axis", [0, None])
def test_compiled_within_a_limit_below_the_array(axis: Any, rng: np.random.Generator) -> None:
    def program(x: Any, y: Any) -> Any:
        return tnp.quantile(x[:, None] * y, np.array([0.1, 0.5]), axis=axis)

    x, y = rng.standard_normal(6000).astype("f"), rng.standard_normal(300).astype("f")
    limited = tracer.compile(program, memory_limit="1MB")
    assert limited.plan(x, y).compiled_bytes <= 1_000_000
    np.testing.assert_array_equal(limited(x, y), tracer.compile(program, split="never")(x, y))
