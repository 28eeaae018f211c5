"""Floats of the usual distributions, each from one array of uniform numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, scalar
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import Dtype
from tracer.errors import DTypeError
from tracer.ir import as_dtype
from tracer.numpy.creation import checked_shape
from tracer.numpy.shaping import broadcast_shapes, broadcast_to
from tracer.numpy.ufunc import full_like
from tracer.random.threefry import checked_key, random_bits, split

_ROOT_2 = math.sqrt(2)


def float_dtype(name: str, dtype: Any) -> Dtype:
    """Return a dtype argument, which must be of floats."""
    wanted = as_dtype(dtype)
    if wanted.kind not in "fV":
        raise DTypeError(f"{name} does not make dtype {wanted}", mend="use a float dtype")
    return wanted


def of_one_shape(dtype: Dtype, shape: Any, *parameters: ArrayLike) -> tuple[Array, ...]:
    """Return parameters in a dtype, broadcast to the shape of the result; None: to one another."""
    arrays = [as_array(parameter).astype(dtype) for parameter in parameters]
    if shape is None:
        sizes = broadcast_shapes(*(array.shape for array in arrays))
    else:
        sizes = checked_shape(shape)
    return tuple(broadcast_to(array, sizes) for array in arrays)


def uniform(
    key: ArrayLike,
    shape: Any = (),
    dtype: Any = float,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Array:
    """Return numbers spread evenly over [minval, maxval).

    Where few floats lie between both, a number may be rounded to `maxval`, as with JAX.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    shape : int or tuple of int
        Of the result.
    dtype : dtype
        A float dtype; float64 by default.
    minval, maxval : array_like
        Ends of the interval, broadcast to the shape.

    Returns
    -------
    Array, shape `shape`
        The numbers.

    Examples
    --------
    >>> import tracer
    >>> key = tracer.random.key(0)
    >>> float(tracer.random.uniform(key, dtype="float32"))
    0.947667...
    """
    wanted, sizes = float_dtype("uniform", dtype), checked_shape(shape)
    low, high = [broadcast_to(as_array(end).astype(wanted), sizes) for end in (minval, maxval)]
    return _uniform(checked_key(key), low, high)


@compound
def _uniform(key: Array, low: Array, high: Array) -> Array:
    return _between(_unit(key, shape=low.shape, dtype=low.dtype), low, high)


def between(unit: Array, low: Array, high: Array) -> Array:
    """Return numbers of [0, 1) spread over [low, high), as `uniform` does."""
    return _between(unit, *(broadcast_to(end, unit.shape) for end in (low, high)))


@compound
def _between(unit: Array, low: Array, high: Array) -> Array:
    span = apply(ops.subtract, high, low)
    # Rounding may reach below the lower end.
    return apply(ops.maximum, low, apply(ops.add, apply(ops.multiply, unit, span), low))


@compound
def _unit(key: Array, *, shape: tuple[int, ...], dtype: Dtype) -> Array:
    """Return floats in [0, 1): random mantissas of floats in [1, 2), less one."""
    width = 8 * dtype.itemsize
    mantissa = int(promotion.finfo(dtype).nmant)
    # A mantissa of fewer than 8 bits is drawn as a byte, whatever the width of the float.
    drawn = 8 if mantissa < 8 else width
    bits = random_bits(key, shape=shape, width=drawn)
    bits = convert(bits, as_dtype(f"uint{width}"))
    one = int(np.ones((), dtype).view(f"uint{width}"))
    bits = apply(ops.shift_right_logical, bits, full_like(bits, drawn - mantissa))
    bits = apply(ops.or_, bits, full_like(bits, one))
    floats = apply(ops.bitcast_convert, bits, dtype=dtype)
    return apply(ops.subtract, floats, full_like(floats, 1))


def normal(key: ArrayLike, shape: Any = (), dtype: Any = float) -> Array:
    """Return numbers of the standard normal distribution.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    shape : int or tuple of int
        Of the result.
    dtype : dtype
        A float dtype, or a complex one: then real and imaginary part have variance 1/2.

    Returns
    -------
    Array, shape `shape`
        The numbers, by the inverse of the distribution function.
    """
    wanted, sizes = as_dtype(dtype), checked_shape(shape)
    if wanted.kind != "c":
        return _normal(checked_key(key), shape=sizes, dtype=float_dtype("normal", wanted))
    part = promotion.real_dtype(wanted)
    first, second = split(key)
    real, imag = [_normal(one, shape=sizes, dtype=part) for one in (first, second)]
    return _complex_normal(real, imag)


@compound
def _normal(key: Array, *, shape: tuple[int, ...], dtype: Dtype) -> Array:
    # Open at -1, where the inverse is infinite.
    lowest = float(np.nextafter(np.asarray(-1, dtype), np.asarray(0, dtype)))
    low, high = [broadcast(scalar(end, dtype), shape) for end in (lowest, 1.0)]
    inverse = apply(ops.erf_inv, _uniform(key, low, high))
    return apply(ops.multiply, full_like(inverse, _ROOT_2), inverse)


@compound
def _complex_normal(real: Array, imag: Array) -> Array:
    parts = [apply(ops.divide, part, full_like(part, _ROOT_2)) for part in (real, imag)]
    return apply(ops.complex, *parts)


def exponential(key: ArrayLike, shape: Any = (), dtype: Any = float) -> Array:
    """Return numbers of the exponential distribution with mean 1; see `uniform`."""
    wanted = float_dtype("exponential", dtype)
    return _exponential(checked_key(key), shape=checked_shape(shape), dtype=wanted)


@compound
def _exponential(key: Array, *, shape: tuple[int, ...], dtype: Dtype) -> Array:
    unit = _unit(key, shape=shape, dtype=dtype)
    return apply(ops.negate, apply(ops.log_plus_one, apply(ops.negate, unit)))


def gumbel(key: ArrayLike, shape: Any = (), dtype: Any = float) -> Array:
    """Return numbers of the standard Gumbel distribution; see `uniform`."""
    wanted = float_dtype("gumbel", dtype)
    return _gumbel(checked_key(key), shape=checked_shape(shape), dtype=wanted)


@compound
def _gumbel(key: Array, *, shape: tuple[int, ...], dtype: Dtype) -> Array:
    smallest = float(promotion.finfo(dtype).smallest_normal)
    low, high = [broadcast(scalar(end, dtype), shape) for end in (smallest, 1.0)]
    inner = apply(ops.negate, apply(ops.log, _uniform(key, low, high)))
    return apply(ops.negate, apply(ops.log, inner))


def laplace(key: ArrayLike, shape: Any = (), dtype: Any = float) -> Array:
    """Return numbers of the Laplace distribution with scale 1; see `uniform`."""
    wanted = float_dtype("laplace", dtype)
    return _laplace(checked_key(key), shape=checked_shape(shape), dtype=wanted)


@compound
def _laplace(key: Array, *, shape: tuple[int, ...], dtype: Dtype) -> Array:
    lowest = -1.0 + float(promotion.finfo(dtype).epsneg)
    low, high = [broadcast(scalar(end, dtype), shape) for end in (lowest, 1.0)]
    unit = _uniform(key, low, high)
    size = apply(ops.log_plus_one, apply(ops.negate, apply(ops.abs, unit)))
    return apply(ops.multiply, apply(ops.sign, unit), size)


def cauchy(key: ArrayLike, shape: Any = (), dtype: Any = float) -> Array:
    """Return numbers of the standard Cauchy distribution; see `uniform`."""
    wanted = float_dtype("cauchy", dtype)
    return _cauchy(checked_key(key), shape=checked_shape(shape), dtype=wanted)


@compound
def _cauchy(key: Array, *, shape: tuple[int, ...], dtype: Dtype) -> Array:
    low = broadcast(scalar(float(promotion.finfo(dtype).eps), dtype), shape)
    unit = _uniform(key, low, full_like(low, 1))
    centred = apply(ops.subtract, unit, full_like(unit, 0.5))
    return apply(ops.tan, apply(ops.multiply, centred, full_like(unit, math.pi)))


def logistic(key: ArrayLike, shape: Any = (), dtype: Any = float) -> Array:
    """Return numbers of the standard logistic distribution; see `uniform`."""
    wanted = float_dtype("logistic", dtype)
    return _logistic(checked_key(key), shape=checked_shape(shape), dtype=wanted)


@compound
def _logistic(key: Array, *, shape: tuple[int, ...], dtype: Dtype) -> Array:
    low = broadcast(scalar(float(promotion.finfo(dtype).tiny), dtype), shape)
    unit = _uniform(key, low, full_like(low, 1))
    rest = apply(ops.subtract, full_like(unit, 1), unit)
    return apply(ops.log, apply(ops.divide, unit, rest))
