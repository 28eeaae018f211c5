"""Distributions of counts: small means wait for event after event, large ones draw by rejection.

All is computed in float64: counts of more than 2**24 need it, and so do the logarithms that are
compared. There are no gradients: reverse mode cannot go through the loops.

References
----------
Hörmann: The transformed rejection method for generating Poisson random variables. Insurance:
Mathematics and Economics 12(1), 1993 (PTRS). The generation of binomial random variates. Journal of
Statistical Computation and Simulation 46, 1993 (BTRS).
Devroye: Non-Uniform Random Variate Generation, 1986, X.4.3 (waiting times).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array
from tracer.control import scan, while_loop
from tracer.errors import DTypeError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.arithmetic import abs
from tracer.numpy.creation import checked_shape, zeros
from tracer.numpy.cumulative import cumsum
from tracer.numpy.elementwise import log, log1p, sqrt, where
from tracer.numpy.logic import isfinite, logical_and, logical_or
from tracer.numpy.ranges import arange
from tracer.numpy.reductions import any
from tracer.numpy.rounding import floor, trunc
from tracer.numpy.shaping import broadcast_shapes, broadcast_to, flip, moveaxis
from tracer.random.continuous import exponential, of_one_shape, uniform
from tracer.random.rejection import until_accepted
from tracer.random.threefry import checked_key, fold_in, split
from tracer.scipy.special import gammaln

_WIDE = np.dtype("float64")
_FEW = 10
"""Means below this are drawn event by event: both methods by rejection begin there."""


def poisson(key: ArrayLike, lam: ArrayLike, shape: Any = None, dtype: Any = int) -> Array:
    """Return numbers of the Poisson distribution.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    lam : array_like
        The mean, not negative, broadcast to the shape.
    shape : int or tuple of int, optional
        Of the result; that of `lam` by default.
    dtype : dtype
        A dtype of integers or floats.

    Returns
    -------
    Array, shape `shape`
        The numbers; NaN, of an integer dtype -1, where `lam` is negative, infinite or NaN.

    Examples
    --------
    >>> import tracer.random
    >>> tracer.random.poisson(tracer.random.key(0), 3.0, (2, 1000)).mean().round(1)
    Array(3.)
    """
    wanted = _dtype_of_counts("poisson", dtype)
    (rate,) = of_one_shape(_WIDE, shape, lam)
    is_valid = logical_and(rate >= 0, isfinite(rate))
    is_small = rate < _FEW
    keys = split(checked_key(key))
    few = _arrivals(keys[0], where(logical_and(is_valid, is_small), rate, 0))
    many = _poisson_by_rejection(keys[1], where(logical_and(is_valid, ~is_small), rate, _FEW))
    return _counts(where(is_small, few, many), is_valid, wanted)


def binomial(
    key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: Any = None, dtype: Any = float
) -> Array:
    """Return how many of `n` trials succeed, each with probability `p`.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    n : array_like
        Trials, not negative; a fraction is dropped. Broadcast to the shape, as `p` is.
    p : array_like
        Probabilities, from 0 to 1.
    shape : int or tuple of int, optional
        Of the result; that of `n` and `p` by default.
    dtype : dtype
        A dtype of floats or integers.

    Returns
    -------
    Array, shape `shape`
        The numbers; NaN, of an integer dtype -1, where `n` or `p` is out of bounds.

    Examples
    --------
    >>> import tracer.random
    >>> tracer.random.binomial(tracer.random.key(0), 100, 0.25, (2, 1000)).mean().round()
    Array(25.)
    """
    wanted = _dtype_of_counts("binomial", dtype)
    trials, probability = of_one_shape(_WIDE, shape, n, p)
    is_probable = logical_and(probability >= 0, probability <= 1)
    is_valid = logical_and(is_probable, logical_and(trials >= 0, isfinite(trials)))
    trials = where(is_valid, trials, 0)
    found = _binomial(checked_key(key), trunc(trials), where(is_valid, probability, 0))
    return _counts(found, is_valid, wanted)


def multinomial(
    key: ArrayLike, n: ArrayLike, p: ArrayLike, *, shape: Any = None, dtype: Any = float
) -> Array:
    """Return how often each outcome comes in `n` trials.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    n : array_like
        Trials, broadcast to the batch.
    p : array_like, shape (..., outcomes)
        Weights of the outcomes, not negative; divided by their sum.
    shape : int or tuple of int, optional
        Of the batch; that of `n` and of `p` without its last axis by default.
    dtype : dtype
        A dtype of floats or integers.

    Returns
    -------
    Array, shape (*batch, outcomes)
        The counts, which add up to `n`. NaN, of an integer dtype -1, where `n` or `p` is out of
        bounds.

    Examples
    --------
    >>> import tracer.random
    >>> tracer.random.multinomial(tracer.random.key(0), 10, [0.2, 0.3, 0.5]).sum()
    Array(10.)
    """
    wanted = _dtype_of_counts("multinomial", dtype)
    trials, weights = as_array(n).astype(_WIDE), as_array(p).astype(_WIDE)
    if not weights.ndim:
        raise ShapeError("multinomial: p is a number", mend="give a vector of probabilities")
    if shape is None:
        batch = broadcast_shapes(trials.shape, weights.shape[:-1])
    else:
        batch = checked_shape(shape)
    weights = broadcast_to(weights, (*batch, weights.shape[-1]))
    # The probability of an outcome if it is none of those before it.
    left = flip(cumsum(flip(weights, -1), axis=-1), -1)
    is_open = left > 0
    shares = where(is_open, weights / where(is_open, left, 1), where(left == 0, 0, left))

    def outcome(carry: Any, at: Any) -> Any:
        (key, remaining), (share, number) = carry, at
        count = binomial(fold_in(key, number), remaining, share)
        return (key, remaining - count), count

    numbers = arange(shares.shape[-1], dtype="uint32")
    start = checked_key(key), trunc(broadcast_to(trials, batch))
    _, counts = scan(outcome, start, (moveaxis(shares, -1, 0), numbers))
    counts = moveaxis(counts, 0, -1)
    return _counts(counts, logical_and(counts >= 0, left[..., :1] > 0), wanted)


def _dtype_of_counts(name: str, dtype: Any) -> Any:
    wanted = as_dtype(dtype)
    if wanted.kind not in "iufV":
        raise DTypeError(f"{name} does not make dtype {wanted}", mend="use a dtype of numbers")
    return wanted


def _counts(found: Array, is_valid: Array, wanted: Any) -> Array:
    filled: Array = where(is_valid, found, -1 if wanted.kind in "iu" else np.nan)
    return filled.astype(wanted)


def _arrivals(key: Array, until: Array) -> Array:
    """Count events of mean distance 1 before a time."""
    return _events(key, until, lambda key, time: time + exponential(key, until.shape))


def _events(key: Array, until: Array, next_time: Callable[[Array, Array], Array]) -> Array:
    def unfinished(carry: Any) -> Any:
        return any(carry[2] < until)

    def event(carry: Any) -> Any:
        key, step, time, count = carry
        time = where(time < until, next_time(fold_in(key, step), time), time)
        return key, step + 1, time, count + (time < until)

    # The key is carried, not closed over: the results lie where it was put.
    start = (key, zeros((), "uint32"), zeros(until.shape, _WIDE), zeros(until.shape, _WIDE))
    return while_loop(unfinished, event, start)[3]  # type: ignore[no-any-return]


def _by_rejection(
    key: Array, shape: tuple[int, ...], trial: Callable[[Array, Array], Any]
) -> Array:
    """Repeat `trial(u, v) -> (number, accepted)`: u from -0.5 on, v above 0."""

    def draw(key: Array) -> Any:
        u, v = uniform(key, (2, *shape), _WIDE)
        return trial(u - 0.5, 1 - v)

    return until_accepted(key, shape, _WIDE, draw)


def _poisson_by_rejection(key: Array, rate: Array) -> Array:
    b = 0.931 + 2.53 * sqrt(rate)
    a = -0.059 + 0.02483 * b
    log_scale = log(1.1239 + 1.1328 / (b - 3.4))
    squeeze = 0.9277 - 3.6224 / (b - 2)

    def trial(u: Array, v: Array) -> Any:
        edge = 0.5 - abs(u)
        count = floor((2 * a / edge + b) * u + rate + 0.43)
        density = count * log(rate) - rate - gammaln(where(count < 0, 0, count) + 1)
        fits = log(v) + log_scale - log(a / edge**2 + b) <= density
        return count, logical_or(
            logical_and(edge >= 0.07, v <= squeeze), logical_and(count >= 0, fits)
        )

    return _by_rejection(key, rate.shape, trial)


def _binomial(key: Array, n: Array, p: Array) -> Array:
    is_likely = p > 0.5
    p = where(is_likely, 1 - p, p)
    is_small = n * p < _FEW
    keys = split(key)
    few = _successes(keys[0], where(is_small, n, 0), p)
    # Where few are expected, a case that is accepted at once.
    many = _binomial_by_rejection(keys[1], where(is_small, 4 * _FEW, n), where(is_small, 0.5, p))
    found = where(is_small, few, many)
    return where(is_likely, n - found, found)  # type: ignore[no-any-return]


def _successes(key: Array, n: Array, p: Array) -> Array:
    """Count successes by the trials from each to the next."""
    log_failure = log1p(-p)

    def next_success(key: Array, trial: Array) -> Array:
        u = 1 - uniform(key, n.shape, _WIDE)
        wait = floor(log(u) / where(p > 0, log_failure, -1)) + 1
        return where(p > 0, trial + wait, n + 1)  # type: ignore[no-any-return]

    # The n-th trial counts: it is before n + 1.
    return _events(key, where(n > 0, n + 1, 0), next_success)


def _binomial_by_rejection(key: Array, n: Array, p: Array) -> Array:
    spread = sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    scale = (2.83 + 5.1 / b) * spread
    squeeze = 0.92 - 4.2 / b
    mode = floor((n + 1) * p)
    log_odds = log(p / (1 - p))
    height = gammaln(mode + 1) + gammaln(n - mode + 1)

    def trial(u: Array, v: Array) -> Any:
        edge = 0.5 - abs(u)
        count = floor((2 * a / edge + b) * u + n * p + 0.5)
        is_count = logical_and(count >= 0, count <= n)
        safe = where(is_count, count, mode)
        density = height - gammaln(safe + 1) - gammaln(n - safe + 1) + (safe - mode) * log_odds
        fits = log(v * scale / (a / edge**2 + b)) <= density
        is_inside = logical_and(edge >= 0.07, v <= squeeze)
        return count, logical_and(is_count, logical_or(is_inside, fits))

    return _by_rejection(key, n.shape, trial)
