"""funm, expm_frechet, eigh_tridiagonal, qr_multiply, fiedler_companion against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import tracer
import tracer.numpy as tnp
import tracer.scipy.linalg as ours
from tests.compare_with_jax import check
from tracer.errors import ArgumentError, LinAlgError, NotDifferentiableError, ShapeError

pytestmark = pytest.mark.xla

RNG = np.random.default_rng(4)
A, B = RNG.normal(size=(4, 4)), RNG.normal(size=(4, 4))
TALL, WIDE = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 4))


def test_functions_of_matrices():
    for matrix in (A, A + 1j * B, A.astype("float32")):
        rtol = 1e-4 if matrix.dtype == np.float32 else 1e-12
        found = ours.funm(matrix, tnp.sin)
        wanted = scipy.linalg.funm(matrix.astype(complex), np.sin)
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol)
        assert found.dtype == ("complex64" if matrix.dtype == np.float32 else "complex128")
    both = tracer.compile(lambda x: ours.funm(x, lambda t: t**3, disp=False))(np.stack([A, B]))
    for found, matrix in zip(both[0], (A, B), strict=True):
        np.testing.assert_allclose(found, matrix @ matrix @ matrix, atol=1e-12)
    assert (np.asarray(both[1]) < 1e-13).all()


def test_functions_of_matrices_with_equal_eigenvalues():
    """SciPy has wrong numbers where they have one vector, and says that they may be."""
    np.testing.assert_allclose(ours.funm(3 * np.eye(3), tnp.exp), np.exp(3) * np.eye(3))
    block = np.eye(3) + np.eye(3, k=1)
    found, error = ours.funm(block, tnp.exp, disp=False)
    assert np.isnan(np.asarray(found)).all()
    assert float(error) == 1
    assert ours.funm(np.zeros((0, 0)), tnp.exp).shape == (0, 0)
    np.testing.assert_allclose(ours.funm([[2.0]], tnp.exp), [[np.exp(2)]])
    with pytest.raises(LinAlgError):
        ours.funm(TALL, tnp.exp)
    with pytest.raises(NotDifferentiableError):
        tracer.grad(lambda x: tnp.real(ours.funm(x, tnp.exp)).sum())(A)


def test_derivatives_of_exponentials():
    for scale, dtype in ((1, "float64"), (9, "float64"), (1, "float32")):
        x, direction = (scale * A).astype(dtype), B.astype(dtype)
        found = ours.expm_frechet(x, direction)
        wanted = scipy.linalg.expm_frechet(x.astype(float), direction.astype(float))
        for one, other in zip(found, wanted, strict=True):
            rtol = 1e-4 if dtype == "float32" else 1e-10
            np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * abs(other).max())
            assert one.dtype == dtype
    stacked = tracer.compile(lambda x, y: ours.expm_frechet(x, y, compute_expm=False))
    wanted = [scipy.linalg.expm_frechet(x, y, compute_expm=False) for x, y in ((A, B), (B, A))]
    np.testing.assert_allclose(stacked(np.stack([A, B]), np.stack([B, A])), wanted, rtol=1e-10)
    with pytest.raises(ShapeError):
        ours.expm_frechet(A, np.eye(3))


def test_tridiagonal_matrices():
    d, e = RNG.normal(size=6), RNG.normal(size=5)
    values, vectors = ours.eigh_tridiagonal(d, e)
    wanted = scipy.linalg.eigh_tridiagonal(d, e)
    np.testing.assert_allclose(values, wanted[0], rtol=1e-12)
    np.testing.assert_allclose(abs(np.asarray(vectors)), abs(wanted[1]), atol=1e-12)
    some = {"select": "i", "select_range": (1, 3)}
    found = tracer.compile(lambda d, e: ours.eigh_tridiagonal(d, e, **some))(d, e)
    np.testing.assert_allclose(found[0], wanted[0][1:4], rtol=1e-12)
    assert found[1].shape == (6, 3)
    single = ours.eigh_tridiagonal(np.float32([d, d]), np.float32([e, 2 * e]), eigvals_only=True)
    assert (single.dtype, single.shape) == (np.float32, (2, 6))
    np.testing.assert_allclose(single[0], wanted[0], rtol=1e-4)
    slope = tracer.grad(lambda d: ours.eigh_tridiagonal(d, e, eigvals_only=True)[2])(d)
    np.testing.assert_allclose(slope, wanted[1][:, 2] ** 2, atol=1e-12)
    assert ours.eigh_tridiagonal([3.0], np.zeros(0), eigvals_only=True).shape == (1,)
    for options in ({"select": "v"}, {"select": "i"}, {"select": "i", "select_range": (2, 6)}):
        with pytest.raises(ArgumentError):
            ours.eigh_tridiagonal(d, e, **options)
    with pytest.raises(ShapeError):
        ours.eigh_tridiagonal(d, d)


@pytest.mark.parametrize("mode", ["right", "left"])
def test_products_with_q(mode):
    for a in (TALL, WIDE, TALL + 1j * TALL[::-1]):
        size = min(a.shape) if mode == "left" else a.shape[0]
        c = RNG.normal(size=(size, 2))
        for other in (c if mode == "left" else c.T, c[:, 0]):
            for options in ({}, {"pivoting": True}, {"conjugate": True}):
                found = ours.qr_multiply(a, other, mode, **options)
                wanted = scipy.linalg.qr_multiply(a, other, mode, **options)
                _same_but_for_signs(found, wanted)
    with pytest.raises(ArgumentError):
        ours.qr_multiply(A, A, "middle")
    with pytest.raises(ShapeError):
        ours.qr_multiply(TALL, np.ones(7), mode)


def _same_but_for_signs(found, wanted):
    """Compare with LAPACK's; it and XLA's take the same reflections."""
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_fiedlers_companions():
    assert ours.fiedler_companion([3.0]).shape == (0, 0)
    for n in range(2, 8):
        a = np.arange(2.0, 2 + n)
        found = ours.fiedler_companion(a)
        np.testing.assert_array_equal(found, scipy.linalg.fiedler_companion(a))
    assert ours.fiedler_companion(np.arange(1, 7).reshape(2, 3)).shape == (2, 2, 2)
    slope = tracer.grad(lambda a: ours.fiedler_companion(a).sum())(np.array([2.0, 1.0, 4.0]))
    np.testing.assert_allclose(slope, [5 / 4, -0.5, -0.5])
    for a in (np.zeros(0), 1.0):
        with pytest.raises(ShapeError):
            ours.fiedler_companion(a)


def test_derivatives_are_jaxs():
    jax = pytest.importorskip("jax")

    def program(module, a, b):
        return module.expm_frechet(a, b), module.fiedler_companion(a)

    with jax.enable_x64(True):
        check(program, ours, jax.scipy.linalg, [A, B], scale=1e3)
