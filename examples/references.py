"""What the example programs should give, in NumPy and SciPy float64, and the comparison.

Nothing here uses tracer: the checker shares no code with what it checks.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist

ROWS = 50
DIRECTIONS = 2
STEP = 1e-4
SINGLE_TOLERANCE = 1e-4
DOUBLE_TOLERANCE = 1e-6


@dataclasses.dataclass(frozen=True)
class Check:
    """A comparison: what was compared, the largest relative error, and the most that is allowed."""

    what: str
    error: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether the error is allowed; NaN is not."""
        return bool(self.error <= self.tolerance)

    def __str__(self) -> str:
        return f"{'ok' if self.passed else 'FAILED'}: error {self.error:.0e}, {self.what}"


def check_kernel_product(inputs: tuple[Any, ...], result: Any) -> Check:
    """Compare some rows of the product."""
    x, y, v = (np.asarray(array, np.float64) for array in inputs)
    rows = _some_rows(len(x))
    exact = np.exp(-0.5 * cdist(x[rows], y, "sqeuclidean")) @ v
    error = _error(np.asarray(result)[rows], exact)
    return Check(f"{len(rows)} rows", error, SINGLE_TOLERANCE)


def check_nearest_neighbours(inputs: tuple[Any, ...], result: Any) -> Check:
    """Compare the distances of some queries, and how far the neighbours found really are.

    Indices are not compared: of two points at one distance either may come first.
    """
    queries, points = (np.asarray(array, np.float64) for array in inputs)
    distances, indices = map(np.asarray, result)
    rows = _some_rows(len(queries))
    every = cdist(queries[rows], points)
    exact = np.sort(every, axis=1)[:, : distances.shape[1]]
    reached = np.take_along_axis(every, indices[rows], axis=1)
    error = max(_error(distances[rows], exact), _error(reached, exact))
    return Check(f"{len(rows)} queries", error, SINGLE_TOLERANCE)


def check_sparse_gp(inputs: tuple[Any, ...], result: Any) -> Check:
    """Compare the bound, and its gradient along random directions with central differences."""
    parameters, x, y = inputs
    value, gradient = result
    errors = [_error(np.asarray(value), np.asarray(sparse_gp_bound(parameters, x, y)))]
    rng = np.random.default_rng(0)
    for _ in range(DIRECTIONS):
        direction = {key: rng.standard_normal(p.shape) for key, p in parameters.items()}
        ahead, behind = (
            sparse_gp_bound({k: p + s * direction[k] for k, p in parameters.items()}, x, y)
            for s in (STEP, -STEP)
        )
        slope = sum((np.asarray(gradient[key]) * direction[key]).sum() for key in parameters)
        errors.append(_error(slope, np.asarray((ahead - behind) / (2 * STEP))))
    return Check(f"bound and {DIRECTIONS} directions", max(errors), DOUBLE_TOLERANCE)


def sparse_gp_bound(parameters: dict[str, Any], x: Any, y: Any) -> float:
    """Return the bound of Titsias 2009, eq. 9, in the numerically stable form."""
    scale, z = parameters["lengthscales"], parameters["inducing"]
    variance, noise = float(parameters["variance"]), float(parameters["noise"])
    n, m = len(x), len(z)
    k_zz = variance * np.exp(-0.5 * cdist(z / scale, z / scale, "sqeuclidean"))
    k_zx = variance * np.exp(-0.5 * cdist(z / scale, x / scale, "sqeuclidean"))
    lower = cholesky(k_zz + 1e-6 * np.eye(m), lower=True)
    a = solve_triangular(lower, k_zx, lower=True)
    inner = cholesky(noise * np.eye(m) + a @ a.T, lower=True)
    projected = solve_triangular(inner, a @ y, lower=True)
    log_determinant = 2 * np.log(np.diag(inner)).sum() + (n - m) * np.log(noise)
    quadratic = (y @ y - projected @ projected) / noise
    slack = (n * variance - np.square(a).sum()) / noise
    return float(-0.5 * (n * np.log(2 * np.pi) + log_determinant + quadratic + slack))


def _some_rows(n: int) -> Any:
    return np.random.default_rng(0).choice(n, size=min(ROWS, n), replace=False)


def _error(found: Any, exact: Any) -> float:
    return float(np.abs(found - exact).max() / np.abs(exact).max())
