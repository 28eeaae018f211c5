"""Gamma functions, incomplete ones, quantiles: against SciPy, and gradients against jax."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import tracer
import tracer.scipy.special as ours
from tests.compare_with_jax import check
from tests.sampling import in_turn, one_in
from tracer.errors import ArgumentError, DTypeError, NotDifferentiableError

pytestmark = pytest.mark.xla

RNG = np.random.default_rng(5)
A = np.concatenate([10.0 ** RNG.uniform(-2, 2.5, 60), [0.5, 1, 2, 10, 100]])
B = np.concatenate([A[:60] * 10.0 ** RNG.uniform(-1, 1, 60), [0, 1, 2, 12, 90]])
U = RNG.uniform(0, 1, A.size)
P = np.concatenate(
    [10.0 ** RNG.uniform(-30, 0, 60), [0.0, 1.0, 0.5, 2.0, -1.0, np.nan, 0.05, 0.95]]
)
S, Z = RNG.uniform(1.05, 20, 30), RNG.uniform(0.1, 30, 30)
V = np.array([-2.5, -2.0, -1.5, -0.5, 0.0, 0.5, 1.0, 3.0, 10.0, np.inf, np.nan])
N = np.array([0, 1, 2, 3, 5] * 6)
CASES = {
    "gammainc": (A, B),
    "gammaincc": (A, B),
    "betainc": (A, A[::-1].copy(), U),
    "ndtri": (P,),
    "zeta": (S, Z),
    "polygamma": (N, Z),
    "gamma": (V,),
    "gammasgn": (V,),
    "i0": (V,),
    "i1": (V,),
    "factorial": (V,),
    "poch": (S / 4, Z / 4),
    "comb": (Z, S),
    "beta": (S, Z),
    "kl_div": (np.array([0, 1.0, 2, -1, 0, np.nan]), np.array([1.0, 2, 0, 1, 0, 1])),
    "boxcox": (Z, np.linspace(-1, 1, 30)),
    "boxcox1p": (Z, np.array([0.0, 0.5] * 15)),
}


@pytest.mark.parametrize(("name", "dtype"), in_turn(CASES, ["float32", "float64"]))
def test_values(name, dtype):
    arrays = [x.astype(dtype) if x.dtype.kind == "f" else x for x in CASES[name]]
    with np.errstate(all="ignore"):
        wanted = getattr(scipy.special, name)(
            *[x.astype(float) if x.dtype.kind == "f" else x for x in arrays]
        )
    function = getattr(ours, name)
    rtol = 3e-3 if name == "betainc" else 2e-5
    rtol = rtol if dtype == "float32" else 1e-10
    if name in ("poch", "comb", "beta") and dtype == "float32":
        rtol = 2e-4
    for found in (function(*arrays), tracer.compile(function)(*arrays)):
        values = np.asarray(found, float)
        assert found.dtype == (dtype if name != "polygamma" else "float64")
        np.testing.assert_array_equal(np.isnan(values), np.isnan(wanted))
        # What is subnormal counts as zero.
        np.testing.assert_allclose(
            values, wanted, rtol=rtol, atol=1e-36 if dtype == "float32" else 1e-290
        )
    empty = [x[:0] for x in arrays]
    assert function(*empty).shape == (0,)


def test_edges_of_incomplete_gamma():
    a, x = np.meshgrid(*[[0.0, 1.0, -1.0, np.inf, np.nan, 0.5]] * 2)
    np.testing.assert_array_equal(
        np.isnan(np.asarray(ours.gammainc(a, x))), np.isnan(scipy.special.gammainc(a, x))
    )
    np.testing.assert_allclose(
        np.asarray(ours.gammainc(a, x)), scipy.special.gammainc(a, x), rtol=1e-12
    )
    assert ours.gammainc(np.float16(1.0), np.float16(1.0)).dtype == np.float16
    with pytest.raises(DTypeError):
        ours.gammainc(1j, 1.0)


def test_others():
    x = np.array([3.5, 7.0])
    np.testing.assert_allclose(
        np.asarray(ours.multigammaln(x, 3)), scipy.special.multigammaln(x, 3), rtol=1e-12
    )
    assert np.isnan(float(ours.loggamma(-1.5)))
    np.testing.assert_allclose(
        np.asarray(ours.polygamma(2, x)), scipy.special.polygamma(2, x), rtol=1e-12
    )
    np.testing.assert_allclose(float(ours.comb(5, 2, repetition=True)), 15.0, rtol=1e-12)
    for program in (
        lambda: ours.comb(5, 2, exact=True),
        lambda: ours.factorial(5, exact=True),
        lambda: ours.multigammaln(x, 0),
    ):
        with pytest.raises(ArgumentError):
            program()


def test_derivatives_that_are_not_known_are_refused():
    with pytest.raises(NotDifferentiableError, match="a and b"):
        tracer.grad(lambda a: ours.betainc(a, 2.0, 0.5))(1.0)
    with pytest.raises(NotDifferentiableError, match="second derivatives"):
        tracer.grad(tracer.grad(lambda a: ours.gammainc(a, 2.0)))(1.5)
    second = tracer.grad(tracer.grad(lambda x: ours.gammainc(2.5, x)))(2.0)
    density = lambda x: x**1.5 * np.exp(-x) / scipy.special.gamma(2.5)
    np.testing.assert_allclose(float(second), density(2.0) * (1.5 / 2 - 1), rtol=1e-10)


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax


GRADIENTS = {
    "gammainc": lambda s, a, x: s.gammainc(a, x),
    "gammaincc": lambda s, a, x: s.gammaincc(a, x),
    "betainc": lambda s, a, x: s.betainc(2.5, 1.5, x / 20),
    "ndtri": lambda s, a, x: s.ndtri(x / 20),
    "zeta": lambda s, a, x: s.zeta(3.5, x),
    "polygamma": lambda s, a, x: s.polygamma(2, x),
    "gamma": lambda s, a, x: s.gamma(x / 4),
    "beta": lambda s, a, x: s.beta(a, x),
    "i0": lambda s, a, x: s.i0(x) + s.i1(a),
    "kl_div": lambda s, a, x: s.kl_div(a, x),
    "boxcox": lambda s, a, x: s.boxcox(x, a) + s.boxcox1p(x, a),
    "multigammaln": lambda s, a, x: s.multigammaln(x + 3, 3),
    "poch": lambda s, a, x: s.poch(a, x),
}


@pytest.mark.parametrize("name", one_in(2, GRADIENTS))
def test_gradients_are_jaxs(name, jax):
    a, x = np.array([0.5, 1.5, 3.0, 7.0]), np.array([0.4, 2.5, 2.0, 9.0])
    check(GRADIENTS[name], ours, jax.scipy.special, [a, x], scale=1e5)
