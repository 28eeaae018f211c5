"""`hyp1f1` and `hyp2f1` against SciPy, and against mpmath where SciPy is wrong or both are hard."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import tracer
import tracer.scipy.special as ours
from tracer.array.trace import trace
from tracer.errors import DTypeError, NotDifferentiableError

pytestmark = pytest.mark.xla

KUMMER = {
    (-20.5, 3.2, 30): 750.0593092561098,
    (1, 2, -1e6): 1e-6,
    (50.5, -30.3, -1000): 6.3345168209866272e-63,
    (1e-18, 2, 50): 3.1622583995754605,
    (13.25, -6.5, -21.75): 16.788796955503528,
    (0.5, 1.5, -700): 0.033496229284533939,
    (-3.5, 0.25, 120): 3.2350686574216616e45,
    (150, 200, -300): 7.0148184099040097e-75,
    (-4.25, -9.5, 12): -175287.49376134818,
}
"""(a, b, x) and the value in 40 digits by mpmath 1.4."""
GAUSS = {
    (0.5, 1, 1.5, -1e8): 1.57069632679523e-4,
    (1, 2, 3.0000000001, 1 - 2**-30): 39.588830871767871,
    (0.25, 0.75, 1, 1 - 2**-40): 7.1765947357998616,
    (0.3, 0.7, 2.5, 0.99): 1.1439103450841089,
    (-37, -0.5, -10.625, 1.5): -46.416211578601003,
    (2.5, 2.5, 1, -1000): 4.3408502152378556e-8,
    (2.5, 4.5, 1, -0.5): -0.10511826344618472,
    (-33, 11, -6.5, 0.53125): -489.66062513076988,
    (3, 2.5, -4.5, 0.9375): -6184526546817024.0,
    (40, -30, 7.5, -0.75): 3942149203187981.9,
    (10.5, -3.25, 3.5, -17.75): 262434.74266694594,
}
"""(a, b, c, x) and the value."""
BEYOND = {
    "hyp1f1": [(-50, 2, 30), (-39.9, 43.5, 175.75), (-100.5, 50, 300), (1, 2, np.inf)],
    "hyp2f1": [
        (-17.25, -14.75, -32.375, 1 - 2**-24),
        (-23.875, -43.25, -67.125, 1 - 2**-50),
        (-31.5, -47.25, 25.75, -0.90625),
        (1, 1, 2, 1.5),
    ],
}
"""Where the methods lose more than ten digits, or there is no real value."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "table"), [("hyp1f1", KUMMER), ("hyp2f1", GAUSS)])
def test_hard_places_against_mpmath(name, table):
    function = getattr(ours, name)
    arguments = np.array(list(table), np.float64).T
    np.testing.assert_allclose(function(*arguments), list(table.values()), rtol=2e-13)
    assert np.isnan(np.asarray(function(*np.array(BEYOND[name], np.float64).T))).all()


def test_hyp1f1_against_scipy(rng):
    a, b = rng.uniform(-20, 20, (2, 400))
    b[:100], a[50:150] = rng.integers(1, 9, 100) / 2, rng.integers(-9, 9, 100)
    x = rng.uniform(-40, 40, 400)
    np.testing.assert_allclose(ours.hyp1f1(a, b, x), scipy.special.hyp1f1(a, b, x), rtol=1e-11)


def test_hyp2f1_against_scipy(rng):
    a, b, c = rng.uniform(-3, 3, (3, 400))
    c[:100] = (a + b)[:100] + rng.integers(-2, 3, 100)
    x = np.concatenate([rng.uniform(-1, 0.9, 300), -(10 ** rng.uniform(-2, 5, 100))])
    wanted = scipy.special.hyp2f1(a, b, c, x)
    wrong = abs(np.asarray(ours.hyp2f1(a, b, c, x)) / wanted - 1) > 1e-11
    # SciPy itself has few digits in some places (a minus b nearly whole, x far below).
    assert wrong.sum() < 12
    assert np.isfinite(np.asarray(ours.hyp2f1(a, b, c, x))).all()


def test_poles_ends_and_no_numbers():
    nan, inf = np.nan, np.inf
    rows = [(1, 0, 2, inf), (1, -2, 2, inf), (-3, -2, 2, inf), (-1, -2, 2, 2.0), (-2, -2, 2, 5)]
    rows += [(0, -2, 3, 1), (3, 2, 0, 1), (nan, 1, 1, nan), (1, nan, 1, nan), (1, 1, nan, nan)]
    rows += [(1, 2, 800, inf), (-3, 2, -0.5, 1.880208333333333)]
    *arguments, wanted = np.array(rows).T
    np.testing.assert_allclose(ours.hyp1f1(*arguments), wanted, rtol=1e-15)
    gauss = [(1, 1, 2, 1, inf), (1, 1, 3, 1, 2), (3, -1.5, -0.5, 1, -inf), (1, -1, 2, 1, 0.5)]
    gauss += [(-2, 1, -5, 0.5, 1.225), (-3, 1, -2, 0.5, inf), (1, 1, -2, 0.5, inf)]
    gauss += [(-2, 1, -2, 0.5, 1.75), (-2, 3, 1.5, 5, 61), (-2, 3, 1.5, -50, 8201)]
    gauss += [(1, 1, 0, 0, 1), (1, 2, 2, 3, -0.5), (1, 1, 2, -inf, nan), (0, 1, -2, 0.3, 1)]
    gauss += [(nan, 1, 1, 0.1, nan), (1, 1, 1, nan, nan), (1, 1, 2, inf, nan)]
    *arguments, wanted = np.array(gauss).T
    np.testing.assert_allclose(ours.hyp2f1(*arguments), wanted, rtol=4e-15)


def test_dtypes_shapes_and_refusals():
    half = ours.hyp2f1(np.float16(1), 1, 2, np.float16([[0.5], [-1]]))
    assert (half.dtype, half.shape) == (np.float16, (2, 1))
    np.testing.assert_allclose(np.asarray(half)[:, 0], [1.386, 0.6934], rtol=1e-3)
    assert trace(ours.hyp1f1, (1, np.arange(3), np.zeros((0, 1), np.float32))).graph.outputs[
        0
    ].type == tracer.ShapeDtype((0, 3), "float64")
    assert ours.hyp1f1(np.float32(1), 2, np.float32(0)).dtype == np.float32
    with pytest.raises(DTypeError, match="complex"):
        ours.hyp1f1(1, 2, 1j)
    # Advice for who writes rules of their own is of no use to who calls ours.
    with pytest.raises(NotDifferentiableError, match=r"^hyp1f1 has no derivative(.|\n)*stop_grad"):
        tracer.grad(lambda a: ours.hyp1f1(a, 2.0, 1.0))(1.5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hyp1f1", pytest.param("hyp2f1", marks=pytest.mark.sweep)])
def test_derivatives_under_vmap(name):
    parameters = (1.25, 2.5) if name == "hyp1f1" else (1.25, -0.5, 2.5)
    x, step = np.array([-30.0, -1.5, 0.0, 0.25, 0.75]), 1e-5

    def function(v):
        return getattr(ours, name)(*parameters, v)

    found = tracer.compile(tracer.vmap(tracer.grad(function)))(x)
    above, below = tracer.compile(lambda v: (function(v + step), function(v - step)))(x)
    np.testing.assert_allclose(found, (above - below) / (2 * step), rtol=1e-7, atol=1e-9)
