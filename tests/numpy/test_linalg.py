"""tracer.numpy.linalg against NumPy: dtypes, batches, edges, options."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tracer.numpy as tnp
from tests.numpy.oracle import assert_same, interpreted, sample
from tracer.errors import ArgumentError, LinAlgError, ShapeError

linalg = tnp.linalg
DTYPES = ("float32", "float64", "complex64", "complex128", "int32")
BATCHES = ((), (3,), (2, 1), (0,))
SIZES = (0, 1, 2, 4)
TOLERANCE = {"float32": 2e-4, "complex64": 2e-4}


def matrix(rng, shape, dtype="float64"):
    """Return well-conditioned matrices."""
    ramp = np.zeros(shape[-2:])
    np.fill_diagonal(ramp, 7 + 2 * np.arange(min(ramp.shape, default=0)))
    return (sample(rng, shape, dtype) + ramp).astype(dtype)


def hermitian(rng, shape, dtype="float64"):
    x = sample(rng, shape, dtype)
    x = x + np.swapaxes(x, -1, -2).conj() + 30 * np.eye(shape[-1]) * np.arange(1, 1 + shape[-1])
    return x.astype(dtype)


def close(found, expected, context=""):
    got, want = np.asarray(found), np.asarray(expected)
    assert got.dtype == want.dtype, context
    assert got.shape == want.shape, context
    limit = TOLERANCE.get(want.dtype.name, 1e-9)
    np.testing.assert_allclose(got, want, rtol=limit, atol=limit, err_msg=str(context))


def adjoint(x):
    return np.swapaxes(x, -1, -2).conj()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("n", SIZES)
def test_square_matrices(n, batch, dtype, rng):
    a = matrix(rng, (*batch, n, n), dtype)
    b = sample(rng, (*batch, n, 2), dtype)
    close(interpreted(linalg.inv, a)[0], np.linalg.inv(a))
    close(interpreted(linalg.solve, a, b)[0], np.linalg.solve(a, b))
    close(interpreted(linalg.det, a)[0], np.linalg.det(a))
    for found, wanted in zip(interpreted(linalg.slogdet, a), np.linalg.slogdet(a), strict=True):
        close(found, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("n", SIZES)
def test_hermitian_matrices(n, batch, dtype, rng):
    a = hermitian(rng, (*batch, n, n), dtype)
    with_junk = np.where(np.tri(n, dtype=bool), a, 99).astype(dtype)
    for uplo in ("L", "U"):
        x = with_junk if uplo == "L" else adjoint(with_junk)
        values, vectors = interpreted(lambda v, o=uplo: linalg.eigh(v, o), x)
        expected = np.linalg.eigvalsh(a)
        close(values, expected)
        close(interpreted(lambda v, o=uplo: linalg.eigvalsh(v, o), x)[0], expected)
        close(a @ vectors, (vectors * values[..., None, :]))
        close(adjoint(vectors) @ vectors, np.broadcast_to(np.eye(n), a.shape).astype(vectors.dtype))
    close(interpreted(linalg.cholesky, with_junk)[0], np.linalg.cholesky(a))
    upper = interpreted(lambda v: linalg.cholesky(v, upper=True), adjoint(with_junk))[0]
    close(upper, adjoint(np.linalg.cholesky(a)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 2), (1, 1), (0, 2), (3, 0)])
def test_qr_and_svd(shape, batch, dtype, rng):
    a = matrix(rng, (*batch, *shape), dtype)
    for mode in ("reduced", "complete"):
        q, r = interpreted(lambda v, m=mode: linalg.qr(v, m), a)
        expected = np.linalg.qr(a, mode)
        close(q, expected.Q)
        close(r, np.triu(expected.R))
    close(interpreted(lambda v: linalg.qr(v, "r"), a)[0], np.linalg.qr(a, "r"))
    for full in (True, False):
        u, s, vh = interpreted(lambda v, f=full: linalg.svd(v, f), a)
        expected = np.linalg.svd(a, full)
        assert (u.shape, vh.shape) == (expected.U.shape, expected.Vh.shape)
        close(s, expected.S)
        k = min(shape)
        close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a.astype(u.dtype))
    close(interpreted(linalg.svdvals, a)[0], np.linalg.svdvals(a))
    if 0 not in shape or dtype == "float64":
        close(interpreted(linalg.pinv, a)[0], np.linalg.pinv(a))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_general_eigenvalues(n, dtype, rng):
    a = matrix(rng, (2, n, n), dtype)
    values, vectors = interpreted(linalg.eig, a)
    assert values.dtype == (np.complex64 if dtype in ("float32", "complex64") else np.complex128)
    expected = np.linalg.eigvals(a).astype(values.dtype)
    for found in (values, interpreted(linalg.eigvals, a)[0]):
        order, wanted = np.sort_complex(np.round(found, 3)), np.sort_complex(np.round(expected, 3))
        np.testing.assert_allclose(order, wanted, rtol=1e-3, atol=1e-3)
    close(a @ vectors, vectors * values[..., None, :])
    close(np.linalg.norm(vectors, axis=-2), np.ones((2, n), vectors.real.dtype))


@pytest.mark.xla
def test_narrow_floats_have_complex_eigenvalues(rng):
    a = matrix(rng, (3, 3), "float16")
    values, vectors = linalg.eig(a)
    assert values.dtype == vectors.dtype == linalg.eigvals(a).dtype == np.complex64


@pytest.mark.xla
def test_results_have_names(rng):
    a = hermitian(rng, (3, 3))
    assert linalg.qr(a)._fields == np.linalg.qr(a)._fields
    assert linalg.svd(a)._fields == np.linalg.svd(a)._fields
    assert linalg.eigh(a)._fields == np.linalg.eigh(a)._fields
    assert linalg.eig(a)._fields == np.linalg.eig(a)._fields
    assert linalg.slogdet(a)._fields == np.linalg.slogdet(a)._fields


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_eagerly(dtype, rng):
    a, b = hermitian(rng, (2, 3, 3), dtype), sample(rng, (2, 3, 2), dtype)
    close(linalg.solve(a, b), np.linalg.solve(a, b))
    close(linalg.inv(a), np.linalg.inv(a))
    close(linalg.det(a), np.linalg.det(a))
    close(linalg.cholesky(a), np.linalg.cholesky(a))
    close(linalg.eigvalsh(a), np.linalg.eigvalsh(a))
    close(linalg.svdvals(a), np.linalg.svdvals(a))
    close(linalg.pinv(a[..., :2]), np.linalg.pinv(a[..., :2]))
    q, r = linalg.qr(a)
    close(q @ r, a)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 3), (3,)),
        ((2, 3, 3), (3,)),
        ((3, 3), (2, 3, 4)),
        ((3, 3), (5, 2, 3, 1)),
        ((2, 1, 3, 3), (4, 3, 2)),
    ],
)
def test_right_hand_sides_broadcast(a, b, rng):
    x, y = matrix(rng, a), rng.normal(size=b)
    close(interpreted(linalg.solve, x, y)[0], np.linalg.solve(x, y))


def test_mixed_dtypes_of_solve(rng):
    a, b = matrix(rng, (3, 3), "float32"), sample(rng, (3,), "complex64")
    close(interpreted(linalg.solve, a, b)[0], np.linalg.solve(a, b))


def test_solve_refuses_what_does_not_fit():
    with pytest.raises(LinAlgError, match="square"):
        linalg.solve(np.ones((2, 3)), np.ones(2))
    with pytest.raises(ShapeError, match="do not fit"):
        linalg.solve(np.eye(3), np.ones(2))


@pytest.mark.parametrize("hermitian_flag", [False, True])
def test_hermitian_svd(hermitian_flag, rng):
    a = rng.normal(size=(2, 4, 4))
    a = a + adjoint(a)
    u, s, vh = interpreted(lambda v: linalg.svd(v, hermitian=hermitian_flag), a)
    close(s, np.linalg.svdvals(a))
    close((u * s[..., None, :]) @ vh, a)
    only = interpreted(lambda v: linalg.svd(v, compute_uv=False, hermitian=hermitian_flag), a)[0]
    close(only, np.linalg.svdvals(a))


@pytest.mark.xla
@pytest.mark.parametrize("rhs", [(), (2,), (0,)])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_lstsq(shape, rhs, dtype, rng):
    a, b = matrix(rng, shape, dtype), sample(rng, (shape[0], *rhs), dtype)
    for found, wanted in zip(linalg.lstsq(a, b), np.linalg.lstsq(a, b), strict=True):
        got, want = np.asarray(found), np.asarray(wanted)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)


@pytest.mark.xla
def test_lstsq_of_too_low_a_rank(rng):
    a = np.outer(rng.normal(size=4), rng.normal(size=3))
    b = rng.normal(size=4)
    x, residuals, rank, _ = linalg.lstsq(a, b)
    close(x, np.linalg.lstsq(a, b)[0])
    assert residuals.shape == (0,)
    assert int(rank) == 1
    traced = interpreted(linalg.lstsq, a, b)[1]
    assert np.isnan(traced).all()
    assert traced.shape == (1,)


@pytest.mark.xla
def test_rank_and_cutoffs(rng):
    low = rng.normal(size=(2, 4, 2)) @ rng.normal(size=(2, 2, 3))
    cases = [low, np.eye(3), np.zeros((3, 2)), np.ones(3), np.zeros(3), np.zeros((2, 0, 3))]
    for x in cases:
        assert_same(interpreted(linalg.matrix_rank, x)[0], np.linalg.matrix_rank(x), x.shape)
    a = np.diag([1.0, 1e-3, 1e-6])
    for options in ({"tol": 1e-4}, {"rtol": 1e-2}, {"hermitian": True}):
        assert int(linalg.matrix_rank(a, **options)) == np.linalg.matrix_rank(a, **options)
    for options in ({"rcond": 1e-4}, {"rtol": 1e-2}, {"rtol": None}):
        close(linalg.pinv(a, **options), np.linalg.pinv(a, **options), options)
    with pytest.raises(ArgumentError, match="both"):
        linalg.pinv(a, 0.1, rtol=0.1)
    with pytest.raises(ArgumentError, match="both"):
        linalg.matrix_rank(a, 0.1, rtol=0.1)


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 5, 8])
@pytest.mark.parametrize("dtype", ["int32", "float32", "complex128"])
def test_matrix_power(n, dtype, rng):
    x = matrix(rng, (2, 3, 3), dtype)
    expected = np.linalg.matrix_power(x, n)
    found = interpreted(lambda v: linalg.matrix_power(v, n), x)[0]
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_matrix_power_refuses():
    with pytest.raises(LinAlgError, match="square"):
        linalg.matrix_power(np.ones((2, 3)), 2)
    with pytest.raises(ArgumentError, match="exponent"):
        linalg.matrix_power(np.eye(2), 0.5)


@pytest.mark.parametrize("sizes", [(3, 2), (2, 3, 4), (10, 100, 5, 50), (2, 3, 4, 5, 6, 2)])
def test_multi_dot(sizes, rng):
    chain = [rng.normal(size=pair) for pair in itertools.pairwise(sizes)]
    if len(chain) < 2:
        with pytest.raises(ArgumentError, match="two or more"):
            linalg.multi_dot(chain)
        return
    close(interpreted(lambda *a: linalg.multi_dot(a), *chain)[0], np.linalg.multi_dot(chain))
    ends = [chain[0][0], *chain[1:-1], chain[-1][:, 0]]
    close(interpreted(lambda *a: linalg.multi_dot(a), *ends)[0], np.linalg.multi_dot(ends))
    with pytest.raises(LinAlgError, match="matrices"):
        linalg.multi_dot([chain[0], np.ones((2, 2, 2)), chain[-1]])


def test_multi_dot_takes_the_cheap_order():
    from tracer.array.trace import trace

    chain = [np.ones((1, 500)), np.ones((500, 500)), np.ones((500, 1))]
    graph = trace(lambda *a: linalg.multi_dot(a), chain).graph
    assert max(node.types[0].size for node in graph.nodes) <= 500


@pytest.mark.xla
def test_products_of_vectors(rng):
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(2, 1, 3))
    close(interpreted(linalg.cross, x, y)[0], np.linalg.cross(x, y))
    close(linalg.cross(x.T, y[0].T, axis=0), np.linalg.cross(x.T, y[0].T, axis=0))
    close(linalg.outer(x[0], y[0, 0]), np.linalg.outer(x[0], y[0, 0]))
    close(linalg.tensordot(x, x.T, axes=1), np.linalg.tensordot(x, x.T, axes=1))
    with pytest.raises(ShapeError, match="3 elements"):
        linalg.cross(np.ones(2), np.ones(2))
    with pytest.raises(ShapeError, match="vectors"):
        linalg.outer(x, x)
