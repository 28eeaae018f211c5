"""Fourier transforms of the last axes, as one op."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array
from tracer.array.dispatch import apply, compound
from tracer.errors import ArgumentError, ShapeError
from tracer.lax.operands import integers


class FftType(Enum):
    """Kinds of Fourier transforms: complex, its inverse, of real numbers, and back to them."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def fft(x: ArrayLike, fft_type: Any, fft_lengths: Sequence[int]) -> Array:
    """Transform the last axes.

    Parameters
    ----------
    x : array_like
        Complex numbers, for RFFT real ones.
    fft_type : FftType or str
        The kind.
    fft_lengths : sequence of int
        Sizes of the last axes: those of `x`, for IRFFT those of the result.

    Returns
    -------
    Array
        The transform; inverse ones are divided by the number of elements.

    Raises
    ------
    ArgumentError, ShapeError, DTypeError
        No such kind, or an array that does not fit.
    """
    array = as_array(x)
    name = str(getattr(fft_type, "name", fft_type)).upper()
    if name not in FftType.__members__:
        raise ArgumentError(
            f"lax.fft: there is no kind {fft_type!r}", mend="give one of lax.FftType"
        )
    lengths = integers("fft", "fft_lengths", fft_lengths)
    if 0 in (*array.shape, *lengths):
        raise ShapeError("lax.fft of no elements", mend="transform one element or more")
    return _fft(array, kind=name, lengths=lengths) if lengths else array


@compound
def _fft(x: Array, *, kind: str, lengths: tuple[int, ...]) -> Array:
    return apply(ops.fft, x, kind=kind, lengths=lengths)
