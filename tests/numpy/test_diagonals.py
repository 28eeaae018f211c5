"""Writes on a diagonal: NumPy's values, and programs that are cut in spite of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

N = 5
DIAGONALS: dict[str, Callable[[Any], Any]] = {
    "ranges": lambda n: (range(N), range(N)),
    "lists": lambda n: (list(range(N)), list(range(N))),
    "arange": lambda n: (n.arange(N), n.arange(N)),
    "diag_indices": lambda n: n.diag_indices(N),
    "not in order": lambda n: (list(range(N))[::-1], list(range(N))[::-1]),
    "the other diagonal": lambda n: (range(N), list(range(N))[::-1]),
    "a part": lambda n: (range(N - 1), range(N - 1)),
    "column": lambda n: (n.arange(N)[:, None], n.arange(N)[:, None]),
    "rows and columns": lambda n: (n.arange(N)[:, None], n.arange(N)),
    "bools": lambda n: ([True] * N, [True] * N),
}


@pytest.mark.xla
@pytest.mark.parametrize("value", [0.0, 2, np.nan, [3.0]])
@pytest.mark.parametrize("name", DIAGONALS)
def test_writes_on_diagonals(rng: np.random.Generator, name: str, value: Any) -> None:
    start = rng.standard_normal((N, N))

    def write(n: Any, x: Any) -> Any:
        x = x.copy()
        x[DIAGONALS[name](n)] = value
        x[DIAGONALS[name](n)] += 1.5
        return x

    expected = write(np, start)
    np.testing.assert_array_equal(write(tnp, tnp.asarray(start)), expected)
    np.testing.assert_array_equal(tracer.compile(lambda x: write(tnp, x))(start), expected)
    # Only a matrix that is computed has choices.
    np.testing.assert_array_equal(tracer.compile(lambda x: write(tnp, 1 * x))(start), expected)


@pytest.mark.xla
def test_vectors_on_a_diagonal(rng: np.random.Generator) -> None:
    x, v = rng.standard_normal((N, N)), rng.standard_normal(N)
    part = tnp.asarray(x).at[range(N), range(N)]
    np.testing.assert_array_equal(part.add(v), x + np.diag(v))
    np.testing.assert_array_equal(part.multiply(2), x + np.diag(np.diag(x)))
    np.testing.assert_array_equal(tnp.diag(part.set(v)), v)
    integers = tnp.zeros((N, N), "int32").at[range(N), range(N)].set(2.7)
    assert integers.dtype == np.int32
    assert int(integers.sum()) == 2 * N
    tracer.check_grads(lambda x, v: (x.at[range(N), range(N)].add(v) ** 2).sum(), (x, v), order=2)
    rows = tracer.vmap(lambda x, v: x.at[range(N), range(N)].set(v))(np.stack([x, x]), np.eye(2, N))
    np.testing.assert_array_equal(rows[1], np.where(np.eye(N), np.eye(2, N)[1], x))
    with pytest.raises(tracer.ShapeError):
        part.set(np.ones(N - 1))


@pytest.mark.xla
@pytest.mark.parametrize(
    "combiner", ["set", "add", "subtract", "multiply", "divide", "power", "min", "max"]
)
def test_every_update_of_a_computed_diagonal(rng: np.random.Generator, combiner: str) -> None:
    x, v = rng.uniform(0.5, 2, (N, N)), rng.uniform(0.5, 2, N)

    def update(x: Any, v: Any) -> Any:
        return getattr((1 * x).at[range(N), range(N)], combiner)(v)

    assert "scatter(" not in str(tracer.make_graph(update)(x, v))
    numpys = {"set": "copyto", "min": "minimum", "max": "maximum"}.get(combiner, combiner)
    diagonal = v if combiner == "set" else getattr(np, numpys)(np.diag(x), v)
    expected = np.where(np.eye(N), np.diag(diagonal), x)
    np.testing.assert_allclose(tracer.compile(update)(x, v), expected, rtol=1e-15)
    tracer.check_grads(lambda x, v: (update(x, v) ** 2).sum(), (x, v), order=2)
    many = tracer.vmap(update)(np.stack([x, 2 * x]), np.stack([v, v]))
    np.testing.assert_allclose(many[0], expected, rtol=1e-15)
    with pytest.raises(tracer.ShapeError):
        tracer.make_graph(update)(x, v[1:])


@pytest.mark.xla
@pytest.mark.parametrize("kind", ["ranges", "diag_indices", "fill_diagonal"])
def test_a_matrix_with_a_written_diagonal_is_cut(kind: str) -> None:
    def step(x: Any, v: Any) -> Any:
        kernel = tnp.exp(-((x[:, None] - x) ** 2))
        if kind == "fill_diagonal":
            tnp.fill_diagonal(kernel, 0)
        else:
            size = len(x)
            at = (range(size), range(size)) if kind == "ranges" else tnp.diag_indices(size)
            kernel[at] = 0.0
        kernel = kernel / kernel.sum(1)[:, None]
        return kernel @ (kernel @ v)

    vector = tracer.ShapeDtype((3_000,), "float64")
    plan = tracer.compile(step, memory_limit="10MB").plan(vector, vector)
    assert plan.peak_bytes < 10e6 < plan.baseline_peak_bytes


def test_a_matrix_that_a_loop_carries_is_written_in_place() -> None:
    def loop(x: Any) -> Any:
        return tracer.fori_loop(0, 3, lambda i, x: x.at[range(N), range(N)].add(i), x)

    text = str(tracer.make_graph(loop)(tracer.ShapeDtype((N, N), "float64")))
    assert "scatter(" in text
    assert "scatter(" not in str(
        tracer.make_graph(lambda x: (2 * x).at[range(N), range(N)].add(1))(
            tracer.ShapeDtype((N, N), "float64")
        )
    )
