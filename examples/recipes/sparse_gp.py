"""Sparse Gaussian process regression: Titsias' bound and its gradient for all parameters.

python examples/recipes/sparse_gp.py [--size small] [--as-written]
"""

import numpy as np
import scipy.linalg
from recipe import Recipe, relative_error

import tracer
import tracer.numpy as tnp
from tracer.scipy.linalg import solve_triangular


def data(n, m):
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (n, 2))
    y = np.sin(2 * x[:, 0]) * np.cos(x[:, 1]) + 0.3 * rng.normal(size=n)
    return {"logs": np.log([0.7, 1.0, 0.1]), "inducing": x[:m].copy()}, x, y


def covariance(a, b, lengthscale, variance):
    squared = (((a[:, None, :] - b[None, :, :]) / lengthscale) ** 2).sum(-1)
    return variance * tnp.exp(-0.5 * squared)


def loss(parameters, x, y):
    (lengthscale, variance, noise), z = tnp.exp(parameters["logs"]), parameters["inducing"]
    identity = tnp.eye(len(z))
    k_zz = covariance(z, z, lengthscale, variance) + 1e-6 * identity
    k_zx = covariance(z, x, lengthscale, variance)
    a = solve_triangular(tnp.linalg.cholesky(k_zz), k_zx, lower=True) / tnp.sqrt(noise)
    factor = tnp.linalg.cholesky(identity + a @ a.T)
    c = solve_triangular(factor, a @ y, lower=True)
    fit = (y @ y - c @ c) / noise + len(x) * tnp.log(2 * np.pi * noise)
    missed = len(x) * variance / noise - (a * a).sum()
    return 0.5 * (fit + missed) + tnp.log(tnp.diagonal(factor)).sum()


value_and_gradient = tracer.value_and_grad(loss)


def check(inputs, results):
    parameters, x, y = inputs

    def kernel(a, b, lengthscale, variance):
        a, b = a / lengthscale, b / lengthscale
        squared = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * a @ b.T
        return variance * np.exp(-0.5 * squared)

    def exact(logs):
        lengthscale, variance, noise = np.exp(logs)
        z, inner, right = parameters["inducing"], 0.0, 0.0
        k_zz = kernel(z, z, lengthscale, variance) + 1e-6 * np.eye(len(z))
        factor = np.linalg.cholesky(k_zz)
        for rows in np.array_split(np.arange(len(x)), -(-len(x) // 10_000)):
            k = kernel(z, x[rows], lengthscale, variance)
            a = scipy.linalg.solve_triangular(factor, k, lower=True)
            inner, right = inner + a @ a.T, right + a @ y[rows]
        both = noise * np.eye(len(z)) + inner
        fit = (y @ y - right @ np.linalg.solve(both, right)) / noise
        missed = (len(x) * variance - np.trace(inner)) / noise
        logarithms = np.linalg.slogdet(both)[1] + (len(x) - len(z)) * logs[2]
        return 0.5 * (fit + missed + logarithms + len(x) * np.log(2 * np.pi))

    along, logs = np.array([1.0, -2.0, 0.5]), parameters["logs"]
    slope = (exact(logs + 1e-4 * along) - exact(logs - 1e-4 * along)) / 2e-4
    value, gradient = results
    errors = relative_error(value, exact(logs)), relative_error(gradient["logs"] @ along, slope)
    return "bound and a slope", max(errors)


RECIPE = Recipe(value_and_gradient, data, ("2MB", 2_000, 50), ("200MB", 100_000, 500), check=check)

if __name__ == "__main__":
    RECIPE.main()
