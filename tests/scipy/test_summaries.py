"""mode, rankdata, sem and gaussian_kde against SciPy's, and gradients against jax's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import tracer
from tests.compare_with_jax import check
from tracer.errors import ArgumentError, ShapeError
from tracer.scipy import stats

pytestmark = pytest.mark.xla

NAN = np.nan
TABLE = np.array([[3.0, 1, 2, 2], [1, 4, 2, 2], [3, 4, 4, -1.5]])


@pytest.mark.parametrize("axis", [0, 1, None])
def test_mode(axis):
    for a in (TABLE, TABLE.astype("int32")):
        for keepdims in (False, True):
            found = stats.mode(a, axis, keepdims=keepdims)
            wanted = scipy.stats.mode(a, axis, keepdims=keepdims)
            np.testing.assert_array_equal(found.mode, wanted.mode)
            np.testing.assert_array_equal(found.count, wanted.count)
            assert (found.mode.dtype, found.count.dtype) == (a.dtype, np.int64)


def test_modes_of_nan_of_a_number_and_of_nothing():
    for row in ([1, NAN, NAN, 1], [NAN, NAN, 1], [NAN]):
        assert [float(x) for x in stats.mode(row)] == pytest.approx(
            [float(x) for x in scipy.stats.mode(row)], nan_ok=True
        )
    assert [float(x) for x in stats.mode(7.0)] == [7.0, 1.0]
    with pytest.raises(ArgumentError, match="no elements"):
        stats.mode([])
    with pytest.raises(ArgumentError, match="omit"):
        stats.mode([1.0], nan_policy="omit")


def test_ranks():
    with_nan = TABLE.copy()
    with_nan[1, 1] = NAN
    methods = ("average", "min", "max", "dense", "ordinal")
    cases = [(a, axis) for a in (TABLE, with_nan) for axis in (None, 0, 1)]
    program = tracer.compile(
        lambda *arrays: [
            stats.rankdata(a, method, axis=axis)
            for a, (_, axis) in zip(arrays, cases, strict=True)
            for method in methods
        ]
    )
    found = program(*[a for a, _ in cases])
    wanted = [scipy.stats.rankdata(a, method, axis=axis) for a, axis in cases for method in methods]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours.reshape(theirs.shape), theirs)
        assert ours.dtype == np.float64
    assert stats.rankdata([]).shape == (0,)
    with pytest.raises(ArgumentError, match="best"):
        stats.rankdata([1], "best")


def test_standard_errors():
    x = TABLE.astype("float32")
    for axis in (0, 1, None, -1):
        for keepdims in (False, True):
            found = stats.sem(x, axis, keepdims=keepdims)
            assert found.dtype == np.float32
            wanted = scipy.stats.sem(TABLE, axis, keepdims=keepdims)
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
    x = np.where(TABLE == 4, NAN, TABLE)
    for policy in ("propagate", "omit"):
        wanted = scipy.stats.sem(x, 1, 0, nan_policy=policy)
        np.testing.assert_allclose(stats.sem(x, 1, 0, policy), wanted, rtol=1e-13)
    assert stats.sem([1, 2]).dtype == np.float64
    with pytest.raises(ArgumentError, match="raise"):
        stats.sem([1.0], nan_policy="raise")


RNG = np.random.default_rng(3)
LINE, PLANE, SEVERAL = RNG.normal(size=12), RNG.normal(size=(2, 9)), RNG.normal(size=(2, 5))
WEIGHTS = RNG.uniform(0.1, 1, 9)
WIDTHS = (None, "scott", "silverman", 0.3, lambda kde: 0.5)


def _values(module, line, plane, weights, points):
    first, second = module.gaussian_kde(line), module.gaussian_kde(plane, 0.4, weights)
    return [
        first(points[0]),
        first.integrate_box_1d(-1.0, 0.5),
        first.integrate_gaussian(0.2, 1.5),
        second.pdf(points),
        second.logpdf(points * 20),
        second.evaluate(points[:, 0]),
        second.integrate_gaussian(points[:, 0], np.array([[2.0, 0.3], [0.3, 1.0]])),
        second.integrate_kde(module.gaussian_kde(plane)),
        second.neff,
        second.covariance,
        second.inv_cov,
    ]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_densities(dtype):
    arrays = [x.astype(dtype) for x in (LINE, PLANE, WEIGHTS, SEVERAL)]
    found = tracer.compile(lambda *xs: _values(stats, *xs))(*arrays)
    wanted = _values(scipy.stats, *[x.astype(float) for x in arrays])
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == dtype
        np.testing.assert_allclose(ours, theirs, rtol=2e-5 if dtype == "float32" else 1e-11)


def test_widths_and_refusals():
    for width in WIDTHS:
        wanted = scipy.stats.gaussian_kde(PLANE, width).covariance
        np.testing.assert_allclose(stats.gaussian_kde(PLANE, width).covariance, wanted, rtol=1e-12)
    kde = stats.gaussian_kde(PLANE)
    doubled = tracer.compile(lambda kde: tracer.tree.map(lambda x: 2 * x, kde))(kde)
    assert (doubled.d, doubled.n) == (2, 9)
    np.testing.assert_allclose(doubled.dataset, 2 * PLANE)
    for program, error in (
        (lambda: stats.gaussian_kde(1.0), ShapeError),
        (lambda: stats.gaussian_kde(PLANE, weights=[1.0]), ShapeError),
        (lambda: stats.gaussian_kde(PLANE, "wide"), ArgumentError),
        (lambda: kde(np.ones((3, 4))), ShapeError),
        (lambda: kde.integrate_box_1d(0, 1), ShapeError),
        (lambda: kde.integrate_kde(stats.gaussian_kde(LINE)), ShapeError),
        (lambda: kde.integrate_gaussian(0.0, 1.0), ShapeError),
    ):
        with pytest.raises(error):
            program()


def test_densities_of_many_points_pass_through_little_memory():
    """The kernels of 3,000 points at 3,000 are 72 MB."""
    program = tracer.compile(lambda x, y: stats.gaussian_kde(x)(y), memory_limit="2MB")
    x, y = RNG.normal(size=(2, 3000))
    np.testing.assert_allclose(program(x, y), scipy.stats.gaussian_kde(x)(y), rtol=1e-10)


def test_gradients_are_jaxs():
    jax = pytest.importorskip("jax")

    def program(module, plane, points):
        kde = module.gaussian_kde(plane)
        return kde.logpdf(points), kde.integrate_kde(kde), module.sem(plane, 1)

    with jax.enable_x64(True):
        check(program, stats, jax.scipy.stats, [PLANE, SEVERAL], scale=1e3)
