"""Norms and condition numbers against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import interpreted, quietly, sample
from tests.numpy.test_linalg import close, matrix
from tracer.errors import ArgumentError, LinAlgError, ShapeError

linalg = tnp.linalg
ORDERS = (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)


@pytest.mark.xla
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int32"])
def test_matrix_norms(order, dtype, rng):
    x = sample(rng, (2, 4, 3), dtype)
    for axis in ((1, 2), (2, 0), (-1, 1)):
        for keepdims in (False, True):
            options = {"ord": order, "axis": axis, "keepdims": keepdims}
            found = interpreted(lambda v, o=options: linalg.norm(v, **o), x)[0]
            close(found, np.linalg.norm(x, **options), options)
    if order is not None:
        close(linalg.matrix_norm(x, ord=order), np.linalg.matrix_norm(x, ord=order))


@pytest.mark.parametrize("order", [None, 0, 1, -1, 2, -2, 3, 0.5, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int32"])
def test_vector_norms(order, dtype, rng):
    x = sample(rng, (3, 4, 2), dtype) + np.asarray(10, dtype)
    for axis in (0, -1):
        found = interpreted(lambda v, a=axis: linalg.norm(v, order, a), x)[0]
        close(found, np.linalg.norm(x, order, axis))
    for axis in (None, 1, (0, 2), (0, 1, 2)):
        for keepdims in (False, True):
            options = {"axis": axis, "keepdims": keepdims, "ord": 2 if order is None else order}
            found = interpreted(lambda v, o=options: linalg.vector_norm(v, **o), x)[0]
            close(found, np.linalg.vector_norm(x, **options), options)


def test_norms_that_do_not_exist():
    x = np.ones((2, 3, 4))
    with pytest.raises(ShapeError, match="3 axes"):
        linalg.norm(x, 1)
    with pytest.raises(ArgumentError, match="matrices"):
        linalg.norm(x, 3, (0, 1))
    with pytest.raises(ArgumentError, match="vectors"):
        linalg.norm(x, "fro", 0)


@pytest.mark.xla
@pytest.mark.parametrize("order", ORDERS)
def test_condition_numbers(order, rng):
    x = matrix(rng, (2, 3, 3))
    close(interpreted(lambda v: linalg.cond(v, order), x)[0], np.linalg.cond(x, order))
    singular = np.ones((2, 2))
    found = float(linalg.cond(singular, order))
    if order == "nuc":  # NumPy raises
        assert found == np.inf
    elif order == -2:
        assert found < 1e-12
    else:
        assert found > 1e12
        assert quietly(np.linalg.cond, singular, order) > 1e12
    with pytest.raises(LinAlgError, match="empty"):
        linalg.cond(np.ones((0, 0)))


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_roots_of_sums_that_overflow(dtype):
    # They were infinite in float16; NumPy's norm still is.
    x = tnp.asarray(np.linspace(-2000, 3000, 400)).astype(dtype)
    wide = np.asarray(x.astype("float32"))
    for function, expected in (
        (tnp.std, wide.std()),
        (tnp.nanstd, wide.std()),
        (tnp.linalg.norm, np.linalg.norm(wide)),
        (lambda x: tnp.linalg.norm(x, 3), np.linalg.norm(wide, 3)),
        (
            lambda x: tnp.linalg.norm(x.reshape(4, -1), axis=1),
            np.linalg.norm(wide.reshape(4, -1), axis=1),
        ),
    ):
        for found in (function(x), tracer.compile(function)(x)):
            assert found.dtype == x.dtype
            np.testing.assert_allclose(np.asarray(found, float), expected, rtol=1e-2)
    slope = tracer.grad(tnp.linalg.norm)(x)
    expected = wide / np.linalg.norm(wide)
    np.testing.assert_allclose(np.asarray(slope, float), expected, rtol=1e-2, atol=1e-4)
