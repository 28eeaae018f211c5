"""Sums of products: taken together and multiplied out only where that is the same value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as run_settings

import tracer.numpy as tnp
from tests.optimizer.algebra_programs import DTYPES, algebra
from tests.optimizer.graphs import apply
from tests.optimizer.random_programs import Program
from tests.optimizer.rewrite.chain_graphs import prepared, reordered
from tracer.ir import interpret, verify_same_signature
from tracer.optimizer.passes import PassManager
from tracer.optimizer.rewrite.chains import chains, chains_pass, cost
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS

MATRIX, ROW = (20, 20), (20,)


@pytest.fixture
def _savings_of_any_size():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "MINIMUM_FLOPS", 1)
        yield


def linear(x: Any, w: Any, b: Any) -> Any:
    return x @ w + b


def squared_view(x: Any, w: Any, b: Any) -> Any:
    v = linear(x, w, b)[None]
    return v * v


def squared_transpose(x: Any, w: Any, b: Any) -> Any:
    v = linear(x, w, b).T
    return tnp.sum(v * v, 0)


def own_product(x: Any, w: Any, b: Any) -> Any:
    v = linear(x, w, b)[None]
    return v @ v


TWICE = {f.__name__: f for f in (squared_view, squared_transpose, own_product)}


@pytest.mark.parametrize("name", TWICE)
def test_a_sum_that_is_a_factor_twice_is_not_multiplied_out(name: str) -> None:
    """(p + b)^2 is not p^2 + b^2, however the two factors are seen."""
    graph = prepared(TWICE[name], MATRIX, MATRIX, ROW)
    _, log = apply(chains_pass(), graph)
    assert not any("multiplied out" in line for line in log.applied)
    reordered(graph)


@pytest.mark.usefixtures("_savings_of_any_size")
def test_a_sum_that_a_view_gives_to_others_too_is_not_multiplied_out() -> None:
    """It would be computed all the same."""

    def function(d: Any, h: Any, x: Any) -> Any:
        v = (d - h.T @ h)[None]
        return v @ x, tnp.tanh(v)

    graph = prepared(function, MATRIX, MATRIX, ROW)
    assert apply(chains_pass(), graph)[0] is graph


@pytest.mark.usefixtures("_savings_of_any_size")
@pytest.mark.parametrize("step", [1, 2])
def test_slices_that_begin_alike_are_no_common_factor_when_one_is_longer(step: int) -> None:
    def function(a: Any, b: Any, c: Any) -> Any:
        return a[:, : 5 * step : step] @ b + a[:, : 10 * step : step] @ c

    graph = prepared(function, MATRIX, (5, 20), (10, 20))
    assert apply(chains_pass(), graph)[0] is graph
    alike: Callable[..., Any] = lambda a, b, c: a[:, :5] @ b + a[:, :5] @ c
    graph = prepared(alike, MATRIX, (5, 20), (5, 20))
    assert "common factor" in apply(chains_pass(), graph)[1].applied[0]
    reordered(graph)


@pytest.fixture
def _everything_is_rewritten():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost, "WORTHWHILE", 1e9)
        patch.setattr(cost, "MINIMUM_FLOPS", -(1 << 60))
        patch.setattr(chains.Product, "multiplies_matrices", True)
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("_everything_is_rewritten")
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_algebra_computes_the_same(dtype: str) -> None:
    """Every sum and product is rewritten, cheaper or not; whole numbers are exact in any order."""

    @run_settings(max_examples=200, deadline=None)
    @given(algebra(dtype))
    def check(program: Program) -> None:
        before = PassManager().run(program.graph, [COMMON_SUBEXPRESSIONS])
        after = PassManager().run(before, [chains_pass()])
        verify_same_signature(before, after)
        with np.errstate(over="ignore"):
            expected = interpret(program.graph, program.arrays)
            got = interpret(after, program.arrays)
        for x, y in zip(got, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=0 if dtype == "int64" else 1e-9, atol=1e-9)

    check()
