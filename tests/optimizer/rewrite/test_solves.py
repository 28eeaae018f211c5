"""Triangular solves with the small factor of their right-hand side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import evaluated, traced
from tracer import ops
from tracer.ir import Graph
from tracer.ir.verify import verify
from tracer.optimizer.model.liveness import graph_flops
from tracer.optimizer.passes import PassLog
from tracer.optimizer.rewrite.chains import reassociate_solves
from tracer.optimizer.rewrite.simplify import eliminate_common_subexpressions
from tracer.scipy.linalg import solve_triangular

M, N = 12, 400
FACTOR, WIDE, SQUARE, LONG = (M, M), (M, N), (M, M), (N,)


def reassociated(function: Callable[..., Any], *shapes: Any) -> tuple[Graph, Graph, PassLog]:
    """Run the pass, and check that the result computes the same."""
    graph = traced(function, *[(shape, "float64") for shape in shapes])
    graph = eliminate_common_subexpressions(graph, PassLog())
    log = PassLog()
    after = reassociate_solves(graph, log)
    verify(after)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    arrays[0] = np.tril(arrays[0]) / np.sqrt(len(arrays[0])) + 2 * np.eye(len(arrays[0]))
    for got, want in zip(evaluated(after, *arrays), evaluated(graph, *arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * np.abs(want).max(initial=1))
    return graph, after, log


def wide_solves(graph: Graph) -> int:
    """Return how many solves have the long axis in their right-hand sides."""
    nodes = [node for node in graph.nodes if node.op is ops.triangular_solve]
    return sum(N in node.types[0].shape for node in nodes)


def solve(factor: Any, right: Any) -> Any:
    return solve_triangular(factor, right, lower=True, trans=1)


def of_product(factor: Any, wide: Any, square: Any) -> Any:
    return tnp.exp(solve(factor, square @ wide))


def of_transposed_product(factor: Any, wide: Any, square: Any) -> Any:
    return tnp.exp(solve(factor, (wide.T @ square).T))


def of_sum(factor: Any, wide: Any, square: Any, long: Any) -> Any:
    outer = tnp.outer(square[0], long)
    return tnp.exp(solve(factor, -2 * wide + (square @ wide - outer) / 3 + square.T @ wide))


def and_its_sums(factor: Any, wide: Any, square: Any) -> Any:
    found = solve(factor, square @ wide)
    return found @ wide.T, (found * wide).sum(), -(wide * wide).sum(), wide @ wide.T


@pytest.mark.parametrize("function", [of_product, of_transposed_product, of_sum])
def test_the_small_factor_is_solved(function: Callable[..., Any]) -> None:
    shapes = (FACTOR, WIDE, SQUARE, LONG)[: function.__code__.co_argcount]
    before, after, log = reassociated(function, *shapes)
    assert wide_solves(before) == 1
    assert wide_solves(after) == 0
    assert len(log.applied) == 1


def test_a_solve_from_the_right() -> None:
    def program(factor: Any, wide: Any, square: Any) -> Any:
        return tnp.exp(solve_triangular(factor, square @ wide, lower=True).T @ square)

    before, after, _ = reassociated(program, FACTOR, WIDE, SQUARE)
    assert (wide_solves(before), wide_solves(after)) == (1, 0)


def test_sums_over_the_solution_need_no_solution() -> None:
    before, after, _ = reassociated(and_its_sums, FACTOR, WIDE, SQUARE)
    products = [node for node in after.nodes if node.op is ops.dot_general]
    assert wide_solves(before) == 1
    assert all(node.types[0].size <= M * M for node in after.nodes)
    assert sum(N in node.operand_types[0].shape for node in products) == 1
    assert graph_flops(after) < graph_flops(before) / 2


def whitened(factor: Any, wide: Any, long: Any) -> Any:
    a = solve_triangular(factor, tnp.exp(wide), lower=True)
    inner = tnp.linalg.cholesky(tnp.eye(M) + a @ a.T)
    return tnp.log(tnp.diagonal(inner)).sum() + (a * a).sum() + (solve(inner, a @ long) ** 2).sum()


def test_gradients_of_whitened_matrices_solve_once() -> None:
    gradient = tracer.value_and_grad(whitened, argnums=(0, 1, 2))
    before, after, _ = reassociated(gradient, FACTOR, WIDE, LONG)
    assert (wide_solves(before), wide_solves(after)) == (2, 1)
    wide_products = [
        node
        for node in after.nodes
        if node.op is ops.dot_general and {M, N} <= set(node.operand_types[0].shape)
    ]
    # The Gram matrix; the product with the vector is the other side's.
    assert len([n for n in wide_products if n.types[0].size >= M * M]) <= 2


def element_wise(factor: Any, wide: Any, square: Any) -> Any:
    return solve(factor, square @ wide * wide)


def shifted(factor: Any, wide: Any, square: Any) -> Any:
    """The plain term would be multiplied with the inverse of the factor."""
    return solve(factor, square @ wide + tnp.exp(wide))


def twice(factor: Any, wide: Any) -> Any:
    """The first solution is a leaf: its right-hand side is no product."""
    return solve(factor, solve(factor, wide))


def not_wide(factor: Any, square: Any) -> Any:
    return solve(factor, square @ square)


def large_factor(factor: Any, wide: Any, square: Any) -> Any:
    return solve(factor, wide.T @ square)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (element_wise, (FACTOR, WIDE, SQUARE)),
        (shifted, (FACTOR, WIDE, SQUARE)),
        (twice, (FACTOR, WIDE)),
        (not_wide, (FACTOR, SQUARE)),
        (large_factor, ((N, N), WIDE, SQUARE)),
    ],
)
def test_what_is_no_combination_is_left_alone(
    function: Callable[..., Any], shapes: tuple[Any, ...]
) -> None:
    before, after, _ = reassociated(function, *shapes)
    assert after is before


def test_a_right_hand_side_that_is_wanted_itself_is_left_alone() -> None:
    def program(factor: Any, thin: Any, wide: Any) -> Any:
        product = thin @ wide
        return tnp.exp(product) + tnp.exp(solve(factor, product))

    graph, after, log = reassociated(program, FACTOR, (M, M), WIDE)
    assert after is graph
    assert "operations" in log.refusals[0].reason


def test_products_of_other_leaves_are_left_alone() -> None:
    def program(factor: Any, wide: Any, square: Any, other: Any) -> Any:
        scaled = 3 * other
        return tnp.exp(solve(factor, square @ wide)), scaled @ scaled.T, (scaled * other).sum()

    before, after, log = reassociated(program, FACTOR, WIDE, SQUARE, WIDE)
    assert len(log.applied) == 1
    for op in (ops.dot_general, ops.reduce_add):
        others = [
            [node for node in graph.nodes if node.op is op and N in node.operand_types[0].shape]
            for graph in (before, after)
        ]
        assert any(node.operands[0].node.op is ops.multiply for node in others[1])
        assert len(others[0]) == len(others[1])


@given(st.lists(st.sampled_from("adnmstk"), max_size=6), st.integers(0, 3))
def test_random_combinations(steps: list[str], seed: int) -> None:
    def program(factor: Any, wide: Any, square: Any, long: Any) -> Any:
        value = square @ wide
        for step in steps:
            value = {
                "a": lambda v: v + wide,
                "d": lambda v: v / 3,
                "n": lambda v: -v,
                "m": lambda v: square.T @ v,
                "s": lambda v: v - tnp.outer(square[seed], long),
                "t": lambda v: (v.T @ square).T,
                "k": lambda v: solve(factor, v),
            }[step](value)
        found = solve(factor, value)
        return tnp.sin(found), found @ wide.T, (found * value).sum(), found @ long

    reassociated(program, FACTOR, WIDE, SQUARE, LONG)


@pytest.mark.xla
def test_ill_conditioned_factors_keep_their_digits() -> None:
    """The error is that of a solve, also where the condition is 1e4; longdouble is the judge."""
    rng = np.random.default_rng(1)
    z, x = rng.random((60, 1)), rng.random((600, 1))
    covariance = np.exp(-((z - z.T) ** 2) / 0.1) + 1e-7 * np.eye(60)
    factor = np.linalg.cholesky(covariance)
    wide = scipy.linalg.solve_triangular(factor, np.exp(-((z - x.T) ** 2) / 0.1), lower=True)
    square = rng.standard_normal((60, 60))

    def program(factor: Any, wide: Any, square: Any) -> Any:
        return solve(factor, square @ wide)

    exact = np.zeros((60, 600), np.longdouble)
    right = square.astype(np.longdouble) @ wide.astype(np.longdouble)
    upper = factor.T.astype(np.longdouble)
    for i in reversed(range(60)):
        exact[i] = (right[i] - upper[i, i + 1 :] @ exact[i + 1 :]) / upper[i, i]
    errors = [
        float(
            np.abs(
                np.asarray(tracer.compile(program, passes=passes)(factor, wide, square)) - exact
            ).max()
        )
        for passes in (None, "-reassociate-solves")
    ]
    assert errors[0] <= 10 * errors[1]


@pytest.mark.xla
@pytest.mark.parametrize("total", [lambda z: z @ z.T, lambda z: (z * z).sum()])
def test_what_cancels_is_not_squared_before_it_goes(total: Callable[[Any], Any]) -> None:
    """Rows that have an offset in common, which S takes away: Gram matrices are all offset."""

    def program(factor: Any, square: Any, wide: Any) -> Any:
        return total(solve_triangular(factor, square @ wide, lower=True))

    rng = np.random.default_rng(0)
    factor = 0.3 * np.tril(rng.standard_normal(SQUARE)) + 2 * np.eye(M)
    square = np.eye(M) - 1 / M
    wide = 1e6 * rng.standard_normal((1, N)) + 1e-2 * rng.standard_normal(WIDE)
    expected = total(scipy.linalg.solve_triangular(factor, square @ wide, lower=True))
    found = tracer.compile(program)(factor, square, wide)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_a_product_over_the_wide_axis_is_no_combination_of_it() -> None:
    """B @ A.T sums over what is wide in both: its own wide axis is another one."""

    def function(factor: Any, tall: Any, wide: Any) -> Any:
        return tnp.exp(solve(factor, (tall @ wide.T).T))

    shapes = ((2, 2), (16, 80), (2, 80))
    reassociated(function, *shapes)
