"""Exact Gaussian process regression: the likelihood and its gradient.

python examples/recipes/exact_gp.py [--size small] [--as-written]
"""

import numpy as np
import scipy.linalg
from recipe import Recipe, relative_error

import tracer
import tracer.numpy as tnp
from tracer.scipy.linalg import solve_triangular


def data(n):
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (n, 2)).astype("float32")
    y = np.sin(2 * x[:, 0]) * np.cos(x[:, 1]) + 0.3 * rng.normal(size=n)
    logs = np.log([0.7, 1.0, 0.1]).astype("float32")  # of lengthscale, variance and noise
    return logs, x, y.astype("float32")


def loss(logs, x, y):
    lengthscale, variance, noise = tnp.exp(logs)
    squared = (((x[:, None, :] - x[None, :, :]) / lengthscale) ** 2).sum(-1)
    covariance = variance * tnp.exp(-0.5 * squared) + noise * tnp.eye(len(x), dtype=x.dtype)
    factor = tnp.linalg.cholesky(covariance)
    whitened = solve_triangular(factor, y, lower=True)
    return 0.5 * whitened @ whitened + tnp.log(tnp.diagonal(factor)).sum()


value_and_gradient = tracer.value_and_grad(loss)


def check(inputs, results):
    logs, x, y = (array.astype("float64") for array in inputs)

    def exact(logs):
        lengthscale, variance, noise = np.exp(logs)
        norms = ((x / lengthscale) ** 2).sum(1)
        squared = norms[:, None] + norms - 2 * (x / lengthscale) @ (x / lengthscale).T
        covariance = variance * np.exp(-0.5 * squared)
        covariance[np.diag_indices(len(x))] += noise
        factor = np.linalg.cholesky(covariance)
        whitened = scipy.linalg.solve_triangular(factor, y, lower=True)
        return 0.5 * whitened @ whitened + np.log(np.diag(factor)).sum()

    along = np.array([1.0, -2.0, 0.5])
    slope = (exact(logs + 1e-4 * along) - exact(logs - 1e-4 * along)) / 2e-4
    value, gradient = results
    errors = relative_error(value, exact(logs)), relative_error(gradient @ along, slope)
    return "likelihood and a slope", max(errors)


RECIPE = Recipe(value_and_gradient, data, ("7MB", 600), ("400MB", 6_000), check=check)

if __name__ == "__main__":
    RECIPE.main()
