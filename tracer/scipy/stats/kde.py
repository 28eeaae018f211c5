"""Densities estimated with Gaussian kernels: `tracer.scipy.stats.gaussian_kde`.

References
----------
Scott, Multivariate Density Estimation, 1992; Silverman, Density Estimation for Statistics and Data
Analysis, 1986: the two rules for the width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tracer.numpy as tnp
from tracer import tree
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays
from tracer.errors import ArgumentError, ShapeError
from tracer.scipy.floats import floats
from tracer.scipy.linalg import cholesky, inv, solve_triangular
from tracer.scipy.special import logsumexp, ndtr

Width = str | ArrayLike | Callable[[Any], Any] | None


class gaussian_kde:  # noqa: N801 - SciPy's name
    """A density as a sum of normal ones around points, whose covariance is a part of the points'.

    Parameters
    ----------
    dataset : array_like, shape (d, n) or (n,)
        The points.
    bw_method : {"scott", "silverman"}, number or callable, optional
        The width of the normal densities, over that of the points: n**(-1 / (d + 4)) by default
        ("scott"), or a function of this object.
    weights : array_like, shape (n,), optional
        Of the points; equal by default.

    Attributes
    ----------
    dataset, weights : Array
        The points, shape (d, n), and their weights, which sum to one.
    neff : Array
        1 / sum(weights**2), the number of points that count.
    covariance, inv_cov : Array, shape (d, d)
        Of the normal densities, and its inverse.

    Raises
    ------
    ShapeError
        The points have no or three axes, or the weights are no vector of their number.
    LinAlgError
        (Concrete arrays) the points lie in a subspace.

    Notes
    -----
    It is a container, as `tracer.tree` has it: functions take and return it. A value at m points
    passes through an array of m by n numbers. There are no `resample`, `integrate_box` and
    `set_bandwidth`: draw points with `tracer.random.choice` and `multivariate_normal`, and make
    another object for another width.

    Examples
    --------
    >>> from tracer.scipy import stats
    >>> density = stats.gaussian_kde([1.0, 2.0, 4.0])
    >>> round(float(density(2.0)[0]), 6)
    0.214895
    """

    dataset: Array
    weights: Array
    neff: Array
    covariance: Array
    inv_cov: Array

    def __init__(
        self, dataset: ArrayLike, bw_method: Width = None, weights: ArrayLike | None = None
    ) -> None:
        points = tnp.atleast_2d(floats("gaussian_kde", as_array(dataset)))
        if points.ndim != 2 or points.shape[1] < 2:
            raise ShapeError(
                f"gaussian_kde of a dataset of shape {points.shape}",
                mend="give two points or more, in shape (dimensions, points)",
            )
        self.dataset = points
        self.weights = self._weights(weights)
        self.neff = 1 / (self.weights * self.weights).sum()
        spread = tnp.atleast_2d(tnp.cov(points, bias=False, aweights=self.weights))
        factor = self._factor(bw_method)
        self.covariance = (spread * factor * factor).astype(points.dtype)
        self.inv_cov = inv(self.covariance)

    def _weights(self, weights: ArrayLike | None) -> Array:
        if weights is None:
            return tnp.full_like(self.dataset[0], 1 / self.n)
        given = self._like(weights)
        if given.shape != (self.n,):
            raise ShapeError(
                f"gaussian_kde: weights of shape {given.shape} for {self.n} points",
                mend="give one for each point",
            )
        return given / given.sum()

    def _factor(self, bw_method: Width) -> Any:
        name = bw_method if isinstance(bw_method, str | None) else ""
        if name is None or name == "scott":
            return self.neff ** (-1 / (self.d + 4))
        if name == "silverman":
            return (self.neff * ((self.d + 2) / 4)) ** (-1 / (self.d + 4))
        if isinstance(bw_method, str):
            raise ArgumentError(
                f"gaussian_kde has no bw_method {bw_method!r}",
                mend='use "scott", "silverman", a number or a function',
            )
        given: Any = bw_method
        factor = as_array(given(self) if callable(given) else given)
        if factor.ndim or factor.dtype.kind == "c":
            raise ShapeError(
                f"gaussian_kde: bw_method is {factor.type}, not one real number",
                mend="give or return a number",
            )
        return factor

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of points."""
        return self.dataset.shape[1]

    def evaluate(self, points: ArrayLike) -> Array:
        """Return the density at points, shape (d, m); shape (m,)."""
        return tnp.exp(self.logpdf(points))

    __call__ = pdf = evaluate

    def logpdf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density at points, shape (d, m); shape (m,)."""
        exponents = _log_normal(self._points(x), self.dataset, self.covariance)
        result: Array = logsumexp(exponents, axis=1, b=self.weights)
        return result

    def _like(self, x: ArrayLike) -> Array:
        """Return numbers in the dataset's dtype, where it is."""
        given, _ = as_arrays(x, self.dataset)
        return floats("gaussian_kde", given).astype(self.dataset.dtype)

    def _points(self, points: ArrayLike) -> Array:
        x: Array = tnp.atleast_2d(floats("gaussian_kde", as_arrays(points, self.dataset)[0]))
        if x.ndim == 2 and x.shape == (1, self.d):
            x = x.T
        if x.ndim != 2 or x.shape[0] != self.d:
            raise ShapeError(
                f"gaussian_kde of {self.d} dimensions at points of shape {x.shape}",
                mend=f"give shape ({self.d}, points)",
            )
        return x

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """Return the integral of the product with a normal density.

        Parameters
        ----------
        mean : array_like, shape (d,) or ()
            Its mean.
        cov : array_like, shape (d, d) or ()
            Its covariance.
        """
        center, spread = tnp.atleast_1d(self._like(mean)), tnp.atleast_2d(self._like(cov))
        if center.shape != (self.d,) or spread.shape != (self.d, self.d):
            raise ShapeError(
                f"integrate_gaussian: mean {center.shape} and cov {spread.shape}",
                mend=f"give shapes ({self.d},) and ({self.d}, {self.d})",
            )
        exponents = _log_normal(center[:, None], self.dataset, self.covariance + spread)
        return (tnp.exp(exponents[0]) * self.weights).sum()

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """Return the integral between two numbers, of a density in one dimension."""
        if self.d != 1:
            raise ShapeError(
                f"integrate_box_1d of {self.d} dimensions", mend="it is for densities of one"
            )
        width = tnp.sqrt(self.covariance[0, 0])
        ends = [ndtr((self._like(end) - self.dataset[0]) / width) for end in (low, high)]
        return ((ends[1] - ends[0]) * self.weights).sum()

    def integrate_kde(self, other: gaussian_kde) -> Array:
        """Return the integral of the product with another such density."""
        if other.d != self.d:
            raise ShapeError(
                f"integrate_kde of {self.d} and {other.d} dimensions",
                mend="give densities of as many dimensions",
            )
        spread = self.covariance + other.covariance
        values = tnp.exp(_log_normal(self.dataset, other.dataset, spread))
        return self.weights @ values @ other.weights


def _log_normal(x: Array, centers: Array, covariance: Array) -> Array:
    """Return the logarithms of normal densities at m points around n centers, shape (m, n)."""
    factor = cholesky(covariance, lower=True)
    points, middle = (solve_triangular(factor, y, lower=True) for y in (x, centers))
    apart = points[:, :, None] - middle[:, None, :]
    volume = tnp.log(tnp.diagonal(factor)).sum() + x.shape[0] / 2 * math.log(2 * math.pi)
    return (apart * apart).sum(0) / -2 - volume


_FIELDS = ("dataset", "weights", "neff", "covariance", "inv_cov")


def _made(_: Any, children: Any) -> gaussian_kde:
    made = object.__new__(gaussian_kde)
    for name, value in zip(_FIELDS, children, strict=True):
        setattr(made, name, value)
    return made


tree.register_pytree_node(
    gaussian_kde, lambda kde: ([getattr(kde, name) for name in _FIELDS], None), _made
)

__all__ = ["gaussian_kde"]
