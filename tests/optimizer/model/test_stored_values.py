"""What the model says is stored, beside what XLA stores: ops that are none, or another one, to XLA.

Each case is a program of matrices of one size: counted are those that XLA keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracer.numpy as tnp
from tests.optimizer.graphs import traced
from tracer import grad, lax, lowering
from tracer.lowering import shims
from tracer.optimizer.model.liveness import Liveness, peak_bytes
from tracer.target import ACCELERATORS, planned_for

ROWS, COLUMNS = 300, 500
VECTORS = (((ROWS,), "float64"), ((COLUMNS,), "float64"))


def _product(
    left: tuple[int, ...], right: tuple[int, ...], contracted: Any, batch: Any = ((), ())
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def program(x: Any, y: Any) -> Any:
        return -lax.dot_general(x * x, y + y, (contracted, batch))

    return program, ((left, "float32"), (right, "float32"))


PRODUCTS = {
    "two vectors": _product((900,), (900,), ((0,), (0,))),
    "vectors with axes of one element": _product((1, 900), (900, 1), ((1,), (0,))),
    "one column and a vector": _product((900, 1), (900,), ((0,), (0,))),
    "outer, nothing contracted": _product((300,), (50,), ((), ())),
    "outer, one element contracted": _product((300, 1), (1, 50), ((1,), (0,))),
    "column times a number": _product((900, 1), (1,), ((1,), (0,))),
    "batch of vectors": _product((50, 200), (50, 200), ((1,), (1,)), ((0,), (0,))),
    "batch of outer products": _product((9, 80, 1), (9, 1, 30), ((2,), (1,)), ((0,), (0,))),
    "two axes": _product((4, 200), (4, 200), ((0, 1), (0, 1))),
    "a matrix and a vector": _product((50, 200), (200,), ((1,), (0,))),
    "two matrices": _product((50, 200), (200, 70), ((1,), (0,))),
}


def _counted(function: Callable[..., Any], *types: Any) -> tuple[int, int]:
    graph = traced(function, *types)
    return peak_bytes(graph), lowering.compile_graph(graph).memory.peak_bytes


OF_LIBRARIES = ("batch of vectors", "a matrix and a vector", "two matrices")
"""Before jaxlib 0.10 these are another library's, which stores other operands."""


@pytest.mark.xla
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_that_are_sums_or_elementwise_to_xla(name: str) -> None:
    if name in OF_LIBRARIES and not shims.PRODUCTS_BY_YNNPACK:
        pytest.skip("the products of this jaxlib are another library's")
    program, types = PRODUCTS[name]
    predicted, counted = _counted(program, *types)
    assert predicted == pytest.approx(counted, rel=0.02, abs=100)


def test_a_vector_is_no_matrix_on_a_gpu() -> None:
    program, types = PRODUCTS["a matrix and a vector"]
    graph = traced(program, *types)
    gpu = ACCELERATORS["gpu"]["h100"]
    with planned_for(gpu):
        on_gpu = Liveness(graph).stored
    assert len(on_gpu) < len(Liveness(graph).stored)


@pytest.mark.xla
@pytest.mark.parametrize(
    ("name", "dtype", "matrices"),
    [(name, dtype, 0) for name in ("sin", "cos", "tan") for dtype in ("float32", "float64")]
    + [("exp", "float64", 1), ("tanh", "float32", 1), ("sqrt", "float32", 1)],
)
def test_functions_that_two_kernels_compute(name: str, dtype: str, matrices: int) -> None:
    """XLA computes sines twice, and stores other functions of as many operations."""

    def program(x: Any, y: Any) -> Any:
        found = getattr(tnp, name)(x)
        return found.max(axis=1), (found * y).min(axis=1)

    shape = (ROWS, COLUMNS)
    predicted, counted = _counted(program, (shape, dtype), (shape, dtype))
    assert predicted == pytest.approx(counted, rel=0.01)
    unit = ROWS * COLUMNS * (8 if dtype == "float64" else 4)
    assert round(counted / unit) == 2 + matrices


def _scaled_by_its_maximum(matrix: Any) -> Any:
    return (matrix * matrix.max(1)[:, None]).sum(1)


LATE: dict[str, Callable[[Any, Any], Any]] = {
    "cheap": lambda x, y: x[:, None] * y + (x[:, None] - y),
    "sines": lambda x, y: tnp.cos(x[:, None] * y) + tnp.sin(x[:, None] - y),
    "one expensive value": lambda x, y: tnp.tanh(x[:, None] * y) + x[:, None],
    "two expensive values": lambda x, y: tnp.tanh(x[:, None] * y) + tnp.exp(x[:, None] - y),
}


@pytest.mark.xla
@pytest.mark.parametrize("name", LATE)
def test_what_a_late_value_is_made_of_is_not_stored_with_it(name: str) -> None:
    def program(x: Any, y: Any) -> Any:
        return _scaled_by_its_maximum(LATE[name](x, y))

    predicted, counted = _counted(program, *VECTORS)
    assert predicted == pytest.approx(counted, rel=0.01)
    assert round(counted / (ROWS * COLUMNS * 8)) == 1


@pytest.mark.xla
def test_reductions_of_one_element_are_views() -> None:
    def program(x: Any, y: Any) -> Any:
        return _scaled_by_its_maximum(LATE["one expensive value"](x, y))

    predicted, counted = _counted(program, ((5000,), "float64"), ((1,), "float64"))
    assert predicted == pytest.approx(counted, rel=0.01)


def _of_shifts(matrix: Any, sides: int) -> Any:
    rows, columns = matrix.shape[0] - sides + 1, matrix.shape[1] - sides + 1
    parts = [matrix[i : i + rows, j : j + columns] for i in range(sides) for j in range(sides)]
    return sum(parts)


def _gradient(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return grad(lambda matrix: (function(matrix) ** 2).sum())


JOINED: dict[str, tuple[Callable[[Any], Any], int]] = {
    "shifted twice, read once": (lambda m: tnp.roll(tnp.roll(m, 1, 0), 1, 1).sum(1), 1),
    "differences": (lambda m: (tnp.diff(m, axis=0) ** 2).sum(1), 0),
    "their gradient": (_gradient(lambda m: tnp.diff(m, axis=0)), 1),
    "a shift's gradient": (_gradient(lambda m: tnp.roll(m, 3, 0)[::-1]), 2),
    "nine neighbours": (lambda m: _of_shifts(tnp.pad(m, 1), 3).sum(1), 1),
    "of what is stored": (lambda m: _of_shifts(m, 3).sum(1), 0),
    "more neighbours than are written out": (lambda m: _of_shifts(tnp.sin(m), 5).sum(1), 1),
    "columns joined, the largest of all": (lambda m: _twice(tnp.sin(m), 1).max(1), 0),
    "rows joined, read twice": (lambda m: (lambda c: (c[1:] * c[:-1]).sum(1))(_twice(m, 0)), 2),
    "one of those joined": (lambda m: tnp.sin(_twice(m, 1)[:, :COLUMNS]).sum(1), 0),
    "an expensive value, padded": (lambda m: (tnp.pad(tnp.exp(m), 1) * 2).sum(1), 0),
    "and joined": (lambda m: tnp.stack([tnp.exp(m), m], 1).sum((1, 2)), 0),
    "columns joined": (lambda m: tnp.tanh(_twice(m, 1)).sum(0), 4),
    "nine rows of matrices": (lambda m: tnp.concatenate([m + i for i in range(9)]).sum(1), 18),
    "few columns joined": (lambda m: tnp.tanh(tnp.stack([m, -m], -1)).sum((1, 2)), 0),
    "nine matrices": (lambda m: tnp.stack([m + i for i in range(9)]).max((0, 2)), 0),
}
"""Programs of `x[:, None] * y`, and how many such matrices XLA stores."""


def _twice(matrix: Any, axis: int) -> Any:
    return tnp.concatenate([matrix, matrix[::-1]], axis)


@pytest.mark.xla
@pytest.mark.parametrize("name", JOINED)
def test_what_is_joined_or_padded_is_not_computed_twice(name: str) -> None:
    """Gradients of shifts and stencils took up to nine times what was predicted."""
    function, matrices = JOINED[name]
    predicted, counted = _counted(lambda x, y: function(x[:, None] * y), *VECTORS)
    assert predicted == pytest.approx(counted, rel=0.05, abs=20_000)
    assert round(counted / (ROWS * COLUMNS * 8)) == matrices
