"""Loops over batches lie outside: their trips read and pack other operands, none of them again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.array.trace import trace
from tracer.ir import Graph, ShapeDtype, Value
from tracer.optimizer.loops.split.generated import generated_nodes
from tracer.optimizer.loops.split.region import Region
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.model.speed import estimate_seconds
from tracer.optimizer.pipeline import PlannerOptions
from tracer.optimizer.planner import Planner
from tracer.target import Prices, Target

HEADS, LENGTH, FEATURES = 8, 512, 16
OPERAND = ShapeDtype((HEADS, LENGTH, FEATURES), "float32")
SCORES_BYTES = HEADS * LENGTH**2 * 4
LIMIT = 4 * HEADS * LENGTH * FEATURES * 4 + SCORES_BYTES // 8


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = q @ tnp.swapaxes(k, -1, -2)
    return tracer.nn.softmax(scores, axis=-1) @ v


def causal(q: Any, k: Any, v: Any) -> Any:
    places = tnp.arange(q.shape[-2])
    scores = q @ tnp.swapaxes(k, -1, -2)
    return tracer.nn.softmax(tnp.where(places[:, None] >= places, scores, -tnp.inf), axis=-1) @ v


def biased(q: Any, k: Any, v: Any, bias: Any) -> Any:
    """A bias of all pairs is read by each head: the queries are cut, and with them the bias."""
    return tracer.nn.softmax(q @ tnp.swapaxes(k, -1, -2) + bias, axis=-1) @ v


def layer(x: Any, *weights: Any) -> Any:
    """Attention of eight heads between products with weights."""
    q, k, v = ((x @ w).reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2) for w in weights[:3])
    return attention(q, k, v).swapaxes(1, 2).reshape(x.shape) @ weights[3]


def first_plan(function: Any, *operands: ShapeDtype) -> Any:
    options = PlannerOptions(limit_bytes=LIMIT + sum(x.nbytes for x in operands[3:]))
    return next(Planner(trace(function, operands).graph, options).candidates())


@pytest.mark.parametrize("function", [attention, causal])
def test_heads_are_cut_outside_and_queries_inside(function: Any) -> None:
    found = first_plan(function, OPERAND, OPERAND, OPERAND)
    outer, inner = found.loops
    assert outer.axis.startswith(f"axis of {HEADS} of")
    assert inner.axis.startswith(f"axis of {LENGTH} of float32[1,{LENGTH}")


def test_what_every_head_would_read_again_is_cut_first() -> None:
    bias = ShapeDtype((LENGTH, LENGTH), "float32")
    found = first_plan(biased, OPERAND, OPERAND, OPERAND, bias)
    assert found.loops[0].axis.startswith(f"axis of {LENGTH} of")


def test_weights_are_read_along_a_batch_too() -> None:
    """Each trip reads 4 MB of weights; along the queries, 17 MB of keys and values, more often."""
    x, weight = ShapeDtype((8, 1024, 512), "float32"), ShapeDtype((512, 512), "float32")
    graph = trace(layer, (x, weight, weight, weight, weight)).graph
    outer, inner = next(Planner(graph, PlannerOptions()).candidates()).loops
    assert outer.axis.startswith("axis of 8 of float32[8,8,1024,1024]")
    assert inner.axis.startswith("axis of 8 of float32[1,8,1024,1024]")


def test_sums_over_a_batch_that_are_small_are_stored() -> None:
    """Gradients of weights, to which each batch adds, are no reason to cut the places outside."""
    x, weight = ShapeDtype((8, 1024, 512), "float32"), ShapeDtype((512, 512), "float32")
    gradient = tracer.grad(lambda *a: (layer(*a) ** 2).sum(), argnums=(0, 1, 2, 3, 4))
    graph = trace(gradient, (x, weight, weight, weight, weight)).graph
    found = next(Planner(graph, PlannerOptions()).candidates())
    outer, inner = found.loops
    assert outer.axis.startswith("axis of 8 of float32[8,8,1024,1024]")
    assert inner.trips == 8
    assert found.peak_bytes < 100e6


@pytest.mark.xla
def test_a_layer_in_slices_has_the_same_values(rng: np.random.Generator) -> None:
    x, weights = rng.standard_normal((5, 130, 48)), rng.standard_normal((4, 48, 48)) / 7
    gradient = tracer.grad(lambda *a: (layer(*a) ** 2).sum(), argnums=(0, 1, 4))
    for function in (layer, gradient):
        whole = tracer.compile(function, split="never")(x, *weights)
        least = tracer.compile(function).plan(x, *weights).minimum_bytes
        for limit in (least, 2 * least):
            program = tracer.compile(function, memory_limit=limit)
            assert program.plan(x, *weights).loops
            found = tracer.tree.leaves(program(x, *weights))
            for mine, wanted in zip(found, tracer.tree.leaves(whole), strict=True):
                np.testing.assert_allclose(mine, wanted, rtol=1e-9, atol=1e-11)


def test_a_mask_is_made_in_the_bodies() -> None:
    found = first_plan(causal, OPERAND, OPERAND, OPERAND)
    stored = Liveness(found.graph).stored
    assert not [n for n in stored if (LENGTH, LENGTH) in [t.shape for t in n.types]]
    (loop,) = (node for node in found.graph.nodes if node.body_graphs)
    assert not [t for t in loop.operand_types if t.dtype == bool]


@pytest.mark.xla
@pytest.mark.parametrize("function", [attention, causal])
@pytest.mark.parametrize("differentiate", [False, True])
def test_same_values(function: Any, differentiate: bool, rng: np.random.Generator) -> None:
    def squares(*args: Any) -> Any:
        return (function(*args) ** 2).sum()

    asked = tracer.grad(squares, argnums=(0, 1, 2)) if differentiate else function
    # Seven heads: a slice of two or three leaves a remainder.
    given = rng.standard_normal((3, 7, 200, 8))
    whole = tracer.compile(asked, split="never")(*given)
    least = tracer.compile(asked).plan(*given).minimum_bytes
    for limit in (least, 2 * least):
        program = tracer.compile(asked, memory_limit=limit)
        assert program.plan(*given).loops
        for mine, wanted in zip(
            tracer.tree.leaves(program(*given)), tracer.tree.leaves(whole), strict=True
        ):
            np.testing.assert_allclose(mine, wanted, rtol=1e-10, atol=1e-12)


def generated(function: Any, *operands: ShapeDtype) -> tuple[str, ...]:
    graph: Graph = trace(function, operands).graph
    (value,) = graph.outputs
    return tuple(node.name for node in generated_nodes(value, Region(1)))


def test_exact_values_of_small_ones_are_generated() -> None:
    def mask() -> Any:
        places = tnp.arange(LENGTH)
        return places[:, None] >= places

    def of_lengths(lengths: Any) -> Any:
        return tnp.arange(LENGTH) < lengths[:, None]

    assert {"iota", "compare"} <= set(generated(mask))
    lengths = ShapeDtype((LENGTH,), "int32")
    assert "compare" in generated(of_lengths, lengths)


def test_others_are_read() -> None:
    square = ShapeDtype((LENGTH, LENGTH), "int32")
    column = ShapeDtype((LENGTH,), "float32")
    table = np.arange(LENGTH**2).reshape(LENGTH, LENGTH) % 7 == 0

    def from_floats(x: Any) -> Any:
        return x[:, None] > x

    def from_constant(x: Any) -> Any:
        return tnp.logical_and(tnp.asarray(table), x[:, None] > 3)

    def sums(x: Any) -> Any:
        return tnp.cumsum(tnp.broadcast_to(x[:, None], (LENGTH, LENGTH)), axis=0)

    assert generated(lambda x: x > 3, square) == ()
    assert generated(from_floats, column) == ()
    assert generated(from_constant, ShapeDtype((LENGTH,), "int32")) == ()
    assert generated(sums, ShapeDtype((LENGTH,), "int32")) == ()
    assert generated(lambda x: x[:10, None] > x[:10], ShapeDtype((LENGTH,), "int32")) == ()


def test_packing_has_a_price() -> None:
    """Rows of the left operand share the packing of the right one: many slices pack it often."""

    def product(x: Any, y: Any) -> Any:
        return x @ y

    def seconds(rows: int, machine: Target) -> float:
        types = ShapeDtype((rows, 64), "float32"), ShapeDtype((64, 4096), "float32")
        return estimate_seconds(trace(product, types).graph, machine)

    right = 64 * 4096 * 4
    free = Target(prices=Prices(packing_rate=float("inf")))
    for rows in (2, 64, 512):
        more = seconds(rows, Target()) - seconds(rows, free)
        assert more == pytest.approx(right / Target().prices.packing_rate)
    assert seconds(1, Target()) == seconds(1, free)


def test_batches_of_small_products_run_on_one_core() -> None:
    """A library spreads each product of a batch, if it is large enough."""

    def seconds(rows: int, cores: int, batch: int = 8) -> float:
        shapes = (batch, rows, 64), (batch, 64, 1024)
        types = [ShapeDtype(shape, "float32") for shape in shapes]
        machine = Target(cores=cores, prices=Prices(packing_rate=float("inf")))
        return estimate_seconds(trace(lambda x, y: x @ y, types).graph, machine)

    assert seconds(64, 2) == seconds(64, 1)
    assert seconds(128, 2) < seconds(128, 1)
    assert seconds(128, 8) == seconds(128, 2)
    assert seconds(63, 2) < seconds(63, 1)  # Thin ones are spread sooner.
    assert seconds(64, 2, batch=1) < seconds(64, 1, batch=1)

    none = ShapeDtype((0, 64, 64), "float32")
    assert estimate_seconds(trace(lambda x: x @ x, (none,)).graph, Target()) >= 0


def test_a_limit_with_room_for_large_slices_gets_those_that_fit_the_caches() -> None:
    def product(x: Any, v: Any) -> Any:
        return tnp.exp(-((x[:, None] - x[None, :]) ** 2)) @ v

    n, machine = 4096, Target(cache_bytes=1 << 20)
    column = ShapeDtype((n,), "float32")
    graph = trace(product, (column, column)).graph
    roomy = PlannerOptions(limit_bytes=4 * n * n // 2, machine=machine)
    found = next(Planner(graph, roomy).candidates())
    assert found.loops
    assert found.peak_bytes < 2 * machine.cache_bytes


@pytest.mark.xla
def test_values_that_are_generated_have_no_other_users_harmed() -> None:
    """The mask is a result too: it is stored once, and the bodies make their own."""

    def function(q: Any, k: Any, v: Any) -> Any:
        places = tnp.arange(q.shape[-2])
        mask: Value = places[:, None] >= places
        scores = tnp.where(mask, q @ tnp.swapaxes(k, -1, -2), -tnp.inf)
        return tracer.nn.softmax(scores, axis=-1) @ v, mask

    given = np.random.default_rng(0).standard_normal((3, 4, 300, 8)).astype(np.float32)
    whole = tracer.compile(function, split="never")(*given)
    program = tracer.compile(function, memory_limit=900_000)
    assert program.plan(*given).loops
    found = program(*given)
    np.testing.assert_allclose(found[0], whole[0], rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(found[1], whole[1])


@pytest.mark.xla
def test_a_mask_that_is_stored_is_read(rng: np.random.Generator) -> None:
    """What it was made of is part of the loop that stored it, and need not be there later."""

    def function(x: Any, offset: Any) -> Any:
        places = tnp.arange(1500, dtype="int32") + offset
        mask = places[:, None] >= tnp.arange(1500, dtype="int32")
        scores = tnp.where(mask, tnp.exp(x[:, None] * x), 0.0)
        return (scores / scores.sum()).max(1), mask

    given = rng.standard_normal(1500).astype(np.float32), np.int32(1)
    whole = tracer.compile(function, split="never")(*given)
    least = tracer.compile(function).plan(*given).minimum_bytes
    for limit in (least, 2_600_000):
        found = tracer.compile(function, memory_limit=limit)(*given)
        np.testing.assert_allclose(found[0], whole[0], rtol=1e-5)
        np.testing.assert_array_equal(found[1], whole[1])


def test_long_computations_are_not_made_again() -> None:
    def chain(rounds: int) -> Any:
        x = tnp.arange(LENGTH)[:, None] + tnp.arange(LENGTH)
        for _ in range(rounds):
            x = x * 3 + tnp.where(x > 7, 1, 2)
        return x

    assert generated(lambda: chain(1))
    assert generated(lambda: chain(30)) == ()
    assert generated(lambda: chain(2000)) == ()


@pytest.mark.parametrize("reduction", ["sum", "max"])
def test_an_axis_that_is_summed_is_no_batch(reduction: str) -> None:
    """What heads add to would be stored whole, and cut by no loop within."""

    def function(q: Any, k: Any) -> Any:
        scores = tnp.exp(q @ tnp.swapaxes(k, -1, -2) / 9)
        return getattr(scores, reduction)(0).max(1)

    operand = ShapeDtype((8, 700, 8), "float32")
    graph = trace(function, (operand, operand)).graph
    assert Planner(graph, PlannerOptions(limit_bytes=1)).smallest().peak_bytes < 700_000
