"""Diagonals of computed matrices are picked out of their rows: values, guards, memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, of, ops_of, traced
from tracer.optimizer.rewrite.diagonals import GATHER_FOR_DIAGONAL
from tracer.target import DEFAULT_TARGET, Sizes, planned_for

ANY_SIZE = replace(DEFAULT_TARGET, sizes=Sizes(match_elements=0))
POINTS = np.random.default_rng(0).standard_normal((700, 3))


def picked(function: Callable[..., Any], *arrays: Any) -> bool:
    """Run the pass, check that it changes no value, and tell whether it did anything."""
    graph = traced(function, *of(*arrays))
    with planned_for(ANY_SIZE):
        after, log = apply(GATHER_FOR_DIAGONAL, graph)
    for one, other in zip(evaluated(after, *arrays), evaluated(graph, *arrays), strict=True):
        np.testing.assert_array_equal(one, other)
    assert bool(log.applied) == ("gather" in ops_of(after))
    return bool(log.applied)


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (1, 4), (4, 1), (2, 5, 5), (2, 3, 4, 6)])
@pytest.mark.parametrize("offset", [-9, -3, -1, 0, 1, 2, 9])
def test_every_diagonal_is_the_same(shape: tuple[int, ...], offset: int, rng: Any) -> None:
    x = rng.standard_normal(shape)
    rows, columns = shape[-2:]
    assert picked(lambda x: tnp.diagonal(tnp.exp(x), offset, axis1=-2, axis2=-1), x) == (
        -rows < offset < columns and (columns > 1 or offset == 0 or rows > 1)
    )


@pytest.mark.parametrize("function", [
    pytest.param(lambda x: tnp.diagonal(x), id="given"),
    pytest.param(lambda x: tnp.diagonal(tnp.linalg.cholesky(x)), id="of a library"),
    pytest.param(lambda x: tnp.exp(x).ravel()[::5], id="each fifth"),
    pytest.param(lambda x: tnp.exp(x).ravel()[2::7], id="goes on in the next row"),
    pytest.param(lambda x: tnp.exp(x).reshape(4, 9)[:, ::7], id="another shape"),
])  # fmt: skip
def test_what_is_no_diagonal_of_a_computed_matrix_stays(function: Callable[..., Any]) -> None:
    assert not picked(function, np.eye(6) * 3)


@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (0, 3), (2, 0, 0), (300, 0, 0)])
def test_matrices_without_elements_stay(shape: tuple[int, ...]) -> None:
    assert not picked(lambda x: tnp.diagonal(tnp.exp(x), axis1=-2, axis2=-1), np.zeros(shape))


def test_small_matrices_stay() -> None:
    graph = traced(lambda x: tnp.diagonal(tnp.exp(x)), ((40, 40), "float32"))
    assert apply(GATHER_FOR_DIAGONAL, graph)[0] is graph


def kernel(x: Any) -> Any:
    return tnp.exp(-((x[:, None] - x[None]) ** 2).sum(-1)) * (1 + x @ x.T)


PROGRAMS = {
    "normalised": lambda x: (
        (k := kernel(x)) / tnp.sqrt(tnp.diag(k)[:, None] * tnp.diag(k)[None])
    ).sum(1),
    "without": lambda x: ((k := kernel(x)) - tnp.diag(tnp.diag(k))).max(1),
    "trace": lambda x: (tnp.trace(k := kernel(x)), k.sum()),
    "above": lambda x: (k := kernel(x)).sum(0)[1:] * tnp.diag(k, 1),
    "gradient": tracer.grad(lambda x: (tnp.diag(k := kernel(x)) ** 2 * k.sum(1)).mean()),
}


@pytest.mark.xla
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_that_read_a_diagonal_are_cut(name: str) -> None:
    limit = 700_000  # a matrix takes 3.9 MB
    compiled = tracer.compile(PROGRAMS[name], memory_limit=limit)
    plain = tracer.compile(PROGRAMS[name], passes="-split,-gather-for-diagonal,-apply-rules")
    found, wanted = (tracer.tree.leaves(f(POINTS)) for f in (compiled, plain))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-9, atol=1e-9)
    assert compiled.plan(POINTS).compiled_bytes <= limit


@pytest.mark.xla
def test_what_is_taken_off_the_diagonal_leaves_exact_zeros() -> None:
    """Computed again in another loop, a diagonal would differ from itself in the last digit."""
    without = tracer.compile(
        lambda x: tnp.abs((k := kernel(x)) - tnp.diag(tnp.diag(k))).min(1), memory_limit=700_000
    )
    np.testing.assert_array_equal(without(POINTS), np.zeros(700))
