"""Normalisation of features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracer import numpy as tnp
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import array_or_number, as_array, convert, normalize_axes, normalize_axis
from tracer.errors import ArgumentError, ShapeError
from tracer.lax.elementwise import rsqrt
from tracer.numpy.reductions import Axis


def batch_norm(
    x: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    scale: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
) -> Array:
    """Shift and scale features by given statistics: those of the batch, or running ones.

    Parameters
    ----------
    x : array_like
        Numbers.
    mean, variance : array_like, shape (features,)
        What each feature is normalised by.
    scale, offset : array_like, shape (features,), optional
        What each normalised feature is multiplied by, and what is added.
    axis : int
        The axis of the features.
    epsilon : float
        Added to the variance.

    Returns
    -------
    Array, the shape of `x`
        `(x - mean) / sqrt(variance + epsilon) * scale + offset`.

    Raises
    ------
    ShapeError
        An array that is not one number for each feature, or an axis that `x` has not.

    References
    ----------
    Ioffe, Szegedy, Batch Normalization, ICML 2015.

    Examples
    --------
    >>> import tracer.nn
    >>> import tracer.numpy as tnp
    >>> x = tnp.array([[1.0, 10.0], [3.0, 30.0]])
    >>> y = tracer.nn.batch_norm(x, x.mean(0), x.var(0), epsilon=0.0)
    >>> y.tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """
    array = _floats(x)
    place = normalize_axis(axis, array.ndim)
    factor = tnp.sqrt(_along(array, "variance", variance, place) + float(epsilon))
    result = (array - _along(array, "mean", mean, place)) / factor
    if scale is not None:
        result = result * _along(array, "scale", scale, place)
    return result if offset is None else result + _along(array, "offset", offset, place)


def layer_norm(
    x: ArrayLike,
    scale: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    *,
    axis: int | Sequence[int] = -1,
    epsilon: float = 1e-5,
) -> Array:
    """Shift and scale each element of a batch to mean 0 and variance 1 over its features.

    Parameters
    ----------
    x : array_like
        Numbers.
    scale, offset : array_like, broadcasting to the shape of `x`, optional
        What the normalised features are multiplied by, and what is added.
    axis : int or sequence of int
        The axes of the features.
    epsilon : float
        Added to the variance.

    Returns
    -------
    Array, the shape of `x`
        `(x - mean) / sqrt(variance + epsilon) * scale + offset`.

    Raises
    ------
    ShapeError
        Shapes that do not broadcast, or an axis that `x` has not.

    References
    ----------
    Ba, Kiros, Hinton, Layer Normalization, 2016.

    Examples
    --------
    >>> import tracer.nn
    >>> import tracer.numpy as tnp
    >>> tracer.nn.layer_norm(tnp.array([[1.0, 3.0], [10.0, 30.0]]), epsilon=0.0).tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """
    array = _floats(x)
    axes = normalize_axes(axis, array.ndim)
    wide = _wide(array)
    centred = wide - tnp.mean(wide, axis=axes, keepdims=True)
    variance = tnp.mean(centred * centred, axis=axes, keepdims=True)
    result = convert(centred / tnp.sqrt(variance + float(epsilon)), array.dtype)
    if scale is not None:
        result = result * as_array(scale)
    return result if offset is None else result + as_array(offset)


def _floats(x: ArrayLike) -> Array:
    array = as_array(x)
    return convert(array, promotion.division_dtype(array.dtype))


def _wide(array: Array) -> Array:
    """Return floats in which squares of 16 bits neither overflow nor lose their digits."""
    return convert(array, np.dtype(np.float32)) if array.dtype.itemsize < 4 else array


def _along(x: Array, name: str, value: ArrayLike, axis: int) -> Array:
    """Lay one number for each feature along the axis of the features."""
    array = as_array(value)
    if array.shape != (x.shape[axis],):
        raise ShapeError(
            f"batch_norm: {name} of shape {array.shape} for {x.shape[axis]} features",
            mend="give one number for each feature, as an array of one dimension",
        )
    return array.reshape(tuple(-1 if i == axis else 1 for i in range(x.ndim)))


def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """Shift and scale to mean 0 and variance 1 along axes.

    Parameters
    ----------
    x : array_like
        Numbers.
    axis : int or tuple of int, optional
        The axes; None for all.
    mean, variance : array_like, optional
        What to use in place of the mean and the variance of `x`.
    epsilon : array_like
        Added to the variance.
    where : array_like of bool, optional
        Which elements count for the mean and the variance.
    algorithm : {"fast", "stable"}
        Variance as the mean square less the squared mean, as in `jax.nn`, or the mean of squared
        differences, which keeps digits where the mean is large.

    Returns
    -------
    Array, the shape of `x`
        `(x - mean) / sqrt(variance + epsilon)`.

    Raises
    ------
    ArgumentError
        Another algorithm.
    """
    if algorithm not in ("fast", "stable"):
        raise ArgumentError(
            f"standardize: algorithm is {algorithm!r}", mend='use "fast" or "stable"'
        )
    given = _floats(x)
    array = _wide(given)
    center = tnp.mean(array, axis, keepdims=True, where=where) if mean is None else as_array(mean)
    if variance is not None:
        spread = as_array(variance)
    elif algorithm == "stable":
        spread = tnp.mean(tnp.square(array - center), axis, keepdims=True, where=where)
    else:
        square = tnp.mean(tnp.square(array), axis, keepdims=True, where=where)
        spread = tnp.clip(square - tnp.square(center), 0, None)
    result = (array - center) * rsqrt(spread + array_or_number(epsilon))
    others = (other for other in (mean, variance, epsilon) if other is not None)
    return convert(result, tnp.result_type(given, *others))
