"""Sparse Gaussian process regression, library style: a model, its parameters, L-BFGS, predictions.

    python examples/sgpr.py                                   # made-up data
    python examples/sgpr.py --data DIR --set kin40k --inducing 500 --memory-limit 1GB

The model is the variational one of Titsias (2009), written down as it is in the literature, with
its (m, n) matrix of covariances. Nothing here cuts it into pieces: `memory_limit` does.

References
----------
M. K. Titsias, Variational learning of inducing variables in sparse Gaussian processes, AISTATS
2009.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[0] = str(ROOT)

import tracer  # noqa: E402 - after the path
import tracer.numpy as tnp  # noqa: E402
from tracer.nn import softplus  # noqa: E402
from tracer.scipy.linalg import solve_triangular  # noqa: E402

JITTER = 1e-6
SMALLEST_NOISE = 1e-6
Parameters = dict[str, Any]


def unconstrained(positive: Any) -> Any:
    """Return what `softplus` takes to a positive number."""
    return np.log(np.expm1(positive))


@dataclasses.dataclass(frozen=True)
class SquaredExponential:
    """The covariance variance * exp(-|(x - y) / lengthscales|^2 / 2)."""

    lengthscales: Any
    variance: Any

    def __call__(self, x: Any, y: Any) -> Any:
        """Return the matrix of covariances of points x (n, d) and y (m, d)."""
        x, y = x / self.lengthscales, y / self.lengthscales
        squares = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
        return self.variance * tnp.exp(-0.5 * squares)


@dataclasses.dataclass(frozen=True)
class SGPR:
    """Sparse GP regression with a Gaussian likelihood; conditioned on data by its methods.

    Attributes
    ----------
    kernel : SquaredExponential
        Covariance function.
    noise : array
        Variance of the likelihood.
    inducing : array (m, d)
        Inducing points.
    """

    kernel: SquaredExponential
    noise: Any
    inducing: Any

    def _factors(self, x: Any, y: Any) -> tuple[Any, Any, Any, Any]:
        identity = tnp.eye(self.inducing.shape[0], dtype=x.dtype)
        factor = tnp.linalg.cholesky(self.kernel(self.inducing, self.inducing) + JITTER * identity)
        sigma = tnp.sqrt(self.noise)
        a = solve_triangular(factor, self.kernel(self.inducing, x), lower=True) / sigma
        factor_b = tnp.linalg.cholesky(identity + a @ a.T)
        c = solve_triangular(factor_b, a @ y, lower=True) / sigma
        return factor, a, factor_b, c

    def elbo(self, x: Any, y: Any) -> Any:
        """Return the lower bound of the log marginal likelihood of y (n,) at x (n, d)."""
        n = y.shape[0]
        _, a, factor_b, c = self._factors(x, y)
        fit = -0.5 * n * tnp.log(2 * np.pi * self.noise) - tnp.log(tnp.diagonal(factor_b)).sum()
        quadratic = -0.5 * (y @ y) / self.noise + 0.5 * (c @ c)
        trace = -0.5 * n * self.kernel.variance / self.noise + 0.5 * (a * a).sum()
        return fit + quadratic + trace

    def predict(self, x: Any, y: Any, new: Any) -> tuple[Any, Any]:
        """Return mean and variance of observations at new points."""
        factor, _, factor_b, c = self._factors(x, y)
        first = solve_triangular(factor, self.kernel(self.inducing, new), lower=True)
        second = solve_triangular(factor_b, first, lower=True)
        variance = self.kernel.variance - (first**2).sum(0) + (second**2).sum(0)
        return second.T @ c, variance + self.noise


def initial_parameters(
    inducing: Any, *, lengthscales: Any, variance: float, noise: float
) -> Parameters:
    """Return unconstrained parameters of a model, all of them to be trained."""
    return {
        "lengthscales": unconstrained(np.asarray(lengthscales, np.float64)),
        "variance": np.asarray(unconstrained(variance)),
        "noise": np.asarray(unconstrained(noise - SMALLEST_NOISE)),
        "inducing": np.asarray(inducing, np.float64),
    }


def model(parameters: Mapping[str, Any]) -> SGPR:
    """Return the model of unconstrained parameters."""
    kernel = SquaredExponential(
        softplus(parameters["lengthscales"]), softplus(parameters["variance"])
    )
    return SGPR(kernel, SMALLEST_NOISE + softplus(parameters["noise"]), parameters["inducing"])


def loss(parameters: Mapping[str, Any], x: Any, y: Any) -> Any:
    """Return the negative lower bound for each data point."""
    return -model(parameters).elbo(x, y) / y.shape[0]


def predict(parameters: Mapping[str, Any], x: Any, y: Any, new: Any) -> tuple[Any, Any]:
    """Return mean and variance at new points."""
    return model(parameters).predict(x, y, new)


def train(
    parameters: Parameters,
    x: Any,
    y: Any,
    *,
    memory_limit: str | int | None = None,
    steps: int = 100,
    seconds: float = np.inf,
    said: Callable[[str], None] | None = None,
) -> Parameters:
    """Train all parameters with SciPy's L-BFGS; value and gradient are one compiled program.

    No step begins after so many seconds.
    """
    program = tracer.compile(tracer.value_and_grad(loss), memory_limit=memory_limit)
    x, y = tnp.asarray(x), tnp.asarray(y)
    leaves, structure = tracer.tree.flatten(parameters)
    shapes = [leaf.shape for leaf in leaves]
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]

    def unflatten(vector: Any) -> Parameters:
        parts = [p.reshape(s) for p, s in zip(np.split(vector, ends), shapes, strict=True)]
        made: Parameters = tracer.tree.unflatten(structure, parts)
        return made

    def value_and_gradient(vector: Any) -> tuple[float, Any]:
        value, gradient = program(unflatten(vector), x, y)
        parts = [np.asarray(leaf).ravel() for leaf in tracer.tree.leaves(gradient)]
        if said is not None:
            said(f"loss {float(value):.6f}")
        return float(value), np.concatenate(parts)

    begun = time.perf_counter()

    def stop_in_time(intermediate_result: Any) -> None:
        if time.perf_counter() - begun > seconds:
            raise StopIteration

    found = scipy.optimize.minimize(
        value_and_gradient,
        np.concatenate([leaf.ravel() for leaf in leaves]),
        jac=True,
        method="L-BFGS-B",
        callback=stop_in_time,
        options={"maxiter": steps},
    )
    return unflatten(found.x)


def scores(mean: Any, variance: Any, y: Any) -> tuple[float, float]:
    """Return the root mean squared error and the negative log predictive density."""
    mean, variance = np.asarray(mean), np.asarray(variance)
    squares = (y - mean) ** 2
    density = 0.5 * np.log(2 * np.pi * variance) + 0.5 * squares / variance
    return float(np.sqrt(squares.mean())), float(density.mean())


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    """Train on a data set, and print the scores on its test points."""
    from benchmarks.experiments.inputs import sparse_gp

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", metavar="DIR", help="the folder of data sets")
    parser.add_argument("--set", default="made up", help="etopo20, kin40k, tamielectric, kegg")
    parser.add_argument("--points", type=int, default=5_000, help="training points, at most")
    parser.add_argument("--inducing", type=int, default=100)
    parser.add_argument("--memory-limit", default="100MB")
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args(arguments)
    found = sparse_gp(options.set, options.points, options.inducing, options.data)
    first = initial_parameters(
        found["inducing"], **{key: found[key] for key in ("lengthscales", "variance", "noise")}
    )
    x, y, limit = found["x"], found["y"], options.memory_limit
    print(f"{options.set}: {len(x):,} points of {x.shape[1]} features, limit {limit}")
    print(tracer.compile(tracer.value_and_grad(loss), memory_limit=limit).plan(first, x, y))
    start = time.perf_counter()
    trained = train(first, x, y, memory_limit=limit, steps=options.steps, said=print)
    seconds = time.perf_counter() - start
    predicted = tracer.compile(predict, memory_limit=limit)(trained, x, y, found["x_test"])
    mean, variance = predicted
    rmse, nlpd = scores(mean, variance, found["y_test"])
    print(f"{seconds:.1f} s of training; test RMSE {rmse:.4f}, NLPD {nlpd:.4f}")
    return rmse, nlpd


if __name__ == "__main__":
    main()
