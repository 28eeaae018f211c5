"""The bounds of docs/distances.md: what a compiled float32 distance is off by, against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

pytestmark = pytest.mark.xla
EPS = float(np.finfo(np.float32).eps)
POINTS = 150
DISTANCES = (1e-6, 1e-3, 1e-1, 1.0)
SPELLINGS: dict[str, Callable[..., Any]] = {
    "differences": lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1),
    "norm": lambda x, y: tnp.linalg.norm(x[:, None] - y[None], axis=-1) ** 2,
    "vecdot": lambda x, y: tnp.vecdot(x[:, None] - y[None], x[:, None] - y[None]),
}
COMPILED = {name: tracer.compile(function) for name, function in SPELLINGS.items()}


def points(features: int, offset: float, distance: float) -> tuple[Any, Any]:
    """Return far spread points and, for each, a partner at the distance."""
    rng = np.random.default_rng(features)
    x = rng.standard_normal((POINTS, features)) + offset
    step = rng.standard_normal((POINTS, features))
    y = x + distance * step / np.linalg.norm(step, axis=1, keepdims=True)
    return x.astype(np.float32), y.astype(np.float32)


def in_float64(x: Any, y: Any) -> Any:
    return ((x[:, None].astype("f8") - y[None]) ** 2).sum(-1)


def squared_spread(x: Any, y: Any) -> Any:
    """Return |x - c|^2 + |y - c|^2 for each pair, with c the mean of y."""
    centre = y.mean(0, dtype="f8")
    return ((x - centre) ** 2).sum(-1)[:, None] + ((y - centre) ** 2).sum(-1)


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("features", [1, 2, 3, 8])
@pytest.mark.parametrize("name", ["differences", "vecdot"])
def test_few_features_keep_all_digits(name: str, features: int, offset: float) -> None:
    for distance in DISTANCES:
        x, y = points(features, offset, distance)
        truth = in_float64(x, y)
        got = np.asarray(COMPILED[name](x, y))
        assert (np.abs(got - truth) <= (features + 2) * EPS * truth).all(), distance


@pytest.mark.parametrize("offset", [0.0, 1e2, 1e4])
@pytest.mark.parametrize("features", [9, 16, 64, 784])
@pytest.mark.parametrize("name", SPELLINGS)
def test_many_features_err_by_the_spread(name: str, features: int, offset: float) -> None:
    for distance in DISTANCES:
        x, y = points(features, offset, distance)
        got = np.asarray(COMPILED[name](x, y))
        error = np.abs(got - in_float64(x, y)) / (EPS * squared_spread(x, y))
        assert error.max() <= 8, distance
        assert got.min() >= 0


def test_the_expansion_as_written_would_break_the_bound() -> None:
    """Without the centre the error follows the offset: the bound is worth having."""
    x, y = points(16, 1e4, 1.0)
    squares = (x**2).sum(1)[:, None] + (y**2).sum(1) - np.float32(2) * (x @ y.T)
    error = np.abs(squares - in_float64(x, y)) / (EPS * squared_spread(x, y))
    assert error.max() > 1e3


@pytest.mark.parametrize(("features", "largest"), [(12, 2), (64, 16), (10, 255)])
def test_whole_numbers_keep_their_ties(features: int, largest: int) -> None:
    # Without the centre on a grid the shift rounds, and equal distances are no longer equal.
    rng = np.random.default_rng(features)
    x, y = (
        rng.integers(0, largest, (n, features)).astype(np.float32) for n in (POINTS, 10 * POINTS)
    )
    nearest = tracer.compile(lambda x, y: tnp.top_k(-SPELLINGS["differences"](x, y), 20))
    assert "match contractions" in {row.name for row in nearest.plan(x, y).passes if row.applied}
    values, indices = nearest(x, y)
    expected = in_float64(x, y)
    order = np.argsort(expected, axis=1, kind="stable")[:, :20]
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(-np.asarray(values), np.take_along_axis(expected, order, 1))


@pytest.mark.parametrize("features", [1, 3, 8])
@pytest.mark.parametrize("form", [(), (-1,)], ids=["one length", "a length each"])
def test_gradients_for_short_lengths_keep_their_digits(features: int, form: tuple[int]) -> None:
    """Weights of a kernel leave small differences only: squares are not multiplied out."""
    length = np.full([features for _ in form], 1e-3, np.float32)
    x, y = points(features, 0.0, 1e-3)
    kernel = lambda h, x, y: tnp.exp(-0.5 * (((x[:, None] - y[None]) / h) ** 2).sum(-1)).sum()
    got = np.asarray(tracer.compile(tracer.grad(kernel))(length, x, y))
    squares = ((x[:, None].astype("f8") - y[None]) / length.astype("f8")) ** 2
    each = np.exp(-0.5 * squares.sum(-1))[..., None] * squares / length.astype("f8")
    truth = each.sum((0, 1)) if form else each.sum()
    assert np.abs(got - truth).max() <= 40 * EPS * np.abs(truth).max()
