"""welch, csd, stft and istft against SciPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.signal

import tracer
import tracer.scipy.signal as ours
from tests.compare_with_jax import check
from tests.sampling import in_turn, one_in
from tests.scipy.test_signal import close
from tracer.errors import ArgumentError, AxisError, ShapeError

pytestmark = [pytest.mark.xla, pytest.mark.filterwarnings("ignore:Input data is complex")]

RNG = np.random.default_rng(3)
REAL = {"float32": "float32", "float64": "float64", "complex64": "float32", "complex128": "float64"}
COMPLEX = {"float32": "complex64", "float64": "complex128"} | {x: x for x in REAL if "c" in x}
OPTIONS = [
    {"nperseg": 16},
    {"nperseg": 15},
    {"nperseg": 1},
    {"nperseg": 2, "fs": 50},
    {"nperseg": 16, "noverlap": 0, "window": "hamming"},
    {"nperseg": 16, "noverlap": 13, "nfft": 20},
    {"nperseg": 7, "nfft": 9, "window": ("kaiser", 4.0), "fs": 1000.0},
    {"window": np.hanning(12), "nperseg": 12, "detrend": "linear"},
    {"nperseg": 16, "return_onesided": False},
]
POWERS = [
    {"nperseg": 16, "scaling": "spectrum", "detrend": False},
    {"nperseg": 16, "average": "median", "detrend": "linear"},
    {"nperseg": 30, "average": "median"},
    {"nperseg": 40, "average": "median"},
    {"nperseg": 16, "detrend": lambda x: x - x[..., :1]},
]


def signal(shape, dtype):
    x = RNG.normal(size=shape) + np.sin(np.arange(np.prod(shape))).reshape(shape)
    return (x + 1j * RNG.normal(size=shape) if "c" in dtype else x).astype(dtype)


def known(dtype, options):
    """Options for SciPy: it is told of complex signals."""
    return {**options, "return_onesided": False} if "c" in dtype else options


def names(options):
    if not isinstance(options, dict):
        return options
    # Functions have other names in other processes.
    return ", ".join("function" if callable(x) else str(x) for x in options.values())[:40]


@pytest.mark.parametrize(
    ("options", "dtype"), in_turn([*OPTIONS, *POWERS], ["float32", "complex128"]), ids=names
)
def test_powers(options, dtype):
    x, y = signal((3, 40), dtype), signal((3, 40), dtype)
    f, found = ours.welch(x, **options)
    wanted_f, wanted = scipy.signal.welch(x, **known(dtype, options))
    close(f, wanted_f, REAL[dtype])
    close(found, wanted, REAL[dtype])
    f, found = ours.csd(x, y, **options)
    _, wanted = scipy.signal.csd(x, y, **known(dtype, options))
    close(found, wanted, COMPLEX[dtype])


@pytest.mark.parametrize("shape", [(40,), (40, 2), (40, 1, 3)], ids=str)
def test_first_axis(shape):
    x, options = signal(shape, "float64"), {"axis": 0, "nperseg": 16}
    close(ours.welch(x, **options)[1], scipy.signal.welch(x, **options)[1], "float64")
    close(ours.stft(x, **options)[2], scipy.signal.stft(x, **options)[2], "complex128")


def test_functions_of_segments():
    """They see segments along the last axis, whatever the axis is."""
    x, options = signal((40, 3), "float64"), {"nperseg": 16, "detrend": lambda s: s - s[..., :1]}
    wanted = scipy.signal.welch(x.T, **options)[1].T
    close(ours.welch(x, axis=0, **options)[1], wanted, "float64")
    wanted = scipy.signal.stft(x.T, **options)[2]
    close(ours.stft(x.T, **options)[2], wanted, "complex128")


@pytest.mark.parametrize(
    ("options", "boundary"), in_turn(OPTIONS, ["zeros", "even", "odd", "constant", None]), ids=names
)
def test_short_times(options, boundary):
    dtype = "complex64" if boundary == "zeros" else "float64"
    x = signal((40,), dtype)
    for padded in (True, False):
        more = {"boundary": boundary, "padded": padded}
        found = ours.stft(x, **options, **more)
        wanted = scipy.signal.stft(x, **known(dtype, options), **more)
        for one, other, kind in zip(found, wanted, (REAL, REAL, COMPLEX), strict=True):
            close(one, other, kind[dtype])


@pytest.mark.parametrize(
    ("options", "dtype"), in_turn(OPTIONS, ["float64", "complex64"]), ids=names
)
def test_there_and_back(options, dtype):
    """The ends of a signal are zero where a window is."""
    options = {k: v for k, v in options.items() if k != "detrend"}
    x = signal((2, 48), dtype)
    onesided = options.pop("return_onesided", True) and dtype == "float64"
    _, _, spectra = scipy.signal.stft(x, **options, return_onesided=onesided)
    options = {**options, "boundary": options["nperseg"] > 1, "input_onesided": onesided}
    times, found = ours.istft(spectra, **options)
    _, wanted = scipy.signal.istft(spectra, **options)
    close(found, wanted, dtype if onesided else COMPLEX[dtype])
    np.testing.assert_allclose(
        np.asarray(times), np.arange(wanted.shape[1]) / options.get("fs", 1), rtol=1e-6
    )
    if options.get("noverlap") != 0:
        np.testing.assert_allclose(np.asarray(found)[:, 1:47], x[:, 1:47], atol=2e-5)


@pytest.mark.parametrize(("time", "freq"), [(0, 1), (1, 0), (2, 0), (0, 2), (-1, 1), (2, 1)])
def test_axes_of_spectra(time, freq):
    spectra = signal((6, 5, 4), "complex128")
    _, found = ours.istft(spectra, time_axis=time, freq_axis=freq, nperseg=4)
    _, wanted = scipy.signal.istft(
        spectra, time_axis=time, freq_axis=freq, nperseg=4, nfft=2 * (spectra.shape[freq] - 1)
    )
    close(found, wanted, "float64")


def test_defaults():
    """A named window is as long as the signal, as in JAX; of stft at most 256."""
    x = signal((700,), "float64")
    close(ours.welch(x)[1], scipy.signal.welch(x, nperseg=700)[1], "float64")
    close(ours.stft(x)[2], scipy.signal.stft(x)[2], "complex128")
    close(ours.stft(x[:90])[2], scipy.signal.stft(x[:90], nperseg=90)[2], "complex128")
    close(ours.csd(x, None)[1], scipy.signal.welch(x, nperseg=700)[1], "float64")
    assert ours.welch(np.arange(8))[1].dtype == "float64"
    assert ours.welch(np.ones(8, "float32"), np.float64(3))[1].dtype == "float32"


def test_signals_of_other_lengths():
    x, y = signal((3, 40), "float64"), signal((3, 29), "float64")
    for one, other in ((x, y), (y, x)):
        found = ours.csd(one, other, nperseg=8)[1]
        close(found, scipy.signal.csd(one, other, nperseg=8)[1], "complex128")
    found = ours.csd(x, y[:1])[1]
    close(found, np.asarray(ours.csd(x, np.repeat(y[:1], 3, 0))[1]), "complex128")
    with pytest.raises(ShapeError):
        ours.csd(x, y[0])


def test_derivatives():
    x, y = signal((12,), "float64"), signal((12,), "float64")
    tracer.check_grads(lambda x: ours.welch(x, nperseg=5)[1], (x,), order=2)
    tracer.check_grads(lambda x, y: abs(ours.csd(x, y, nperseg=4)[1]), (x, y), order=1)
    tracer.check_grads(lambda x, w: abs(ours.stft(x, 1.0, w, 4)[2]) ** 2, (x, x[:4] ** 2), order=1)
    spectra = ours.stft(x, nperseg=4)[2]
    for part in (lambda z: z + 0j, lambda z: 1j * z):
        tracer.check_grads(lambda x, p=part: ours.istft(spectra * p(x))[1], (np.ones(()),), order=1)


def test_compiled_and_of_a_batch():
    x = signal((3, 64), "float64")
    f, found = tracer.compile(tracer.vmap(lambda x: ours.welch(x, nperseg=16)))(x)
    wanted_f, wanted = scipy.signal.welch(x, nperseg=16)
    close(found, wanted, "float64")
    close(f[0], wanted_f, "float64")
    back = tracer.compile(tracer.vmap(lambda x: ours.istft(ours.stft(x, nperseg=16)[2])[1]))(x)
    close(back, x, "float64")
    rates = np.array([1.0, 10.0, 100.0])
    f, found = tracer.vmap(lambda x, fs: ours.welch(x, fs, nperseg=16))(x, rates)
    close(f, wanted_f * rates[:, None], "float64")
    close(found, wanted / rates[:, None], "float64")


def test_under_a_limit():
    """The segments of all signals together are 16 MB."""
    x = signal((64, 16384), "float64")

    def mean(x):
        return tracer.vmap(lambda x: ours.welch(x, nperseg=512)[1])(x).mean(0)

    assert tracer.compile(mean).plan(x).baseline_peak_bytes > 24_000_000
    limited = tracer.compile(mean, memory_limit="14MB")
    assert limited.plan(x).peak_bytes <= 14_000_000
    close(limited(x), scipy.signal.welch(x, nperseg=512)[1].mean(0), "float64")


@pytest.mark.parametrize("name", ["welch", "stft"])
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"window": "glass"}, ArgumentError, "glass"),
        ({"window": np.ones((2, 2))}, ShapeError, r"\(2, 2\)"),
        ({"window": np.ones(5), "nperseg": 4}, ShapeError, r"\(5,\)"),
        ({"window": np.ones(50), "nperseg": 50}, ShapeError, "50"),
        ({"window": np.ones(5) * 1j, "nperseg": 5}, ArgumentError, "complex"),
        ({"nperseg": 0}, ArgumentError, "nperseg is 0"),
        ({"nperseg": 4, "noverlap": 4}, ArgumentError, "share 4"),
        ({"nperseg": 4, "noverlap": -1}, ArgumentError, "share -1"),
        ({"nperseg": 4, "nfft": 3}, ArgumentError, "3 points"),
        ({"detrend": "cubic"}, ArgumentError, "cubic"),
        ({"detrend": True}, ArgumentError, "detrend is True"),
        ({"axis": 1}, AxisError, "axis 1"),
        ({"x": []}, ShapeError, r"\(0,\)"),
    ],
)
def test_refusals(name, options, error, words):
    with pytest.raises(error, match=words):
        getattr(ours, name)(**{"x": np.ones(20), **options})


def test_other_refusals():
    x = np.ones(20)
    with pytest.raises(ArgumentError, match="'mode'"):
        ours.welch(x, average="mode")
    with pytest.raises(ArgumentError, match="'loudness'"):
        ours.csd(x, x, scaling="loudness")
    with pytest.raises(ArgumentError, match="'wrap'"):
        ours.stft(x, boundary="wrap")
    with pytest.raises(ShapeError, match="axis 0"):
        ours.istft(np.ones((3, 3)), time_axis=0, freq_axis=0)
    with pytest.raises(AxisError):
        ours.istft(np.ones(3))
    with pytest.raises(ArgumentError, match="nperseg is 0"):
        ours.istft(np.ones((1, 3)))


PROGRAMS = {
    "welch": lambda m, x, y: m.welch(x, nperseg=8)[1],
    "welch default": lambda m, x, y: m.welch(x, 3.0, return_onesided=False),
    "csd": lambda m, x, y: m.csd(x, y, nperseg=8, noverlap=3),
    "csd median": lambda m, x, y: m.csd(x, y, nperseg=8, average="median", scaling="spectrum"),
    "stft": lambda m, x, y: m.stft(x, nperseg=8),
    "stft odd": lambda m, x, y: m.stft(x, 5.0, nperseg=7, boundary="odd", detrend="constant"),
    "istft": lambda m, x, y: m.istft(m.stft(x, nperseg=8)[2], nperseg=8)[1],
}


@pytest.mark.parametrize(("name", "dtype"), one_in(3, product(PROGRAMS, ["float32", "float64"])))
def test_against_jax(name, dtype):
    jax = pytest.importorskip("jax")
    import jax.scipy.signal as theirs

    with jax.enable_x64(True):
        arrays = [signal((2, 40), dtype), signal((2, 40), dtype)]
        check(PROGRAMS[name], ours, theirs, arrays, scale=10)
