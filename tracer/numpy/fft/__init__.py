"""Discrete Fourier transforms: `tracer.numpy.fft`, as `numpy.fft`.

float32 and narrower floats give complex64 (float32 where the result is real), all else complex128
(float64).
"""

from tracer.numpy.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from tracer.numpy.fft.one_axis import fft, hfft, ifft, ihfft, irfft, rfft
from tracer.numpy.fft.several_axes import fft2, fftn, ifft2, ifftn, irfft2, irfftn, rfft2, rfftn

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]
