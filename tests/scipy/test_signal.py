"""Convolutions, correlations and trends against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.signal

import tracer
import tracer.scipy.signal as ours
from tests.compare_with_jax import check
from tests.numpy.oracle import sample
from tests.sampling import in_turn
from tracer.errors import ArgumentError, AxisError, ShapeError, UnsupportedError

pytestmark = pytest.mark.xla

RNG = np.random.default_rng(8)
MODES = ("full", "same", "valid")
DTYPES = ("float32", "float64", "complex64", "complex128")
SHAPES = [
    ((), ()),
    ((1,), (1,)),
    ((5,), (1,)),
    ((1,), (4,)),
    ((6,), (3,)),
    ((6,), (4,)),
    ((3,), (6,)),
    ((4,), (7,)),
    ((5, 4), (3, 2)),
    ((2, 3), (5, 6)),
    ((3, 4), (3, 4)),
    ((4, 3, 5), (2, 2, 3)),
]
MATRICES = [pair for pair in SHAPES if len(pair[0]) == 2]
TOLERANCES = {"float32": 1e-5, "complex64": 1e-5, "float64": 1e-12, "complex128": 1e-12}


def pair(shapes, dtype="float64"):
    return [np.asarray(sample(RNG, shape, dtype)) for shape in shapes]


def close(found, wanted, dtype):
    assert (found.dtype, found.shape) == (np.dtype(dtype), np.shape(wanted))
    tolerance = TOLERANCES[np.dtype(dtype).name]
    scale = max(1, np.abs(wanted).max(initial=0))
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_values(name, shapes, dtype):
    x, y = pair(shapes, dtype)
    for mode in MODES:
        for method in ("auto", "direct", "fft"):
            wanted = getattr(scipy.signal, name)(x, y, mode, method="direct")
            close(getattr(ours, name)(x, y, mode, method), wanted, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", MATRICES, ids=str)
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_matrices(name, shapes, dtype):
    x, y = pair(shapes, dtype)
    for mode in MODES:
        close(getattr(ours, name)(x, y, mode), getattr(scipy.signal, name)(x, y, mode), dtype)


@pytest.mark.parametrize("boundary", ["wrap", "symm", "fill"])
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_surroundings_of_matrices(name, boundary):
    function, wanted = getattr(ours, name), getattr(scipy.signal, name)
    for shapes in (((4, 5), (3, 2)), ((3, 4), (4, 4)), ((2, 3), (5, 7)), ((5, 1), (2, 1))):
        for dtype in ("float64", "complex64"):
            x, y = pair(shapes, dtype)
            for mode in MODES:
                options = mode, boundary, 1.5
                close(function(x, y, *options), wanted(x, y, *options), dtype)


def test_derivatives_within_surroundings():
    x, y = pair(((4, 5), (3, 2)))
    for boundary in ("wrap", "symm", "fill"):
        for function in (ours.convolve2d, ours.correlate2d):
            tracer.check_grads(
                lambda x, y, f=function, b=boundary: f(x, y, "same", b, 2.0), (x, y), order=1
            )


@pytest.mark.parametrize("name", ["convolve", "convolve2d", "correlate2d", "fftconvolve"])
def test_neither_contains_the_other(name):
    x, y = pair(((2, 5), (3, 2)))
    for mode in ("full", "same"):
        found = getattr(ours, name)(x, y, mode)
        close(found, getattr(scipy.signal, name)(x, y, mode), "float64")
    with pytest.raises(ShapeError, match="valid"):
        getattr(ours, name)(x, y, "valid")


@pytest.mark.parametrize("axes", [0, 1, -1, (0, 2), [1], None])
def test_along_axes(axes):
    x, y = pair(((4, 3, 5), (4, 3, 5)))
    for mode in MODES:
        wanted = scipy.signal.fftconvolve(x, y, mode, axes)
        close(ours.fftconvolve(x, y, mode, axes), wanted, "float64")
    longer = RNG.normal(size=(4, 7, 5))
    with pytest.raises(ShapeError, match="along others"):
        ours.fftconvolve(x, longer, axes=0)
    with pytest.raises(AxisError):
        ours.fftconvolve(x, y, axes=3)


@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve"])
def test_dtypes(name):
    """Integers and bools become floats; two dtypes meet as in NumPy 2."""
    for one, other, wanted in (
        ("int8", "int8", "float64"),
        ("int32", "int64", "float64"),
        ("bool", "bool", "float64"),
        ("float32", "float64", "float64"),
        ("float32", "complex64", "complex64"),
        ("float32", "int32", "float64"),
        ("float16", "float16", "float16"),
    ):
        x, y = sample(RNG, (5,), one), sample(RNG, (3,), other)
        found = getattr(ours, name)(x, y)
        assert found.dtype == wanted, (one, other)
        exact = getattr(scipy.signal, name)(x.astype("complex128"), y.astype("complex128"))
        np.testing.assert_allclose(np.asarray(found), exact, rtol=5e-3, atol=5e-2)
    assert getattr(ours, name)([1.0, 2.0], [1, 1]).dtype == "float64"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("n", "m"), [(6, 3), (4, 7)])
def test_derivatives(n, m, mode):
    x, y = pair(((n,), (m,)))
    for function in (ours.convolve, ours.correlate, ours.fftconvolve):
        tracer.check_grads(lambda x, y, f=function: f(x, y, mode), (x, y), order=2)
    x, y = pair(((n, 3), (m, 4 if n < m else 2)))
    for function in (ours.convolve2d, ours.correlate2d):
        tracer.check_grads(lambda x, y, f=function: f(x, y, mode), (x, y), order=1)


@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve"])
def test_compiled_and_of_a_batch(name):
    function = getattr(ours, name)
    x, y = pair(((4, 7), (4, 3)))
    wanted = np.stack(
        [getattr(scipy.signal, name)(a, b, "same") for a, b in zip(x, y, strict=True)]
    )
    batched = tracer.compile(tracer.vmap(lambda a, b: function(a, b, "same")))
    close(batched(x, y), wanted, "float64")
    shared = tracer.vmap(lambda a: function(a, y[0], "same"))(x)
    close(shared[0], wanted[0], "float64")


def test_under_a_limit():
    """Signals of 8 MB are convolved some at a time: their spectra together are as large."""
    x, y = RNG.normal(size=(256, 4096)), RNG.normal(size=64)

    def energy(x, y):
        return (tracer.vmap(lambda x: ours.fftconvolve(x, y))(x) ** 2).sum()

    assert tracer.compile(energy).plan(x, y).baseline_peak_bytes > 24_000_000
    limited = tracer.compile(energy, memory_limit="11MB")
    assert limited.plan(x, y).peak_bytes <= 11_000_000
    wanted = (scipy.signal.fftconvolve(x, y[None], axes=1) ** 2).sum()
    np.testing.assert_allclose(float(limited(x, y)), wanted, rtol=1e-10)


@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve", "convolve2d"])
def test_refusals(name):
    function = getattr(ours, name)
    square = np.ones((2, 2))
    with pytest.raises(ArgumentError, match="'most'"):
        function(square, square, "most")
    with pytest.raises(ShapeError, match=r"\(0, 2\)"):
        function(square[:0], square)
    with pytest.raises(ShapeError, match=r"\(2,\)"):
        function(square[0], square)


def test_other_refusals():
    square = np.ones((2, 2))
    for function in (ours.convolve, ours.correlate):
        with pytest.raises(ArgumentError, match="'slow'"):
            function(square, square, method="slow")
    for function in (ours.convolve2d, ours.correlate2d):
        with pytest.raises(ShapeError, match=r"\(2,\)"):
            function(square[0], square[0])
        with pytest.raises(ArgumentError, match="'mirror'"):
            function(square, square, boundary="mirror")


@pytest.mark.parametrize(
    ("shape", "dtype"), in_turn([(1,), (2,), (7,), (3, 8), (2, 5, 3)], DTYPES), ids=str
)
def test_detrend(shape, dtype):
    (x,) = pair((shape,), dtype)
    x = x + np.linspace(0, 9, shape[-1]).astype(dtype)
    for axis in range(len(shape)):
        pieces = [0, [], [1], np.array([0, 1, shape[axis]]), shape[axis] // 2]
        for bp in pieces:
            wide = x.astype("complex128" if x.dtype.kind == "c" else "float64")
            wanted = scipy.signal.detrend(wide, axis, bp=bp if np.size(bp) else 0)
            close(ours.detrend(x, axis, bp=bp), wanted, dtype)
        wanted = scipy.signal.detrend(wide, axis, "constant", 1)
        close(ours.detrend(x, axis, "constant", 1), wanted, dtype)


@pytest.mark.parametrize("length", [16, 17, 200, 5_001])
def test_detrend_of_many_elements_at_hand(length, rng):
    """From 17 on XLA said that it was given 1 argument and expected 3."""
    x = rng.normal(size=length) + np.arange(length)
    close(ours.detrend(tracer.numpy.asarray(x)), scipy.signal.detrend(x), "float64")


def test_detrend_of_integers():
    for dtype in ("int8", "int32", "bool"):
        x = sample(RNG, (9,), dtype)
        found = ours.detrend(x)
        assert found.dtype == "float64"
        np.testing.assert_allclose(np.asarray(found), scipy.signal.detrend(x), atol=2e-2)


def test_detrend_is_differentiable():
    (x,) = pair(((3, 7),))
    tracer.check_grads(lambda x: ours.detrend(x, 0, bp=2) ** 2, (x,), order=2)
    batched = tracer.compile(tracer.vmap(lambda row: ours.detrend(row, bp=[3])))
    close(batched(x), scipy.signal.detrend(x, bp=[3]), "float64")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"type": "cubic"}, ArgumentError, "cubic"),
        ({"bp": 4}, ArgumentError, "length 3"),
        ({"bp": [-1]}, ArgumentError, "length 3"),
        ({"bp": 0.5}, ArgumentError, "0.5"),
        ({"overwrite_data": True}, UnsupportedError, "overwrite_data"),
        ({"axis": 1}, AxisError, "axis 1"),
        ({"data": []}, ShapeError, "shape"),
    ],
)
def test_refusals_of_detrend(arguments, error, words):
    with pytest.raises(error, match=words):
        ours.detrend(**{"data": [1.0, 2.0, 4.0], **arguments})


PROGRAMS = {
    "convolve": lambda m, x, y: m.convolve(x, y, "same"),
    "convolve swapped": lambda m, x, y: m.convolve(y, x, "same"),
    "correlate": lambda m, x, y: m.correlate(x, y),
    "correlate valid": lambda m, x, y: m.correlate(y, x, "valid"),
    "fftconvolve": lambda m, x, y: m.fftconvolve(x, y, "valid"),
    "convolve2d": lambda m, x, y: m.convolve2d(x, y),
    "correlate2d": lambda m, x, y: m.correlate2d(x, y, "same"),
    "correlate2d swapped": lambda m, x, y: m.correlate2d(y, x, "valid"),
    "correlate2d full": lambda m, x, y: m.correlate2d(y, x),
    "detrend": lambda m, x, y: m.detrend(x, 0, bp=2),
    "detrend constant": lambda m, x, y: m.detrend(y, type="constant"),
}


@pytest.mark.parametrize(("name", "dtype"), in_turn(PROGRAMS, ["float32", "float64", "complex128"]))
def test_against_jax(name, dtype):
    jax = pytest.importorskip("jax")
    import jax.scipy.signal as theirs

    with jax.enable_x64(True):
        arrays = pair(((6, 5), (3, 2)), dtype)
        check(PROGRAMS[name], ours, theirs, arrays, scale=10)
