"""Sorting, selecting, searching and linear algebra against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same, interpreted, sample
from tracer.array.trace import trace
from tracer.errors import ArgumentError, LinAlgError, ShapeError, TracingError

DTYPES = ("bool", "int8", "uint16", "int64", "float16", "float32", "float64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_sort_and_argsort(dtype, axis, rng):
    x = sample(rng, (4, 6), dtype)
    assert_same(interpreted(lambda v: tnp.sort(v, axis), x)[0], np.sort(x, axis))
    order = np.argsort(x, axis, kind="stable")
    assert_same(interpreted(lambda v: tnp.argsort(v, axis), x)[0], order)


@pytest.mark.xla
def test_descending_is_stable():
    x = np.array([3, 1, 3, 2, 1])
    assert_same(tnp.sort(x, descending=True), np.array([3, 3, 2, 1, 1]))
    assert_same(tnp.argsort(x, descending=True), np.array([0, 2, 3, 1, 4]))


@pytest.mark.xla
def test_nan_is_last():
    x = np.array([np.nan, 1.0, -np.inf, np.nan, -0.0, 0.0])
    assert_same(tnp.sort(x), np.sort(x))
    assert_same(tnp.argsort(x), np.argsort(x, kind="stable"))


@pytest.mark.xla
def test_the_sort_method_leaves_the_array_alone():
    x = tnp.array([3.0, 1.0])
    assert_same(x.sort(), np.array([1.0, 3.0]))
    assert_same(x, np.array([3.0, 1.0]))


@pytest.mark.xla
def test_lexsort(rng):
    keys = rng.integers(0, 3, (3, 10))
    assert_same(tnp.lexsort(list(keys)), np.lexsort(keys))


@pytest.mark.xla
@pytest.mark.parametrize("axis", [0, 1])
def test_top_k(axis, rng):
    x = rng.integers(0, 5, (6, 7)).astype("float32")
    values, indices = tnp.top_k(x, 3, axis)
    order = np.argsort(-x, axis, kind="stable").take(range(3), axis)
    assert_same(indices, order)
    assert_same(values, np.take_along_axis(x, order, axis))
    with pytest.raises(ShapeError, match="top_k of 9"):
        tnp.top_k(x, 9)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 8])
def test_searchsorted(side, size, rng):
    x = np.sort(rng.integers(0, 10, size)).astype(float)
    values = np.array([[-1.0, 0, 3, 5], [9, 10, np.nan, np.inf]])
    found = interpreted(lambda a, v: tnp.searchsorted(a, v, side), x, values)[0]
    assert_same(found, np.searchsorted(x, values, side))


@pytest.mark.xla
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_searchsorted_of_complex_numbers(side, dtype):
    # They were refused.
    parts = [0.0, 1.0, -2.0, np.nan, np.inf, -np.inf]
    values = np.array([complex(real, imag) for real in parts for imag in parts], dtype)
    x = np.sort(values[[0, 3, 7, 7, 9, 13, 18, 21, 22, 30]])
    for line in x, x[:3], x[:0]:
        expected = np.searchsorted(line, values, side)
        found = interpreted(lambda a, v: tnp.searchsorted(a, v, side), line, values)[0]
        assert_same(found, expected)
        assert_same(tnp.searchsorted(line, values, side), expected)
    assert_same(tnp.searchsorted([1.0, 2.0], 1 + 2j), np.searchsorted([1.0, 2.0], 1 + 2j))


@pytest.mark.xla
def test_searchsorted_among_nan():
    x = np.array([0.0, 1.0, np.nan, np.nan])
    for side in ("left", "right"):
        assert_same(
            tnp.searchsorted(x, [0.5, np.nan], side), np.searchsorted(x, [0.5, np.nan], side)
        )
    with pytest.raises(ArgumentError, match="side"):
        tnp.searchsorted(x, 0.0, "middle")


@pytest.mark.xla
def test_selections_by_value():
    x = np.array([[0, 3, 3], [1, 0, 3]])
    for got, want in zip(tnp.nonzero(x), np.nonzero(x), strict=True):
        assert_same(got, want)
    assert_same(tnp.flatnonzero(x), np.flatnonzero(x))
    assert_same(tnp.argwhere(x), np.argwhere(x))
    assert_same(tnp.unique(x), np.unique(x))
    for got, want in zip(
        tnp.unique(x, True, True, True), np.unique(x, True, True, True), strict=True
    ):
        assert_same(got, want)
    assert_same(tnp.extract(x > 1, x), np.extract(x > 1, x))
    assert_same(tnp.isin(x, [3, 7]), np.isin(x, [3, 7]))
    assert_same(tnp.bincount(x.ravel(), minlength=6), np.bincount(x.ravel(), minlength=6))
    assert_same(tnp.bincount(x[0], x[1]), np.bincount(x[0], x[1]))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float64", "complex128"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unique_slices_in_a_trace(dtype, axis, rng):
    x = rng.integers(0, 2, (5, 2, 3)).astype(dtype)
    x[:, :, 1] = x[:, :, 0]
    x[2] = x[1]
    x = np.where(x == 0, np.nan, x) if dtype == "float64" and axis == 1 else x
    expected = np.unique(x, True, True, True, axis)
    size = expected[0].shape[axis]
    found = interpreted(lambda v: tnp.unique(v, True, True, True, axis, size=size), x)
    for got, want in zip(found, expected, strict=True):
        assert_same(got, want)
    assert_same(interpreted(lambda v: tnp.unique(v, axis=axis, size=size), x)[0], expected[0])


def test_unique_slices_are_filled_up():
    x = np.array([[1, 1], [0, 2], [1, 1]])
    found = interpreted(lambda v: tnp.unique(v, axis=0, size=3, fill_value=-1), x)[0]
    assert found.tolist() == [[0, 2], [1, 1], [-1, -1]]
    columns = interpreted(lambda v: tnp.unique(v, axis=1, size=3), x)[0]
    assert columns.tolist() == [[1, 1, 1], [0, 2, 0], [1, 1, 1]]


@pytest.mark.parametrize("name", ["nonzero", "unique", "argwhere", "flatnonzero"])
def test_sizes_that_depend_on_values_are_refused(name):
    with pytest.raises(TracingError, match="depend on values") as caught:
        trace(getattr(tnp, name), [np.ones(3)])
    assert "made at" in str(caught.value)


def _positive_definite(rng, n=4, dtype="float64"):
    a = rng.normal(size=(3, n, n))
    if dtype == "complex128":
        a = a + 1j * rng.normal(size=(3, n, n))
    return (a @ a.conj().swapaxes(-1, -2) + n * np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(dtype, upper, rng):
    a = _positive_definite(rng, dtype=dtype)
    found = interpreted(lambda x: tnp.linalg.cholesky(x, upper=upper), a)[0]
    assert_same(found, np.linalg.cholesky(a, upper=upper))


@pytest.mark.xla
def test_cholesky_eagerly(rng):
    a = _positive_definite(rng)
    assert_same(tnp.linalg.cholesky(a), np.linalg.cholesky(a))
    with pytest.raises(LinAlgError, match="positive definite"):
        tnp.linalg.cholesky(-a)
    assert bool(tnp.isnan(tracer.compile(tnp.linalg.cholesky)(-a)).any())
    with pytest.raises(LinAlgError, match="square"):
        tnp.linalg.cholesky(tnp.ones((2, 3)))


@pytest.mark.xla
@pytest.mark.parametrize("order", [None, 1, 2, 3, 0, np.inf, -np.inf, 0.5])
def test_vector_norms(order, rng):
    x = rng.normal(size=(3, 4))
    assert_same(tnp.linalg.norm(x[0], order), np.linalg.norm(x[0], order))
    assert_same(
        tnp.linalg.norm(x, order, axis=1, keepdims=True),
        np.linalg.norm(x, order, axis=1, keepdims=True),
    )
    if order:
        assert_same(tnp.linalg.vector_norm(x, ord=order), np.linalg.vector_norm(x, ord=order))


@pytest.mark.xla
@pytest.mark.parametrize("order", [None, "fro", 1, -1, np.inf, -np.inf])
def test_matrix_norms(order, rng):
    x = rng.normal(size=(2, 3, 4)) + 1j
    for axis in ((0, 2), (2, 1)):
        for keepdims in (False, True):
            expected = np.linalg.norm(x, order, axis, keepdims)
            assert_same(tnp.linalg.norm(x, order, axis, keepdims), expected)
    if order is not None:
        assert_same(tnp.linalg.matrix_norm(x, ord=order), np.linalg.matrix_norm(x, ord=order))


def test_norms_that_there_are_not():
    with pytest.raises(ArgumentError, match="nuclear"):
        tnp.linalg.norm(np.ones((2, 2)), "nuclear")
    with pytest.raises(ArgumentError, match="not defined for vectors"):
        tnp.linalg.norm(np.ones(2), "fro", 0)


@pytest.mark.xla
def test_unique_of_no_elements_is_filled_up():
    none = np.zeros(0, np.int64)
    values, first, inverse, counts = tracer.compile(
        lambda x: tnp.unique(x, True, True, True, size=2, fill_value=7)
    )(none)
    assert values.tolist() == [7, 7]
    assert first.tolist() == counts.tolist() == [0, 0]
    assert inverse.shape == (0,)
    assert tnp.unique(none.reshape(0, 3), size=2, fill_value=7, axis=0).tolist() == [[7] * 3] * 2
    assert tnp.union1d(none, none, size=2, fill_value=7).tolist() == [7, 7]
    with pytest.raises(ArgumentError, match="size 2"):
        tnp.unique(none, size=2)
    with pytest.raises(ArgumentError, match="size 2"):
        tnp.intersect1d(none, none, size=2)
