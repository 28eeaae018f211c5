"""Resampling of images: a matrix of weights for each axis, and the products with them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from string import ascii_letters
from typing import Any

import numpy as np

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, normalize_axis
from tracer.array.promotion import division_dtype, result_type
from tracer.errors import ArgumentError, ShapeError
from tracer.image.methods import KERNELS, ResizeMethod, method_of
from tracer.ir import require_countable
from tracer.lax import Precision

_FLOAT32 = np.dtype(np.float32)
_LEAST_WEIGHT = 1000 * float(np.finfo(np.float32).eps)
"""Where the weights sum to less, nothing of the image is near: the result is zero, as in JAX."""
_REPEATED = 2
"""Pixels beyond each edge that PyTorch's cubic reads."""


def resize(
    image: ArrayLike,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = Precision.HIGHEST,
) -> Array:
    """Resample an image to a shape; pixels are areas, so the edges of the image are kept.

    Parameters
    ----------
    image : array_like
        With any number of axes.
    shape : sequence of int
        The shape of the result, of all axes: those of batches and channels keep their lengths.
    method : str or ResizeMethod
        How; `ResizeMethod.from_string` lists the names.
    antialias : bool
        Widen the kernel where the image is made smaller, so that every pixel counts.
    precision : Precision, optional
        Has no effect: products have the digits of the result's dtype.

    Returns
    -------
    Array, shape `shape`
        For "nearest" with the image's dtype, else a float: integers of up to 32 bits become
        float32, wider ones the default float.

    Raises
    ------
    ShapeError
        Another number of axes, or pixels from an axis without any.
    ArgumentError
        No such method or precision.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> from tracer import image
    >>> image.resize(tnp.array([0.0, 4.0]), (4,), "linear").tolist()
    [0.0, 1.0, 3.0, 4.0]
    >>> image.resize(tnp.array([1, 2, 3]), (6,), "nearest").tolist()
    [1, 1, 2, 2, 3, 3]
    """
    _check_precision("resize", precision)
    x = as_array(image)
    wanted, how = _lengths("resize", x.shape, shape), method_of(method)
    axes = [axis for axis in range(x.ndim) if x.shape[axis] != wanted[axis]]
    for axis in axes:
        if not x.shape[axis]:
            raise ShapeError(
                f"resize: axis {axis} has no pixels to make {wanted[axis]} of",
                mend="give an image with one pixel or more along each axis",
            )
    if how is ResizeMethod.NEAREST:
        return _nearest(x, wanted, axes)
    # Positions are computed in 64 bits: thousands of pixels need the digits.
    scales = [np.float64(wanted[axis] / x.shape[axis] or 1.0) for axis in axes]
    zeros = [np.float64(0)] * len(axes)
    return _resampled(_floating(x), wanted, axes, scales, zeros, how, antialias)


def scale_and_translate(
    image: ArrayLike,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: ArrayLike,
    translation: ArrayLike,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = Precision.HIGHEST,
) -> Array:
    """Scale an image and move it: what was at `x` is at `x * scale + translation`.

    The middle of the first pixel is at 1/2. Where nothing of the image comes to lie, the result is
    zero. Derivatives are those for the image, the scale and the translation.

    Parameters
    ----------
    image : array_like
        With any number of axes.
    shape : sequence of int
        The shape of the result, of all axes.
    spatial_dims : sequence of int
        The axes that are resampled; the others keep their lengths.
    scale, translation : array_like, shape (len(spatial_dims),)
        For each of these axes; they may be traced.
    method : str or ResizeMethod
        How; all but "nearest".
    antialias : bool
        Widen the kernel where the image is made smaller.
    precision : Precision, optional
        Has no effect: products have the digits of the result's dtype.

    Returns
    -------
    Array, shape `shape`
        A float, as of `resize`.

    Raises
    ------
    ShapeError
        Shapes do not fit.
    ArgumentError
        No such method or precision, or "nearest", or an axis twice.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> from tracer import image
    >>> x = tnp.array([1.0, 2.0, 3.0])
    >>> image.scale_and_translate(x, (4,), (0,), [1.0], [1.0], "linear").tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    name = "scale_and_translate"
    _check_precision(name, precision)
    x = as_array(image)
    wanted, how = _lengths(name, x.shape, shape), method_of(method)
    if how is ResizeMethod.NEAREST:
        raise ArgumentError(f'{name}: not for "nearest"', mend='give another method, as "linear"')
    axes = _spatial(name, x.shape, wanted, spatial_dims)
    factors, moves = as_array(scale), as_array(translation)
    for what, array in (("scale", factors), ("translation", moves)):
        if array.shape != (len(axes),):
            raise ShapeError(
                f"{name}: {what} has shape {array.shape}, and there are {len(axes)} spatial_dims",
                mend=f"give a {what} for each",
            )
    dtype = result_type(division_dtype(factors.dtype), division_dtype(moves.dtype), _FLOAT32)
    factors, moves = convert(factors, dtype), convert(moves, dtype)
    places = range(len(axes))
    by_axis = [factors[i] for i in places], [moves[i] for i in places]
    return _resampled(_floating(x), wanted, axes, *by_axis, how, antialias)


def _check_precision(name: str, precision: Any) -> None:
    known = getattr(precision, "name", precision)
    if known is not None and str(known).upper() not in Precision.__members__:
        raise ArgumentError(
            f"{name}: precision={precision!r} has no meaning here",
            mend="leave it out: products have the digits of the result's dtype",
        )


def _lengths(name: str, given: tuple[int, ...], shape: Sequence[int]) -> tuple[int, ...]:
    try:
        wanted = tuple(operator.index(length) for length in shape)
    except TypeError as error:
        raise ShapeError(
            f"{name}: shape is {shape!r}", mend="give a tuple with an int for each axis"
        ) from error
    if len(wanted) != len(given) or min(wanted, default=0) < 0:
        raise ShapeError(
            f"{name}: the image has shape {given}, and shape is {wanted}",
            mend="give a length, 0 or more, for each axis of the image",
        )
    require_countable(wanted, _FLOAT32)
    return wanted


def _spatial(
    name: str, given: tuple[int, ...], wanted: tuple[int, ...], spatial_dims: Sequence[int]
) -> list[int]:
    axes = [normalize_axis(axis, len(given)) for axis in spatial_dims]
    if len(set(axes)) != len(axes):
        raise ArgumentError(
            f"{name}: spatial_dims {tuple(spatial_dims)} name an axis twice",
            mend="name each axis once",
        )
    for axis, (before, after) in enumerate(zip(given, wanted, strict=True)):
        if before != after and axis not in axes:
            raise ShapeError(
                f"{name}: axis {axis} has length {before}, shape says {after}, and it is none of"
                f" spatial_dims {tuple(spatial_dims)}",
                mend="name the axis in spatial_dims, or keep its length",
            )
    return axes


def _floating(x: Array) -> Array:
    """Convert integers to floats as JAX does: narrow ones to float32."""
    is_narrow = x.dtype.kind in "biu" and x.dtype.itemsize < 8
    return convert(x, _FLOAT32 if is_narrow else division_dtype(x.dtype))


def _nearest(x: Array, wanted: Sequence[int], axes: Sequence[int]) -> Array:
    for axis in axes:
        size, length = x.shape[axis], wanted[axis]
        # In integers: the middle of a pixel may lie exactly between two pixels.
        places = (2 * np.arange(length) + 1) * size // (2 * max(length, 1))
        x = tnp.take(x, places, axis=axis)
    return x


def _resampled(
    x: Array,
    wanted: Sequence[int],
    axes: Sequence[int],
    scales: Sequence[ArrayLike],
    translations: Sequence[ArrayLike],
    method: ResizeMethod,
    antialias: bool,
) -> Array:
    before = after = ascii_letters[: x.ndim]
    labels = [before]
    matrices: list[Array] = []
    for axis, scale, translation in zip(axes, scales, translations, strict=True):
        new = ascii_letters[x.ndim + len(matrices)]
        labels.append(before[axis] + new)
        after = after.replace(before[axis], new)
        lengths = x.shape[axis], wanted[axis]
        weights = _weights(*lengths, as_array(scale), as_array(translation), method, antialias)
        matrices.append(convert(weights, x.dtype))
    return tnp.einsum(f"{','.join(labels)}->{after}", x, *matrices) if matrices else x


def _weights(
    size: int, length: int, scale: Array, translation: Array, method: ResizeMethod, antialias: bool
) -> Array:
    """Return how much each of the pixels (rows) counts in each pixel of the result (columns)."""
    width = 1 / scale
    samples = (tnp.arange(length, dtype=scale.dtype) + 0.5) * width - translation * width - 0.5
    if method is ResizeMethod.CUBIC_PYTORCH and not antialias:
        return _normal(_with_repeated_edges(size, samples))
    if method is ResizeMethod.AREA:
        weights = _overlaps(size, samples, width)
    else:
        of_size = tnp.maximum(width, 1) if antialias else 1
        distances = abs(samples - tnp.arange(size, dtype=scale.dtype)[:, None]) / of_size
        is_cubic = method is ResizeMethod.CUBIC_PYTORCH
        weights = KERNELS[ResizeMethod.CUBIC if is_cubic else method](distances)
    is_inside = (samples >= -0.5) & (samples <= size - 0.5)
    found: Array = tnp.where(is_inside, _normal(weights), 0)
    return found


def _normal(weights: Array) -> Array:
    total = tnp.sum(weights, 0)
    counts = abs(total) > _LEAST_WEIGHT
    found: Array = tnp.where(counts, weights / tnp.where(counts, total, 1), 0)
    return found


def _overlaps(size: int, samples: Array, width: Array) -> Array:
    """Return the lengths that pixels of the image and of the result have in common."""
    left = samples + 0.5 - width / 2
    first = tnp.arange(size, dtype=samples.dtype)[:, None]
    return tnp.maximum(tnp.minimum(left + width, first + 1) - tnp.maximum(left, first), 0)


def _with_repeated_edges(size: int, samples: Array) -> Array:
    """Return the weights of PyTorch's cubic: those beyond an edge are given to its pixel."""
    places = np.arange(-_REPEATED, size + _REPEATED)
    distances = abs(samples - convert(as_array(places), samples.dtype)[:, None])
    weights = KERNELS[ResizeMethod.CUBIC_PYTORCH](distances)
    zeros = tnp.zeros((size, samples.shape[0]), samples.dtype)
    return zeros.at[np.clip(places, 0, size - 1)].add(weights)


__all__ = ["resize", "scale_and_translate"]
