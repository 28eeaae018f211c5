"""The chi-squared distribution: `tracer.scipy.stats.chi2`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array
from tracer.scipy.stats import gamma


def _half(df: ArrayLike) -> Array:
    return as_array(df) / 2


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
    return gamma.logpdf(x, _half(df), loc, 2 * as_array(scale))


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
    return gamma.cdf(x, _half(df), loc, 2 * as_array(scale))


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
    return gamma.sf(x, _half(df), loc, 2 * as_array(scale))


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
