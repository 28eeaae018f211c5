"""Products in their best order: what is written, what it costs, what is left alone."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, ops_of, traced
from tests.optimizer.random_programs import Program, programs
from tracer import ops
from tracer.autodiff import value_and_gradient
from tracer.ir import Builder, Graph, ShapeDtype, Value, interpret, verify_same_signature
from tracer.optimizer.liveness import graph_flops, peak_bytes
from tracer.optimizer.passes import PassManager
from tracer.optimizer.reorder import chains, chains_pass, cost
from tracer.optimizer.reorder.order import Contraction, Tree, best_plans
from tracer.optimizer.reorder.product import Reader
from tracer.optimizer.simplify import COMMON_SUBEXPRESSIONS

N = 20
MATRIX, VECTOR = (N, N), (N,)
MATRIX_VECTOR, MATRIX_MATRIX = 2 * N**2, 2 * N**3
SUM = N**2


@pytest.fixture(autouse=True, scope="module")
def _savings_of_any_size():
    """Hypothesis allows no function-scoped fixture here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "MINIMUM_FLOPS", 1)
        yield


def prepared(function: Callable[..., Any], *shapes: Any, dtype: str = "float64") -> Graph:
    graph = traced(function, *[(shape, dtype) for shape in shapes])
    return PassManager().run(graph, [COMMON_SUBEXPRESSIONS])


def values_for(graph: Graph, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return [(3 * rng.standard_normal(type.shape)).astype(type.dtype) for type in graph.input_types]


def reordered(graph: Graph, limit: int | None = None) -> Graph:
    """Run the pass and check that the result computes the same."""
    after = PassManager().run(graph, [chains_pass(limit), COMMON_SUBEXPRESSIONS])
    verify_same_signature(graph, after)
    arrays = values_for(graph)
    for got, want in zip(evaluated(after, *arrays), evaluated(graph, *arrays), strict=True):
        scale = np.abs(want).max(initial=1)
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12 * scale)
    return after


BEST: dict[str, tuple[Callable[..., Any], list[Any], int]] = {
    "matrices and a vector": (
        lambda a, b, v: a @ b @ v,
        [MATRIX, MATRIX, VECTOR],
        2 * MATRIX_VECTOR,
    ),
    "five factors": (
        lambda a, b, c, d, e: a @ b @ c @ d @ e,
        [(30, 35), (35, 15), (15, 5), (5, 10), (10, 20)],
        # ((a (b c)) (d e)): the textbook's chain (Cormen et al., chapter 15.2).
        2 * (35 * 15 * 5 + 30 * 35 * 5 + 5 * 10 * 20 + 30 * 5 * 20),
    ),
    "sum of rows": (
        lambda a, b, c: tnp.sum(a @ b @ c, 1),
        [MATRIX] * 3,
        SUM + 2 * MATRIX_VECTOR,
    ),
    "sum of all": (lambda a, b: (a @ b).sum(), [MATRIX] * 2, 2 * SUM + 2 * N),
    "two chains": (
        lambda a, b, c, d: (d @ c.T) @ (a @ b),
        [MATRIX, VECTOR, MATRIX, MATRIX],
        3 * MATRIX_VECTOR,
    ),
    "nested transposes": (
        lambda a, b, c, v: ((a @ b).T @ c).T @ v,
        [MATRIX, MATRIX, MATRIX, VECTOR],
        3 * MATRIX_VECTOR,
    ),
    "vector on the left": (
        lambda a, b, v: v @ (a @ b),
        [MATRIX, MATRIX, VECTOR],
        2 * MATRIX_VECTOR,
    ),
    "column": (
        lambda a, b, v: a @ b @ v[:, None],
        [MATRIX, MATRIX, VECTOR],
        2 * MATRIX_VECTOR,
    ),
    "scalars": (
        lambda a, b, v, c: (c * (a @ b) / 3.0) @ v,
        [MATRIX, MATRIX, VECTOR, ()],
        2 * MATRIX_VECTOR + 4 + N,
    ),
    "negated": (
        lambda a, b, v: -(a @ b) @ v,
        [MATRIX, MATRIX, VECTOR],
        2 * MATRIX_VECTOR + N,
    ),
    "diagonal": (
        lambda a, b, w, v: (a @ (w[:, None] * b)) @ v,
        [MATRIX, MATRIX, VECTOR, VECTOR],
        2 * MATRIX_VECTOR + N,
    ),
    "batch": (
        lambda a, b, v: a @ b @ v,
        [(7, N, N), (7, N, N), VECTOR],
        14 * MATRIX_VECTOR,
    ),
    "batch and one matrix": (
        lambda a, b, v: a @ b @ v,
        [(7, N, N), MATRIX, VECTOR],
        8 * MATRIX_VECTOR,
    ),
    "outer product": (
        lambda a, b, v: (a[:, None] * b[None, :]) @ v,
        [VECTOR] * 3,
        3 * N,
    ),
    "element": (lambda a, b: (a @ b)[2, 2], [MATRIX] * 2, 2 * N),
    "row": (lambda a, b: (a @ b)[2], [MATRIX] * 2, MATRIX_VECTOR),
    "block": (lambda a, b: (a @ b)[3:13:2, :-10], [MATRIX] * 2, 2 * 5 * N * 10),
    "slice of a chain": (
        lambda a, b, v: (a @ b)[:10, 4:] @ v[4:],
        [MATRIX, MATRIX, VECTOR],
        2 * N * (N - 4) + 2 * N * 10,
    ),
    "power": (lambda a: a @ a @ a @ a, [MATRIX], 2 * MATRIX_MATRIX),
    "twice in one chain": (
        lambda a, b: (a.T @ b).T @ a.T @ b,
        [MATRIX] * 2,
        2 * MATRIX_MATRIX,
    ),
    "transposed elsewhere": (
        lambda a, b: a.T @ b + b.T @ a,
        [MATRIX] * 2,
        MATRIX_MATRIX + SUM,
    ),
    "needed elsewhere": (
        lambda a, b, c: (a @ (b @ c), a @ b),
        [MATRIX] * 3,
        2 * MATRIX_MATRIX,
    ),
    "shared, cheaper twice": (
        lambda a, b, v, w: ((a @ b) @ v, (a @ b).T @ w),
        [MATRIX, MATRIX, VECTOR, VECTOR],
        4 * MATRIX_VECTOR,
    ),
    "gradient": (
        tracer.grad(lambda a, b, v: (a @ b @ v).sum()),
        [MATRIX, MATRIX, VECTOR],
        MATRIX_VECTOR,
    ),
    "gradient with ones": (
        tracer.grad(lambda a, x, y: (a @ x).sum() + (a @ y).sum()),
        [MATRIX] * 3,
        3 * SUM,
    ),
    "common factor": (lambda a, b, c: a @ b + a @ c, [MATRIX] * 3, MATRIX_MATRIX + SUM),
    "common factor, transposed": (
        lambda a, b, c: (b @ a).T - a.T @ c * 2.0,
        [MATRIX] * 3,
        MATRIX_MATRIX + 2 * SUM,
    ),
    "common factor of three": (
        lambda a, b, c, d: b @ a - c @ a + d + b @ c @ a,
        [MATRIX] * 4,
        2 * MATRIX_MATRIX + 3 * SUM,
    ),
    "common factor of chains": (
        lambda a, b, c, v, w: a @ b @ v + a @ c @ w,
        [MATRIX, MATRIX, MATRIX, VECTOR, VECTOR],
        3 * MATRIX_VECTOR + N,
    ),
    "common factor in a batch": (
        lambda a, b, c: a @ b + a @ c,
        [(7, N, N), MATRIX, MATRIX],
        7 * MATRIX_MATRIX + SUM,
    ),
    "multiplied out": (
        lambda d, h, x: (d - h.T @ h) @ x,
        [MATRIX, MATRIX, VECTOR],
        3 * MATRIX_VECTOR + N,
    ),
    "multiplied out, all negative": (
        lambda a, b, c, d, x: (-(a @ b) - c @ d).T @ x,
        [MATRIX] * 4 + [VECTOR],
        4 * MATRIX_VECTOR + 2 * N,
    ),
    "einsum": (
        lambda a, b, v: tnp.einsum("ij,jk->ik", a, b) @ v,
        [MATRIX, MATRIX, VECTOR],
        2 * MATRIX_VECTOR,
    ),
    "tensordot": (
        lambda t, a, v: tnp.tensordot(tnp.tensordot(t, a, ((2,), (0,))), v, ((1,), (0,))),
        [(5, N, N), MATRIX, VECTOR],
        2 * 5 * N * N + 2 * 5 * N * N,
    ),
}


@pytest.mark.parametrize("name", BEST)
def test_the_best_order_is_written(name: str) -> None:
    function, shapes, flops = BEST[name]
    graph = prepared(function, *shapes)
    after = reordered(graph)
    assert graph_flops(after) == flops < graph_flops(graph)


@pytest.mark.parametrize("name", BEST)
def test_what_is_best_already_is_left_alone(name: str) -> None:
    function, shapes, _ = BEST[name]
    after = reordered(prepared(function, *shapes))
    again, log = apply(chains_pass(), after)
    assert again is after
    assert log.applied == []


def test_a_rewrite_is_logged_with_its_operations_and_keeps_the_line() -> None:
    graph = prepared(lambda a, b, v: a @ b @ v, MATRIX, MATRIX, VECTOR)
    after, log = apply(chains_pass(), graph)
    (line,) = log.applied
    assert "(a (b c))" in line
    assert f"{MATRIX_MATRIX + MATRIX_VECTOR:,} -> {2 * MATRIX_VECTOR:,} operations" in line
    assert all("test_chains.py" in str(node.source) for node in after.nodes)


def test_a_refusal_says_what_another_order_takes() -> None:
    graph = prepared(lambda a, b, c: a @ b @ c, MATRIX, MATRIX, MATRIX)
    after, log = apply(chains_pass(), graph)
    assert after is graph
    (refusal,) = log.refusals
    assert f"{2 * MATRIX_MATRIX:,} of {2 * MATRIX_MATRIX:,}" in refusal.reason
    assert "test_chains.py" in str(refusal)


LEFT_ALONE: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "also an output": (lambda a, b, v: (a @ b @ v, a @ b), [MATRIX, MATRIX, VECTOR]),
    "also read by another op": (
        lambda a, b, v: a @ b @ v + tnp.tanh(a @ b).sum(),
        [MATRIX, MATRIX, VECTOR],
    ),
    "shared, cheaper once": (
        lambda a, b, c, d: ((a @ b) @ c, (a @ b) @ d),
        [MATRIX] * 4,
    ),
    "different factors": (lambda a, b, c: a @ b + c @ a, [MATRIX] * 3),
    "factor on another side": (lambda a, b, c: a @ b + a.T @ c, [MATRIX] * 3),
    "term needed elsewhere": (lambda a, b, c: (a @ b + a @ c, a @ b), [MATRIX] * 3),
    "sum of matrices": (lambda a, b, x: (a + b) @ x, [MATRIX, MATRIX, VECTOR]),
    "cheaper as a sum": (lambda d, h, x: (d + h.T @ h) @ x, [MATRIX] * 3),
    "not linear between": (lambda a, b, v: tnp.tanh(a @ b) @ v, [MATRIX, MATRIX, VECTOR]),
    "maximum of rows": (lambda a, b: (a @ b).max(1), [MATRIX, MATRIX]),
    "divided by a vector": (lambda a, b, v: ((a @ b) / v) @ v, [MATRIX, MATRIX, VECTOR]),
    "no product of matrices": (lambda a, v: (a * v * v[:, None]).sum(1), [MATRIX, VECTOR]),
    "empty": (lambda a, b, v: a @ b @ v, [(N, 0), (0, N), VECTOR]),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_near_misses_are_left_alone(name: str) -> None:
    function, shapes = LEFT_ALONE[name]
    graph = prepared(function, *shapes)
    assert apply(chains_pass(), graph)[0] is graph


@pytest.mark.parametrize("dtype", ["float16", "float8_e5m2"])
def test_narrow_ranges_are_left_alone(dtype: str) -> None:
    graph = chain_graph([N, N, N], dtype)
    assert apply(chains_pass(), graph)[0] is graph


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_integers_wrap_around_in_every_order(dtype: str) -> None:
    def function(a: Any, b: Any, w: Any) -> Any:
        product = tnp.ones((300, N), a.dtype) @ (a @ (w[:, None] * b))
        return product.sum(0, dtype=a.dtype) * 3

    graph = prepared(function, MATRIX, MATRIX, VECTOR, dtype=dtype)
    after = PassManager().run(graph, [chains_pass()])
    assert graph_flops(after) < graph_flops(graph)
    arrays = [
        np.random.default_rng(0).integers(0, 100, t.shape, t.dtype) for t in graph.input_types
    ]
    np.testing.assert_array_equal(evaluated(after, *arrays)[0], evaluated(graph, *arrays)[0])


def test_complex_conjugates_stay_where_they_are() -> None:
    graph = prepared(
        lambda a, b, v: a @ tnp.conj(b).T @ v, MATRIX, MATRIX, VECTOR, dtype="complex128"
    )
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(MATRIX) + 1j * rng.standard_normal(MATRIX) for _ in range(2))
    v = rng.standard_normal(N) + 1j * rng.standard_normal(N)
    after = reordered(graph)
    assert graph_flops(after) < graph_flops(graph) / 5
    np.testing.assert_allclose(evaluated(after, a, b, v)[0], a @ b.conj().T @ v)


def test_a_body_is_reordered_too() -> None:
    def function(a: Any, b: Any, v: Any) -> Any:
        return tracer.fori_loop(0, 3, lambda _, x: 0.01 * (a @ b @ x), v)

    graph = prepared(function, MATRIX, MATRIX, VECTOR)
    after = reordered(graph)
    sizes = [value.size for value in product_types(after)]
    assert max(sizes) == N


def product_types(graph: Graph) -> list[ShapeDtype]:
    """Return the result types of all matrix products, bodies included."""
    found = [node.types[0] for node in graph.nodes if node.op is ops.dot_general]
    for node in graph.nodes:
        for bodies in node.bodies.values():
            for body in bodies if isinstance(bodies, tuple) else (bodies,):
                found += product_types(body)
    return found


def test_under_a_limit_the_bytes_decide() -> None:
    """Left to right is the fastest, but its first product is the largest array."""
    shapes = [(60, 2), (2, 60), (60, 40), (40, 3)]
    graph = prepared(lambda a, b, c, d: a @ b @ c @ d, *shapes)
    wide = [(100, 2), (2, 100), (100, 90), (90, 80)]
    graph = prepared(lambda a, b, c, d: ((a @ b) @ c) @ d, *wide)
    fastest = reordered(graph)
    limit = peak_bytes(fastest) - 1
    smallest = reordered(graph, limit)
    assert peak_bytes(smallest) <= peak_bytes(fastest)
    assert reordered(graph, 10 * limit).fingerprint == fastest.fingerprint


def chain_graph(sizes: list[int], dtype: str = "float64") -> Graph:
    """Build the product of matrices from left to right; a vector is the last factor."""
    with Builder() as builder:
        shapes = [*itertools.pairwise(sizes), (sizes[-1],)]
        factors = [builder.input(ShapeDtype(shape, dtype)) for shape in shapes]
        return builder.finish([functools.reduce(times, factors)])


def times(x: Value, y: Value) -> Value:
    contracting = {"lhs_contracting": (x.type.ndim - 1,), "rhs_contracting": (0,)}
    return ops.dot_general(x, y, lhs_batch=(), rhs_batch=(), **contracting)


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
    with Builder() as builder:
        shapes = itertools.pairwise(sizes)
        factors = [builder.input(ShapeDtype(shape, "float64")) for shape in shapes]
        graph = builder.finish([functools.reduce(times, factors)])
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
