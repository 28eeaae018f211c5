"""The product of a squared-exponential kernel matrix with a vector, as one would write it down."""

import tracer.numpy as tnp


def kernel_product(x, y, v):
    """Return k(x, y) @ v for points x (n, d), y (m, d) and weights v (m,)."""
    squares = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
    return tnp.exp(-0.5 * squares) @ v
