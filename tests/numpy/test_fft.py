"""tracer.numpy.fft against NumPy, and its gradients against JAX."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same, interpreted, sample
from tracer.errors import ArgumentError, AxisError, DTypeError, ShapeError

COMPLEX = "fft ifft irfft hfft".split()
REAL = "rfft ihfft".split()
SEVERAL = "fftn ifftn irfftn fft2 ifft2 irfft2".split()
REAL_SEVERAL = "rfftn rfft2".split()
DTYPES = "bool int32 float16 float32 float64 complex64 complex128".split()


def _numpys(name, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(np.fft, name)(*args, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*COMPLEX, *REAL, *SEVERAL, *REAL_SEVERAL])
def test_dtypes(name, dtype, rng):
    x = sample(rng, (3, 6), dtype)
    if np.dtype(dtype).kind == "c" and name in (*REAL, *REAL_SEVERAL):
        with pytest.raises(DTypeError, match="real arrays"):
            getattr(tnp.fft, name)(x)
        return
    expected = _numpys(name, x)
    found = interpreted(getattr(tnp.fft, name), x)[0]
    # Of float16 NumPy's irfft alone makes float16; its irfftn makes float32, as ours both do.
    one_of_a_kind = dtype == "float16" and name in ("irfft", "hfft")
    assert found.dtype == (np.float32 if one_of_a_kind else expected.dtype)
    # NumPy computes float16 in float16 steps.
    np.testing.assert_allclose(
        found, expected, rtol=1e-2 if dtype == "float16" else 3e-6, atol=3e-5
    )


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("name", [*COMPLEX, *REAL])
def test_lengths_axes_and_norms(name, norm, rng):
    x = rng.normal(size=(5, 4, 3))
    if name in COMPLEX:
        x = x + 1j * rng.normal(size=x.shape)
    for n in (None, 1, 3, 4, 7):
        for axis in (0, -1, 1):
            options = {"n": n, "axis": axis, "norm": norm}
            found = interpreted(lambda v, o=options: getattr(tnp.fft, name)(v, **o), x)[0]
            assert_same(found, _numpys(name, x, **options), options)


CASES = [
    {},
    {"axes": (0, 2)},
    {"axes": (2, 0)},
    {"s": (3, 7)},
    {"s": (2, -1), "axes": (1, 0)},
    {"axes": (0, 1, 2, 3), "norm": "ortho"},
    {"axes": (3, 1, 0, 2), "norm": "forward"},
    {"axes": (1,), "norm": "forward"},
]


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_several_axes(name, options, rng):
    x = rng.normal(size=(2, 3, 4, 5))
    if name != "rfftn":
        x = x + 1j * rng.normal(size=x.shape)
    found = interpreted(lambda v: getattr(tnp.fft, name)(v, **options), x)[0]
    assert_same(found, _numpys(name, x, **options), options)


@pytest.mark.xla
def test_an_axis_named_twice_is_transformed_twice(rng):
    x = rng.normal(size=(3, 4))
    for name in ("fftn", "rfftn", "irfftn"):
        found = getattr(tnp.fft, name)(x, axes=(0, 1, 0))
        assert_same(found, _numpys(name, x, axes=(0, 1, 0)), name)


@pytest.mark.xla
def test_no_axes_is_the_array(rng):
    x = rng.normal(size=(3,))
    assert_same(tnp.fft.fftn(x, axes=()), np.fft.fftn(x, axes=()))
    with pytest.raises(ShapeError, match="no axes"):
        tnp.fft.rfftn(x, axes=())


@pytest.mark.xla
@pytest.mark.parametrize("name", [*COMPLEX, *REAL, *SEVERAL, *REAL_SEVERAL])
def test_eagerly(name, rng):
    x = rng.normal(size=(2, 5)).astype("float32")
    assert_same(getattr(tnp.fft, name)(x), _numpys(name, x), name)


@pytest.mark.xla
def test_batches_of_nothing():
    assert_same(tnp.fft.rfft(np.zeros((0, 4))), np.fft.rfft(np.zeros((0, 4))))
    for name in ("fft", "rfft", "irfft"):
        with pytest.raises(ArgumentError, match="points"):
            getattr(tnp.fft, name)(np.zeros((2, 0)))


@pytest.mark.xla
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_dtypes_of_frequencies(name):
    expected = getattr(np.fft, name)(7, 0.1).astype("float32")
    found = getattr(tnp.fft, name)(7, 0.1, dtype="float32", device=tracer.default_device())
    assert_same(found, expected)
    with pytest.raises(DTypeError):
        getattr(tnp.fft, name)(7, dtype=int)


@pytest.mark.xla
@pytest.mark.parametrize("n", [1, 4, 5])
def test_frequencies_and_shifts(n, rng):
    assert_same(tnp.fft.fftfreq(n, 0.1), np.fft.fftfreq(n, 0.1))
    assert_same(tnp.fft.rfftfreq(n, d=2.0), np.fft.rfftfreq(n, d=2.0))
    x = rng.normal(size=(n, 3, 2))
    for axes in (None, 0, (0, 2), -1):
        for name in ("fftshift", "ifftshift"):
            assert_same(getattr(tnp.fft, name)(x, axes), getattr(np.fft, name)(x, axes))


def test_bad_arguments():
    x = np.ones((2, 3))
    for bad in (0, -3):
        with pytest.raises(ArgumentError, match="points"):
            tnp.fft.fft(x, bad)
    with pytest.raises(ArgumentError, match="norm"):
        tnp.fft.fft(x, norm="half")
    with pytest.raises(AxisError):
        tnp.fft.fft(x, axis=2)
    with pytest.raises(ShapeError, match="length for each axis"):
        tnp.fft.fftn(x, s=(2,), axes=(0, 1))
    with pytest.raises(ArgumentError, match="out="):
        tnp.fft.fft(x, out=x)
    with pytest.raises(ArgumentError, match="positive"):
        tnp.fft.fftfreq(0)


def _loss(functions, name, n, norm):
    def loss(x):
        y = getattr(functions.fft, name)(x, n, norm=norm)
        weights = np.cos(np.arange(y.size)).reshape(y.shape)
        return (weights * functions.abs(y) ** 2).sum() + functions.real(y * weights).sum()

    return loss


@pytest.mark.xla
@pytest.mark.parametrize("norm", [None, "ortho"])
@pytest.mark.parametrize("n", [5, 8])
@pytest.mark.parametrize("name", [*COMPLEX, *REAL])
def test_gradients_are_jaxs(name, n, norm, rng):
    jax = pytest.importorskip("jax")
    x = rng.normal(size=(2, 6))
    if name in COMPLEX:
        x = x + 1j * rng.normal(size=x.shape)
    with jax.enable_x64(True):
        wanted = np.asarray(jax.grad(_loss(jax.numpy, name, n, norm))(x))
    found = np.asarray(tracer.grad(_loss(tnp, name, n, norm))(tnp.asarray(x)))
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)
