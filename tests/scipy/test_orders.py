"""Functions of whole orders, bessel_jn, sph_harm_y and bernoulli: SciPy's values and slopes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import tracer
import tracer.numpy as tnp
import tracer.scipy.special as ours
from tests.compare_with_jax import check
from tracer.errors import ArgumentError, DTypeError

pytestmark = pytest.mark.xla

Z = np.concatenate([np.linspace(-19, 19, 77), [0.0, 1e-30, 2.404825557695773]])


@pytest.mark.parametrize(("dtype", "atol"), [("float64", 2e-15), ("float32", 4e-7)])
def test_bessel_functions(dtype, atol):
    z = Z.astype(dtype)
    found = ours.bessel_jn(z, v=4)
    assert (found.shape, found.dtype) == ((5, z.size), dtype)
    wanted = scipy.special.jv(np.arange(5)[:, None], z.astype(float))
    np.testing.assert_allclose(found, wanted, atol=atol)


def test_bessel_functions_that_are_not_reached_are_nan():
    found = np.asarray(ours.bessel_jn(np.array([60.0, 25.0, np.nan, np.inf, -60.0]), v=2))
    assert np.isnan(found).all()
    found = ours.bessel_jn(np.array([60.0, -25.0]), v=2, n_iter=140)
    wanted = scipy.special.jv(np.arange(3)[:, None], [60.0, -25.0])
    np.testing.assert_allclose(found, wanted, atol=1e-15)
    assert ours.bessel_jn(np.float16(1), v=0).dtype == np.float16
    for v in (-1, 50):
        with pytest.raises(ArgumentError):
            ours.bessel_jn(1.0, v=v)


def test_slopes_of_bessel_functions():
    x = np.array([0.5, -3.0, 11.0, 0.0])
    slopes = tracer.compile(
        lambda x: [tracer.grad(lambda x, k=k: ours.bessel_jn(x, v=3)[k].sum())(x) for k in (0, 3)]
    )(x)
    for order, values in zip((0, 3), slopes, strict=True):
        np.testing.assert_allclose(values, scipy.special.jvp(order, x), atol=1e-14)
    second = tracer.grad(tracer.grad(lambda x: ours.bessel_jn(x, v=0)[0]))(1.3)
    np.testing.assert_allclose(second, scipy.special.jvp(0, 1.3, 2), rtol=1e-13)


N, M = (x.ravel() for x in np.meshgrid(np.arange(0, 61, 6), np.arange(-61, 61, 6)))
THETA = np.random.default_rng(0).uniform(0, np.pi, N.size)


@pytest.mark.parametrize(("dtype", "atol"), [("float64", 1e-13), ("float32", 4e-5)])
def test_spherical_harmonics(dtype, atol):
    theta, phi = THETA.astype(dtype), (3 * THETA).astype(dtype)
    found = np.asarray(ours.sph_harm_y(N, M, theta, phi))
    assert found.dtype == ("complex64" if dtype == "float32" else "complex128")
    wanted = scipy.special.sph_harm_y(N, M, theta.astype(float), phi.astype(float))
    np.testing.assert_allclose(found, wanted, atol=atol)


def test_edges_and_slopes_of_spherical_harmonics():
    traced = tracer.compile(lambda n: ours.sph_harm_y(n, 0, 0.3, 0.4, n_max=3))
    found = np.asarray(traced(np.array([-1, 3, 4])))
    np.testing.assert_array_equal(np.isnan(found), [True, False, True])
    np.testing.assert_allclose(
        ours.sph_harm_y([[1], [2]], [0, 1, 2], 0.0, 0.5),
        scipy.special.sph_harm_y([[1], [2]], [0, 1, 2], 0.0, 0.5),
        atol=1e-15,
    )
    real = lambda t: tnp.real(ours.sph_harm_y(4, -3, t, 0.7))
    h = 1e-5
    slope = (
        scipy.special.sph_harm_y(4, -3, 1.1 + h, 0.7).real
        - scipy.special.sph_harm_y(4, -3, 1.1 - h, 0.7).real
    ) / (2 * h)
    np.testing.assert_allclose(tracer.grad(real)(1.1), slope, rtol=1e-8)
    with pytest.raises(DTypeError):
        ours.sph_harm_y(1.0, 0, 0.1, 0.1)
    with pytest.raises(ArgumentError):
        ours.sph_harm_y(1, 0, 0.1, 0.1, diff_n=1)


def test_bernoullis_numbers():
    for n in (0, 1, 2, 9):
        np.testing.assert_allclose(ours.bernoulli(n), scipy.special.bernoulli(n)[: n + 1])
    assert [float(x) for x in ours.bernoulli(1)] == [1.0, -0.5]
    with pytest.raises(ArgumentError):
        ours.bernoulli(-1)


def test_they_are_jaxs():
    jax = pytest.importorskip("jax")
    n, m = np.array([0, 1, 4, 4]), np.array([0, -1, 3, 2])
    theta, phi = np.array([0.3, 1.0, 2.0, 0.7]), np.array([0.1, 5.0, 2.0, 0.4])
    with jax.enable_x64(True):
        theirs = jax.scipy.special
        check(lambda s, x: s.bessel_jn(x, v=2), ours, theirs, [theta], scale=1e3)
        harmonics = lambda s, t, p: s.sph_harm_y(n, m, t, p, n_max=4)
        check(harmonics, ours, theirs, [theta, phi], scale=1e3)
