"""Orders against exhaustive search, and random programs in which every product is rewritten."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

from tests.optimizer.graphs import apply, evaluated, ops_of
from tests.optimizer.random_programs import Program, programs
from tests.optimizer.rewrite.chain_graphs import chain_graph, matrices, prepared, reordered
from tracer import ops
from tracer.autodiff import value_and_gradient
from tracer.ir import Builder, Graph, ShapeDtype, interpret
from tracer.optimizer.model.liveness import graph_flops
from tracer.optimizer.passes import PassManager
from tracer.optimizer.rewrite.chains import chains, chains_pass, cost
from tracer.optimizer.rewrite.chains.contraction_order import Contraction, Tree, best_plans
from tracer.optimizer.rewrite.chains.product import Reader


@pytest.fixture(autouse=True, scope="module")
def _savings_of_any_size():
    """Hypothesis allows no function-scoped fixture here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "MINIMUM_FLOPS", 1)
        yield


def parenthesizations(sizes: tuple[int, ...]) -> Iterator[int]:
    """Yield the operations of every order of a chain of matrices with these sizes."""
    if len(sizes) == 2:
        yield 0
    for middle in range(1, len(sizes) - 1):
        step = 2 * sizes[0] * sizes[middle] * sizes[-1]
        for left in parenthesizations(sizes[: middle + 1]):
            for right in parenthesizations(sizes[middle:]):
                yield left + right + step


def all_trees(factors: tuple[int, ...]) -> Iterator[Tree]:
    """Yield every way to multiply factors in pairs, neighbours or not."""
    if len(factors) == 1:
        yield factors[0]
    first, rest = factors[0], factors[1:]
    for bits in range((1 << len(rest)) - 1):
        left = (first, *(f for i, f in enumerate(rest) if bits >> i & 1))
        right = tuple(f for i, f in enumerate(rest) if not bits >> i & 1)
        for a in all_trees(left):
            for b in all_trees(right):
                yield (a, b)


def contraction_of(graph: Graph) -> Contraction:
    uses = {value: 1 for node in graph.nodes for value in node.operands}
    return Contraction(
        Reader({**uses, **dict.fromkeys(graph.outputs, 1)}, {}, frozenset()).read(graph.nodes[-1])
    )


@run_settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(2, 30), min_size=3, max_size=9))
def test_a_chain_of_up_to_eight_matrices_is_as_in_exhaustive_search(sizes: list[int]) -> None:
    graph = matrices(sizes)
    contraction = contraction_of(graph)
    plan = best_plans(contraction)[contraction.everything]
    best = min(parenthesizations(tuple(sizes)))
    assert plan.flops == best
    after = reordered(graph)
    # A saving below a twentieth is left.
    assert best <= graph_flops(after) <= max(best, best / 0.95)


@run_settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_contraction_is_as_in_exhaustive_search(data: st.DataObject) -> None:
    """Factors over random axes, up to five: all 105 ways to multiply them in pairs."""
    graph = data.draw(contractions())
    contraction = contraction_of(graph)
    everything = tuple(range(len(contraction.labels)))
    plans = [contraction.of_tree(tree) for tree in all_trees(everything)]
    best = best_plans(contraction)[contraction.everything]
    assert best.flops == min(plan.flops for plan in plans)
    smallest = best_plans(contraction, by_bytes=True)[contraction.everything]
    assert smallest.peak_bytes == min(plan.peak_bytes for plan in plans)


@st.composite
def contractions(draw: Any) -> Graph:
    """Products of factors over random axes, and the sum over some of them."""
    axes = draw(st.integers(2, 5))
    shape = tuple(draw(st.integers(2, 5)) for _ in range(axes))
    count = draw(st.integers(2, 5))
    with Builder() as builder:
        factors = []
        for _ in range(count):
            own = tuple(sorted(draw(st.sets(st.integers(0, axes - 1), min_size=1))))
            factor = builder.input(ShapeDtype([shape[axis] for axis in own], "float64"))
            factors.append(ops.broadcast_in_dim(factor, shape=shape, dimensions=own))
        product = functools.reduce(ops.multiply, factors)
        summed = tuple(sorted(draw(st.sets(st.integers(0, axes - 1), min_size=1))))
        return builder.finish([ops.reduce_add(product, axes=summed)])


@run_settings(max_examples=40, deadline=None)
@given(st.data())
def test_emitted_operations_are_those_predicted(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "WORTHWHILE", 1e9)
        patch.setattr(cost, "MINIMUM_FLOPS", -(1 << 60))
        patch.setattr(chains.Product, "multiplies_matrices", True)
        graph = data.draw(contractions())
        log_line = apply(chains_pass(), graph)[1].applied[0]
        after = reordered(graph)
    assert f"-> {graph_flops(after):,} operations" in log_line


def test_long_chains_are_ordered_by_the_library() -> None:
    sizes = [5 + (7 * i) % 40 for i in range(15)]
    graph = chain_graph(sizes)
    after = reordered(graph)
    # A vector at the end: right to left is the best.
    assert graph_flops(after) == sum(2 * a * b for a, b in itertools.pairwise(sizes))


@pytest.fixture
def _everything_is_rewritten():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "WORTHWHILE", 1e9)
        patch.setattr(cost, "MINIMUM_FLOPS", -(1 << 60))
        patch.setattr(chains.Product, "multiplies_matrices", True)
        yield


def assert_same(program: Program, graph: Graph, tolerance: float) -> None:
    after = PassManager().run(graph, [chains_pass()])
    expected = interpret(graph, program.arrays)
    for got, want in zip(interpret(after, program.arrays), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.usefixtures("_everything_is_rewritten")
@pytest.mark.parametrize(("kind", "tolerance"), [("integer", 0), ("float", 1e-9)])
def test_random_programs_compute_the_same(kind: str, tolerance: float) -> None:
    """Every tree of products is rewritten, cheaper or not."""

    @run_settings(max_examples=150, deadline=None)
    @given(programs(kind))
    def check(program: Program) -> None:
        assert_same(program, program.graph, tolerance)

    check()


@pytest.mark.usefixtures("_everything_is_rewritten")
def test_random_gradients_compute_the_same() -> None:
    @run_settings(max_examples=60, deadline=None)
    @given(programs("smooth", maximum_steps=8))
    def check(program: Program) -> None:
        graph = value_and_gradient(program.graph, range(len(program.graph.inputs)))
        assert_same(program, graph, 1e-9)

    check()


def test_the_error_of_another_order_is_within_the_bound() -> None:
    """float32 against float64: a few n eps |A| |B| |v|, as documented."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((200, 200)).astype(np.float32) + 10 for _ in range(2))
    v = rng.standard_normal(200).astype(np.float32)
    graph = prepared(lambda a, b, v: a @ b @ v, a.shape, b.shape, v.shape, dtype="float32")
    after = apply(chains_pass(), graph)[0]
    assert ops_of(after) == ["dot_general", "dot_general"]
    want = a.astype(float) @ (b.astype(float) @ v.astype(float))
    bound = 2 * 200 * np.finfo(np.float32).eps * (np.abs(a) @ (np.abs(b) @ np.abs(v)))
    assert (np.abs(evaluated(after, a, b, v)[0] - want) <= bound).all()


def test_products_that_are_alike_share_their_orders_unless_others_are_free() -> None:
    first, again = (contraction_of(matrices((10, 10, 10, 9))) for _ in range(2))
    other = contraction_of(matrices((10, 10, 10, 8)))
    assert best_plans(first) is best_plans(again)
    assert best_plans(other) is not best_plans(again)
    # From the left where the first two are computed anyway, although the last two are smaller.
    free = best_plans(again, is_free=lambda members: members == 0b011)
    assert free[again.everything].tree == ((0, 1), 2)
    assert best_plans(again)[again.everything].tree == (0, (1, 2))
