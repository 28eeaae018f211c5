"""Activations and output layers. Names and defaults are those of `jax.nn`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert
from tracer.array.dispatch import apply, compound
from tracer.numpy.creation import ones_like
from tracer.numpy.elementwise import log, logaddexp
from tracer.numpy.elementwise import where as choose
from tracer.numpy.reductions import Axis
from tracer.numpy.reductions import sum as numpy_sum
from tracer.numpy.shaping import broadcast_shapes, broadcast_to
from tracer.numpy.ufunc import compare, full_like, select, unary
from tracer.scipy import special


def _as_floats(x: Array) -> Array:
    return convert(x, promotion.division_dtype(x.dtype))


def _relu(x: Array) -> Array:
    # A select rather than a maximum: its derivative at zero is 0, not one half. NaN stays NaN.
    zero = full_like(x, 0)
    return select(compare(x, zero, "LE"), zero, x)


def _sigmoid(x: Array) -> Array:
    return apply(ops.logistic, _as_floats(x))


def _silu(x: Array) -> Array:
    x = _as_floats(x)
    return apply(ops.multiply, x, apply(ops.logistic, x))


def _softplus(x: Array) -> Array:
    x = _as_floats(x)
    return logaddexp(x, full_like(x, 0))


def _log_sigmoid(x: Array) -> Array:
    return apply(ops.negate, _softplus(apply(ops.negate, _as_floats(x))))


_FLOATS = "The dtype of `x`, float64 for integers."
relu = unary("relu", _relu, "The positive part, max(x, 0); derivative 0 at 0.")
sigmoid = unary("sigmoid", _sigmoid, "Logistic function, 1 / (1 + exp(-x)).", returns=_FLOATS)
silu = swish = unary("silu", _silu, "x * sigmoid(x), also called swish.", returns=_FLOATS)
softplus = unary("softplus", _softplus, "log(1 + exp(x)), without overflow.", returns=_FLOATS)
log_sigmoid = unary("log_sigmoid", _log_sigmoid, "Logarithm of the sigmoid.", returns=_FLOATS)


def leaky_relu(x: ArrayLike, negative_slope: float = 0.01) -> Array:
    """Return x where it is positive, elsewhere `negative_slope * x`."""
    return _leaky_relu(as_array(x), slope=float(negative_slope))


@compound
def _leaky_relu(x: Array, *, slope: float) -> Array:
    x = _as_floats(x)
    lower = apply(ops.multiply, x, full_like(x, slope))
    return select(compare(x, full_like(x, 0), "GE"), x, lower)


def elu(x: ArrayLike, alpha: float = 1.0) -> Array:
    """Return x where it is positive, elsewhere `alpha * (exp(x) - 1)`."""
    return _elu(as_array(x), alpha=float(alpha))


@compound
def _elu(x: Array, *, alpha: float) -> Array:
    x = _as_floats(x)
    is_positive = compare(x, full_like(x, 0), "GT")
    # The exponential of large numbers is not taken, so that its gradient is no NaN.
    safe = select(is_positive, full_like(x, 0), x)
    lower = apply(ops.multiply, full_like(x, alpha), apply(ops.exponential_minus_one, safe))
    return select(is_positive, x, lower)


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """Gaussian error linear unit, x times the normal distribution function of x.

    Parameters
    ----------
    x : array_like
        Real numbers.
    approximate : bool
        Use the formula with tanh.

    Returns
    -------
    Array of floats, the shape of `x`
        The activations.

    References
    ----------
    Hendrycks and Gimpel, Gaussian Error Linear Units, arXiv:1606.08415.
    """
    return _gelu(as_array(x), approximate=bool(approximate))


@compound
def _gelu(x: Array, *, approximate: bool) -> Array:
    x = _as_floats(x)
    half = full_like(x, 0.5)
    if not approximate:
        weight = apply(ops.erfc, apply(ops.multiply, x, full_like(x, -math.sqrt(0.5))))
        return apply(ops.multiply, apply(ops.multiply, half, x), weight)
    near = _near(x)
    cube = apply(ops.multiply, apply(ops.multiply, near, near), near)
    inner = apply(ops.add, near, apply(ops.multiply, full_like(x, 0.044715), cube))
    angle = apply(ops.multiply, full_like(x, math.sqrt(2 / math.pi)), inner)
    weight = apply(ops.add, full_like(x, 1), apply(ops.tanh, angle))
    return apply(ops.multiply, x, apply(ops.multiply, half, weight))


def _near(x: Array) -> Array:
    """Return numbers of which float16 has the cube; farther out gelu's weight is 0 or 1.

    A cube that overflows makes NaN of the weight's derivative. Other dtypes have that of any
    activation.
    """
    if x.dtype != np.dtype("float16"):
        return x
    return apply(ops.clamp, full_like(x, -16), x, full_like(x, 16))


def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """Exponentials divided by their sum, along the last axis by default, without overflow.

    Parameters
    ----------
    x : array_like
        Real numbers.
    axis : int or tuple of int, optional
        Axes over which the result sums to one; None for all.
    where : array_like of bool, optional
        Which elements count; the others are 0 in the result.

    Returns
    -------
    Array of floats, the shape of `x`
        exp(x) / sum(exp(x)).
    """
    if where is None:
        return special.softmax(x, axis)
    seen, rest = _only(x, where)
    result: Array = choose(seen, special.softmax(rest, axis), 0.0)
    return result


def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """Logarithm of `softmax`, along the last axis by default; -inf where elements do not count."""
    if where is None:
        return special.log_softmax(x, axis)
    seen, rest = _only(x, where)
    result: Array = choose(seen, special.log_softmax(rest, axis), -math.inf)
    return result


def _only(x: ArrayLike, where: ArrayLike) -> tuple[Array, Array]:
    """Return which elements count, and -inf in place of the others."""
    seen, array = as_array(where), _as_floats(as_array(x))
    return seen, choose(seen, array, -math.inf)


def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """Logarithm of a sum of exponentials; see `tracer.scipy.special.logsumexp`."""
    return special.logsumexp(a, axis, b, keepdims, return_sign, where)


def logmeanexp(
    x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """Logarithm of the mean of exponentials, without overflow.

    Parameters
    ----------
    x : array_like
        Real numbers.
    axis : int or tuple of int, optional
        Axes to reduce; all by default.
    where : array_like of bool, optional
        Which elements count.
    keepdims : bool
        Keep the axes with size one.
    """
    total: Array = special.logsumexp(x, axis, None, keepdims, False, where)
    seen = ones_like(as_array(x), bool) if where is None else as_array(where)
    shape = broadcast_shapes(seen.shape, as_array(x).shape)
    count = numpy_sum(broadcast_to(seen, shape), axis, keepdims=keepdims)
    return total - log(convert(count, total.dtype))
