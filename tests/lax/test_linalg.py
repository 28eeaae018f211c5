"""tracer.lax.linalg.cholesky_update against a whole factorisation."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import DTypeError, ShapeError
from tracer.lax import linalg

pytestmark = pytest.mark.xla

RNG = np.random.default_rng(0)
A, W = RNG.normal(size=(5, 5)), RNG.normal(size=5)
A = A @ A.T + np.eye(5)


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-13), ("float32", 1e-5)])
def test_a_factor_is_updated(dtype, rtol):
    factor, vector = np.linalg.cholesky(A).T.astype(dtype), W.astype(dtype)
    found = linalg.cholesky_update(factor + np.tril(np.ones((5, 5), dtype), -1), vector)
    wanted = np.linalg.cholesky(A + np.outer(W, W)).T
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol)
    assert found.dtype == dtype


def test_edges_of_updates():
    np.testing.assert_array_equal(
        linalg.cholesky_update(np.zeros((2, 2)), np.array([0.0, 2.0])), [[0, 0], [0, 2]]
    )
    assert linalg.cholesky_update(np.zeros((0, 0)), np.zeros(0)).shape == (0, 0)
    with pytest.raises(ShapeError, match="do not fit"):
        linalg.cholesky_update(A, W[:3])
    with pytest.raises(DTypeError, match="differ"):
        linalg.cholesky_update(A, W.astype("float32"))


def test_slopes_of_updates():
    factor = np.linalg.cholesky(A).T
    whole = lambda w: tnp.linalg.cholesky(tnp.asarray(A) + w[:, None] * w).sum()
    found = tracer.compile(tracer.grad(lambda w: linalg.cholesky_update(factor, w).sum()))(W)
    np.testing.assert_allclose(found, tracer.grad(whole)(W), rtol=1e-10)
