"""`add.reduceat` and its like against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same, interpreted, quietly, sample
from tracer.errors import ArgumentError, ArrayIndexError, AxisError, DTypeError, ShapeError

pytestmark = pytest.mark.xla

NAMES = ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or")
DTYPES = ("bool", "int8", "uint16", "float32", "complex128")
INDICES = ([0, 4, 1, 5, 2, 6, 3, 7], [0, 3, 8], [2, 2, 2, 5], [8, 0], [4], [])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_runs_of_known_and_of_traced_indices(name, dtype, rng):
    x = sample(rng, (2, 9, 2), dtype)
    ours, numpys = getattr(tnp, name).reduceat, getattr(np, name).reduceat
    for indices in INDICES:
        expected = numpys(x, indices, axis=1)
        (known,) = interpreted(lambda v, i=indices: ours(v, i, 1), x)
        (traced,) = interpreted(lambda v, i: ours(v, i, axis=-2), x, np.array(indices, np.int64))
        assert_same(known, expected)
        assert_same(traced, expected)


def test_outside_of_a_trace_and_by_numpys_name():
    x, places = np.arange(12.0).reshape(3, 4), np.array([0, 2], np.uint32)
    expected = np.maximum.reduceat(x, places, axis=1)
    assert_same(tnp.maximum.reduceat(x, tnp.asarray(places), axis=1), expected)
    assert_same(np.maximum.reduceat(tnp.asarray(x), [0, 2], axis=1), expected)
    assert_same(tnp.add.reduceat(x, (0, 2), (0,)), np.add.reduceat(x, (0, 2), (0,)))
    assert_same(tnp.add.reduceat(x, [1], 0, "float32"), np.add.reduceat(x, [1], 0, "float32"))
    extremes = np.array([1, np.nan, -np.inf, np.inf])
    for name in ("add", "maximum", "minimum", "multiply"):
        expected = quietly(getattr(np, name).reduceat, extremes, [0, 2, 3, 1])
        assert_same(getattr(tnp, name).reduceat(extremes, [0, 2, 3, 1]), expected)


@pytest.mark.parametrize("indices", [[0], [0, 1, 2, 9_000, 9_001], range(0, 10_000, 3)])
def test_long_runs_are_cut_and_rounded_as_sums(indices, rng):
    x = rng.normal(size=10_000) + 3
    got = tnp.add.reduceat(x.astype(np.float32), np.array(indices))
    np.testing.assert_allclose(np.asarray(got), np.add.reduceat(x, indices), rtol=1e-6)
    got = tnp.add.reduceat(np.ones(5000, np.float16), [0, 2500])
    assert_same(got, np.full(2, 2500, np.float16))
    got = tnp.logical_or.reduceat(x > 6.5, np.array(indices))
    assert_same(got, np.logical_or.reduceat(x > 6.5, indices))


def test_what_is_out_of_bounds():
    x = tnp.arange(4.0)
    for bad in ([-1], [0, 4], np.array([7])):
        with pytest.raises(ArrayIndexError, match=r"add\.reduceat: index"):
            tnp.add.reduceat(x, bad)
    with pytest.raises(ArrayIndexError, match="give no indices"):
        tnp.add.reduceat(x[:0], [0])
    places = np.array([-1, 1, 4, 2**63 - 1])
    (traced,) = interpreted(tnp.add.reduceat, np.arange(4.0), places)
    assert_same(traced, np.array([np.nan, 6, np.nan, np.nan]))
    (traced,) = interpreted(tnp.maximum.reduceat, np.arange(0), places)
    assert_same(traced, np.full(4, np.iinfo(np.int64).min))


def test_what_is_refused():
    x = tnp.ones((2, 3))
    with pytest.raises(ArgumentError, match="0-d"):
        tnp.add.reduceat(1.0, [0])
    for axis in (None, (0, 1)):
        with pytest.raises(ArgumentError, match="one axis"):
            tnp.add.reduceat(x, [0], axis)
    with pytest.raises(AxisError):
        tnp.add.reduceat(x, [0], 2)
    for indices in (np.array([1.0]), [0.5], np.array([1], np.uint64)):
        with pytest.raises(DTypeError, match="indices are"):
            tnp.add.reduceat(x, indices)
    for indices in (1, [[0, 1]]):
        with pytest.raises(ShapeError, match="vector"):
            tnp.add.reduceat(x, indices)
    with pytest.raises(ArgumentError, match="out="):
        tnp.add.reduceat(x, [0], out=x)
    with pytest.raises(DTypeError, match="truth values"):
        tnp.logical_and.reduceat(x, [0], dtype=float)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum"])
def test_derivatives_under_vmap(name, rng):
    x, direction = rng.normal(size=(2, 3, 6))
    places = np.array([[0, 2, 5], [3, 1, 1], [5, 0, 2]])

    def loss(v, i):
        return (getattr(tnp, name).reduceat(v, i) ** 2).sum()

    losses = tracer.compile(tracer.vmap(loss))
    step = 1e-6
    expected = (losses(x + step * direction, places) - losses(x - step * direction, places)) / 2
    gradients = tracer.compile(tracer.vmap(tracer.grad(loss)))(x, places)
    np.testing.assert_allclose((gradients * direction).sum(1), expected / step, rtol=1e-6)
    known = tracer.vmap(tracer.grad(lambda v: loss(v, [0, 2, 5])))(x)
    traced = tracer.vmap(tracer.grad(loss), in_axes=(0, None))(x, places[0])
    np.testing.assert_allclose(np.asarray(known), np.asarray(traced), rtol=1e-12)


def test_masked_runs_keep_a_limit(rng):
    x, places = rng.normal(size=1500), rng.integers(0, 1500, 1500)
    run = tracer.compile(tnp.maximum.reduceat, memory_limit="1MB")
    np.testing.assert_array_equal(np.asarray(run(x, places)), np.maximum.reduceat(x, places))
    assert run.plan(x, places).peak_bytes <= 10**6
