"""The Dirichlet distribution: `tracer.scipy.stats.dirichlet`."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_arrays, convert
from tracer.errors import ShapeError
from tracer.scipy import special
from tracer.scipy.choice import choose


def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Logarithm of the density.

    Parameters
    ----------
    x : array_like, shape (k, ...) or (k - 1, ...)
        Shares that add up to 1; the last one may be left out.
    alpha : array_like, shape (k,)
        The concentrations, positive.
    """
    shares, powers = as_arrays(x, alpha)
    dtype = promotion.division_dtype(promotion.result_type(shares, powers))
    shares, powers = convert(shares, dtype), convert(powers, dtype)
    fits = powers.ndim == 1 and shares.ndim and powers.shape[0] - shares.shape[0] in (0, 1)
    if not fits:
        raise ShapeError(
            f"dirichlet: x {shares.shape} and alpha {powers.shape} do not fit",
            mend="give as many shares as concentrations, along axis 0",
        )
    if shares.shape[0] < powers.shape[0]:
        shares = tnp.concatenate([shares, 1 - shares.sum(0, keepdims=True)], 0)
    inside = (shares >= 0).all(0) & (abs(shares.sum(0) - 1) < 1e-6)
    safe = choose(inside, shares, 1 / shares.shape[0])
    columns = powers.reshape((-1,) + (1,) * (shares.ndim - 1))
    factor = special.gammaln(powers).sum() - special.gammaln(powers.sum())
    value = special.xlogy(columns - 1, safe).sum(0) - factor
    return choose(inside, value, -tnp.inf)


def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Density; see `logpdf`."""
    return tnp.exp(logpdf(x, alpha))


__all__ = ["logpdf", "pdf"]
