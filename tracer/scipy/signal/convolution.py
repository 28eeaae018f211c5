"""Convolutions and correlations of arrays of any number of axes, directly or by Fourier transforms.

All are parts of the full convolution, which has n + m - 1 elements along each axis: a part is told
by where it starts and how long it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tracer.numpy as tnp
from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, normalize_axes, reshape
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import division_dtype, result_type
from tracer.errors import ArgumentError, ShapeError

Shape = tuple[int, ...]
Part = tuple[Shape, Shape]
"""Where a part of the full convolution starts along each axis, and its shape."""
_MODES = ("full", "same", "valid")
_METHODS = ("auto", "direct", "fft")
_BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}
"""Names of what surrounds a matrix, with those of `numpy.pad`."""


def convolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: Any = None,
) -> Array:
    """Convolve two arrays of the same number of axes.

    Parameters
    ----------
    in1, in2 : array_like
        Neither may be empty. Integers and bools become floats, as in JAX.
    mode : {"full", "same", "valid"}
        All n + m - 1 sums along each axis; as many as `in1` has, from the middle; or those without
        missing terms: then one array must be at least as long as the other along all axes.
    method : {"auto", "direct", "fft"}
        As `fftconvolve`, or sums of products: "auto" are these too.
    precision : optional
        Has no effect: products have the digits of the result's dtype.

    Returns
    -------
    Array
        In the promoted dtype.

    Raises
    ------
    ShapeError
        An array is empty, or the shapes do not fit.
    ArgumentError
        There is no such mode or method.

    Examples
    --------
    >>> from tracer.scipy.signal import convolve
    >>> convolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5], mode="same").tolist()
    [1.0, 2.5, 4.0]
    """
    if method not in _METHODS:
        raise ArgumentError(
            f"convolve has no method {method!r}", mend=f"use one of {', '.join(_METHODS)}"
        )
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    x, y = _operands("convolve", in1, in2)
    return _direct(x, y, part=_part("convolve", x.shape, y.shape, mode))


def correlate(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: Any = None,
) -> Array:
    """Correlate two arrays: convolve the first with the second one reversed and conjugated.

    Parameters
    ----------
    in1, in2, mode, method, precision
        See `convolve`.

    Returns
    -------
    Array
        In the promoted dtype.

    Examples
    --------
    >>> from tracer.scipy.signal import correlate
    >>> correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5], mode="valid").tolist()
    [3.5]
    """
    return convolve(in1, tnp.flip(tnp.conj(_floating(in2))), mode, method, precision)


def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """Convolve two matrices.

    Parameters
    ----------
    in1, in2 : array_like of two axes
        See `convolve`.
    mode : {"full", "same", "valid"}
        See `convolve`.
    boundary : {"fill", "wrap", "symm"}
        What is around `in1`: one number, its other end, or its mirror image (with the edge twice).
    fillvalue : number
        That of "fill".
    precision : optional
        Has no effect.

    Returns
    -------
    Array of two axes
        In the promoted dtype.

    Raises
    ------
    ShapeError
        An array is empty or has another number of axes, or the shapes do not fit.
    ArgumentError
        There is no such mode or boundary.

    Examples
    --------
    >>> from tracer.scipy.signal import convolve2d
    >>> convolve2d([[1.0, 2.0], [3.0, 4.0]], [[1.0, 1.0]], mode="valid").tolist()
    [[3.0], [7.0]]
    """
    x, y = _matrices("convolve2d", in1, in2, boundary)
    part = _part("convolve2d", x.shape, y.shape, mode)
    return _surrounded(x, y, part, None if mode == "valid" else _BOUNDARIES[boundary], fillvalue)


def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: float = 0,
    precision: Any = None,
) -> Array:
    """Correlate two matrices.

    Unlike `correlate`, mode "same" of a second matrix of even length is one further on, and "valid"
    of a larger, complex second one is conjugated: so they are in SciPy and in JAX.

    Parameters
    ----------
    in1, in2, mode, boundary, fillvalue, precision
        See `convolve2d`.

    Returns
    -------
    Array of two axes
        In the promoted dtype.

    Examples
    --------
    >>> from tracer.scipy.signal import correlate2d
    >>> correlate2d([[1.0, 2.0], [3.0, 4.0]], [[1.0, 10.0]], mode="valid").tolist()
    [[21.0], [43.0]]
    """
    x, y = _matrices("correlate2d", in1, in2, boundary)
    starts, sizes = _part("correlate2d", x.shape, y.shape, mode)
    if mode == "same":
        starts = tuple(n // 2 for n in y.shape)
    around = None if mode == "valid" else _BOUNDARIES[boundary]
    found = _surrounded(x, tnp.flip(tnp.conj(y)), (starts, sizes), around, fillvalue)
    is_swapped = x.shape != y.shape and all(n <= m for n, m in zip(x.shape, y.shape, strict=True))
    return tnp.conj(found) if mode == "valid" and is_swapped else found


def fftconvolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    axes: int | Sequence[int] | None = None,
) -> Array:
    """Convolve two arrays by products of their Fourier transforms.

    This takes n log n operations instead of n m, and rounds relative to the largest result.

    Parameters
    ----------
    in1, in2 : array_like
        Of the same number of axes. Integers and bools become floats.
    mode : {"full", "same", "valid"}
        See `convolve`.
    axes : int or sequence of int, optional
        Along which axes; all by default. The others are of the same length in both arrays.

    Returns
    -------
    Array
        In the promoted dtype.

    Raises
    ------
    ShapeError
        An array is empty, or the shapes do not fit.
    ArgumentError
        There is no such mode.

    Examples
    --------
    >>> from tracer.scipy.signal import fftconvolve
    >>> fftconvolve([1.0, 2.0, 3.0], [1.0, 1.0]).round(6).tolist()
    [1.0, 3.0, 5.0, 3.0]
    """
    x, y = _operands("fftconvolve", in1, in2)
    along = normalize_axes(tuple(axes) if isinstance(axes, Sequence) else axes, x.ndim)
    others = [axis for axis in range(x.ndim) if axis not in along]
    if any(x.shape[axis] != y.shape[axis] for axis in others):
        raise ShapeError(
            f"fftconvolve along axes {along}: shapes {x.shape} and {y.shape} differ along others",
            mend="give arrays that are equally long along the axes that are not convolved",
        )
    starts, sizes = _part("fftconvolve", x.shape, y.shape, mode)
    where = tuple(
        slice(start, start + size) if axis in along else slice(None)
        for axis, (start, size) in enumerate(zip(starts, sizes, strict=True))
    )
    return _by_transforms(x, y, axes=along)[where]


@compound
def _by_transforms(x: Array, y: Array, *, axes: Shape) -> Array:
    """Return the full convolution along axes; where one array has one element it is a product."""
    axes = tuple(axis for axis in axes if x.shape[axis] > 1 and y.shape[axis] > 1)
    if not axes:
        return x * y
    sizes = [x.shape[axis] + y.shape[axis] - 1 for axis in axes]
    if x.dtype.kind == "c":
        forward, backward = tnp.fft.fftn, tnp.fft.ifftn
    else:
        forward, backward = tnp.fft.rfftn, tnp.fft.irfftn
    product = forward(x, sizes, axes) * forward(y, sizes, axes)
    return convert(backward(product, sizes, axes), x.dtype)


@compound
def _direct(x: Array, y: Array, *, part: Part) -> Array:
    """Return a part of the full convolution; the smaller array is the kernel."""
    if y.size > x.size:
        x, y = y, x
    if not x.ndim:
        return x * y
    padding = tuple(
        (m - 1 - start, start + size - n)
        for n, m, start, size in zip(x.shape, y.shape, *part, strict=True)
    )
    axes, ones = tuple(range(x.ndim + 2)), (1,) * x.ndim
    found = apply(
        ops.convolution,
        reshape(x, (1, 1, *x.shape)),
        reshape(tnp.flip(y), (1, 1, *y.shape)),
        lhs_axes=axes,
        rhs_axes=axes,
        result_axes=axes,
        window_strides=ones,
        padding=padding,
        lhs_dilation=ones,
        rhs_dilation=ones,
        feature_group_count=1,
        batch_group_count=1,
    )
    return reshape(found, part[1])


def _floating(x: ArrayLike) -> Array:
    array = as_array(x)
    return convert(array, division_dtype(array.dtype))


def _operands(name: str, in1: ArrayLike, in2: ArrayLike) -> tuple[Array, Array]:
    x, y = as_array(in1), as_array(in2)
    if x.ndim != y.ndim or 0 in (*x.shape, *y.shape):
        raise ShapeError(
            f"{name} of arrays of shapes {x.shape} and {y.shape}",
            mend="give two arrays of the same number of axes, which are not empty",
        )
    dtype = division_dtype(result_type(x, y))
    return convert(x, dtype), convert(y, dtype)


def _matrices(name: str, in1: ArrayLike, in2: ArrayLike, boundary: str) -> tuple[Array, Array]:
    if boundary not in _BOUNDARIES:
        raise ArgumentError(
            f"{name} has no boundary {boundary!r}", mend=f"use one of {', '.join(_BOUNDARIES)}"
        )
    x, y = _operands(name, in1, in2)
    if x.ndim != 2:
        raise ShapeError(f"{name} of arrays of shapes {x.shape} and {y.shape}", mend="use convolve")
    return x, y


def _surrounded(x: Array, y: Array, part: Part, around: str | None, fillvalue: Any) -> Array:
    """Return a part of the full convolution of an array that goes on beyond its edges."""
    is_zero = not isinstance(fillvalue, Array) and fillvalue == 0
    if around is None or (around == "constant" and is_zero):
        return _direct(x, y, part=part)
    margins = [n - 1 for n in y.shape]
    filling = {"constant_values": fillvalue} if around == "constant" else {}
    wide = tnp.pad(x, [(n, n) for n in margins], around, **filling)
    starts = tuple(start + n for start, n in zip(part[0], margins, strict=True))
    return _direct(wide, y, part=(starts, part[1]))


def _part(name: str, first: Shape, second: Shape, mode: str) -> Part:
    """Return which part of the full convolution a mode is."""
    if mode not in _MODES:
        raise ArgumentError(f"{name} has no mode {mode!r}", mend=f"use one of {', '.join(_MODES)}")
    both = list(zip(first, second, strict=True))
    if mode == "full":
        return (0,) * len(both), tuple(n + m - 1 for n, m in both)
    if mode == "same":
        return tuple((m - 1) // 2 for _, m in both), first
    if any(n < m for n, m in both) and any(n > m for n, m in both):
        raise ShapeError(
            f'{name} in mode "valid" of shapes {first} and {second}',
            mend="give one array that is at least as long as the other along all axes",
        )
    return tuple(min(n, m) - 1 for n, m in both), tuple(abs(n - m) + 1 for n, m in both)
