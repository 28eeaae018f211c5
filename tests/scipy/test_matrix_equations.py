"""Schur forms, roots, polar factors and matrix equations against SciPy, and their derivatives."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.linalg

import tracer
import tracer.numpy as tnp
import tracer.scipy.linalg as ours
from tests.numpy.oracle import assert_same, quietly, sample
from tests.sampling import in_turn, one_in
from tracer.errors import ArgumentError, LinAlgError, NotDifferentiableError, ShapeError

pytestmark = pytest.mark.xla

DTYPES = ("float32", "float64", "complex64", "complex128")
BLOCKS = scipy.linalg.block_diag([[1.0, 5], [-2, 1]], -3, [[0, 1], [-1, 0]])


def matrix(rng, shape, dtype="float64"):
    return (sample(rng, shape, dtype) + 4 * np.eye(*shape[-2:])).astype(dtype)


def adjoint(x):
    return np.swapaxes(x, -1, -2).conj()


def close(found, wanted, context=""):
    got, want = np.asarray(found), np.asarray(wanted)
    assert (got.shape, got.dtype) == (want.shape, want.dtype), context
    limit = 5e-4 if want.dtype.name in ("float32", "complex64") else 1e-9
    np.testing.assert_allclose(got, want, rtol=limit, atol=limit, err_msg=context)


CASES = {
    "hessenberg": lambda m, a, b, q: m.hessenberg(a, calc_q=True),
    "H alone": lambda m, a, b, q: (m.hessenberg(a),),
    "rsf2csf": lambda m, a, b, q: m.rsf2csf(*m.schur(a)),
    "sylvester": lambda m, a, b, q: (m.solve_sylvester(a, b, q),),
    "lyapunov": lambda m, a, b, q: (m.solve_continuous_lyapunov(a, a + 1),),
    "polar": lambda m, a, b, q: (*m.polar(a), *m.polar(a, "left")),
    "tall": lambda m, a, b, q: (*m.polar(q), *m.polar(q, "left")),
    "wide": lambda m, a, b, q: (*m.polar(q.mT), *m.polar(q.mT, "left")),
}


@pytest.mark.parametrize(("dtype", "n"), one_in(2, product(DTYPES, [0, 1, 4])))
def test_values_are_scipys(dtype, n, rng):
    batch = (2,)
    a, b, q = (matrix(rng, (*batch, *s), dtype) for s in ((n, n), (n + 1,) * 2, (n, n + 1)))
    found = {name: case(ours, a, b, tnp.asarray(q)) for name, case in CASES.items()}
    forms = ours.schur(a), ours.schur(a, "complex")
    for name, results in found.items():
        if not n and name in ("rsf2csf", "sylvester", "lyapunov"):
            continue  # SciPy refuses them
        for place in np.ndindex(*batch):
            rows = [x[place] for x in (a, b, q)]
            for x, y in zip(results, CASES[name](scipy.linalg, *rows), strict=True):
                # SciPy's Q of one or two rows is float64 in any case.
                close(np.asarray(x)[place], np.asarray(y).astype(x.dtype), name)
    for form, vectors in forms:
        close(np.asarray(vectors @ form) @ adjoint(np.asarray(vectors)), a + 0 * np.asarray(form))
    assert forms[0][0].dtype == dtype
    assert forms[1][0].dtype == np.result_type(dtype, np.complex64)
    assert not np.tril(np.asarray(forms[1][0]), -1).any()


@pytest.mark.parametrize(("n", "dtype"), in_turn([0, 1, 4, 11], ["float32", "complex128"]))
def test_discrete_equations(dtype, n, rng):
    a, q = matrix(rng, (2, n, n), dtype) / 9, matrix(rng, (n, n), dtype)
    found = [ours.solve_discrete_lyapunov(a, q, m) for m in (None, "direct", "bilinear")]
    for x in map(np.asarray, found):
        assert x.dtype == dtype
        for one, solution in zip(a, x, strict=True):
            wanted = scipy.linalg.solve_discrete_lyapunov(one, q) if n else solution
            np.testing.assert_allclose(solution, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [*DTYPES, "int32"])
def test_square_roots(dtype, rng):
    real = dtype in ("float32", "float64", "int32")
    positive = matrix(rng, (2, 4, 4), "float64")
    positive = (positive @ adjoint(positive)).astype(dtype)
    given = [matrix(rng, (4, 4), dtype), positive, np.zeros((3, 3), dtype), -np.eye(2, dtype=dtype)]
    given += [BLOCKS.astype(dtype), matrix(rng, (1, 1), dtype), np.zeros((0, 0), dtype)]
    for a in given:
        root = np.asarray(ours.sqrtm(a))
        close(root @ root, (a + 0 * root).astype(root.dtype))
        wanted = np.asarray(quietly(scipy.linalg.sqrtm, a))
        # On the branch cut both roots of complex numbers are right: a zero has a sign there.
        if real or not np.array_equal(a, -np.eye(2)):
            close(root, wanted.astype(root.dtype), str(a))
        if real:
            assert root.dtype == np.result_type(dtype, np.complex64)
    # Real negative eigenvalues of a real matrix have roots on one side.
    negative = -positive.real[0].astype("float64") * np.eye(4)
    roots = np.linalg.eigvals(np.asarray(ours.sqrtm(negative)))
    assert (roots.imag > 0).all()


def test_what_has_no_root():
    nilpotent = np.array([[0.0, 1], [0, 0]])
    with pytest.raises(LinAlgError, match="no square root"):
        ours.sqrtm(nilpotent)
    stacked = np.stack([nilpotent, np.eye(2)])
    found = np.asarray(tracer.compile(ours.sqrtm)(stacked))
    assert np.isnan(found[0]).any()
    np.testing.assert_allclose(found[1], np.eye(2))


def test_failures_and_refusals():
    a = np.eye(2)
    for program, error, text in (
        (lambda: ours.schur(a * np.nan), LinAlgError, "did not converge"),
        (lambda: ours.schur(np.ones((2, 3))), LinAlgError, "square"),
        (lambda: ours.schur(a, "upper"), ArgumentError, "no output"),
        (lambda: ours.schur(a, sort="lhp"), ArgumentError, "sort"),
        (lambda: ours.rsf2csf(a, np.eye(3)), ShapeError, "do not fit"),
        (lambda: ours.solve_sylvester(a, -a, a), LinAlgError, "singular"),
        (lambda: ours.solve_sylvester(a, a, np.ones((3, 2))), ShapeError, "do not fit"),
        (lambda: ours.solve_continuous_lyapunov(0 * a, a), LinAlgError, "singular"),
        (lambda: ours.solve_discrete_lyapunov(a, a), LinAlgError, "singular"),
        (lambda: ours.solve_discrete_lyapunov(a, np.eye(3)), ShapeError, "do not fit"),
        (lambda: ours.solve_discrete_lyapunov(a, a, "both"), ArgumentError, "no method"),
        (lambda: ours.polar(a, "both"), ArgumentError, "no side"),
        (lambda: ours.polar(a * np.nan), LinAlgError, "did not converge"),
        (lambda: ours.sqrtm(a * np.nan), LinAlgError, "no square root"),
        (lambda: tracer.grad(lambda x: ours.schur(x)[0].sum())(a), NotDifferentiableError, "sqrtm"),
    ):
        with pytest.raises(error, match=text):
            program()


def test_eager_and_vmapped(rng):
    a, b, q = matrix(rng, (3, 3)), matrix(rng, (2, 2)), rng.normal(size=(4, 3, 2))
    close(ours.solve_sylvester(a, b, q)[1], scipy.linalg.solve_sylvester(a, b, q[1]))
    found = tracer.vmap(lambda q: ours.solve_sylvester(a, b, q))(q)
    close(found, ours.solve_sylvester(a, b, q))
    assert_same(tracer.vmap(ours.sqrtm)(q @ adjoint(q) + a), ours.sqrtm(q @ adjoint(q) + a))


SMOOTH = {
    "sqrtm": (lambda a, b, q: ours.sqrtm(a), 2),
    "sylvester": (ours.solve_sylvester, 2),
    "lyapunov": (lambda a, b, q: ours.solve_continuous_lyapunov(a, q @ q.mT), 1),
    "direct": (lambda a, b, q: ours.solve_discrete_lyapunov(a / 9, q @ q.mT, "direct"), 1),
    "bilinear": (lambda a, b, q: ours.solve_discrete_lyapunov(a / 9, q @ q.mT, "bilinear"), 1),
    "polar": (lambda a, b, q: ours.polar(a), 1),
    "left": (lambda a, b, q: ours.polar(b, "left"), 1),
    "tall": (lambda a, b, q: (ours.polar(q), ours.polar(q, "left")), 1),
    "wide": (lambda a, b, q: (ours.polar(q.mT), ours.polar(q.mT, "left")), 1),
    "hessenberg": (lambda a, b, q: ours.hessenberg(a, calc_q=True), 1),
}


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_are_finite_differences(name, dtype, rng):
    function, order = SMOOTH[name]
    a, b, q = (matrix(rng, shape, dtype) for shape in ((2, 3, 3), (2, 2), (2, 3, 2)))
    tracer.check_grads(function, (a, b, q), order=order)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_compiled_gradients_are_slopes_of_compiled_programs(dtype, rng):
    a, direction = matrix(rng, (3, 3), dtype), sample(rng, (3, 3), dtype)

    def loss(x):
        root, (unitary, hermitian) = ours.sqrtm(x), ours.polar(x)
        solution = ours.solve_sylvester(x, root, unitary @ hermitian + hermitian)
        return (tnp.cos(tnp.real(solution)) + tnp.imag(solution) + tnp.real(unitary)).sum()

    gradient = np.asarray(tracer.compile(tracer.grad(loss))(a))
    value = tracer.compile(loss)
    ends = [float(value(a + step * direction)) for step in (1e-6, -1e-6)]
    slope = (gradient * direction).sum().real
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-7)


def test_polar_of_equal_singular_values_has_a_gradient(rng):
    """Those of `svd` are not finite there."""
    orthogonal = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    tracer.check_grads(lambda x: ours.polar(x), (2 * orthogonal,), order=1)
