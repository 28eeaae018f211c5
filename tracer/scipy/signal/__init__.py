"""Signals: `tracer.scipy.signal`, with the functions of `jax.scipy.signal`."""

from tracer.scipy.signal.convolution import (
    convolve,
    convolve2d,
    correlate,
    correlate2d,
    fftconvolve,
)
from tracer.scipy.signal.spectra import csd, istft, stft, welch
from tracer.scipy.signal.trends import detrend

__all__ = [
    "convolve",
    "convolve2d",
    "correlate",
    "correlate2d",
    "csd",
    "detrend",
    "fftconvolve",
    "istft",
    "stft",
    "welch",
]
