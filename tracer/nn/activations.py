"""Activations and output layers. Names and defaults are those of `jax.nn`."""

from __future__ import annotations

import math
from typing import Any

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, normalize_axis, reshape
from tracer.array.dispatch import apply, compound
from tracer.ir import as_dtype
from tracer.numpy.elementwise import logaddexp
from tracer.numpy.ranges import iota
from tracer.numpy.reductions import Axis
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
silu = unary("silu", _silu, "x * sigmoid(x), also called swish.", returns=_FLOATS)
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
    cube = apply(ops.multiply, apply(ops.multiply, x, x), x)
    inner = apply(ops.add, x, apply(ops.multiply, full_like(x, 0.044715), cube))
    angle = apply(ops.multiply, full_like(x, math.sqrt(2 / math.pi)), inner)
    weight = apply(ops.add, full_like(x, 1), apply(ops.tanh, angle))
    return apply(ops.multiply, x, apply(ops.multiply, half, weight))


def softmax(x: ArrayLike, axis: Axis = -1) -> Array:
    """Exponentials divided by their sum, along the last axis by default, without overflow."""
    return special.softmax(x, axis)


def log_softmax(x: ArrayLike, axis: Axis = -1) -> Array:
    """Logarithm of `softmax`, along the last axis by default."""
    return special.log_softmax(x, axis)


def one_hot(x: ArrayLike, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Array:
    """Codes of zeros with a one where the index says.

    Parameters
    ----------
    x : array_like
        Indices; those outside 0..num_classes-1 give zeros only.
    num_classes : int
        Length of a code.
    dtype : dtype, optional
        Of the result; float64 by default.
    axis : int
        The axis of the codes in the result.

    Returns
    -------
    Array
        One axis more than `x`.
    """
    index = as_array(x)
    wanted = as_dtype("float64" if dtype is None else dtype)
    place = normalize_axis(axis, index.ndim + 1)
    return _one_hot(index, size=int(num_classes), dtype=wanted, axis=place)


@compound
def _one_hot(x: Array, *, size: int, dtype: Any, axis: int) -> Array:
    shape = (*x.shape[:axis], size, *x.shape[axis:])
    # Compared in a dtype that holds both: 0.5 is no class, and no class stands for it.
    wide = promotion.promote_types(x.dtype, "int64")
    classes = convert(iota(shape=shape, dtype=as_dtype("int64"), dimension=axis), wide)
    index = reshape(convert(x, wide), (*x.shape[:axis], 1, *x.shape[axis:]))
    return convert(compare(broadcast(index, shape), classes, "EQ"), dtype)
