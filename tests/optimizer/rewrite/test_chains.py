"""Products in their best order: what is written, what it costs, what is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated
from tests.optimizer.rewrite.chain_graphs import chain_graph, matrices, prepared, reordered
from tracer import ops
from tracer.ir import Graph, ShapeDtype
from tracer.optimizer.model.liveness import graph_flops, peak_bytes
from tracer.optimizer.passes import PassManager
from tracer.optimizer.rewrite.chains import chains_pass, cost

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
    """The order with the fewest operations has the larger array between its products."""
    graph = matrices([5, 2, 20, 80])
    fastest = reordered(graph)
    limit = peak_bytes(fastest) - 1
    smallest = reordered(graph, limit)
    assert peak_bytes(smallest) <= limit
    assert graph_flops(smallest) > graph_flops(fastest)
    assert reordered(graph, limit + 1).fingerprint == fastest.fingerprint
