"""convolve and correlate against NumPy: dtypes, modes, lengths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import NUMPY_DTYPES, assert_same, interpreted, sample
from tracer.errors import ArgumentError, ShapeError

LENGTHS = [(5, 3), (3, 5), (4, 4), (5, 2), (2, 5), (1, 3), (7, 4), (4, 7)]
MODES = ("full", "same", "valid")


@pytest.mark.parametrize("name", ["convolve", "correlate"])
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_as_numpy(name, dtype, rng):
    for (n, m), mode in itertools.product(LENGTHS, MODES):
        a, v = sample(rng, (n,), dtype), sample(rng, (m,), dtype)
        wanted = getattr(np, name)(a, v, mode)
        (got,) = interpreted(lambda a, v, mode=mode: getattr(tnp, name)(a, v, mode), a, v)
        if dtype == "float16":
            np.testing.assert_allclose(got, wanted, rtol=1e-2, atol=2e-2)
        else:
            assert_same(got, wanted, (n, m, mode))


@pytest.mark.xla
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_compiled(name, rng):
    for dtype in ("bool", "int16", "float32", "float64", "complex128"):
        a, v = sample(rng, (9,), dtype), sample(rng, (4,), dtype)
        assert_same(getattr(tnp, name)(a, v), getattr(np, name)(a, v), dtype)


@pytest.mark.xla
def test_mixed_dtypes_defaults_and_scalars():
    assert_same(tnp.convolve([1, 2, 3], [0.5, 1.0]), np.convolve([1, 2, 3], [0.5, 1.0]))
    assert_same(tnp.correlate([1, 2, 3], [0.5, 1.0]), np.correlate([1, 2, 3], [0.5, 1.0]))
    assert_same(tnp.convolve(2.0, [1.0, 3.0]), np.convolve(2.0, [1.0, 3.0]))


def test_gradient(rng):
    a, v = rng.normal(size=6), rng.normal(size=3)
    tracer.check_grads(lambda a, v: (tnp.convolve(a, v, "same") ** 2).sum(), (a, v), order=2)


@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_bad_inputs(name):
    function = getattr(tnp, name)
    with pytest.raises(ArgumentError, match="no mode 'middle'"):
        function([1.0], [2.0], "middle")
    with pytest.raises(ShapeError, match="at least one element"):
        function(np.zeros(0), [1.0])
    with pytest.raises(ShapeError, match="one dimension"):
        function(np.zeros((2, 2)), [1.0])
