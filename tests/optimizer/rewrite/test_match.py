"""What the match passes rewrite, what they leave alone, and how accurate the result is."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, of, ops_of, traced
from tracer import ops
from tracer.ir import Builder, Graph, ShapeDtype
from tracer.ops.helpers import full_like
from tracer.optimizer.rewrite.match import CONTRACTIONS, UNROLL, unroll_without_product_pass

pytestmark = pytest.mark.usefixtures("small_matches")
POINTS = (((40, 20), "float32"), ((50, 20), "float32"))
EPS = float(np.finfo(np.float32).eps)


def difference(x, y):
    return x[:, None, :] - y[None, :, :]


MATCHED = {
    "squared distance": lambda x, y: (difference(x, y) ** 2).sum(-1),
    "a product with itself": lambda x, y: (difference(x, y) * difference(x, y)).sum(-1),
    "abs squared": lambda x, y: (abs(difference(x, y)) ** 2).sum(-1),
    "over another axis": lambda x, y: (difference(x, y) ** 2).sum(0),
    "over two axes": lambda x, y: (difference(x, y) ** 2).sum((0, 1)),
    "mean": lambda x, y: (difference(x, y) ** 2).mean(-1),
    "scaled": lambda x, y: (0.5 * difference(x, y) ** 2).sum(-1),
    "divided by lengths": lambda x, y: ((difference(x, y) / (1 + y[0] ** 2)) ** 2).sum(-1),
    "weighted": lambda x, y: (difference(x, y) ** 2 * abs(x[0])).sum(-1),
    "sum of opposite signs": lambda x, y: ((x[:, None] + (-y)[None]) ** 2).sum(-1),
    "inner product": lambda x, y: (x[:, None] * y[None]).sum(-1),
    "difference times one side": lambda x, y: (difference(x, y) * x[:, None]).sum(1),
}
LEFT_ALONE = {
    "the largest square": (lambda x, y: (difference(x, y) ** 2).max(-1), None),
    "absolute differences": (lambda x, y: abs(difference(x, y)).sum(-1), "abs is as large"),
    "square roots": (lambda x, y: (difference(x, y) ** 0.5).sum(-1), "no polynomial"),
    "an exponent just above 2": (
        lambda x, y: (difference(x, y) ** np.float32(2.0000002)).sum(-1),
        "not exactly 2",
    ),
    "a factor as large as the sum": (
        lambda x, y: (difference(x, y) ** 2 * tnp.exp(difference(x, y))).sum(-1),
        "as large as the sum",
    ),
    "a constant term": (lambda x, y: (difference(x, y) + 1).sum(-1), "constant term"),
    "squares of a shifted difference": (
        lambda x, y: ((difference(x, y) + x[0]) ** 2).sum(-1),
        "may cancel",
    ),
    "zero": (lambda x, y: (difference(x, y) * 0).sum(-1), "it is zero"),
    "a coefficient that overflows": (
        lambda x, y: ((difference(x, y) * 1e25) ** 2).sum(-1),
        "too extreme",
    ),
}


def matched(function, *types) -> tuple[Graph, Graph, list[str]]:
    before = traced(function, *types)
    after, log = apply(CONTRACTIONS, before)
    return before, after, [str(refusal) for refusal in log.refusals]


def points(offset: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape) + offset for (shape, _) in POINTS)
    return x.astype(np.float32), y.astype(np.float32)


def in_float64(function, *arrays: np.ndarray) -> np.ndarray:
    """Evaluate the direct form in float64 on the very same float32 data."""
    wide = [array.astype(np.float64) for array in arrays]
    with np.errstate(all="ignore"):
        return evaluated(traced(function, *of(*wide)), *wide)[0]


@pytest.mark.parametrize("name", MATCHED)
def test_matches(name: str) -> None:
    before, after, refusals = matched(MATCHED[name], *POINTS)
    assert refusals == []
    assert after is not before
    assert max(n.types[0].size for n in after.nodes) < 40 * 50 * 20


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_near_misses_are_left_alone(name: str) -> None:
    function, reason = LEFT_ALONE[name]
    before, after, refusals = matched(function, *POINTS)
    assert after is before
    assert (reason is None) == (refusals == [])
    assert all(reason in refusal and "test_match.py" in refusal for refusal in refusals)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "complex64"])
def test_only_real_floats_match(dtype: str) -> None:
    types = [(shape, dtype) for shape, _ in POINTS]
    before, after, refusals = matched(lambda x, y: (difference(x, y) ** 2).sum(-1), *types)
    assert after is before
    assert len(refusals) == 1
    assert "not a real floating type" in refusals[0]


@pytest.mark.parametrize("exponent", [3.0, 2.0000002, 1.0, -2.0, 0.5])
def test_a_power_matches_only_with_exponent_two(exponent: float) -> None:
    def graph(number: float) -> Graph:
        with Builder() as builder:
            x, y = (builder.input(ShapeDtype(*type)) for type in POINTS)
            left = ops.broadcast_in_dim(x, shape=(40, 50, 20), dimensions=(0, 2))
            right = ops.broadcast_in_dim(y, shape=(40, 50, 20), dimensions=(1, 2))
            base = ops.subtract(left, right)
            power = ops.power(base, full_like(base, number))
            return builder.finish([ops.reduce_add(power, axes=(2,))])

    assert apply(CONTRACTIONS, graph(2.0))[0] is not None
    assert "dot_general" in ops_of(apply(CONTRACTIONS, graph(2.0))[0])
    before = graph(exponent)
    after, log = apply(CONTRACTIONS, before)
    assert after is before
    assert "not exactly 2" in str(log.refusals[0])


@pytest.mark.parametrize("offset", [0.0, 1e4, -1e6])
@pytest.mark.parametrize("name", MATCHED)
def test_error_is_bounded_by_the_spread(name: str, offset: float) -> None:
    """Against float64: at most 40 roundings of what the same sum is for far spread points.

    The scale is that of the largest absolute term. For squared distances of data with offset it is
    the squared spread, not the squared offset: that is what centring is for. The weights and the
    factors that the user does not subtract from anything keep their offset.
    """
    function = MATCHED[name]
    x, y = points(offset)
    want = in_float64(function, x, y)
    scale = max(
        np.abs(want).max(),
        np.abs(in_float64(lambda x, y: abs(function(x, y)), x, y)).max(),
        float(np.abs(difference(x, y)).max() ** 2) * 20,
        float(np.abs(x).max() * np.abs(y).max()) if "side" in name else 0,
    )
    _, after, _ = matched(function, *POINTS)
    got = evaluated(after, x, y)[0]
    lengths_rounding = 2 * np.abs(offset) if name == "divided by lengths" else 0
    assert np.abs(got - want).max() <= 40 * EPS * (scale + lengths_rounding)


@pytest.mark.parametrize(
    "name", ["squared distance", "abs squared", "mean", "scaled", "divided by lengths", "weighted"]
)
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_distances_to_itself_are_not_negative(name: str, offset: float) -> None:
    x, _ = points(offset)
    after = matched(MATCHED[name], POINTS[0], POINTS[0])[1]
    assert evaluated(after, x, x)[0].min() >= 0


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", ["squared distance", "scaled", "weighted", "mean"])
def test_values_that_are_not_finite_stay_where_they_are(name: str, value: float) -> None:
    """Infinity stays infinity, NaN stays NaN, and neither spoils another row through the centre."""
    x, y = points()
    y[2, 1] = value
    function = MATCHED[name]
    _, after, _ = matched(function, *POINTS)
    got, want = evaluated(after, x, y)[0], in_float64(function, x, y)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    finite = np.isfinite(want)
    np.testing.assert_allclose(got[finite], want[finite], rtol=1e-5, atol=1e-5)


def test_two_equal_infinities_give_infinity_as_documented() -> None:
    x, _ = points()
    x[3, 0] = np.inf
    function = MATCHED["squared distance"]
    after = matched(function, POINTS[0], POINTS[0])[1]
    assert np.isnan(in_float64(function, x, x)[3, 3])
    assert evaluated(after, x, x)[0][3, 3] == np.inf


def test_unrolled_reductions_are_exact() -> None:
    """Terms are added in the order of the axis, as the interpreter adds up to eight of them."""
    types = [((40, 3), "float32"), ((50, 3), "float32")]
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(shape).astype(np.float32) + 1e4 for shape, _ in types)
    for function in (
        lambda x, y: (difference(x, y) ** 2).sum(-1),
        lambda x, y: abs(difference(x, y)).max(-1),
        lambda x, y: difference(x, y).min(-1),
        lambda x, y: (difference(x, y) > 0).all(-1),
        lambda x, y: tnp.exp(difference(x, y)).prod(-1),
    ):
        before = traced(function, *types)
        after, log = apply(UNROLL, before)
        assert log.applied
        np.testing.assert_array_equal(evaluated(after, x, y)[0], evaluated(before, x, y)[0])


def test_sums_that_are_no_products_are_unrolled_for_more_terms() -> None:
    def absolute(x, y):
        return abs(difference(x, y)).sum(-1)

    for terms, is_unrolled in ((9, True), (32, True), (33, False)):
        types = [((40, terms), "float32"), ((50, terms), "float32")]
        rng = np.random.default_rng(1)
        x, y = (rng.standard_normal(shape).astype(np.float32) for shape, _ in types)
        before = traced(absolute, *types)
        assert apply(UNROLL, before)[0] is before
        after, log = apply(unroll_without_product_pass(), before)
        assert bool(log.applied) == is_unrolled == ("reduce_add" not in ops_of(after))
        np.testing.assert_allclose(
            evaluated(after, x, y)[0], evaluated(before, x, y)[0], rtol=terms * 2**-23
        )


@pytest.mark.parametrize(
    ("rows", "points", "has_runs"),
    [(20, 6000, True), (20, 400, False), (3, 40_000, False)],
    ids=["large", "little work", "few readers"],
)
def test_features_are_stored_in_runs_where_that_is_little(
    rows: int, points: int, has_runs: bool
) -> None:
    """Points that lie side by side are read with a stride, which is slow; a copy takes memory."""
    graph = traced(
        lambda x, y: abs(difference(x, y)).sum(-1),
        ((rows, 10), "float32"),
        ((points, 10), "float32"),
    )
    after, log = apply(unroll_without_product_pass(), graph)
    assert log.applied
    barriers = [node for node in after.nodes if node.op is ops.optimization_barrier]
    stored = [type.size for node in barriers for type in node.types]
    assert (stored.count(points) == 10) == has_runs
    assert has_runs or points not in stored


def test_operands_that_are_much_of_a_limit_are_not_stored_by_features() -> None:
    types = [((20, 10), "float32"), ((6000, 10), "float32")]
    graph = traced(lambda x, y: abs(difference(x, y)).sum(-1), *types)
    operands = 4 * (200 + 60_000)
    after, log = apply(unroll_without_product_pass(8 * operands), graph)
    assert log.applied
    after, log = apply(unroll_without_product_pass(8 * operands - 1), graph)
    assert after is graph
    assert "much of the limit" in str(log.refusals[0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_reductions_of_narrow_floats_are_not_unrolled(dtype: str) -> None:
    """XLA adds them in float32 and rounds once; term by term each sum would be rounded."""
    with Builder() as builder:
        x = builder.input(ShapeDtype((40, 3), dtype))
        wide = ops.broadcast_in_dim(x, shape=(40, 50, 3), dimensions=(0, 2))
        graph = builder.finish([ops.reduce_add(ops.exponential(wide), axes=(2,))])
    assert apply(UNROLL, graph)[0] is graph


def test_long_terms_are_not_written_out() -> None:
    def powers(x: Any, steps: int) -> Any:
        terms = x[:, None, :] - x[None, :, :]
        for _ in range(steps):
            terms = terms * terms + 1
        return terms.sum(-1)

    for steps, is_unrolled in ((10, True), (100, False)):
        graph = traced(partial(powers, steps=steps), ((200, 4), "float32"))
        after, log = apply(UNROLL, graph)
        assert bool(log.applied) == is_unrolled == ("reduce_add" not in ops_of(after))
    assert "its 4 terms are" in log.refusals[0].reason


def test_a_stored_operand_is_not_unrolled() -> None:
    graph = traced(lambda x: tnp.sort(x, axis=0).sum(-1), ((50, 3), "float32"))
    after, log = apply(UNROLL, graph)
    assert after is graph
    assert "sort stores the array that is reduced" in str(log.refusals[0])


def test_places_of_extremes_over_a_short_axis_are_not_written_out() -> None:
    """The terms of an arg-max do not simply join: each has its place."""
    graph = traced(
        lambda x, y: tnp.argmax(x[:, None] - y[None], axis=-1),
        ((200, 3), "float32"),
        ((200, 3), "float32"),
    )
    assert apply(UNROLL, graph)[0] is graph
