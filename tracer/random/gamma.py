"""The gamma distribution and related ones: by rejection, so drawn in a loop.

A number's derivative with respect to the parameter keeps its quantile, as in JAX. That of the trial
which was accepted is another: it leaves out that the parameter changes what is accepted.

References
----------
Marsaglia, Tsang: A simple method for generating gamma variables. ACM TOMS 26(3), 2000.
Figurnov, Mohamed, Mnih: Implicit reparameterization gradients. NeurIPS 2018.
"""

from __future__ import annotations

import math
from typing import Any

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array
from tracer.array.dispatch import apply
from tracer.errors import ShapeError
from tracer.numpy.creation import checked_shape
from tracer.numpy.elementwise import exp, log, log1p, logaddexp, sqrt, where
from tracer.numpy.logic import logical_and
from tracer.random.continuous import float_dtype, normal, of_one_shape, uniform
from tracer.random.rejection import until_accepted
from tracer.random.threefry import checked_key, split
from tracer.scipy.incomplete import gamma_of_parameter
from tracer.scipy.special import logsumexp


def gamma(key: ArrayLike, a: ArrayLike, shape: Any = None, dtype: Any = float) -> Array:
    """Return numbers of the gamma distribution with scale 1.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    a : array_like
        The shape parameter, positive, broadcast to the shape; of others the result is NaN.
    shape : int or tuple of int, optional
        Of the result; that of `a` by default.
    dtype : dtype
        A float dtype.

    Returns
    -------
    Array, shape `shape`
        The numbers. Their derivative with respect to `a` keeps each number's quantile; there is no
        second one.
    """
    return exp(loggamma(key, a, shape, dtype))


def loggamma(key: ArrayLike, a: ArrayLike, shape: Any = None, dtype: Any = float) -> Array:
    """Return logarithms of gamma numbers, exact where those would underflow; see `gamma`."""
    wanted = float_dtype("gamma", dtype)
    (parameter,) = of_one_shape(wanted, shape, a)
    # There is no such distribution of others, and no trial of theirs would ever be accepted.
    is_right = logical_and(parameter >= 0, parameter < math.inf)
    given, parameter = parameter, where(is_right, parameter, 1)
    constant = apply(ops.stop_gradient, parameter)
    drawn = gamma_of_parameter(parameter, _log_sample(checked_key(key), constant))
    found: Array = where(is_right, drawn, where(given == math.inf, given, math.nan))
    return found


def _log_sample(key: Array, a: Array) -> Array:
    boost_key, loop_key = split(key)
    # Of a parameter below 1 a sample is that of a + 1 times u ** (1 / a).
    is_small = a < 1
    main = _log_large(loop_key, where(is_small, a + 1, a))
    unit = uniform(boost_key, a.shape, a.dtype)
    boost: Array = where(is_small, log1p(-unit) / where(is_small, a, 1), 0)
    return main + boost


def _log_large(key: Array, a: Array) -> Array:
    """Draw for parameters of at least 1: each trial accepts more than 95 percent."""
    third = a - 1 / 3
    scale = 1 / sqrt(9 * third)

    def trial(key: Array) -> tuple[Array, Array]:
        normal_key, uniform_key = split(key)
        x = normal(normal_key, a.shape, a.dtype)
        cubed_root = 1 + scale * x
        is_positive = cubed_root > 0
        log_v = 3 * log(where(is_positive, cubed_root, 1))
        unit = uniform(uniform_key, a.shape, a.dtype)
        bound = x * x / 2 + third * (1 - exp(log_v) + log_v)
        return log(third) + log_v, logical_and(is_positive, log1p(-unit) < bound)

    return until_accepted(key, a.shape, a.dtype, trial)


def beta(
    key: ArrayLike, a: ArrayLike, b: ArrayLike, shape: Any = None, dtype: Any = float
) -> Array:
    """Return numbers of the beta distribution; see `gamma` for the parameters."""
    wanted = float_dtype("beta", dtype)
    first, second = of_one_shape(wanted, shape, a, b)
    keys = split(key)
    log_a = loggamma(keys[0], first, None, wanted)
    log_b = loggamma(keys[1], second, None, wanted)
    return exp(log_a - logaddexp(log_a, log_b))


def dirichlet(key: ArrayLike, alpha: ArrayLike, shape: Any = None, dtype: Any = float) -> Array:
    """Return vectors of the Dirichlet distribution.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    alpha : array_like, shape (..., n)
        Positive parameters.
    shape : int or tuple of int, optional
        Of the batch; that of `alpha` without its last axis by default.
    dtype : dtype
        A float dtype.

    Returns
    -------
    Array, shape (*shape, n)
        Vectors of positive numbers whose sum is 1.
    """
    wanted = float_dtype("dirichlet", dtype)
    parameter = as_array(alpha).astype(wanted)
    if not parameter.ndim:
        raise ShapeError("dirichlet: alpha is a number", mend="give a vector")
    batch = parameter.shape[:-1] if shape is None else checked_shape(shape)
    logs = loggamma(key, parameter, (*batch, parameter.shape[-1]), wanted)
    return exp(logs - logsumexp(logs, axis=-1, keepdims=True))
