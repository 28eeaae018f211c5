"""tracer.scipy.linalg against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import tracer
import tracer.numpy as tnp
import tracer.scipy
from tests.numpy.oracle import interpreted, sample
from tracer.errors import ArgumentError, LinAlgError, ShapeError

linalg = tracer.scipy.linalg
DTYPES = ("float32", "float64", "complex64", "complex128")


def matrix(rng, shape, dtype="float64"):
    ramp = np.zeros(shape[-2:])
    np.fill_diagonal(ramp, 7 + 2 * np.arange(min(ramp.shape, default=0)))
    return (sample(rng, shape, dtype) + ramp).astype(dtype)


def definite(rng, n, dtype="float64"):
    x = sample(rng, (n, n), dtype)
    return (x @ x.conj().T + 2 * np.eye(n)).astype(dtype)


def close(found, expected, context=""):
    got, want = np.asarray(found), np.asarray(expected)
    assert got.dtype == want.dtype, context
    assert got.shape == want.shape, context
    limit = 2e-4 if want.dtype.name in ("float32", "complex64") else 1e-10
    np.testing.assert_allclose(got, want, rtol=limit, atol=limit, err_msg=str(context))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (1, 1)])
def test_lu(shape, dtype, rng):
    a = sample(rng, shape, dtype)
    for options in ({}, {"permute_l": True}, {"p_indices": True}):
        found = interpreted(lambda v, o=options: linalg.lu(v, **o), a)
        for got, want in zip(found, scipy.linalg.lu(a, **options), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=str(options))
    packed, pivots = interpreted(linalg.lu_factor, a)
    expected = scipy.linalg.lu_factor(a)
    close(packed, expected[0])
    np.testing.assert_array_equal(pivots, expected[1])


@pytest.mark.xla
def test_lu_of_a_batch(rng):
    a = rng.normal(size=(2, 3, 3))
    p, lower, upper = linalg.lu(a)
    close(p @ lower @ upper, a)


@pytest.mark.parametrize("trans", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_lu_solve(trans, dtype, rng):
    a = sample(rng, (4, 4), dtype)
    for b in (rng.normal(size=4), rng.normal(size=(4, 3))):
        expected = scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), b, trans)
        found = interpreted(lambda x, y: linalg.lu_solve(linalg.lu_factor(x), y, trans), a, b)[0]
        close(found, expected)


STRUCTURES = {
    "gen": lambda a: a,
    "general": lambda a: a,
    "diagonal": lambda a: np.diag(np.diag(a)),
    "tridiagonal": lambda a: np.triu(np.tril(a, 1), -1),
    "upper triangular": np.triu,
    "lower triangular": np.tril,
    "sym": lambda a: a + a.T,
    "her": lambda a: a + a.conj().T,
    "pos": lambda a: a @ a.conj().T,
    "positive definite": lambda a: a @ a.conj().T,
}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_solve_with_a_structure(name, lower, transposed, dtype, rng):
    a, b = STRUCTURES[name](matrix(rng, (4, 4), dtype)), rng.normal(size=(4, 2))
    given = a
    if name in ("sym", "her", "pos", "positive definite"):
        given = np.where(np.tri(4, dtype=bool) if lower else ~np.tri(4, k=-1, dtype=bool), a, 99)
    options = {"lower": lower, "assume_a": name, "transposed": transposed}
    found = interpreted(lambda x, y: linalg.solve(x, y, **options), given, b)[0]
    close(found, np.linalg.solve(a.T if transposed else a, b))


@pytest.mark.xla
def test_solve_by_default_and_what_it_refuses(rng):
    a, b = matrix(rng, (3, 3)), rng.normal(size=3)
    close(linalg.solve(a, b), scipy.linalg.solve(a, b))
    with pytest.raises(ArgumentError, match="assume"):
        linalg.solve(a, b, assume_a="sparse")
    for kind in ("pos", "gen", "diagonal"):
        with pytest.raises(LinAlgError):
            linalg.solve(np.zeros((3, 3)), b, assume_a=kind)
    found = tracer.compile(lambda x: linalg.solve(x, b))(np.zeros((3, 3)))
    assert np.isnan(np.asarray(found)).all()


@pytest.mark.xla
def test_triangular_matrices_with_a_zero_on_the_diagonal():
    a, b = np.array([[1.0, 2.0], [0.0, 0.0]]), np.ones(2)
    with pytest.raises(LinAlgError, match="singular"):
        linalg.solve_triangular(a, b)
    close(linalg.solve_triangular(a, b, unit_diagonal=True), [-1.0, 1.0])
    found = tracer.compile(linalg.solve_triangular)(a, b)
    assert not np.isfinite(np.asarray(found)).all()


@pytest.mark.xla
@pytest.mark.parametrize("mode", ["full", "r", "economic"])
def test_qr(mode, rng):
    a = rng.normal(size=(4, 3))
    found, expected = linalg.qr(a, mode=mode), scipy.linalg.qr(a, mode=mode)
    assert len(found) == len(expected)
    for got, want in zip(found, expected, strict=True):
        close(got, want)
    with pytest.raises(ArgumentError, match="mode"):
        linalg.qr(a, mode="raw")


@pytest.mark.xla
@pytest.mark.parametrize("kind", "dD")
@pytest.mark.parametrize("mode", ["full", "r", "economic"])
@pytest.mark.parametrize("shape", [(4, 3), (3, 5), (4, 4), (1, 3), (3, 1)])
def test_qr_with_pivots(shape, mode, kind, rng):
    a = rng.normal(size=shape) + (1j * rng.normal(size=shape) if kind == "D" else 0)
    found = tracer.compile(lambda a: linalg.qr(a, mode=mode, pivoting=True))(a)
    expected = scipy.linalg.qr(a, mode=mode, pivoting=True)
    assert [x.dtype for x in found] == [x.dtype for x in expected]
    for got, want in zip(found, expected, strict=True):
        close(got, want)


@pytest.mark.xla
def test_pivots_show_the_rank(rng):
    a = rng.normal(size=(5, 2)) @ rng.normal(size=(2, 4))
    q, r, order = linalg.qr(np.stack([a, 0 * a]), pivoting=True)
    sizes = abs(np.diagonal(np.asarray(r), axis1=-2, axis2=-1))
    np.testing.assert_array_equal((sizes > 1e-12).sum(axis=-1), [2, 0])
    close((q @ r)[0], a[:, np.asarray(order[0])])


@pytest.mark.xla
def test_the_gradient_of_qr_with_pivots_is_the_slope(rng):
    a, weights = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))

    def loss(a):
        q, r, _ = linalg.qr(a, mode="economic", pivoting=True)
        return (q * weights).sum() + (r**3).sum()

    tracer.check_grads(loss, (a,), order=2)


@pytest.mark.xla
def test_svd_inverse_and_determinant(rng):
    a = matrix(rng, (3, 3))
    u, s, vh = linalg.svd(a[:, :2], full_matrices=False)
    close((u * s) @ vh, a[:, :2])
    close(linalg.svd(a, compute_uv=False), scipy.linalg.svd(a, compute_uv=False))
    close(linalg.inv(a), scipy.linalg.inv(a))
    close(linalg.det(a), scipy.linalg.det(a))
    with pytest.raises(ArgumentError, match="driver"):
        linalg.svd(a, lapack_driver="gesvd")


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh_of_pairs(dtype, lower, rng):
    a, b = definite(rng, 3, dtype), definite(rng, 3, dtype)
    a = a - 3 * np.eye(3, dtype=dtype)
    keep = np.tri(3, dtype=bool) if lower else ~np.tri(3, k=-1, dtype=bool)
    given = [np.where(keep, x, 99).astype(dtype) for x in (a, b)]
    values, vectors = interpreted(lambda x, y: linalg.eigh(x, y, lower=lower), *given)
    np.testing.assert_allclose(values, scipy.linalg.eigh(a, b, eigvals_only=True), rtol=2e-3)
    np.testing.assert_allclose(a @ vectors, b @ vectors * values, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(vectors.conj().T @ b @ vectors, np.eye(3), atol=2e-3)
    only = interpreted(lambda x, y: linalg.eigh(x, y, lower=lower, eigvals_only=True), *given)[0]
    np.testing.assert_allclose(only, values, rtol=2e-3)


@pytest.mark.xla
def test_eigh_of_one_matrix(rng):
    a = definite(rng, 4)
    close(linalg.eigh(a, eigvals_only=True), scipy.linalg.eigh(a, eigvals_only=True))
    values, vectors = linalg.eigh(np.triu(a), lower=False)
    close(a @ np.asarray(vectors), np.asarray(vectors * values))
    with pytest.raises(ArgumentError, match="type"):
        linalg.eigh(a, a, type=2)
    with pytest.raises(LinAlgError, match="positive definite"):
        linalg.eigh(a, -a)


@pytest.mark.parametrize("dtype", [*DTYPES, "int32"])
@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 20.0])
def test_expm(scale, dtype, rng):
    a = (sample(rng, (3, 4, 4), dtype) * scale * 0.3).astype(dtype)
    a[1] = -a[1] @ np.swapaxes(a[1], -1, -2).conj() / 4 if dtype != "int32" else 0
    expected = scipy.linalg.expm(a)
    found = interpreted(linalg.expm, a)[0]
    assert found.dtype == expected.dtype
    size = np.abs(expected).max((-1, -2), keepdims=True)
    limit = 1e-4 if found.dtype.name in ("float32", "complex64") else 1e-11
    np.testing.assert_allclose(found / size, expected / size, atol=limit)


@pytest.mark.xla
def test_expm_eagerly(rng):
    a = rng.normal(size=(2, 3, 3)) * np.array([1, 30])[:, None, None]
    size = np.abs(scipy.linalg.expm(a)).max((-1, -2), keepdims=True)
    close(np.asarray(linalg.expm(a)) / size, scipy.linalg.expm(a) / size)
    assert linalg.expm(np.zeros((0, 0))).shape == (0, 0)
    close(linalg.expm(np.array([[2.0]])), np.exp([[2.0]]))
    assert np.isnan(np.asarray(linalg.expm(a[1], max_squarings=1))).all()


@pytest.mark.xla
@pytest.mark.parametrize("scale", [0.1, 5.0])
def test_gradient_of_expm(scale, rng):
    jax = pytest.importorskip("jax")
    a = rng.normal(size=(3, 3)) * scale
    weights = rng.normal(size=(3, 3))
    with jax.enable_x64(True):
        wanted = jax.grad(lambda v: (jax.scipy.linalg.expm(v) * weights).sum())(a)
    found = tracer.grad(lambda v: (linalg.expm(v) * weights).sum())(tnp.asarray(a))
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-9)


@pytest.mark.xla
@pytest.mark.parametrize(
    "function",
    [
        lambda x: linalg.expm(4 * x),
        lambda x: linalg.lu(x)[1] @ linalg.lu(x)[2] + linalg.lu_factor(x)[0],
        lambda x: linalg.lu_solve(linalg.lu_factor(x), x[0]),
        lambda x: linalg.solve(x @ x.T, x[0], assume_a="pos"),
        lambda x: linalg.eigh(x + x.T, x @ x.T, eigvals_only=True),
        lambda x: linalg.toeplitz(x[0], x[1]) @ linalg.block_diag(x[:1], x[1:, :2]),
    ],
)
def test_gradients_are_finite_differences(function, rng):
    tracer.check_grads(function, (matrix(rng, (3, 3)) / 4,), order=1)


@pytest.mark.xla
def test_block_diag(rng):
    blocks = [rng.normal(size=(2, 3)), np.arange(3), np.ones((0, 2)), np.array(5, "float32")]
    close(linalg.block_diag(*blocks), scipy.linalg.block_diag(*blocks))
    assert linalg.block_diag().shape == scipy.linalg.block_diag().shape
    assert linalg.block_diag(np.ones((4, 1, 2)), np.ones((2, 2))).shape == (4, 3, 4)


@pytest.mark.xla
def test_toeplitz(rng):
    c, r = sample(rng, (3,), "complex128"), rng.normal(size=4)
    close(linalg.toeplitz(c), scipy.linalg.toeplitz(c))
    close(linalg.toeplitz(r, c), scipy.linalg.toeplitz(r, c))
    with pytest.raises(ShapeError, match="vectors"):
        linalg.toeplitz(2.0)


@pytest.mark.xla
def test_toeplitz_of_stacks(rng):
    """SciPy has stacks since 1.17."""
    c, r = rng.normal(size=(2, 3)), rng.normal(size=(4, 1, 5))
    found = np.asarray(linalg.toeplitz(c, r))
    assert found.shape == (4, 2, 3, 5)
    for i, j in np.ndindex(4, 2):
        close(found[i, j], scipy.linalg.toeplitz(c[j], r[i, 0]))
    close(np.asarray(linalg.toeplitz(c))[1], scipy.linalg.toeplitz(c[1]))


@pytest.mark.xla
@pytest.mark.parametrize("trans", [0, 1])
def test_triangular_systems_with_a_stack_of_vectors(trans, rng):
    """SciPy refuses them, JAX solves each with its matrix; what may be read twofold is refused."""
    a = np.tril(rng.normal(size=(5, 3, 4, 4))) + 4 * np.eye(4)
    b = rng.normal(size=(5, 3, 4))
    found = np.asarray(linalg.solve_triangular(a, b, trans, lower=True))
    solved = np.asarray(linalg.cho_solve((a, True), b))
    assert found.shape == solved.shape == b.shape
    for i, j in np.ndindex(5, 3):
        close(found[i, j], scipy.linalg.solve_triangular(a[i, j], b[i, j], trans, lower=True))
        close(solved[i, j], scipy.linalg.cho_solve((a[i, j], True), b[i, j]))
    rows = rng.normal(size=(4, 2))  # a matrix for all: it fits no stack of five vectors
    close(
        np.asarray(linalg.solve_triangular(a[:, 0], rows, lower=True))[2],
        scipy.linalg.solve_triangular(a[2, 0], rows, lower=True),
    )
    with pytest.raises(ShapeError, match="matrix or a stack of vectors"):
        linalg.solve_triangular(np.ones((4, 4, 4)) + np.eye(4), np.ones((4, 4)))
    with pytest.raises(ShapeError, match="do not fit"):
        linalg.solve_triangular(a[:, 0], np.ones((5, 3)))


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_permutations_are_real(dtype, rng):
    a = sample(rng, (3, 3), dtype)
    found, wanted = linalg.lu(a), scipy.linalg.lu(a)
    assert [x.dtype for x in found] == [x.dtype for x in wanted]
    close(found[0] @ found[1] @ found[2], a)
