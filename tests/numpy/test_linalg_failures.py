"""Matrices that a decomposition does not accept: LinAlgError for values, NaN inside a trace."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import LinAlgError

linalg = tnp.linalg
EYE = np.eye(2)
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
NAN = np.full((2, 2), np.nan)
ON_VECTORS = np.ones(2)

FAILURES = {
    "cholesky": (linalg.cholesky, -EYE, "not positive definite"),
    "inv": (linalg.inv, SINGULAR, "singular"),
    "solve": (lambda x: linalg.solve(x, ON_VECTORS), SINGULAR, "singular"),
    "matrix_power": (lambda x: linalg.matrix_power(x, -1), SINGULAR, "singular"),
    "svd": (lambda x: linalg.svd(x).S, NAN, "did not converge"),
    "svdvals": (linalg.svdvals, NAN, "did not converge"),
    "pinv": (linalg.pinv, NAN, "did not converge"),
    "matrix norm": (lambda x: linalg.norm(x, 2, (-2, -1)), NAN, "did not converge"),
    "eig": (lambda x: linalg.eig(x).eigenvalues, NAN, "did not converge"),
    "eigvals": (linalg.eigvals, NAN, "did not converge"),
}


@pytest.mark.xla
@pytest.mark.parametrize("name", FAILURES)
def test_values_raise_as_numpys_do(name):
    function, bad, words = FAILURES[name]
    with pytest.raises(LinAlgError, match=words) as caught:
        function(bad)
    assert isinstance(caught.value, np.linalg.LinAlgError)
    assert "mend:" in str(caught.value)
    with pytest.raises(LinAlgError, match=words):
        function(np.stack([EYE, bad]))


@pytest.mark.xla
@pytest.mark.parametrize("name", FAILURES)
def test_traced_gives_nan_for_that_matrix_alone(name):
    function, bad, _ = FAILURES[name]
    found = np.asarray(tracer.compile(function)(np.stack([EYE, bad, EYE])))
    assert np.isfinite(found[[0, 2]]).all()
    if name == "cholesky":
        assert np.isnan(found[1][np.tri(2, dtype=bool)]).all()
    else:
        assert np.isnan(found[1]).all()


@pytest.mark.xla
def test_nan_in_is_nan_out_where_numpy_has_it_so():
    for function in (linalg.cholesky, linalg.inv, linalg.det, linalg.eigvalsh):
        assert np.isnan(np.asarray(function(NAN))).any()


@pytest.mark.xla
def test_singular_matrices_have_a_determinant():
    assert float(linalg.det(np.zeros((3, 3)))) == 0
    sign, logarithm = linalg.slogdet(np.zeros((3, 3)))
    assert float(sign) == 0
    assert float(logarithm) == -np.inf


@pytest.mark.parametrize("name", "cholesky inv det slogdet eig eigh eigvals eigvalsh".split())
@pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
def test_matrices_that_are_not_square(name, shape):
    with pytest.raises(LinAlgError, match="square"):
        getattr(linalg, name)(np.ones(shape))


@pytest.mark.parametrize("name", "qr svd svdvals pinv".split())
def test_vectors_are_no_matrices(name):
    with pytest.raises(LinAlgError, match="matrices"):
        getattr(linalg, name)(np.ones(3))


def test_options_that_do_not_exist():
    with pytest.raises(tracer.errors.ArgumentError, match="mode"):
        linalg.qr(EYE, "raw")
    with pytest.raises(tracer.errors.ArgumentError, match="UPLO"):
        linalg.eigh(EYE, "X")
