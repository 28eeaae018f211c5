"""Reductions over features of pairs, in tiles: what is written, and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, text, traced
from tracer import ops
from tracer.ir import Builder, Graph, Node, ShapeDtype
from tracer.ir.library_calls import PairwiseCall
from tracer.lowering import compile_graph, to_device, to_host
from tracer.optimizer.legalize.pairwise import pairwise_reductions_pass
from tracer.target import DEFAULT_TARGET, accelerator
from tracer.target.tiles import Tiles

SMALL = Tiles(columns_bytes=7 * 5 * 8, tile_bytes=4 * 7 * 8, stored_bytes=10**6, least_rows=1)
"""Tiles of seven columns of five float64, and of four rows."""
TARGET = replace(
    DEFAULT_TARGET, cache_bytes=0, kernels=replace(DEFAULT_TARGET.kernels, tiles=SMALL)
)
PASS = pairwise_reductions_pass(TARGET)
OFF = "-tile-pairwise-reductions"


def graph_of(f: Callable[..., Any], *shapes: tuple[int, ...], dtype: str = "float64") -> Graph:
    """Return a program as it is written."""
    return traced(f, *((shape, dtype) for shape in shapes))


def away(x: Any, y: Any) -> Any:
    return tnp.abs(x[:, None] - y[None])


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "sum": (lambda x, y: away(x, y).sum(-1), ((9, 5), (23, 5))),
    "whole tiles": (lambda x, y: away(x, y).sum(-1), ((8, 5), (21, 5))),
    "one tile": (lambda x, y: away(x, y).sum(-1), ((3, 5), (6, 5))),
    "largest": (lambda x, y: away(x, y).max(-1), ((9, 5), (23, 5))),
    "smallest": (lambda x, y: away(x, y).min(-1), ((9, 5), (23, 5))),
    "product": (lambda x, y: away(x, y).prod(-1), ((9, 5), (23, 5))),
    "any": (lambda x, y: (x[:, None] > y).any(-1), ((9, 5), (23, 5))),
    "counts": (lambda x, y: (x[:, None] != y).sum(-1), ((9, 5), (23, 5))),
    "with itself": (lambda x: away(x, x).sum(-1), ((23, 5),)),
    "reversed rows": (lambda x: away(x[::-1], x).sum(-1), ((23, 5),)),
    "features first": (lambda x, y: tnp.abs(x[:, :, None] - y[:, None]).sum(0), ((5, 9), (5, 23))),
    "features between": (
        lambda x, y: tnp.abs(x[:, :, None] - y[None]).sum(1),
        ((9, 5), (5, 23)),
    ),
    "batch": (lambda x, y: tnp.abs(x[:, :, None] - y[:, None]).sum(-1), ((3, 9, 5), (3, 23, 5))),
    "batch of rows": (lambda x, y: tnp.abs(x[:, :, None] - y).sum(-1), ((3, 9, 5), (23, 5))),
    "weights of features": (
        lambda x, y, w: (away(x, y) ** 1.5 * w).sum(-1),
        ((9, 5), (23, 5), (5,)),
    ),
    "weights of pairs": (
        lambda x, y, w: (away(x, y) * w[:, :, None] + w[:, :1, None]).sum(-1),
        ((9, 5), (23, 5), (9, 23)),
    ),
    "some rows": (lambda x, y: away(x[2:7], y[3:]).sum(-1), ((9, 5), (23, 5))),
    "some features": (lambda x, y: away(x[:, 2:6], y[4:22, 1:5]).sum(-1), ((9, 7), (23, 5))),
    "rows from a place on": (
        lambda x, y: away(
            tracer.lax.dynamic_slice(x, (4, 1), (6, 5)),
            tracer.lax.dynamic_slice(y, (tnp.argmax(y[:, 0]), -7), (20, 5)),
        ).sum(-1),
        ((9, 7), (23, 6)),
    ),
    "one row of many": (
        lambda x, y: (
            tnp.abs(x[2:3, None] - y[:, 2][:, None].swapaxes(0, 1)) + away(x, y[:, 1])
        ).sum(-1),
        ((9, 5), (23, 3, 5)),
    ),
    "Canberra": (
        lambda x, y: (away(x, y) / (tnp.abs(x)[:, None] + tnp.abs(y))).sum(-1),
        ((9, 5), (23, 5)),
    ),
    "complex": (
        lambda x, y: ((x[:, None] + 1j * y) ** 2).sum(-1),
        ((9, 5), (23, 5)),
    ),
    "narrow": (
        lambda x, y: away(x.astype("bfloat16"), y.astype("bfloat16")).sum(-1),
        ((9, 5), (23, 5)),
    ),
    "int8": (
        lambda x, y: tnp.abs((9 * x).astype("int8")[:, None] - (9 * y).astype("int8")).max(-1),
        ((9, 5), (23, 5)),
    ),
}


@pytest.mark.xla
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_as_without(name: str) -> None:
    f, shapes = PROGRAMS[name]
    before = graph_of(f, *shapes)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    arrays[0].flat[3] = np.nan if name in ("sum", "largest", "any") else 1.0
    after, log = apply(PASS, before)
    assert len(log.applied) == 1
    assert "while" in text(after)
    (wanted,) = evaluated(before, *arrays)
    (found,) = evaluated(after, *arrays)
    np.testing.assert_array_equal(found, wanted)
    (made,) = compile_graph(after)(*map(to_device, arrays))
    exact = wanted.dtype.kind in "biu"
    np.testing.assert_allclose(
        to_host(made).astype("c16"),
        wanted.astype("c16"),
        rtol=0 if exact else 1e-2 if name == "narrow" else 1e-13,
    )


def test_what_would_have_to_be_stored_is_left() -> None:
    tiles = replace(SMALL, stored_bytes=9 * 5 * 8)
    item = pairwise_reductions_pass(replace(TARGET, kernels=replace(TARGET.kernels, tiles=tiles)))
    shapes = (9, 5), (23, 5)
    graph = graph_of(lambda x, y: away(x * 2, y).sum(-1), *shapes)
    assert apply(item, graph)[0] is not graph
    graph = graph_of(lambda x, y: away(x, y * 2).sum(-1), *shapes)
    assert apply(item, graph)[0] is graph


LEFT: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "one side": (lambda x: tnp.abs(x).sum(-1), ((9, 23, 5),)),
    "stored pairs": (lambda x, y: tnp.abs(x - y[None]).sum(-1), ((9, 23, 5), (23, 5))),
    "rows alone": (lambda x, w: (x[:, None] * w[:, None, None]).sum(-1), ((9, 5), (9,))),
    "one result for each": (lambda x, y: tnp.abs(x - y).sum(-1), ((9, 5), (5,))),
    "two axes": (lambda x, y: away(x, y).sum((1, 2)), ((9, 5), (23, 5))),
    "running": (lambda x, y: tnp.cumsum(away(x, y), 2).sum(-1), ((9, 5), (23, 5))),
    "no rows": (lambda x, y: away(x, y).sum(-1), ((0, 5), (23, 5))),
    "no features": (lambda x, y: away(x, y).sum(-1), ((9, 0), (23, 0))),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left(name: str) -> None:
    f, shapes = LEFT[name]
    graph = graph_of(f, *shapes)
    assert apply(PASS, graph)[0] is graph


def test_what_is_in_a_cache_and_few_rows_are_left() -> None:
    tiles, call = Tiles(), PairwiseCall((200, 60_000), 784, 4, 4)
    assert tiles.tile(call, 32 << 20) == (200, 167)
    assert tiles.tile(call, 60_000 * 784 * 8) is None
    assert tiles.tile(replace(call, shape=(15, 60_000)), 32 << 20) is None
    assert tiles.tile(replace(call, shape=(3, 5_000, 60_000)), 32 << 20) == (1, 392, 167)
    assert tiles.tile(replace(call, features=10**6), 32 << 20) == (200, 1)


def test_other_platforms_have_their_own() -> None:
    graph = graph_of(lambda x, y: away(x, y).sum(-1), (200, 784), (60_000, 784))
    assert apply(pairwise_reductions_pass(accelerator("tpu", "v5e")), graph)[0] is graph


def test_terms_that_are_computed_with_an_order_of_axes_are_left() -> None:
    with Builder() as builder:
        x, y = (builder.input(ShapeDtype(shape, "float64")) for shape in ((9, 5), (23, 5)))
        far = ops.subtract(
            ops.broadcast_in_dim(x, shape=(9, 23, 5), dimensions=(0, 2)),
            ops.broadcast_in_dim(y, shape=(9, 23, 5), dimensions=(1, 2)),
        )
        turned = ops.reverse(far, dimensions=(1,))
        graph = builder.finish([ops.reduce_add(turned, axes=(2,))])
    assert apply(PASS, graph)[0] is graph


@pytest.mark.xla
@pytest.mark.parametrize(
    ("dtype", "start"),
    [
        ("int64", 2**33 + 3),
        ("int64", -(2**33) - 3),
        ("int8", 100),
        ("int8", -100),
        ("uint32", 2**31 + 5),
        ("uint64", 2**63 + 9),
        ("uint8", 250),
    ],
)
def test_windows_that_begin_outside_are_inside(dtype: str, start: int) -> None:
    with Builder() as builder:
        x, y = (builder.input(ShapeDtype(shape, "float64")) for shape in ((9, 5), (300, 5)))
        place = builder.input(ShapeDtype((), dtype))
        zero = ops.constant(value=np.zeros((), dtype))
        window = ops.dynamic_slice(y, place, zero, sizes=(23, 5))
        far = ops.subtract(
            ops.broadcast_in_dim(x, shape=(9, 23, 5), dimensions=(0, 2)),
            ops.broadcast_in_dim(window, shape=(9, 23, 5), dimensions=(1, 2)),
        )
        before = builder.finish([ops.reduce_add(ops.abs(far), axes=(2,))])
    after, log = apply(PASS, before)
    assert len(log.applied) == 1
    rng = np.random.default_rng(0)
    arrays = [*map(rng.standard_normal, ((9, 5), (300, 5))), np.array(start, dtype)]
    (wanted,) = evaluated(before, *arrays)
    np.testing.assert_array_equal(evaluated(after, *arrays)[0], wanted)
    (made,) = compile_graph(after)(*map(to_device, arrays))
    np.testing.assert_allclose(to_host(made), wanted, rtol=1e-13)


LARGE = ((24, 1000), (5001, 1000))


@pytest.mark.xla
@pytest.mark.parametrize("limit", [None, "25MB"])
def test_programs_at_the_size_that_is_chosen(limit: str | None) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype("float32") for shape in LARGE)

    def nearest(x: Any, y: Any) -> Any:
        return tnp.top_k(-away(x, y).sum(-1), 3)[1]

    program = tracer.compile(nearest, memory_limit=limit)
    assert any(row.name == "tile pairwise reductions" for row in program.plan(x, y).passes)
    wanted = np.stack([np.abs(row - y.astype("f8")).sum(-1).argsort()[:3] for row in x])
    np.testing.assert_array_equal(program(x, y), wanted)


@pytest.mark.xla
def test_gradients_are_those_without() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape) for shape in ((17, 500), (5000, 500)))

    def loss(x: Any, y: Any) -> Any:
        return (tnp.exp(-away(x, y).sum(-1) / 500) ** 2).sum()

    found = tracer.compile(tracer.grad(loss, argnums=(0, 1)))(x, y)
    wanted = tracer.compile(tracer.grad(loss, argnums=(0, 1)), passes=OFF)(x, y)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    direction = rng.standard_normal(x.shape)
    program = tracer.compile(loss)
    rise = program(x + 1e-6 * direction, y) - program(x - 1e-6 * direction, y)
    np.testing.assert_allclose(rise / 2e-6, (found[0] * direction).sum(), rtol=1e-4)


def nodes_in(graph: Graph) -> Iterator[Node]:
    """Yield the nodes of a graph, and of the bodies of its loops."""
    for node in graph.nodes:
        yield node
        for body in node.bodies.values():
            yield from nodes_in(body)


def test_a_loop_has_the_lines_of_what_it_replaces() -> None:
    graph = graph_of(lambda x, y: away(x, y).sum(-1), (9, 5), (23, 5))
    known = {node.source for node in graph.nodes}
    after, _ = apply(PASS, graph)
    assert {node.source for node in nodes_in(after)} <= known
