"""`i0` against NumPy's and SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same
from tracer.errors import DTypeError

pytestmark = pytest.mark.xla
X = np.array([[-800, -20.5, -8.0, -1.5], [0, 7.999, 8.001, 300], [np.inf, -np.inf, np.nan, 700]])


def test_i0_against_numpy_and_scipy():
    found = np.asarray(tnp.i0(tnp.asarray(X)))
    np.testing.assert_allclose(found, scipy.special.i0(X), rtol=2e-14)
    np.testing.assert_allclose(found[:2, 1:], np.i0(X[:2, 1:]), rtol=2e-14)
    for value in (np.float32([0.5, 9]), np.arange(3), np.array([True]), 2, np.zeros((0, 2))):
        assert_same(tnp.i0(value), np.i0(value))
        assert_same(np.i0(tnp.asarray(value)), np.i0(value))
    assert tnp.i0(np.float16([11]))[0] == np.float16(scipy.special.i0(11))
    with pytest.raises(DTypeError, match="complex"):
        tnp.i0(1j)


def test_derivative_of_i0():
    slopes = tracer.compile(tracer.vmap(tracer.grad(tnp.i0)))(X[:2].ravel())
    np.testing.assert_allclose(
        np.asarray(slopes)[1:], scipy.special.i1(X[:2].ravel()[1:]), 1e-13, 1e-14
    )
