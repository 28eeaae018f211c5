"""Functions of complex numbers on both sides of their branch cuts, and near zero; compiled."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import nn
from tracer.scipy import special

pytestmark = pytest.mark.xla
OUTSIDE = (-3.0, -1.5, 1.5, 3.0)
CUTS = {
    "sqrt": [complex(x, y) for x in OUTSIDE for y in (0.0, -0.0)],
    "arcsin": [complex(x, y) for x in OUTSIDE for y in (0.0, -0.0)],
    "arccos": [complex(x, y) for x in OUTSIDE for y in (0.0, -0.0)],
    "arccosh": [complex(x, y) for x in (-3.0, -0.0, 0.0, 0.5) for y in (0.0, -0.0)],
    "arcsinh": [complex(x, y) for x in (0.0, -0.0) for y in OUTSIDE],
    "arctan": [complex(x, y) for x in (0.0, -0.0) for y in OUTSIDE],
    # Of large arguments XLA's own is on the wrong side below the cut.
    "arctanh": [complex(x, y) for x in (*OUTSIDE, 1e30, -1e30, np.inf) for y in (0.0, -0.0)],
    "log": [complex(x, y) for x in OUTSIDE for y in (0.0, -0.0)],
    "log10": [complex(x, y) for x in (*OUTSIDE, -np.inf, -0.0) for y in (0.0, -0.0)],
}


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", CUTS)
def test_each_side_of_a_cut_has_its_value(name, dtype):
    z = np.array(CUTS[name], dtype)
    found = np.asarray(tracer.compile(getattr(tnp, name))(z))
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(z)
    for part in ("real", "imag"):
        np.testing.assert_allclose(
            getattr(found, part), getattr(wanted, part), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("name", ["sin", "cos", "sinh", "cosh", "exp"])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_small_parts_keep_their_digits(name, dtype):
    small = 1e-8 if dtype == np.complex64 else 1e-17
    z = np.array([small * 1j, small + 0.5j, 0.5 + small * 1j, small - small * 1j], dtype)
    found = np.asarray(tracer.compile(getattr(tnp, name))(z))
    wanted = getattr(np, name)(z.astype(np.clongdouble))
    for part in ("real", "imag"):
        np.testing.assert_allclose(getattr(found, part), getattr(wanted, part), rtol=1e-5)


def test_float16_does_not_overflow_on_the_way():
    x = np.array([-9.0, -11.5, -12.0], np.float16)
    wide = x.astype(np.float64)
    sigmoid = 1 / (1 + np.exp(-wide))
    for function, wanted in (
        (nn.sigmoid, sigmoid),
        (nn.silu, wide * sigmoid),
        (special.log_ndtr, [-43.6281, -69.0706, -75.4104]),
    ):
        found = np.asarray(tracer.compile(function)(x)).astype(np.float64)
        np.testing.assert_allclose(found, wanted, rtol=1e-2)


def test_relative_entropy_of_a_ratio_that_is_too_small():
    x, y = np.array([3.0, 1e-300]), np.array([1.7e308, 1e200])
    found = np.asarray(tracer.compile(special.rel_entr)(x, y))
    np.testing.assert_allclose(found, x * (np.log(x) - np.log(y)))


def test_angles_of_subnormal_numbers_are_numbers():
    tiny = np.array([5e-324, -5e-324, 0.0])
    y, x = (part.ravel() for part in np.meshgrid(tiny, tiny))
    assert np.isfinite(np.asarray(tracer.compile(tnp.arctan2)(y, x))).all()
