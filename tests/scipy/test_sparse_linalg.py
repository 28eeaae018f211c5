"""cg, bicgstab and gmres: solutions, nested right sides, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.compare_with_jax import check
from tests.sampling import in_turn, one_in
from tracer.errors import ArgumentError, ShapeError
from tracer.scipy.sparse import linalg

pytestmark = pytest.mark.xla

RNG = np.random.default_rng(2)
SQUARE = RNG.normal(size=(5, 5))
POSITIVE = SQUARE @ SQUARE.T + 5 * np.eye(5)
GENERAL = SQUARE + 6 * np.eye(5)
B = RNG.normal(size=5)
METHODS = {"cg": POSITIVE, "bicgstab": GENERAL, "gmres": GENERAL}


@pytest.mark.parametrize(("name", "dtype"), in_turn(METHODS, ["float32", "float64", "complex128"]))
def test_solutions(name, dtype):
    a, b = METHODS[name].astype(dtype), B.astype(dtype)
    if dtype == "complex128":
        a, b = a + 1j * (SQUARE - SQUARE.T) / 4, b + 1j * B[::-1]
    wanted = np.linalg.solve(a, b)
    tol = 1e-6 if dtype == "float32" else 1e-13
    method = getattr(linalg, name)
    solve = tracer.compile(lambda a, b: method(lambda x: a @ x, b, tol=tol, M=lambda x: x / 6)[0])
    for found in (method(a, b, tol=tol)[0], solve(a, b)):
        assert found.dtype == dtype
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4 if tol > 1e-8 else 1e-10)


def test_nested_vectors():
    b = {"x": B[:3], "y": (B[3:],)}
    found, info = linalg.cg(lambda v: tracer.tree.map(lambda x: 4 * x, v), b)
    assert info is None
    np.testing.assert_allclose(np.asarray(found["y"][0]), B[3:] / 4, rtol=1e-12)
    zero, _ = linalg.cg(POSITIVE, np.zeros(5))
    assert np.asarray(zero).tolist() == [0.0] * 5
    near, _ = linalg.cg(POSITIVE, B, np.linalg.solve(POSITIVE, B), maxiter=0)
    np.testing.assert_allclose(np.asarray(near), np.linalg.solve(POSITIVE, B))
    with pytest.raises(ShapeError):
        linalg.cg(POSITIVE, B, B[:3])
    with pytest.raises(ShapeError):
        linalg.cg(POSITIVE[:3], B)


def test_gmres_begins_anew():
    wanted = np.linalg.solve(GENERAL, B)
    found, _ = linalg.gmres(GENERAL, B, tol=1e-12, restart=2)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-9)
    once, _ = linalg.gmres(np.eye(5), B, tol=1e-14)
    np.testing.assert_allclose(np.asarray(once), B, rtol=1e-12)
    parts = {"x": B[:3], "y": B[3:]}
    half, _ = linalg.gmres(lambda v: tracer.tree.map(lambda x: 4 * x, v), parts)
    np.testing.assert_allclose(np.asarray(half["y"]), B[3:] / 4, rtol=1e-12)
    for options in ({"restart": 0}, {"solve_method": "slow"}):
        with pytest.raises(ArgumentError):
            linalg.gmres(GENERAL, B, **options)


@pytest.mark.parametrize("name", METHODS)
def test_gradients(name):
    a = METHODS[name]
    method = getattr(linalg, name)

    def loss(a, b):
        return (method(lambda x: a @ x, b, tol=1e-14)[0] ** 2).sum()

    of_a, of_b = tracer.compile(tracer.grad(loss, argnums=(0, 1)))(a, B)
    x = np.linalg.solve(a, B)
    adjoint = np.linalg.solve(a.T, 2 * x)
    np.testing.assert_allclose(np.asarray(of_b), adjoint, rtol=1e-8)
    np.testing.assert_allclose(np.asarray(of_a), -np.outer(adjoint, x), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("name", one_in(2, METHODS))
def test_against_jax(name):
    jax = pytest.importorskip("jax")
    from jax.scipy.sparse import linalg as theirs

    with jax.enable_x64(True):
        check(
            lambda module, a, b: getattr(module, name)(lambda x: a @ x, b, tol=1e-14)[0],
            linalg,
            theirs,
            [METHODS[name], B],
            scale=1e5,
        )
    assert tnp.shape(B) == (5,)
