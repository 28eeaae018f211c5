"""The regression bound of a sparse Gaussian process.

References
----------
M. K. Titsias, Variational learning of inducing variables in sparse Gaussian processes, AISTATS
2009; written as in the GPflow documentation (derivation of SGPR).
"""

import numpy as np

import tracer
import tracer.numpy as tnp
from tracer.scipy.linalg import solve_triangular

JITTER = 1e-6


def covariance(a, b, parameters):
    """Return the squared-exponential covariance of points a (n, d) and b (m, d)."""
    scaled_a, scaled_b = a / parameters["lengthscales"], b / parameters["lengthscales"]
    squares = ((scaled_a[:, None, :] - scaled_b[None, :, :]) ** 2).sum(-1)
    return parameters["variance"] * tnp.exp(-0.5 * squares)


def bound(parameters, x, y):
    """Return the lower bound of the log marginal likelihood of y (n,) at x (n, d)."""
    z, noise, n = parameters["inducing"], parameters["noise"], y.shape[0]
    sigma = tnp.sqrt(noise)

    identity = tnp.eye(z.shape[0], dtype=x.dtype)
    factor = tnp.linalg.cholesky(covariance(z, z, parameters) + JITTER * identity)
    a = solve_triangular(factor, covariance(z, x, parameters), lower=True) / sigma
    factor_b = tnp.linalg.cholesky(identity + a @ a.T)
    c = solve_triangular(factor_b, a @ y, lower=True) / sigma

    fit = -0.5 * n * tnp.log(2 * np.pi * noise) - tnp.log(tnp.diagonal(factor_b)).sum()
    quadratic = -0.5 * (y @ y) / noise + 0.5 * (c @ c)
    trace = -0.5 * n * parameters["variance"] / noise + 0.5 * (a * a).sum()
    return fit + quadratic + trace


value_and_gradient = tracer.value_and_grad(bound)
"""Of the bound, with respect to all parameters."""
