"""Sparse Gaussian process regression: section 5.3, table 2 and figure 3 of the paper.

First the value and gradient of the bound, for which the peers run until they no longer fit; then
training of all parameters with L-BFGS, and the scores on test points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from benchmarks.experiments import inputs
from benchmarks.experiments.records import OURS, Case, Settings, System
from benchmarks.experiments.runs import Array

GRADIENT, TRAINING = "sparse GP, value and gradient", "sparse GP, training"
JITTER = 1e-6
STEP = 1e-5
LIMITS = {"small": "50MB", "full": "2GB"}
STEPS = {"small": 10, "full": 100}
TRAINING_SECONDS = {"small": 20, "full": 120}
POINTS = {"small": 5_000, "full": 1_000_000}
GRADIENT_SIZES: dict[str, dict[str, tuple[int, ...]]] = {
    "small": {"made up": (50, 200), "kin40k": (100,)},
    "full": {
        "etopo20": (50, 100, 200, 500, 1_000, 2_000, 5_000),
        "kin40k": (100, 500, 1_000, 2_000, 4_000, 5_000, 10_000),
        "as large as 3droad": (2_000,),
        "as large as houseelectric": (2_000,),
    },
}
TRAINING_SIZES: dict[str, dict[str, tuple[int, ...]]] = {
    "small": {"made up": (50,), "kin40k": (100,)},
    "full": {
        "etopo20": (100, 500),
        "kin40k": (100, 500, 1_000),
        "tamielectric": (100, 500),
        "kegg": (100, 500),
    },
}
CHECKED_WORK = 5e11
"""Up to so many operations (n m^2) the reference is computed."""
PEERS = (
    ("jax.jit", "jax_models:sgpr", ("jax",)),
    ("GPflow", "gpflow_programs:sgpr", ("gpflow",)),
    ("GPyTorch", "gpytorch_programs:sgpr", ("gpytorch", "torch")),
)


def gradient_cases(settings: Settings) -> Iterator[Case]:
    """Yield value and gradient of the bound at the first parameters."""
    limit = LIMITS[settings.size]
    for source, n, m in _problems(settings, GRADIENT_SIZES[settings.size]):
        yield Case(
            GRADIENT,
            f"{source}, m = {m:,}",
            {"source": source, "n": n, "m": m, "data": settings.data},
            (
                System(f"{OURS}, {limit}", "ours_models:sgpr", arguments={"limit": limit}),
                System(f"{OURS}, no limit", "ours_models:sgpr", arguments={"limit": None}),
                *(System(*peer) for peer in PEERS),
            ),
            _expected(source, n, m, settings.data),
            1e-4,
        )


def training_cases(settings: Settings) -> Iterator[Case]:
    """Yield training of all parameters."""
    limit = LIMITS[settings.size]
    for source, n, m in _problems(settings, TRAINING_SIZES[settings.size]):
        yield Case(
            TRAINING,
            f"{source}, m = {m:,}",
            {
                "source": source,
                "n": n,
                "m": m,
                "data": settings.data,
                "steps": STEPS[settings.size],
                "seconds": TRAINING_SECONDS[settings.size],
            },
            (
                System(f"{OURS}, {limit}", "ours_models:training", arguments={"limit": limit}),
                System("GPflow", "gpflow_programs:training", ("gpflow",)),
            ),
        )


def _problems(
    settings: Settings, sizes: dict[str, tuple[int, ...]]
) -> Iterator[tuple[str, int, int]]:
    files = {"etopo20": "etopo20.npz", **inputs.UCI}
    for source, counts in sizes.items():
        folder = Path(settings.data or "")
        if source in files and (settings.data is None or not (folder / files[source]).exists()):
            print(f"sparse GP: {source} skipped: no {files[source]} in --data")
            continue
        points = inputs.MADE_UP.get(source, (None,))[0] or POINTS[settings.size]
        for m in counts:
            yield source, points, m


def _expected(source: str, n: int, m: int, data: str | None) -> Callable[[], Any] | None:
    if min(n, 600_000) * m**2 > CHECKED_WORK:
        return None
    return lambda: reference(inputs.sparse_gp(source, n, m, data))


def direction(m: int, d: int) -> Array:
    """Return the direction of the inducing points in which the gradient is compared."""
    return np.random.default_rng(4).standard_normal((m, d))


def compared(value: Any, gradient: Any) -> list[float]:
    """Return the loss and its derivative in that direction, from the inducing points' gradient."""
    along = np.asarray(gradient)
    return [float(value), float(np.vdot(along, direction(*along.shape)))]


def reference(problem: dict[str, Any]) -> Callable[[Any], float]:
    """Return the error of (loss, derivative in a direction); float64, differences, in pieces."""
    z = problem["inducing"]
    along = direction(*z.shape)
    right = []
    # GPyTorch adds no jitter, the others do: a derivative differs in its third digit.
    for jitter in (JITTER, 0.0):
        try:
            middle, less, more = (loss(problem, z + s * along, jitter) for s in (0, -STEP, STEP))
        except np.linalg.LinAlgError:
            if jitter:
                raise
            continue  # Points so close together have a factor with jitter only: that is compared.
        right.append((middle, (more - less) / (2 * STEP)))

    def error(found: Any) -> float:
        value, derivative = found
        if np.isnan(value) or np.isnan(derivative):
            return float("inf")
        return float(
            min(
                max(abs(value / middle - 1), abs(derivative - slope) / (abs(slope) + 1e-3))
                for middle, slope in right
            )
        )

    return error


def loss(problem: dict[str, Any], z: Array, jitter: float) -> float:
    """Return the negative lower bound for each point, in float64 with NumPy and SciPy."""
    x, y, noise, variance = (problem[key] for key in ("x", "y", "noise", "variance"))
    n, m = len(x), len(z)
    inner = cholesky(_covariance(z, z, problem) + jitter * np.eye(m), lower=True)
    gram, projected = np.zeros((m, m)), np.zeros(m)
    for start in range(0, n, 5_000):
        part = slice(start, start + 5_000)
        a = solve_triangular(inner, _covariance(z, x[part], problem), lower=True) / np.sqrt(noise)
        gram += a @ a.T
        projected += a @ y[part]
    outer = cholesky(np.eye(m) + gram, lower=True)
    c = solve_triangular(outer, projected, lower=True) / np.sqrt(noise)
    fit = -0.5 * n * np.log(2 * np.pi * noise) - np.log(np.diagonal(outer)).sum()
    quadratic = -0.5 * (y @ y) / noise + 0.5 * (c @ c)
    bound = fit + quadratic - 0.5 * (n * variance / noise - np.trace(gram))
    return float(-bound / n)


def _covariance(x: Array, y: Array, problem: dict[str, Any]) -> Array:
    squares = np.zeros((len(x), len(y)))
    scales = problem["lengthscales"]
    for left, right in zip((x / scales).T, (y / scales).T, strict=True):
        squares += (left[:, None] - right[None, :]) ** 2
    made: Array = problem["variance"] * np.exp(-0.5 * squares)
    return made
