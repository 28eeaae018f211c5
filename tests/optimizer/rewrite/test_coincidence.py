"""Distances of points to themselves stay exactly zero where distances become products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, traced
from tracer.ir import Graph
from tracer.optimizer.rewrite.match import CONTRACTIONS

pytestmark = pytest.mark.usefixtures("small_matches")
POINTS = ((40, 20), "float32")
IMAGES = ((9, 5, 6), "float32")


def between(x: Any) -> Any:
    return x[:, None] - x[None]


ZEROED: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "squared": (lambda x: (between(x) ** 2).sum(-1), POINTS),
    "the other way round": (lambda x: ((x[None] - x[:, None]) ** 2).sum(-1), POINTS),
    "without a unit axis": (lambda x: ((x[:, None] - x) ** 2).sum(-1), POINTS),
    "mean": (lambda x: (between(x) ** 2).mean(-1), POINTS),
    "divided by lengths": (lambda x: ((between(x) / (1 + x[0] ** 2)) ** 2).sum(-1), POINTS),
    "weighted": (lambda x: (between(x) ** 2 * abs(x[0])).sum(-1), POINTS),
    "of images": (lambda x: (between(x) ** 2).sum((-1, -2)), IMAGES),
    "on a grid": (
        lambda x: ((x[:, :, None, None] - x[None, None]) ** 2).sum(-1).reshape(45, 45),
        IMAGES,
    ),
}
NOT_ZERO: dict[str, Callable[[Any], Any]] = {
    "of sums": lambda x: ((x[:, None] + x[None]) ** 2).sum(-1),
    "to others": lambda x: ((x[:, None] - x[::-1][None]) ** 2).sum(-1),
    "to others through a transpose": lambda x: ((x[:20, None] - x[:20].T[None]) ** 2).sum(-1),
    "to half": lambda x: ((x[:, None] - (x * 0.5)[None]) ** 2).sum(-1),
    "over the points": lambda x: (between(x) ** 2).sum(0),
    "weighted by pairs": lambda x: (between(x) ** 2 * abs(x[:, 0])[:, None, None]).sum(1),
}


def matched(function: Callable[[Any], Any], spec: Any) -> tuple[Graph, Graph]:
    before = traced(function, spec)
    after, log = apply(CONTRACTIONS, before)
    assert log.applied
    return before, after


def data(spec: Any, offset: float = 0.0) -> np.ndarray:
    shape, dtype = spec
    return (np.random.default_rng(0).standard_normal(shape) + offset).astype(dtype)


@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("name", ZEROED)
def test_a_point_has_no_distance_to_itself(name: str, offset: float) -> None:
    function, spec = ZEROED[name]
    before, after = matched(function, spec)
    x = data(spec, offset)
    (found,), (wanted,) = evaluated(after, x), evaluated(before, x)
    np.testing.assert_array_equal(np.diagonal(found), 0)
    others = ~np.eye(len(found), dtype=bool)
    assert found[others].min() > 0
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NOT_ZERO)
def test_what_is_not_zero_there_stays(name: str) -> None:
    function = NOT_ZERO[name]
    before, after = matched(function, POINTS)
    x = data(POINTS)
    (found,), (wanted,) = evaluated(after, x), evaluated(before, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_no_zero(value: float) -> None:
    function, spec = ZEROED["squared"]
    _, after = matched(function, spec)
    x = data(spec)
    x[3, 2] = value
    (found,) = evaluated(after, x)
    assert not np.isfinite(found[3, 3])
    assert found[4, 4] == 0


@pytest.mark.xla
@pytest.mark.parametrize("limit", [None, "400kB"])
def test_lengths_and_their_gradients_behind_a_guard(limit: str | None) -> None:
    """The usual guard needs the exact zero: beside it a root of rounding is 1e-3 in float32."""

    def lengths(x: Any) -> Any:
        squares = (between(x) ** 2).sum(-1)
        is_apart = squares > 0
        return tnp.where(is_apart, tnp.sqrt(tnp.where(is_apart, squares, 1)), 0)

    def energy(x: Any) -> Any:
        return lengths(x).sum()

    x = data(((500, 30), "float32"))
    wide = x.astype(np.float64)
    found = np.asarray(tracer.compile(energy, memory_limit=limit)(x))
    gradient = np.asarray(tracer.compile(tracer.grad(energy), memory_limit=limit)(x))
    differences = wide[:, None] - wide
    true = np.sqrt((differences**2).sum(-1))
    np.testing.assert_allclose(found, true.sum(), rtol=1e-6)
    np.fill_diagonal(true, 1)
    np.testing.assert_allclose(
        gradient, 2 * (differences / true[..., None]).sum(1), rtol=1e-4, atol=1e-3
    )
    near = np.asarray(tracer.compile(lengths)(x[:40]))
    np.testing.assert_array_equal(np.diagonal(near), 0)


SOFT = 1e-6


def softened(d: Any) -> Any:
    return ((d**2).sum(-1) + SOFT) ** -1.5


# Sums of differences, whose weights are largest where a point meets itself.
WEIGHTED: dict[str, Callable[[Any], Any]] = {
    "forces": lambda x: (between(x) * softened(between(x))[..., None]).sum(1),
    "forces, from the others": lambda x: (
        (x[None] - x[:, None]) * softened(between(x))[..., None]
    ).sum(0),
    "of everything": lambda x: (between(x) * softened(between(x))[..., None] * x[:, None]).sum(),
    "quotients": lambda x: (between(x) / (between(x) ** 2 + SOFT).sum(-1, keepdims=True)).sum(1),
    "squares": lambda x: (between(x) ** 2 * softened(between(x))[..., None]).sum(1),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_of_a_point_with_itself_add_nothing(name: str) -> None:
    before, after = matched(WEIGHTED[name], POINTS)
    x = data(POINTS)
    (expected,) = evaluated(before, x)
    (result,) = evaluated(after, x)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_weights_that_are_not_finite_stay(value: float) -> None:
    def forces(x: Any, w: Any) -> Any:
        return (between(x) / w[..., None]).sum(1)

    before = traced(forces, POINTS, ((40, 40), "float32"))
    after, log = apply(CONTRACTIONS, before)
    assert log.applied
    w = np.ones((40, 40), "float32")
    w[3, 3] = value
    (expected,) = evaluated(before, data(POINTS), w)
    (result,) = evaluated(after, data(POINTS), w)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))


@pytest.mark.xla
@pytest.mark.parametrize("features", [3, 16])
@pytest.mark.parametrize("limit", [None, "200kB"])
def test_gradients_of_kernels_with_a_small_jitter(limit: str | None, features: int) -> None:
    def loss(x: Any) -> Any:
        return tnp.exp(-tnp.sqrt((between(x) ** 2).sum(-1) + 1e-12)).sum()

    x = np.random.default_rng(0).standard_normal((300, features)).astype("float32")
    result = np.asarray(tracer.compile(tracer.grad(loss), memory_limit=limit)(x))
    wide = x.astype("float64")
    d = wide[:, None] - wide[None]
    r = np.sqrt((d**2).sum(-1) + 1e-12)
    expected = (-2 * np.exp(-r) / r)[..., None] * d
    np.testing.assert_allclose(result, expected.sum(1), atol=2e-5 * np.abs(expected.sum(1)).max())


def attraction(x: Any, y: Any) -> Any:
    d = x[:, None] - y[None]
    return (d * softened(d)[..., None]).sum(1)


def potential_slope(x: Any, y: Any) -> Any:
    return tracer.grad(lambda x: tnp.log(((x[:, None] - y[None]) ** 2).sum(-1) + SOFT).sum())(x)


def potential_slope_by_hand(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    d = x[:, None] - y[None]
    return np.asarray((2 * d / ((d**2).sum(-1) + SOFT)[..., None]).sum(1))


@pytest.mark.xla
@pytest.mark.parametrize("limit", [None, "200kB"])
@pytest.mark.parametrize("distance", [0.0, 1e-4])
@pytest.mark.parametrize(
    ("function", "definition"),
    [(attraction, attraction), (potential_slope, potential_slope_by_hand)],
)
def test_close_points_of_two_arrays_keep_their_digits(
    function: Callable[..., Any], definition: Callable[..., Any], distance: float, limit: str | None
) -> None:
    # As products their weights, up to 1e9, leave less than one digit of the differences.
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 3)).astype("float32")
    y = (x + distance * rng.standard_normal((300, 3))).astype("float32")
    result = np.asarray(tracer.compile(function, memory_limit=limit)(x, y))
    expected = definition(x.astype("float64"), y.astype("float64"))
    np.testing.assert_allclose(result, expected, atol=1e-5 * np.abs(expected).max())
