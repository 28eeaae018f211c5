"""The peak model on linear algebra: predictions against XLA's count with LAPACK's scratch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracer.numpy as tnp
from tests.optimizer.graphs import legal, traced
from tracer import lowering
from tracer.optimizer.model.liveness import peak_bytes
from tracer.optimizer.passes import PassManager
from tracer.optimizer.pipeline import STANDARD_PASSES
from tracer.scipy.linalg import solve_triangular

SQUARE = ((400, 400), "float64")
TALL = ((2000, 60), "float64")
COLUMN = ((400,), "float64")
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "determinant": (tnp.linalg.det, (SQUARE,)),
    "solve": (tnp.linalg.solve, (SQUARE, COLUMN)),
    "inverse": (tnp.linalg.inv, (SQUARE,)),
    "Cholesky": (tnp.linalg.cholesky, (SQUARE,)),
    "one right-hand side": (lambda a, b: solve_triangular(a, b, lower=True), (SQUARE, COLUMN)),
    "QR": (tnp.linalg.qr, (SQUARE,)),
    "QR, tall": (tnp.linalg.qr, (TALL,)),
    "symmetric eigenvalues": (tnp.linalg.eigvalsh, (SQUARE,)),
    "eigenvectors": (tnp.linalg.eigh, (SQUARE,)),
    "singular values": (lambda a: tnp.linalg.svd(a, compute_uv=False), (SQUARE,)),
    "singular vectors": (tnp.linalg.svd, (SQUARE,)),
    "general eigenvectors": (tnp.linalg.eig, (SQUARE,)),
}
LOW, HIGH = 0.7, 1.05
"""XLA's count over the prediction."""


@pytest.mark.xla
@pytest.mark.parametrize("name", CASES)
def test_predictions_of_linear_algebra(name: str) -> None:
    function, types = CASES[name]
    graph = PassManager().run(traced(function, *types), STANDARD_PASSES)
    ratio = lowering.compile_graph(legal(graph)).memory.peak_bytes / peak_bytes(graph)
    assert LOW <= ratio <= HIGH, f"counted / predicted = {ratio:.2f}"
