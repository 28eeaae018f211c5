"""The chi-squared distribution: `tracer.scipy.stats.chi2`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy.stats import gamma
from tracer.scipy.stats.arguments import floats


def _of_gamma(name: str, *arguments: ArrayLike) -> tuple[Array, Array, Array, Array]:
    """Return the arguments of the gamma distribution that is this one."""
    x, df, loc, scale = floats(f"chi2.{name}", *arguments)
    return x, df / 2, loc, 2 * scale


def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density.

    Parameters
    ----------
    x : array_like
        Where.
    df : array_like
        Degrees of freedom, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return gamma.logpdf(*_of_gamma("logpdf", x, df, loc, scale))


def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density.

    Parameters
    ----------
    x : array_like
        Where.
    df : array_like
        Degrees of freedom, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.exp(logpdf(x, df, loc, scale))


def cdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x.

    Parameters
    ----------
    x : array_like
        Where.
    df : array_like
        Degrees of freedom, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return gamma.cdf(*_of_gamma("cdf", x, df, loc, scale))


def logcdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `cdf`.

    Parameters
    ----------
    x : array_like
        Where.
    df : array_like
        Degrees of freedom, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.log(cdf(x, df, loc, scale))


def sf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x, 1 - cdf.

    Parameters
    ----------
    x : array_like
        Where.
    df : array_like
        Degrees of freedom, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return gamma.sf(*_of_gamma("sf", x, df, loc, scale))


def logsf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of `sf`.

    Parameters
    ----------
    x : array_like
        Where.
    df : array_like
        Degrees of freedom, positive.
    loc, scale : array_like
        Shift and scale.
    """
    return tnp.log(sf(x, df, loc, scale))


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]
