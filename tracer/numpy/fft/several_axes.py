"""Fourier transforms over several axes."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.array.array import Array, ArrayLike
from tracer.numpy.fft.core import transform


def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: None = None,
) -> Array:
    """Discrete Fourier transform over several axes.

    Parameters
    ----------
    a : array_like
        Real or complex numbers.
    s : sequence of int, optional
        Numbers of points along the axes: their ends are cut off or filled up with zeros; -1 keeps
        an axis as it is.
    axes : sequence of int, optional
        The axes; by default the last `len(s)`, or all. An axis named twice is transformed twice.
    norm, out
        See `fft`.

    Returns
    -------
    Array, complex
        The shape of `a`, with the lengths `s` along the axes.

    Raises
    ------
    ArgumentError
        There is no such norm, or there are less than one points.
    ShapeError
        The lengths and the axes do not fit each other or the array.
    """
    return transform("fftn", a, "FFT", s, axes, norm, out)


def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: None = None,
) -> Array:
    """Inverse of `fftn`; see there."""
    return transform("ifftn", a, "IFFT", s, axes, norm, out)


def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: None = None,
) -> Array:
    """Discrete Fourier transform of real numbers over several axes; see `fftn` and `rfft`.

    The last one of the axes has n // 2 + 1 elements.
    """
    return transform("rfftn", a, "RFFT", s, axes, norm, out)


def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: None = None,
) -> Array:
    """Inverse of `rfftn`: real, by default with 2 (m - 1) points along the last axis."""
    return transform("irfftn", a, "IRFFT", s, axes, norm, out)


def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Array:
    """Discrete Fourier transform over two axes; see `fftn`."""
    return transform("fft2", a, "FFT", s, axes, norm, out)


def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Array:
    """Inverse of `fft2`; see `fftn`."""
    return transform("ifft2", a, "IFFT", s, axes, norm, out)


def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Array:
    """Discrete Fourier transform of real numbers over two axes; see `rfftn`."""
    return transform("rfft2", a, "RFFT", s, axes, norm, out)


def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
    out: None = None,
) -> Array:
    """Inverse of `rfft2`; see `irfftn`."""
    return transform("irfft2", a, "IRFFT", s, axes, norm, out)
