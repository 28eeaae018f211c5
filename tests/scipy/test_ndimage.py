"""map_coordinates against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage

import tracer
import tracer.numpy as tnp
from tests.compare_with_jax import FLOATS, check
from tests.numpy.oracle import assert_same
from tests.sampling import in_turn
from tracer.errors import ShapeError, UnsupportedError
from tracer.scipy.ndimage import map_coordinates

pytestmark = pytest.mark.xla

RNG = np.random.default_rng(5)
MODES = {
    "constant": "grid-constant",
    "nearest": "nearest",
    "wrap": "grid-wrap",
    "mirror": "mirror",
    "reflect": "reflect",
}
"""Our names, which are JAX's, and SciPy's."""
SHAPES = [(1,), (2,), (5,), (4, 1), (3, 4), (2, 3, 4)]


def places(shape, dtype="float64"):
    """Coordinates inside and outside, of two axes, which are no halves."""
    return [(RNG.uniform(-2.3 * n, 3.3 * n, (6, 5)).round(3) + 1e-4).astype(dtype) for n in shape]


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize(("mode", "shape"), in_turn(MODES, SHAPES), ids=str)
def test_values(shape, mode, order):
    x, where = RNG.normal(size=shape), places(shape)
    wanted = scipy.ndimage.map_coordinates(x, where, order=order, mode=MODES[mode], cval=7.5)
    assert_same(map_coordinates(x, where, order, mode, 7.5), wanted)
    compiled = tracer.compile(lambda x, *where: map_coordinates(x, where, order, mode, 7.5))
    assert_same(compiled(x, *where), wanted)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("dtype", [*FLOATS, "complex64", "complex128", "int32", "int8"])
def test_dtypes(dtype, order):
    x = (10 * RNG.normal(size=(5, 4))).astype(dtype)
    x = x + (1j * x[::-1]).astype(dtype) if x.dtype.kind == "c" else x
    where = places(x.shape, "float32" if dtype == "float32" else "float64")
    wide = x.astype("complex128" if x.dtype.kind == "c" else "float64")
    wanted = scipy.ndimage.map_coordinates(wide, where, order=order, mode="reflect")
    found = map_coordinates(x, where, order, "reflect")
    if x.dtype.kind == "i":
        wanted = np.trunc(wanted + np.copysign(0.5, wanted))
    assert found.dtype == x.dtype
    tolerance = 1e-4 if x.dtype.name in ("float32", "complex64") else 1e-11
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=tolerance, atol=tolerance)


def test_halves_are_rounded_away_from_zero():
    halves = [np.array([-0.5, -0.4, 0.5, 1.5, 2.5])]
    assert map_coordinates(np.arange(5), halves, 0, cval=9).tolist() == [9, 0, 1, 2, 3]
    found = map_coordinates(np.array([-3, 0, 5]), [[0.5, 1.5]], 1)
    assert found.dtype == "int64"
    assert found.tolist() == [-2, 3]
    large = 2**62 + 1
    assert map_coordinates(np.array([large, 0]), [[0, 7]], 0, "nearest").tolist() == [large, 0]


def test_coordinates_are_broadcast_and_may_be_an_array():
    x = RNG.normal(size=(3, 4))
    rows, columns = np.array([[0.5], [1.25]]), np.array([0.0, 1.5, 2.5])
    found = map_coordinates(x, [rows, columns], 1)
    both = np.stack(np.broadcast_arrays(rows, columns))
    assert_same(found, scipy.ndimage.map_coordinates(x, both, order=1))
    assert_same(map_coordinates(x, both, 1), np.asarray(found))
    assert_same(map_coordinates(x, tnp.asarray(both), 1), np.asarray(found))
    assert map_coordinates(x, [np.zeros((0, 2)), 1.0], 1).shape == (0, 2)


def test_far_away_and_nan():
    far = [np.array([3e9 + 1, -3e9 - 1])]
    assert map_coordinates(np.arange(3.0), far, 0, "wrap").tolist() == [1.0, 2.0]
    assert np.isnan(np.asarray(map_coordinates(np.arange(3.0), [[np.nan]], 1, "nearest"))).all()


@pytest.mark.parametrize("mode", MODES)
def test_derivatives(mode):
    x, where = RNG.normal(size=(4, 3)), places((4, 3))
    tracer.check_grads(
        lambda x, *where: map_coordinates(x, where, 1, mode, 0.5), (x, *where), order=2
    )


def test_of_the_value_outside():
    gradient = tracer.grad(lambda c: map_coordinates([1.0, 2.0], [[-0.25, 5.0]], 1, cval=c).sum())
    assert float(gradient(3.0)) == 1.25


def test_of_a_batch():
    x, where = RNG.normal(size=(3, 5, 4)), places((3, 5))
    one, other = (tnp.asarray(part)[:3] for part in where)
    found = tracer.vmap(lambda x, i, j: map_coordinates(x, [i, j], 1, "mirror"))(x, one, other)
    for k in range(3):
        wanted = map_coordinates(x[k], [one[k], other[k]], 1, "mirror")
        assert_same(found[k], np.asarray(wanted))


def test_under_a_limit():
    """A turned image takes 16 MB as written, as a product reads it."""
    x, weights = RNG.normal(size=(64, 64)), RNG.normal(size=(1000, 8))

    def projected(x, angle, weights):
        i, j = tnp.arange(2000.0)[:, None] / 40, tnp.arange(1000.0)[None] / 20
        turned = (i * tnp.cos(angle) - j * tnp.sin(angle), i * tnp.sin(angle) + j * tnp.cos(angle))
        return map_coordinates(x, turned, 1, "reflect") @ weights

    assert tracer.compile(projected).plan(x, 0.3, weights).baseline_peak_bytes > 16_000_000
    compiled = tracer.compile(projected, memory_limit="4MB")
    assert compiled.plan(x, 0.3, weights).peak_bytes <= 4_000_000
    i, j = np.arange(2000.0)[:, None] / 40, np.arange(1000.0)[None] / 20
    turned = i * np.cos(0.3) - j * np.sin(0.3), i * np.sin(0.3) + j * np.cos(0.3)
    wanted = scipy.ndimage.map_coordinates(x, turned, order=1, mode="reflect") @ weights
    np.testing.assert_allclose(compiled(x, 0.3, weights), wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([1.0, 2.0], [[0.5]], 3), UnsupportedError, "order 3"),
        (([1.0, 2.0], [[0.5]], 1, "grid-wrap"), UnsupportedError, "grid-wrap"),
        (([1.0, 2.0], [[0.5], [0.5]], 1), ShapeError, "2 coordinates"),
        ((1.0, [], 1), ShapeError, "0 coordinates"),
        ((np.zeros(0), [[0.5]], 1), ShapeError, "shape \\(0,\\)"),
    ],
)
def test_refusals(arguments, error, words):
    with pytest.raises(error, match=words):
        map_coordinates(*arguments)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode", MODES)
def test_against_jax(mode, order):
    jax = pytest.importorskip("jax")
    import jax.scipy.ndimage as theirs

    import tracer.scipy.ndimage as ours

    x, where = RNG.normal(size=(3, 4)), places((3, 4))
    with jax.enable_x64(True):
        check(
            lambda m, x, i, j: m.map_coordinates(x, [i, j], order, mode, 2.0),
            ours,
            theirs,
            [x, *where],
            differentiates=order == 1,
        )
