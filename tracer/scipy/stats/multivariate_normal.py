"""The multivariate normal distribution: `tracer.scipy.stats.multivariate_normal`."""

from __future__ import annotations

import math

import tracer.numpy as tnp
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_arrays, convert
from tracer.errors import ArgumentError, ShapeError
from tracer.scipy.linalg import cholesky, solve_triangular


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """Logarithm of the density.

    Parameters
    ----------
    x : array_like, shape (..., n)
        Where.
    mean : array_like, shape (..., n), or ()
        The mean. Without axes, `cov` is the variance of numbers.
    cov : array_like, shape (..., n, n), or ()
        The covariance, positive definite.
    allow_singular : None
        Not supported.

    Returns
    -------
    Array, shape (...)
        NaN in a trace where `cov` is not positive definite.
    """
    if allow_singular is not None:
        raise ArgumentError("allow_singular is not supported", mend="leave it out")
    arrays = as_arrays(x, mean, cov)
    dtype = promotion.division_dtype(promotion.result_type(*arrays))
    point, center, spread = (convert(y, dtype) for y in arrays)
    if not center.ndim:
        apart = point - center
        return -(apart * apart / spread + math.log(2 * math.pi) + tnp.log(spread)) / 2
    size = center.shape[-1]
    if spread.ndim < 2 or spread.shape[-2:] != (size, size):
        raise ShapeError(
            f"multivariate_normal: mean {center.shape} and cov {spread.shape} do not fit",
            mend="give shapes (..., n) and (..., n, n)",
        )
    factor = cholesky(spread, lower=True)
    apart = tnp.expand_dims(point - center, -1)
    batch = tnp.broadcast_shapes(apart.shape[:-2], factor.shape[:-2])
    rows = tnp.broadcast_to(apart, (*batch, size, 1))
    scaled = solve_triangular(tnp.broadcast_to(factor, (*batch, size, size)), rows, lower=True)
    volume = tnp.log(tnp.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)
    square = (scaled * scaled).sum((-2, -1))
    return -square / 2 - size / 2 * math.log(2 * math.pi) - volume


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """Density; see `logpdf`."""
    return tnp.exp(logpdf(x, mean, cov))


__all__ = ["logpdf", "pdf"]
