"""Gradients of linear algebra: finite differences, JAX, and the places where there is none."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
import tracer.scipy.linalg
from tests.sampling import in_turn
from tracer.array.trace import trace
from tracer.autodiff import vjp_graph
from tracer.errors import NotDifferentiableError
from tracer.ir import interpret

linalg = tnp.linalg
pytestmark = pytest.mark.xla


def matrix(rng, shape, dtype):
    x = rng.normal(size=shape)
    if dtype == "complex128":
        x = x + 1j * rng.normal(size=shape)
    ramp = np.zeros(shape[-2:])
    np.fill_diagonal(ramp, 6 + 3 * np.arange(min(ramp.shape)))
    return x + ramp


def wave(y):
    """Return fixed weights in the shape of an array."""
    return np.cos(1 + np.arange(y.size)).reshape(y.shape)


def folded(np_, y):
    """Return a real number that hangs on real and imaginary parts."""
    return (wave(y) * np_.real(y)).sum() + (np.sin(3 + wave(y)) * np_.imag(y)).sum()


def hermitian_part(np_, x):
    return (x + np_.conj(np_.swapaxes(x, -1, -2))) / 2


def weighted_spectrum(np_, vectors, values, right):
    """Return V diag(sin w) right: no phase of the vectors matters."""
    return (vectors * np_.sin(values)[..., None, :]) @ right


def _eigh(np_, x):
    values, vectors = np_.linalg.eigh(hermitian_part(np_, x))
    return weighted_spectrum(np_, vectors, values, np_.conj(np_.swapaxes(vectors, -1, -2)))


def _svd(np_, x):
    left, values, right = np_.linalg.svd(x, full_matrices=False)
    return weighted_spectrum(np_, left, values, right)


def _eig(np_, x):
    values, vectors = np_.linalg.eig(x)
    return weighted_spectrum(np_, vectors, values, np_.linalg.inv(vectors))


SQUARE = {
    "inv": lambda np_, x: np_.linalg.inv(x),
    "solve": lambda np_, x: np_.linalg.solve(x, x[..., ::-1] + 1),
    "det": lambda np_, x: np_.linalg.det(x),
    "logdet": lambda np_, x: np_.linalg.slogdet(x)[1],
    "phase": lambda np_, x: np_.linalg.slogdet(x)[0],
    "qr": lambda np_, x: np_.linalg.qr(x)[0] + np_.linalg.qr(x)[1],
    "cholesky": lambda np_, x: np_.linalg.cholesky(
        hermitian_part(np_, x @ np_.conj(np_.swapaxes(x, -1, -2)))
    ),
    "eigh": _eigh,
    "eigvalsh": lambda np_, x: np_.linalg.eigvalsh(hermitian_part(np_, x)),
    "svd": _svd,
    "svdvals": lambda np_, x: np_.linalg.svd(x, compute_uv=False),
    "eigvals": lambda np_, x: np_.sin(np_.linalg.eigvals(x)).sum(-1),
    "pinv": lambda np_, x: np_.linalg.pinv(x[..., :2]),
    "tall svd": lambda np_, x: _svd(np_, x[..., :2]),
    "wide svd": lambda np_, x: _svd(np_, x[..., :2, :]),
    "tall qr": lambda np_, x: np_.linalg.qr(x[..., :2])[0],
    "power": lambda np_, x: np_.linalg.matrix_power(x, 3) + np_.linalg.matrix_power(x, -2),
    "nuclear": lambda np_, x: np_.linalg.norm(x, "nuc", (-2, -1)),
    "spectral": lambda np_, x: np_.linalg.norm(x, 2, (-2, -1)),
    "frobenius": lambda np_, x: np_.linalg.norm(x, axis=(-2, -1)),
    "three": lambda np_, x: np_.linalg.norm(x, 3, -1),
    "largest": lambda np_, x: np_.linalg.norm(x, np.inf, (-2, -1)),
}
OURS = {
    "eig": _eig,
    "lstsq": lambda np_, x: np_.linalg.lstsq(x[..., :2], x[..., 2])[0],
    "residuals": lambda np_, x: np_.linalg.lstsq(x[..., :2], x[..., 2])[1],
    "wide qr": lambda np_, x: np_.linalg.qr(x[..., :2, :])[1],
    "full qr": lambda np_, x: np_.linalg.qr(x[..., :2, :], "complete")[1],
    "R of a tall complete qr": lambda np_, x: np_.linalg.qr(x[..., :2], "complete")[1],
    "condition": lambda np_, x: np_.linalg.cond(x),
    "cross": lambda np_, x: np_.linalg.cross(x[..., :3], x[..., 1:2, :3]),
}


def losses(functions, name):
    compute = {**SQUARE, **OURS}[name]
    return lambda x: folded(functions, compute(functions, x))


@pytest.mark.parametrize(("name", "dtype"), in_turn(SQUARE, ["float64", "complex128"]))
def test_gradients_are_jaxs(name, dtype, rng):
    jax = pytest.importorskip("jax")
    x = matrix(rng, (3, 3), dtype)
    with jax.enable_x64(True):
        wanted = np.asarray(jax.grad(losses(jax.numpy, name))(x))
    found = np.asarray(tracer.grad(losses(tnp, name))(tnp.asarray(x)))
    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-9)


def _slope(name, x, direction):
    traced = trace(losses(tnp, name), [x])
    rest = [np.asarray(array) for array in traced.captured]

    def value(at):
        return float(interpret(traced.graph, [at, *rest])[0])

    ends = [value(x + step * direction) for step in (1e-6, -1e-6)]
    gradient = interpret(vjp_graph(traced.graph, [0]), [x, *rest, np.ones(())])[0]
    return float((gradient * direction).sum().real), (ends[0] - ends[1]) / 2e-6


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", [*SQUARE, *OURS])
def test_gradients_are_finite_differences(name, dtype, rng):
    shape = (3, 3) if name in ("lstsq", "residuals") else (2, 3, 3)
    x, direction = matrix(rng, shape, dtype), matrix(rng, shape, dtype)
    found, wanted = _slope(name, x, direction)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_norm_at_zero_has_the_gradient_of_jax():
    jax = pytest.importorskip("jax")
    wanted = np.asarray(jax.grad(jax.numpy.linalg.norm)(np.zeros(3, "float32")))
    found = np.asarray(tracer.grad(linalg.norm)(tnp.zeros(3, "float32")))
    np.testing.assert_array_equal(found, wanted)


def test_norm_at_zero_has_none():
    assert np.isnan(np.asarray(tracer.grad(linalg.norm)(tnp.zeros(3)))).all()


def test_equal_eigenvalues_have_gradients_of_the_values_alone():
    x = tnp.asarray(np.eye(3))
    values = tracer.grad(lambda v: linalg.eigvalsh(v).sum())(x)
    np.testing.assert_allclose(np.asarray(values), np.eye(3), atol=1e-12)
    vectors = tracer.grad(lambda v: linalg.eigh(v).eigenvectors[0].sum())(x)
    assert not np.isfinite(np.asarray(vectors)).all()
    singular = tracer.grad(lambda v: linalg.svdvals(v).sum())(x)
    np.testing.assert_allclose(np.asarray(singular), np.eye(3), atol=1e-12)
    inverse = tracer.grad(lambda v: linalg.pinv(v).sum())(x)
    np.testing.assert_allclose(np.asarray(inverse), -np.ones((3, 3)), atol=1e-12)


def test_vectors_that_the_matrix_does_not_determine():
    x = tnp.asarray(np.arange(6.0).reshape(3, 2))
    with pytest.raises(NotDifferentiableError, match="full_matrices"):
        tracer.grad(lambda v: linalg.svd(v).U.sum())(x)
    with pytest.raises(NotDifferentiableError, match='mode="reduced"'):
        tracer.grad(lambda v: linalg.qr(v, "complete").Q.sum())(x)
    assert np.isfinite(np.asarray(tracer.grad(lambda v: linalg.svd(v).S.sum())(x))).all()


def names_of(function, *arguments):
    return [node.name for node in trace(function, arguments).graph.nodes]


def test_the_gradient_of_solve_decomposes_nothing_again():
    a, b = tnp.asarray(np.eye(3)), tnp.ones(3)
    gradient = tracer.grad(lambda m, v: linalg.solve(m, v).sum(), argnums=(0, 1))
    assert names_of(gradient, a, b).count("lu") == 1
    assert names_of(gradient, a, b).count("lu_solve") == 2


def test_one_matrix_for_many_right_hand_sides_is_decomposed_once():
    a, b = np.eye(3), np.ones((50, 3, 1))
    graph = trace(linalg.solve, (a, b)).graph
    (node,) = [node for node in graph.nodes if node.name == "lu"]
    assert node.types[0].shape == (3, 3)


def test_second_order(rng):
    jax = pytest.importorskip("jax")
    x = matrix(rng, (3, 3), "float64")
    for name in ("inv", "logdet", "qr", "eigh", "svd", "cholesky"):

        def slope(functions, grad, v, name=name):
            return (grad(losses(functions, name))(v) ** 2).sum()

        with jax.enable_x64(True):
            wanted = jax.grad(lambda v: slope(jax.numpy, jax.grad, v))(x)
        found = tracer.grad(lambda v: slope(tnp, tracer.grad, v))(tnp.asarray(x))
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-7, atol=1e-8)


def test_determinants_of_singular_matrices():
    """Rows 0 and 3 are equal, the rank is 3: against cofactors by minors."""
    x = np.array([[2.0, 1, 1, 0], [1, 3, 0, 1], [0, 1, 2, 1], [2, 1, 1, 0]])

    def minor(i, j):
        return (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1))

    wanted = [[minor(i, j) for j in range(4)] for i in range(4)]
    found = tracer.grad(linalg.det)(tnp.asarray(x))
    np.testing.assert_allclose(np.asarray(found), wanted, atol=1e-12)
    lost = tracer.grad(linalg.det)(tnp.asarray(np.diag([1.0, 0, 2, 3])))
    assert np.isnan(np.asarray(lost)).any()
    small = tracer.grad(linalg.det)(tnp.asarray(np.diag([1.0, 0, 2])))
    np.testing.assert_array_equal(np.asarray(small), np.diag([0.0, 2, 0]))


def test_determinants_that_underflow():
    """The product of the pivots is zero and no pivot is: the gradient is zero, not unknown."""
    x = np.diag(np.full(5, 1e-20, np.float32))
    gradient = tracer.compile(tracer.grad(linalg.det))
    np.testing.assert_array_equal(gradient(x), np.zeros((5, 5)))
    stacked = tracer.compile(tracer.grad(lambda x: linalg.det(x).sum()))
    rank_unknown = np.diag(np.array([1, 0, 2, 3, 4], np.float32))
    both = np.asarray(stacked(np.stack([x, rank_unknown])))
    np.testing.assert_array_equal(both[0], np.zeros((5, 5)))
    assert np.isnan(both[1]).all()


def _plain_eigh(np_, linalg_, x):
    values, vectors = linalg_.eigh(x)
    return weighted_spectrum(np_, vectors, values, np_.conj(np_.swapaxes(vectors, -1, -2)))


OF_SYMMETRIC = {
    "cholesky": lambda np_, sp, x: np_.linalg.cholesky(x),
    "upper cholesky": lambda np_, sp, x: np_.linalg.cholesky(x, upper=True),
    "eigh": lambda np_, sp, x: _plain_eigh(np_, np_.linalg, x),
    "eigvalsh": lambda np_, sp, x: np_.linalg.eigvalsh(x),
    "the upper triangle": lambda np_, sp, x: np_.linalg.eigvalsh(x, "U"),
    "SciPy's eigh": lambda np_, sp, x: _plain_eigh(np_, sp, x),
}
OF_SCIPY = {
    "SciPy's cholesky": lambda np_, sp, x: sp.cholesky(x),
    "cho_solve": lambda np_, sp, x: sp.cho_solve(sp.cho_factor(x), np_.ones(3)),
}
# Of these JAX's gradients differ: one triangle only, or (Hermitian systems) not the derivative.
BESIDE_JAX = {
    "positive definite": lambda np_, sp, x: sp.solve(x, np_.ones(3), assume_a="pos"),
    "symmetric": lambda np_, sp, x: sp.solve(x, np_.ones(3), assume_a="her"),
    "symmetric, upper": lambda np_, sp, x: sp.solve(x, np_.ones(3), False, assume_a="her"),
    "a pair": lambda np_, sp, x: sp.eigh(x, 2 * np_.eye(3) + x @ x, eigvals_only=True),
    "a pair's second": lambda np_, sp, x: sp.eigh(np_.diag(np_.arange(3.0)), x, eigvals_only=True),
    "hermitian svd": lambda np_, sp, x: np_.linalg.svd(x, hermitian=True, compute_uv=False),
}


@pytest.mark.parametrize(
    ("name", "dtype"), in_turn([*OF_SYMMETRIC, *OF_SCIPY], ["complex128", "float64"])
)
def test_gradients_of_symmetric_matrices_are_jaxs(name, dtype, rng):
    """The matrix is given as it is: nothing symmetrises before, and no triangle is left out.

    What jax.scipy calls does not symmetrise: of its gradients the symmetric part counts.
    """
    jax = pytest.importorskip("jax")
    x = hermitian_part(np, matrix(rng, (3, 3), dtype))
    compute = {**OF_SYMMETRIC, **OF_SCIPY}[name]
    with jax.enable_x64(True):
        wanted = jax.grad(lambda v: folded(jax.numpy, compute(jax.numpy, jax.scipy.linalg, v)))(x)
    wanted = hermitian_part(np, np.asarray(wanted)) if name in OF_SCIPY else wanted
    found = tracer.grad(lambda v: folded(tnp, compute(tnp, tracer.scipy.linalg, v)))(x)
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", [*OF_SYMMETRIC, *OF_SCIPY, *BESIDE_JAX])
def test_gradients_of_symmetric_matrices_are_symmetric(name, dtype, rng):
    compute = {**OF_SYMMETRIC, **OF_SCIPY, **BESIDE_JAX}[name]
    x, direction = (hermitian_part(np, matrix(rng, (3, 3), dtype)) for _ in range(2))

    def loss(v):
        return folded(tnp, compute(tnp, tracer.scipy.linalg, v))

    found = np.asarray(tracer.grad(loss)(x))
    np.testing.assert_allclose(found, np.conj(found.T), atol=1e-12)
    ends = [float(loss(x + step * direction)) for step in (1e-6, -1e-6)]
    slope = float((found * direction).sum().real)
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("count", [1, 300])
def test_determinants_of_which_a_part_overflows(dtype, count):
    """The first two pivots give infinity or zero, all of them NumPy's determinant."""
    large = float(np.finfo(dtype).max) ** 0.75
    for pivots in ([large, large, 1 / large, 1 / large], [1 / large, 1 / large, -large, large, 2]):
        x = np.broadcast_to(np.diag(pivots), (count, len(pivots), len(pivots))).astype(dtype)
        expected = np.linalg.det(x)
        found = tracer.compile(linalg.det)(x)
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        slope = tracer.compile(tracer.grad(lambda x: tnp.real(linalg.det(x)).sum()))(x)
        on_diagonal = np.diagonal(np.asarray(slope), axis1=-2, axis2=-1)
        expected = expected[:, None] / np.array(pivots)
        np.testing.assert_allclose(on_diagonal, expected, atol=1e-4 * np.abs(expected).max())
