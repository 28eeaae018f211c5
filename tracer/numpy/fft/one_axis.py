"""Fourier transforms along one axis."""

from __future__ import annotations

from typing import Any

from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array
from tracer.numpy.elementwise import conjugate
from tracer.numpy.fft.core import transform

_SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def fft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Array:
    """Discrete Fourier transform along an axis.

    Parameters
    ----------
    a : array_like
        Real or complex numbers.
    n : int, optional
        Number of points: the end of the axis is cut off or filled up with zeros.
    axis : int
        The axis of the transform.
    norm : {"backward", "ortho", "forward"}, optional
        Which direction divides by the number of points: the inverse transforms (the default), both
        by its square root, or the forward ones.
    out : None
        Not supported.

    Returns
    -------
    Array, complex
        The shape of `a`, with `n` elements along the axis.

    Raises
    ------
    ArgumentError
        There is no such norm, or there are less than one points.
    AxisError
        There is no such axis.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> tnp.fft.fft([1.0, 0.0, 0.0, 0.0])
    Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return transform("fft", a, "FFT", (n,), (axis,), norm, out)


def ifft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Array:
    """Inverse of `fft`; see there."""
    return transform("ifft", a, "IFFT", (n,), (axis,), norm, out)


def rfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Array:
    """Discrete Fourier transform of real numbers along an axis; see `fft`.

    The result has the n // 2 + 1 elements that are not determined by the others' conjugates.
    Complex arrays raise `DTypeError`.
    """
    return transform("rfft", a, "RFFT", (n,), (axis,), norm, out)


def irfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Array:
    """Inverse of `rfft`: real, by default with 2 (m - 1) points for m elements; see `fft`.

    Give `n` to get an odd number of points back.
    """
    return transform("irfft", a, "IRFFT", (n,), (axis,), norm, out)


def hfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Array:
    """Discrete Fourier transform of a signal that is Hermitian, so that its spectrum is real.

    Takes half of the signal as `irfft` does its spectrum; see there and `fft`.
    """
    return irfft(conjugate(as_array(a)), n, axis, _swapped(norm), out)


def ihfft(
    a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None
) -> Array:
    """Inverse of `hfft`: half of the Hermitian signal of a real spectrum; see `rfft`."""
    return conjugate(rfft(a, n, axis, _swapped(norm), out))


def _swapped(norm: Any) -> Any:
    return _SWAPPED.get("backward" if norm is None else norm, norm)
