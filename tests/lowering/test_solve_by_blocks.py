"""Triangular solves of large matrices for one right-hand side, block by block."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import tracer
from tracer import ops
from tracer.array.dispatch import apply

pytestmark = pytest.mark.xla

SIZES = [512, 640, 700]


def solve(a: np.ndarray, b: np.ndarray, **params: object) -> tuple[np.ndarray, str]:
    compiled = tracer.compile(
        lambda a, b: apply(ops.triangular_solve, a, b, left_side=True, **params)
    )
    return np.asarray(compiled(a, b)), compiled.hlo(a, b)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose_a", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("unit_diagonal", [True, False])
def test_as_scipy_and_never_reads_the_other_triangle(
    n: int, lower: bool, transpose_a: str, unit_diagonal: bool
) -> None:
    rng = np.random.default_rng(0)
    a = 0.02 * rng.standard_normal((n, n)) + 2 * np.eye(n)
    keep = np.tril(np.ones((n, n), bool)) if lower else np.triu(np.ones((n, n), bool))
    if unit_diagonal:
        keep &= ~np.eye(n, dtype=bool)
    b = rng.standard_normal((n, 1))
    found, text = solve(
        np.where(keep, a, np.nan),
        b,
        lower=lower,
        transpose_a=transpose_a,
        unit_diagonal=unit_diagonal,
    )
    expected = scipy.linalg.solve_triangular(
        np.where(keep, a, 0), b, trans=transpose_a[0], lower=lower, unit_diagonal=unit_diagonal
    )
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    assert f"f64[{n},{n}]" not in "".join(line for line in text.splitlines() if "trsm" in line)


def test_in_float32_and_narrower() -> None:
    a = np.tril(np.full((600, 600), 0.01)) + np.eye(600)
    b = np.ones((600, 1))
    expected = scipy.linalg.solve_triangular(a, b, lower=True)
    for dtype, tolerance in (("float32", 1e-5), ("float16", 5e-2)):
        found, _ = solve(
            a.astype(dtype),
            b.astype(dtype),
            lower=True,
            transpose_a="NO_TRANSPOSE",
            unit_diagonal=False,
        )
        assert found.dtype == dtype
        np.testing.assert_allclose(found.astype(float), expected, atol=tolerance)


def test_a_singular_matrix_gives_what_substitution_gives() -> None:
    a = np.eye(512)
    a[300, 300] = 0
    found, _ = solve(
        a, np.ones((512, 1)), lower=True, transpose_a="NO_TRANSPOSE", unit_diagonal=False
    )
    assert np.isposinf(found[300, 0])
    np.testing.assert_array_equal(found[:300], 1)


def test_others_are_left_to_lapack() -> None:
    for n, columns in ((511, 1), (512, 2)):
        _, text = solve(
            np.eye(n),
            np.ones((n, columns)),
            lower=True,
            transpose_a="NO_TRANSPOSE",
            unit_diagonal=False,
        )
        assert any(f"f64[{n},{n}]" in line for line in text.splitlines() if "trsm" in line)
