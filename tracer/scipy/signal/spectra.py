"""Spectra of segments of a signal: `welch`, `csd`, `stft`, and back again: `istft`.

A spectrum of a real signal is one-sided: frequencies from zero up. That of a complex signal always
has the negative ones too.

References
----------
Welch, The use of fast Fourier transform for the estimation of power spectra, 1967; Griffin and Lim,
Signal estimation from modified short-time Fourier transform, 1984; Allen et al., FINDCHIRP, 2012
(the bias of medians).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, normalize_axis
from tracer.array.placement import beside_arguments
from tracer.array.promotion import Dtype, complex_dtype, division_dtype, real_dtype, result_type
from tracer.errors import ArgumentError, ShapeError
from tracer.scipy.choice import choose
from tracer.scipy.signal.segments import Segments, Window, cut, overlap_and_add, split
from tracer.scipy.signal.trends import detrend as without_trend

Detrend = bool | str | Callable[[Array], Array]
_PADDINGS: dict[str, dict[str, Any]] = {
    "even": {"mode": "reflect"},
    "odd": {"mode": "reflect", "reflect_type": "odd"},
    "constant": {"mode": "edge"},
    "zeros": {"mode": "constant"},
}


def welch(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Estimate the power spectral density of a signal; see `csd`.

    Parameters
    ----------
    x : array_like
        The signal.
    fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
        See `csd`.

    Returns
    -------
    f : Array
        The frequencies.
    Pxx : Array of floats
        The density at each of them, along `axis`.

    Examples
    --------
    >>> from tracer.scipy.signal import welch
    >>> frequencies, density = welch([1.0, -1.0, 1.0, -1.0], window="boxcar")
    >>> frequencies.tolist(), density.round(6).tolist()
    ([0.0, 0.25, 0.5], [0.0, 0.0, 4.0])
    """
    return csd(
        x,
        None,
        fs,
        window,
        nperseg,
        noverlap,
        nfft,
        detrend,
        return_onesided,
        scaling,
        axis,
        average,
    )


@beside_arguments
def csd(
    x: ArrayLike,
    y: ArrayLike | None,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Estimate the cross power spectral density of two signals: averages over segments.

    Parameters
    ----------
    x, y : array_like
        The signals; the shorter one is filled up with zeros, other axes are broadcast. None is `x`
        again, with a real result.
    fs : number
        Samples in a unit of time.
    window : str, tuple or array_like
        What segments are multiplied by: a name of `scipy.signal.get_window`, or the numbers.
    nperseg : int, optional
        Length of a segment. By default that of the window or, with a name, the whole signal, as in
        JAX; SciPy's default is 256.
    noverlap : int, optional
        How many elements neighbouring segments share; half of them by default.
    nfft : int, optional
        To which length segments are filled up with zeros.
    detrend : {"constant", "linear"}, callable or False
        What is subtracted from each segment, see `detrend`; or a function of segments, which lie
        along the last axis.
    return_onesided : bool
        Of real signals, only frequencies from zero up.
    scaling : {"density", "spectrum"}
        Power in a unit of frequency, or power.
    axis : int
        The axis of time.
    average : {"mean", "median"}
        How segments are averaged.

    Returns
    -------
    f : Array
        The frequencies.
    Pxy : Array
        The density at each of them, along `axis`.

    Raises
    ------
    ShapeError
        A signal is empty, or the shapes do not fit.
    ArgumentError
        There is no such window, scaling or average, or the lengths do not fit.

    Examples
    --------
    >>> from tracer.scipy.signal import csd
    >>> _, density = csd([1.0, -1.0, 1.0, -1.0], [2.0, -2.0, 2.0, -2.0], window="boxcar")
    >>> density.real.round(6).tolist()
    [0.0, 0.0, 8.0]
    """
    if average not in ("mean", "median") or scaling not in ("density", "spectrum"):
        raise ArgumentError(
            f"a spectrum with average {average!r} and scaling {scaling!r}",
            mend='average is "mean" or "median", scaling "density" or "spectrum"',
        )
    first, second, axis = _signals(x, y, axis)
    segments = _cut(first, window, nperseg, noverlap, nfft)
    both = first.dtype.kind == "c" or not return_onesided
    length = first.shape[-1] if second is None else max(first.shape[-1], second.shape[-1])
    of_first = _transform(_filled(first, length), segments, detrend, both)
    if second is None:
        power = tnp.real(of_first) ** 2 + tnp.imag(of_first) ** 2
    else:
        of_second = _transform(_filled(second, length), segments, detrend, both)
        power = tnp.conj(of_first) * of_second
    if not both:
        power = power * tnp.asarray(_doubled(segments.nfft), real_dtype(power.dtype))
    win = segments.window
    scale = as_array(fs) * (win * win).sum() if scaling == "density" else win.sum() ** 2
    dtype = complex_dtype(first.dtype)
    found = (_averaged(power, average) / scale).astype(real_dtype(dtype) if y is None else dtype)
    return _frequencies(segments, fs, both, real_dtype(dtype)), tnp.moveaxis(found, -1, axis)


@beside_arguments
def stft(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Detrend = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """Short-time Fourier transform: the spectra of overlapping segments.

    Parameters
    ----------
    x : array_like
        The signal.
    fs, window, noverlap, nfft, detrend, return_onesided, axis
        See `csd`.
    nperseg : int
        Length of a segment; the whole signal if it is shorter.
    boundary : {"zeros", "even", "odd", "constant"} or None
        By what the signal is continued at both ends, for half a segment.
    padded : bool
        Fill up the end with zeros to whole segments.

    Returns
    -------
    f, t : Array
        The frequencies, and the times of the middles of segments.
    Zxx : Array, complex
        The spectra: frequencies along `axis`, times along a new last axis.

    Raises
    ------
    ShapeError
        The signal is empty.
    ArgumentError
        There is no such window or boundary, or the lengths do not fit.

    Examples
    --------
    >>> from tracer.scipy.signal import istft, stft
    >>> _, times, spectra = stft([1.0, 2.0, 3.0, 2.0], nperseg=4)
    >>> times.tolist(), spectra.shape
    ([0.0, 2.0, 4.0], (3, 3))
    >>> istft(spectra)[1].round(6).tolist()
    [1.0, 2.0, 3.0, 2.0]
    """
    if boundary is not None and boundary not in _PADDINGS:
        raise ArgumentError(
            f"stft has no boundary {boundary!r}", mend=f"use one of {', '.join(_PADDINGS)}, or None"
        )
    signal, _, axis = _signals(x, None, axis)
    segments = _cut(signal, window, nperseg, noverlap, nfft)
    dtype, length = complex_dtype(signal.dtype), segments.length
    if boundary is not None:
        ends = [*[(0, 0)] * (signal.ndim - 1), (length // 2, length // 2)]
        signal = tnp.pad(signal, ends, **_PADDINGS[boundary])
    if padded:
        missing = -(signal.shape[-1] - length) % segments.step % length
        signal = _filled(signal, signal.shape[-1] + missing)
    both = signal.dtype.kind == "c" or not return_onesided
    spectra = _transform(signal, segments, detrend, both) / abs(segments.window.sum())
    first = length / 2 if boundary is None else 0.0
    times = tnp.asarray(first + segments.step * np.arange(spectra.shape[-2])) / as_array(fs)
    frequencies = _frequencies(segments, fs, both, real_dtype(dtype))
    found = tnp.moveaxis(spectra.astype(dtype), -1, axis)
    return frequencies, times.astype(real_dtype(dtype)), found


@beside_arguments
def istft(
    Zxx: ArrayLike,  # noqa: N803 - named as in SciPy
    fs: ArrayLike = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """Return the signal of a short-time Fourier transform: the inverse of `stft`.

    Parameters
    ----------
    Zxx : array_like
        The spectra.
    fs, window, noverlap, nfft
        As given to `stft`.
    nperseg : int, optional
        Length of a segment; by default what the number of frequencies says, an even one.
    input_onesided : bool
        There are only frequencies from zero up; the signal is real then.
    boundary : bool
        The signal was continued at both ends, which is cut off.
    time_axis, freq_axis : int
        The axes of times and frequencies.

    Returns
    -------
    t : Array
        The times of the elements of the signal.
    x : Array
        The signal, with time where `time_axis` was among the other axes.

    Raises
    ------
    ShapeError
        There are not two different axes, with frequencies and times.
    ArgumentError
        There is no such window, or the lengths do not fit.
    """
    spectra, axis = _spectra(Zxx, time_axis, freq_axis)
    bins = spectra.shape[-2]
    default = 2 * (bins - 1) if input_onesided else bins
    length = default if nperseg is None else int(nperseg)
    is_odd = input_onesided and length == default + 1
    points = length if is_odd and nfft is None else default if nfft is None else nfft
    dtype = real_dtype(spectra.dtype)
    segments = cut(window, length, length, noverlap, points, dtype)
    back = tnp.fft.irfft if input_onesided else tnp.fft.ifft
    frames = tnp.swapaxes(back(spectra, segments.nfft, -2), -1, -2)[..., :length]
    win = segments.window
    total = overlap_and_add(frames * (win * win.sum()), segments.step)
    squares = tnp.broadcast_to(win * win, (spectra.shape[-1], length))
    norm = overlap_and_add(squares, segments.step)
    if boundary:
        inside = slice(length // 2, norm.shape[0] - length // 2)
        total, norm = total[..., inside], norm[inside]
    signal = total / choose(norm > 1e-10, norm, 1)
    times = tnp.arange(signal.shape[-1]) / as_array(fs)
    return times.astype(dtype), tnp.moveaxis(signal, -1, axis)


def _spectra(given: ArrayLike, time_axis: int, freq_axis: int) -> tuple[Array, int]:
    """Return spectra with frequencies and times last, and the place of time in the signal."""
    x = as_array(given)
    time, freq = (normalize_axis(axis, x.ndim) for axis in (time_axis, freq_axis))
    if time == freq or not x.shape[time] or not x.shape[freq]:
        raise ShapeError(
            f"istft of shape {x.shape}: times along axis {time}, frequencies along {freq}",
            mend="give two axes, which are not empty",
        )
    x = tnp.moveaxis(convert(x, complex_dtype(x.dtype)), (freq, time), (-2, -1))
    return x, time - (freq < time)


def _signals(x: ArrayLike, y: ArrayLike | None, axis: int) -> tuple[Array, Array | None, int]:
    """Return signals in a floating dtype with time last, and the axis of time."""
    given = [as_array(x), *([] if y is None else [as_array(y)])]
    dtype = division_dtype(result_type(*given))
    place = normalize_axis(axis, given[0].ndim)
    if any(not one.size or one.ndim != given[0].ndim for one in given):
        raise ShapeError(
            f"spectra of signals of shapes {[one.shape for one in given]}",
            mend="give signals that are not empty, two of the same number of axes",
        )
    first, *rest = (tnp.moveaxis(convert(one, dtype), place, -1) for one in given)
    return first, rest[0] if rest else None, place


def _cut(
    x: Array, window: Window, nperseg: int | None, noverlap: int | None, nfft: int | None
) -> Segments:
    most = x.shape[-1]
    if nperseg is not None and isinstance(window, str | tuple):
        nperseg = min(nperseg, most)
    found = cut(window, nperseg, most, noverlap, nfft, real_dtype(x.dtype))
    if found.length > most:
        raise ShapeError(
            f"a window of length {found.length} for a signal of length {most}",
            mend="give a window that is no longer than the signal",
        )
    return found


def _filled(x: Array, length: int) -> Array:
    """Fill up the last axis with zeros."""
    return tnp.pad(x, [*[(0, 0)] * (x.ndim - 1), (0, length - x.shape[-1])])


def _transform(x: Array, segments: Segments, detrend: Detrend, both: bool) -> Array:
    """Return the spectra of segments, shape (..., segments, frequencies)."""
    parts = _without_trends(split(x, segments.length, segments.step), detrend)
    transform = tnp.fft.fft if both else tnp.fft.rfft
    return transform(parts * segments.window, segments.nfft)


def _without_trends(parts: Array, detrend: Detrend) -> Array:
    if isinstance(detrend, str):
        return without_trend(parts, type=detrend)
    if callable(detrend):
        return as_array(detrend(parts))
    if detrend:
        raise ArgumentError(
            f"detrend is {detrend!r}", mend='give "constant", "linear", a function, or False'
        )
    return parts


def _doubled(nfft: int) -> np.ndarray[Any, Any]:
    """Return 2 for the frequencies whose negative ones are left out, else 1."""
    factors = np.full(nfft // 2 + 1, 2.0)
    factors[0] = 1.0
    if nfft % 2 == 0:
        factors[-1] = 1.0
    return factors


def _averaged(power: Array, average: str) -> Array:
    if average == "mean":
        return power.mean(-2)
    terms = np.arange(2.0, power.shape[-2], 2)
    bias = 1 + float((1 / (terms + 1) - 1 / terms).sum())
    if power.dtype.kind != "c":
        return tnp.median(power, -2) / bias
    return (tnp.median(tnp.real(power), -2) + 1j * tnp.median(tnp.imag(power), -2)) / bias


def _frequencies(segments: Segments, fs: ArrayLike, both: bool, dtype: Dtype) -> Array:
    frequencies = (np.fft.fftfreq if both else np.fft.rfftfreq)(segments.nfft)
    return (tnp.asarray(frequencies) * as_array(fs)).astype(dtype)
