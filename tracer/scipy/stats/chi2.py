"""The chi-squared distribution: `tracer.scipy.stats.chi2`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy.floats import floats_together
from tracer.scipy.stats import gamma
from tracer.scipy.stats.docstrings import parameters
from tracer.scipy.tails import log_of_share

_described = parameters(df="Degrees of freedom, positive.")


def _of_gamma(name: str, *arguments: ArrayLike) -> tuple[Array, Array, Array, Array]:
    """Return the arguments of the gamma distribution that is this one."""
    x, df, loc, scale = floats_together(f"chi2.{name}", *arguments)
    return x, df / 2, loc, 2 * scale


@_described
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density."""
    return gamma.logpdf(*_of_gamma("logpdf", x, df, loc, scale))


@_described
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, df, loc, scale))


@_described
def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    return gamma.cdf(*_of_gamma("cdf", x, df, loc, scale))


@_described
def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `cdf`."""
    return log_of_share(cdf(x, df, loc, scale), sf(x, df, loc, scale))


@_described
def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf."""
    return gamma.sf(*_of_gamma("sf", x, df, loc, scale))


@_described
def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `sf`."""
    return log_of_share(sf(x, df, loc, scale), cdf(x, df, loc, scale))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
