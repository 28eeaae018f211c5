"""Reductions and statistics against NumPy: axes, keepdims, where, initial, empty axes."""

from __future__ import annotations

import numpy as np
import pytest

import tracer.numpy as tnp
from tests.numpy.oracle import NUMPY_DTYPES, assert_same, interpreted, quietly, sample
from tracer.errors import ArgumentError, AxisError, DTypeError, ShapeError

REDUCTIONS = "sum prod max min any all mean var std count_nonzero ptp median".split()
AXES = (None, 0, 1, -1, (0, 2), ())


@pytest.mark.xla
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_dtypes(name, dtype, rng):
    x = sample(rng, (3, 4), dtype)
    if dtype == "bool" and name == "ptp":
        with pytest.raises(DTypeError):  # NumPy has no difference of bools
            getattr(tnp, name)(x)
        return
    expected = np.asarray(quietly(getattr(np, name), x))
    assert_same(interpreted(getattr(tnp, name), x)[0], expected, f"{name} {dtype}")


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes(name, axis, keepdims, rng):
    x = rng.normal(size=(3, 4, 5))
    if name == "median" and axis == ():
        axis = (0,)  # NumPy refuses a median over no axes
    expected = np.asarray(quietly(getattr(np, name), x, axis=axis, keepdims=keepdims))
    found = interpreted(lambda v: getattr(tnp, name)(v, axis=axis, keepdims=keepdims), x)[0]
    assert_same(found, expected, f"{name} {axis}")


@pytest.mark.xla
@pytest.mark.parametrize("name", ["sum", "mean", "max", "argmax", "cumsum", "any"])
def test_eagerly_and_as_methods(name, rng):
    x = rng.normal(size=(4, 5)).astype("float32")
    assert_same(getattr(tnp, name)(x, 1), getattr(np, name)(x, 1))
    assert_same(getattr(tnp.asarray(x), name)(axis=0), getattr(x, name)(axis=0))


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "any", "all", "var", "std"])
def test_where(name, rng):
    x, chosen = rng.normal(size=(3, 4)), rng.random((3, 1)) < 0.6
    expected = getattr(np, name)(x, axis=0, where=chosen)
    found = interpreted(lambda v, c: getattr(tnp, name)(v, axis=0, where=c), x, chosen)[0]
    assert_same(found, expected)


@pytest.mark.xla
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_initial(name, rng):
    x = rng.normal(size=(3, 4))
    for options in ({"initial": 0.5}, {"initial": 0.5, "where": x > 0}):
        assert_same(
            getattr(tnp, name)(x, axis=1, **options), getattr(np, name)(x, axis=1, **options)
        )


@pytest.mark.xla
def test_extremes_of_nothing():
    with pytest.raises(ShapeError, match="max of no elements"):
        tnp.max(tnp.zeros((0, 3)), axis=0)
    with pytest.raises(ShapeError, match="argmin"):
        tnp.argmin(tnp.zeros(0))
    assert_same(tnp.max(tnp.zeros((0, 3)), axis=1), np.zeros((0, 3)).max(1))
    assert_same(tnp.max(tnp.zeros((0, 3)), axis=0, initial=-1.0), np.full(3, -1.0))
    with pytest.raises(ArgumentError, match="needs an initial"):
        tnp.max(tnp.ones(3), where=[True, False, True])


@pytest.mark.xla
def test_reductions_of_nothing():
    x = np.zeros((0, 3))
    for name in ("sum", "prod", "any", "all", "mean"):
        assert_same(getattr(tnp, name)(x, axis=0), quietly(getattr(np, name), x, axis=0))


@pytest.mark.xla
@pytest.mark.parametrize("name", ["median", "nanmedian"])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_medians_of_nothing_are_nan(name, dtype):
    # They were refused.
    x = np.zeros((0, 3), dtype)
    for options in ({"axis": 0}, {"axis": 1}, {}, {"axis": 0, "keepdims": True}, {"axis": (0, 1)}):
        expected = quietly(getattr(np, name), x, **options)
        assert_same(getattr(tnp, name)(x, **options), expected)
    for refused in tnp.quantile, tnp.percentile:
        with pytest.raises(ShapeError, match="no elements"):
            refused(x, 0.5, axis=0)
    assert_same(tnp.nanquantile(x, 0.5, axis=0), quietly(np.nanquantile, x, 0.5, axis=0))


ONE_AXIS = "sum prod max min any all ptp argmax count_nonzero nansum nanmax nanargmin".split()


@pytest.mark.xla
@pytest.mark.parametrize("name", ONE_AXIS)
def test_a_number_is_reduced_over_its_first_and_last_axis_as_in_numpy(name):
    # It was refused, as by JAX.
    x = np.asarray(3.0)
    for axis in (0, -1):
        assert_same(getattr(tnp, name)(x, axis=axis), getattr(np, name)(x, axis=axis))
    for axis in (1, (0,)):
        with pytest.raises(AxisError):
            getattr(tnp, name)(x, axis=axis)


@pytest.mark.xla
@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "float32"])
def test_positions_of_extremes(name, axis, dtype, rng):
    x = sample(rng, (4, 5), dtype)
    for keepdims in (False, True):
        expected = getattr(np, name)(x, axis=axis, keepdims=keepdims)
        found = interpreted(lambda v: getattr(tnp, name)(v, axis, keepdims=keepdims), x)[0]  # noqa: B023
        assert_same(found, expected)
    with_nan = np.array([1.0, np.nan, 3.0, np.nan])
    assert int(getattr(tnp, name)(with_nan)) == getattr(np, name)(with_nan)


@pytest.mark.xla
def test_nan_propagates_through_extremes():
    x = np.array([[1.0, np.nan], [2.0, 3.0]])
    assert_same(tnp.max(x, 0), np.max(x, 0))
    assert_same(tnp.min(x), np.min(x))


NAN_NAMES = "nansum nanprod nanmean nanmax nanmin nanvar nanstd".split()


@pytest.mark.parametrize("name", NAN_NAMES)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_reductions_that_skip_nan(name, axis):
    x = np.array([[1.0, np.nan, 4.0], [np.nan, np.nan, -3.0]])
    expected = quietly(getattr(np, name), x, axis=axis)
    assert_same(interpreted(lambda v: getattr(tnp, name)(v, axis), x)[0], expected)


@pytest.mark.xla
@pytest.mark.parametrize("ddof", [0, 1, 2])
def test_degrees_of_freedom(ddof, rng):
    x = rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))
    assert_same(tnp.var(x, 0, ddof=ddof), quietly(np.var, x, 0, ddof=ddof))
    assert_same(tnp.std(x.real, 1, ddof=ddof), np.std(x.real, 1, ddof=ddof))
    assert_same(tnp.asarray(x).var(ddof=ddof), np.var(x, ddof=ddof))


@pytest.mark.xla
def test_variance_does_not_cancel():
    x = np.float32(1e4) + np.arange(4, dtype=np.float32)
    assert_same(tnp.var(x), np.var(x))


@pytest.mark.xla
def test_averages_and_quantiles(rng):
    x, w = rng.normal(size=(3, 4)), rng.random(4)
    assert_same(tnp.average(x, 1, w), np.average(x, 1, w))
    assert_same(tnp.average(x, weights=np.abs(x)), np.average(x, weights=np.abs(x)))
    assert_same(tnp.average(x, 0), np.average(x, 0))
    with pytest.raises(ShapeError, match="weights of shape"):
        tnp.average(x, 0, w)
    for q in (0, 0.25, 0.5, 0.9, 1):
        for axis in (None, 0, (0, 1)):
            assert_same(tnp.quantile(x, q, axis), np.quantile(x, q, axis))
    assert_same(tnp.percentile(x, 30, 1, keepdims=True), np.percentile(x, 30, 1, keepdims=True))
    x[0, 0] = np.nan
    assert_same(tnp.median(x, 1), np.median(x, 1))
    with pytest.raises(ArgumentError, match="not between 0 and 1"):
        tnp.quantile(x, 2)


@pytest.mark.xla
def test_covariance(rng):
    x = rng.normal(size=(3, 10))
    assert_same(tnp.cov(x), np.cov(x))
    assert_same(tnp.cov(x.T, rowvar=False, bias=True), np.cov(x.T, rowvar=False, bias=True))
    assert_same(tnp.cov(x[0]), np.cov(x[0]))


@pytest.mark.xla
def test_axes_that_do_not_exist():
    x = tnp.ones((2, 3))
    for call in (lambda: x.sum(2), lambda: x.max(-3), lambda: tnp.cumsum(x, 5)):
        with pytest.raises(AxisError, match="out of bounds for an array of 2 dimensions") as caught:
            call()
        assert isinstance(caught.value, np.exceptions.AxisError)
    with pytest.raises(ShapeError, match="twice"):
        x.sum((0, -2))


@pytest.mark.xla
def test_half_precision_is_accumulated_in_single():
    x = np.full(4096, 1.0, np.float16)
    assert float(tnp.sum(x)) == 4096.0
    assert float(tnp.mean(tnp.asarray(x, tnp.bfloat16))) == 1.0
