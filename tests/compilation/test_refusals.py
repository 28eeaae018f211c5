"""What the error of a limit that cannot be met says: the user's ops and lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.model.peak_values import peak_values
from tracer.scipy.linalg import solve_triangular

FLOAT = "float32"
MADE_BY_PASSES = ("while", "slice", "optimization_barrier", "dynamic_update_slice")


def points(*shape: int) -> tracer.ShapeDtype:
    return tracer.ShapeDtype(shape, FLOAT)


def squared_distances(x: Any, y: Any) -> Any:
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def nearest_and_discrepancy(x: Any, y: Any) -> Any:
    d = squared_distances(x, y)
    nearest = tnp.sort(d, 1)[:, :3].mean() + tnp.sort(d, 0)[:3].mean()
    return nearest + tnp.exp(-squared_distances(x, x)).mean()


def process(x: Any, y: Any) -> Any:
    kernel = tnp.exp(-squared_distances(x, x)) + tnp.eye(x.shape[0], dtype=FLOAT)
    factor = tnp.linalg.cholesky(kernel)
    return (solve_triangular(factor, y, lower=True) ** 2).sum() + tnp.log(
        tnp.diagonal(factor)
    ).sum()


def refusal(function: Any, limit: int, *types: Any) -> tracer.MemoryLimitError:
    with pytest.raises(tracer.MemoryLimitError) as caught:
        tracer.compile(function, memory_limit=limit).plan(*types)
    return caught.value


def assert_names_no_pass(error: tracer.MemoryLimitError) -> None:
    for line in (error.binding, *error.alive):
        assert "of " not in line or line.split("of ")[1].split(",")[0] not in MADE_BY_PASSES, line


@pytest.mark.xla
def test_a_matrix_that_is_sorted_both_ways_is_named_by_the_line_that_computes_it() -> None:
    gradient = tracer.value_and_grad(nearest_and_discrepancy, argnums=(0, 1))
    error = refusal(gradient, 100_000, points(300, 3), points(320, 3))
    assert_names_no_pass(error)
    assert error.binding.startswith("float32[300,320] of "), error.binding
    assert any("in squared_distances: return ((x[:, None]" in line for line in error.alive)
    assert any("nearest = tnp.sort(d, 1)" in line for line in error.alive)
    assert all("  (test_refusals.py:" in line for line in error.alive)
    assert error.where is not None
    assert error.where.file == __file__


@pytest.mark.xla
def test_matrices_that_are_alive_together_are_listed_with_their_lines() -> None:
    error = refusal(tracer.grad(process), 100_000, points(150, 3), points(150, 1))
    assert_names_no_pass(error)
    matrices = [line for line in error.alive if line.startswith("float32[150,150] of ")]
    assert len(matrices) >= 2
    text = str(error)
    assert "alive together at the peak:" in text
    assert all(line in text for line in matrices)
    assert any("factor = tnp.linalg.cholesky(kernel)" in line for line in matrices)


@pytest.mark.xla
def test_a_loop_that_the_user_wrote_keeps_its_name() -> None:
    def grown(x: Any) -> Any:
        y = tnp.sort(x[:, None] * x, axis=0)
        z = tracer.fori_loop(0, 5, lambda i, m: tnp.sin(m) @ y, y)
        return z.sum() + y.sum()

    graph = tracer.compile(grown).graph(np.ones(40, FLOAT))
    names = [value.name for value in peak_values(Liveness(graph), graph)]
    assert "float32[40,40] of while, 6.4 kB" in names
    assert "float32[40,40] of sort, 6.4 kB" in names


@pytest.mark.xla
def test_a_graph_without_computation_has_nothing_at_the_peak() -> None:
    graph = tracer.compile(lambda x: x).graph(np.ones(3, FLOAT))
    assert peak_values(Liveness(graph), graph) == ()
