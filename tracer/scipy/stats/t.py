"""The Student's t distribution: `tracer.scipy.stats.t`."""

from __future__ import annotations

import math

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.scipy import special
from tracer.scipy.floats import floats_together
from tracer.scipy.stats.docstrings import parameters
from tracer.scipy.tails import log_of_one_and_square

_described = parameters(df="Degrees of freedom, positive.")


@_described
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density."""
    x_, df_, loc_, scale_ = floats_together("t.logpdf", x, df, loc, scale)
    z = (x_ - loc_) / scale_
    half = (df_ + 1) / 2
    factor = special.gammaln(half) - special.gammaln(df_ / 2) - tnp.log(df_ * math.pi) / 2
    return factor - tnp.log(scale_) - half * log_of_one_and_square(z / tnp.sqrt(df_))


@_described
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density."""
    return tnp.exp(logpdf(x, df, loc, scale))


__all__ = ["logpdf", "pdf"]
