"""gammainc, gammaincc and their derivatives for parameters of any size, against mpmath's values."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import tracer
from tracer.scipy import special as ours

pytestmark = pytest.mark.xla

# a, x, P(a, x), 1 - P(a, x): gammainc or the integral of the density, by mpmath with 40 digits.
VALUES = [
    (10000.0, 9900.0, 0.15865119219356466, 0.84134880780643534),
    (10000.0, 10000.0, 0.5013298083399552, 0.4986701916600448),
    (100000.0, 100250.0, 0.7855179203446172, 0.2144820796553828),
    (1048576.0, 1046528.0, 0.022697380669185817, 0.97730261933081418),
    (1048576.0, 1049088.0, 0.69154841297370596, 0.30845158702629404),
    (134217728.0, 134184960.0, 0.0023373960263424828, 0.99766260397365752),
    (134217728.0, 134217728.0, 0.50001147846646263, 0.49998852153353737),
]


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 3e-6), ("float64", 2e-14)])
def test_large_parameters(dtype, rtol):
    a, x, lower, upper = np.array(VALUES).T
    arrays = a.astype(dtype), x.astype(dtype)
    np.testing.assert_allclose(np.asarray(ours.gammainc(*arrays)), lower, rtol=rtol)
    np.testing.assert_allclose(np.asarray(ours.gammaincc(*arrays)), upper, rtol=rtol)


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 2e-5), ("float64", 2e-13)])
def test_both_sides_of_the_borders_between_methods(dtype, rtol):
    a = np.array([0.5, 1.0, 9.0, 9.999, 10.0, 10.001, 80.0], dtype)[:, None, None]
    near = np.array([0.25, 0.999, 1.0, 1.001, 4.0], dtype)[:, None]
    x = np.concatenate([near * a, near + 0 * a], axis=-1)
    for name in ("gammainc", "gammaincc"):
        wanted = getattr(scipy.special, name)(a.astype(float), x.astype(float))
        found = np.asarray(getattr(ours, name)(a, x))
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=1e-36)


def test_slopes_in_x_are_the_density():
    a, x = np.array([[1e4, 9900.0], [1e6, 1e6], [50.0, 20.0], [2.5, 1e-3]], "float32").T
    found = tracer.grad(lambda x: ours.gammainc(a, x).sum())(x)
    wide_a, wide_x = a.astype(float), x.astype(float)
    wanted = scipy.special.gammainc(wide_a, wide_x) - scipy.special.gammainc(wide_a + 1, wide_x)
    # P(a, x) - P(a + 1, x) = x**a exp(-x) / gamma(a + 1)
    np.testing.assert_allclose(np.asarray(found), wanted * wide_a / wide_x, rtol=5e-6)


def test_the_largest_parameters():
    a = np.array([1e20, 1e30, 1e38], "float32")
    found = np.asarray(ours.gammainc(np.array([a, a, a]), np.array([a / 2, a, 2 * a])))
    np.testing.assert_allclose(found, np.tile([[0], [0.5], [1]], 3), rtol=1e-5)
