"""Sums that hang on a maximum over the cut axis run in one loop with it, or are left alone."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply as apply_pass
from tests.optimizer.graphs import of, traced
from tracer import nn
from tracer.ir import Graph, interpret, print_graph, verify
from tracer.optimizer.loops.split import LoopRow, SplitSettings, driver, split_graph
from tracer.optimizer.model.liveness import peak_bytes
from tracer.optimizer.passes import PassLog
from tracer.optimizer.pipeline import EXPAND, PlannerOptions
from tracer.optimizer.planner import Planner
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS
from tracer.scipy import special

Array = np.ndarray[Any, Any]
Split = Callable[[Graph], tuple[Graph, list[LoopRow]]]
CHUNKS = (1, 2, 5, 13, 30)
SETTINGS = SplitSettings(200, 1, 1 << 20, trust_fusion=False)
RESCALED = "add, rescaled"


@pytest.fixture(params=CHUNKS, ids="slices of {}".format)
def split(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Split:
    return split_by(request.param, monkeypatch)


@pytest.fixture
def split_in_fives(monkeypatch: pytest.MonkeyPatch) -> Split:
    return split_by(5, monkeypatch)


def split_by(size: int, monkeypatch: pytest.MonkeyPatch) -> Split:
    def choose(subject: Any, region: Any, *_: Any) -> int:
        return max(1, min(size, region.length // 2))

    monkeypatch.setattr(driver, "choose_chunk", choose)
    return lambda graph: split_graph(graph, SETTINGS, PassLog())


def assert_same(before: Graph, after: Graph, arrays: Any, tolerance: float = 1e-5) -> None:
    verify(after)
    for got, want in zip(interpret(after, arrays), interpret(before, arrays), strict=True):
        got, want = got.astype("float64"), want.astype("float64")
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def awkward() -> dict[str, Array]:
    """Return columns of 61 floats in which the largest one, or what is not finite, comes late."""
    plain = np.random.default_rng(0).normal(size=(61, 3)).astype("float32") * 20
    found = {"plain": plain, "rising": np.sort(plain, 0), "falling": np.sort(plain, 0)[::-1].copy()}
    found["far"] = plain - 1000
    found["ties"] = np.round(plain / 20)
    found["nan first"], found["nan last"] = plain.copy(), plain.copy()
    found["nan first"][0, 0], found["nan last"][-1, 1] = np.nan, np.nan
    found["nothing yet"] = plain - 500
    found["nothing yet"][:40] = -np.inf
    found["nothing at all"] = plain.copy()
    found["nothing at all"][:, 1] = -np.inf
    found["gaps"] = plain.copy()
    found["gaps"][::2, 0], found["gaps"][1::3, 2] = -np.inf, -np.inf
    found["infinite"] = plain.copy()
    found["infinite"][30, 0], found["infinite"][0, 1], found["infinite"][-1, 2] = [np.inf] * 3
    found["infinite and nan"] = found["infinite"].copy()
    found["infinite and nan"][45, 0] = np.nan
    return found


V = np.random.default_rng(1).normal(size=(61, 3)).astype("float32")


def softmax_weighted(x: Any, v: Any) -> Any:
    return (special.softmax(x, 0) * v).sum(0)


def careless(x: Any, v: Any) -> Any:
    weights = tnp.exp(x - x.max(0))
    return (weights * v).sum(0) / weights.sum(0), weights.sum(0)


def by_logarithm(x: Any, v: Any) -> Any:
    return (tnp.exp(x - special.logsumexp(x, 0)) * v).sum(0)


def by_log_softmax(x: Any, v: Any) -> Any:
    return (tnp.exp(special.log_softmax(x, 0)) * v).sum(0)


def smallest(x: Any, v: Any) -> Any:
    weights = tnp.exp(-(x - x.min(0)) / 2.5)
    return (weights * v).sum(0) / weights.sum(0)


def smallest_turned(x: Any, v: Any) -> Any:
    return (tnp.exp(0.25 * (x.min(0) - x)) * v).sum(0)


def log_sum(x: Any, v: Any) -> Any:
    return special.logsumexp(x, 0), special.logsumexp(x, 0, b=v * v)


def squared(x: Any, v: Any) -> Any:
    weights = tnp.exp(x - tnp.max(x, 0))
    return weights.sum(0) ** 2 / (weights * weights).sum(0)


STREAMS = [softmax_weighted, careless, by_logarithm, by_log_softmax, smallest, smallest_turned]
STREAMS += [log_sum, squared]


def doubled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let the elements be computed, so that a second loop would compute them again."""
    return lambda x, v: function(x + x, v)


@pytest.mark.slow
@pytest.mark.parametrize("function", STREAMS, ids=lambda f: f.__name__)
def test_one_loop_gives_what_the_whole_gives(split: Split, function: Any) -> None:
    graph = traced(doubled(function), *of(V, V))
    result, rows = split(graph)
    assert len(rows) == 1
    assert RESCALED in rows[0].combiners
    for x in awkward().values():
        assert_same(graph, result, [x, V])


def test_float64_keeps_its_digits(split_in_fives: Split) -> None:
    rng = np.random.default_rng(2)
    x, v = rng.normal(size=(2, 300, 3)) * 5
    for function in STREAMS:
        graph = traced(doubled(function), *of(x, v))
        assert_same(graph, split_in_fives(graph)[0], [x, v], 1e-13)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_added_in_float32(split: Split, dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x, v = (np.random.default_rng(3).normal(size=(2, 61, 3)) * 3).astype(kind)
    graph = traced(doubled(softmax_weighted), *of(x, v))
    result, rows = split(graph)
    assert RESCALED in rows[0].combiners
    assert_same(graph, result, [x, v], 3e-2)


def other_operand(x: Any, v: Any) -> Any:
    return tnp.exp(v * 3 - (x * 2).max(0)).sum(0)


def with_bias(x: Any, v: Any) -> Any:
    y = x * 2
    return tnp.exp(y - y.max(0) + v).sum(0)


def growing(x: Any, v: Any) -> Any:
    y = x * 2
    return tnp.exp(y.max(0) - y).sum(0)


def steeper(x: Any, v: Any) -> Any:
    y = x * 2
    return tnp.exp(3 * y - y.max(0)).sum(0)


def from_minimum(x: Any, v: Any) -> Any:
    y = x * 2
    return tnp.exp(y - y.min(0)).sum(0)


def masked(x: Any, v: Any) -> Any:
    y = x * 2
    return tnp.where(y > -900, tnp.exp(y - y.max(0)), 0).sum(0)


def not_linear(x: Any, v: Any) -> Any:
    y = x * 2
    return tnp.tanh(tnp.exp(y - y.max(0))).sum(0)


def reciprocal(x: Any, v: Any) -> Any:
    y = x * 2
    return (v / tnp.exp(y - y.max(0))).sum(0)


def largest_weight(x: Any, v: Any) -> Any:
    y = x * 2
    return tnp.exp(y - y.max(0)).max(0)


def with_a_constant(x: Any, v: Any) -> Any:
    y = x * 2
    return (tnp.exp(y - y.max(0)) + v).sum(0)


def over_both_axes(x: Any, v: Any) -> Any:
    y = x * 2
    return tnp.exp(y - y.max(0)).sum()


def spread(x: Any, v: Any) -> Any:
    y = x * 2
    return ((y - y.mean(0)) ** 2).mean(0)


def compared(x: Any, v: Any) -> Any:
    y = x * 2
    return tnp.where(y == y.max(0), v, 0).sum(0)


REFUSED = [other_operand, with_bias, growing, steeper, from_minimum, masked, not_linear, reciprocal]
REFUSED += [largest_weight, with_a_constant, over_both_axes, spread, compared]


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_does_not_change_by_a_bounded_factor_takes_its_own_loop(
    split_in_fives: Split, function: Any
) -> None:
    graph = traced(function, *of(V, V))
    result, rows = split_in_fives(graph)
    assert rows
    assert "rescaled" not in str([row.combiners for row in rows])
    for x in awkward().values():
        assert_same(graph, result, [x, V])


def test_a_maximum_of_other_rows_bounds_nothing(split_in_fives: Split) -> None:
    def crossed(x: Any) -> Any:
        y = x * 2
        return tnp.exp(y - y.max(2).T[:, :, None]).sum(2)

    x = np.random.default_rng(4).normal(size=(3, 3, 61)).astype("float32") * 30
    x[0] += 300  # from the maximum of another row the exponential is beyond all floats
    graph = traced(crossed, *of(x))
    result, rows = split_in_fives(graph)
    assert not any(RESCALED in row.combiners for row in rows)
    assert_same(graph, result, [x])


def test_a_maximum_that_is_changed_on_its_way_is_put_right_after_the_loop(split: Split) -> None:
    """The loop counts from the running maximum, whatever becomes of it later."""

    def shifted(x: Any, v: Any) -> Any:
        y = x * 2
        return (tnp.exp(y - tnp.maximum(y.max(0), 0.5) + 3) * v).sum(0)

    def twice(x: Any, v: Any) -> Any:
        y = x * 2
        return tnp.exp(y - 2 * y.max(0)).sum(0)

    for function in (shifted, twice):
        graph = traced(function, *of(V, V))
        result, rows = split(graph)
        assert any(RESCALED in row.combiners for row in rows) == (function is twice)
        assert_same(graph, result, [V, V])


def test_heads_of_later_levels_keep_their_loops(split_in_fives: Split) -> None:
    def all_results(x: Any, v: Any) -> Any:
        y = x * 2
        weights = special.softmax(y, 0)
        mean = (weights * v).sum(0)
        return mean, (weights * (v - mean) ** 2).sum(0)

    graph = traced(all_results, *of(V[:, :1], V[:, :1]))
    result, rows = split_in_fives(graph)
    assert set(rows[0].combiners) == {RESCALED, "maximum"}
    assert set(rows[1].combiners) == {"add"}
    assert len(rows) == 2
    for x in awkward().values():
        assert_same(graph, result, [x[:, :1], V[:, :1]])


def test_elements_that_are_there_need_no_streaming(split_in_fives: Split) -> None:
    """The maximum of an argument is found before any loop: nothing would be computed again."""
    graph = traced(lambda x, v: (tnp.exp(x - x.max(0)) * v).sum(0), *of(V, V))
    _, rows = split_in_fives(graph)
    assert [row.combiners for row in rows] == [("add",)]


GOLDEN = """
    graph(%0: int32[], %1: float32[1], %2: float32[1], %3: float32[1], %4: float32[40,1], \
%5: float32[40,1]) {
      %6: int32[] = constant() {value=int32[] 8}
      %7: int32[] = multiply(%0, %6)
      %8: int32[] = constant() {value=int32[] 0}
      %9: float32[8,1] = dynamic_slice(%4, %7, %8) {sizes=(8, 1)}
      %10: float32[8,1] = add(%9, %9)
      %11: float32[1] = reduce_maximum(%10) {axes=(0,)}
      %12: float32[1] = maximum(%3, %11)
      %13: bool[1] = is_finite(%12)
      %14: float32[] = constant() {value=float32[] 0.0}
      %15: float32[1] = broadcast_in_dim(%14) {shape=(1,), dimensions=()}
      %16: float32[1] = select(%13, %12, %15)
      %17: float32[1] = broadcast_in_dim(%16) {shape=(1,), dimensions=(0,)}
      %18: float32[8,1] = broadcast_in_dim(%17) {shape=(8, 1), dimensions=(1,)}
      %19: float32[8,1] = subtract(%10, %18)
      %20: float32[8,1] = exponential(%19)
      %21: float32[8,1] = dynamic_slice(%5, %7, %8) {sizes=(8, 1)}
      %22: float32[8,1] = multiply(%20, %21)
      %23: float32[1] = reduce_add(%22) {axes=(0,)}
      %24: bool[1] = is_finite(%3)
      %25: float32[1] = select(%24, %3, %15)
      %26: float32[1] = subtract(%16, %25)
      %27: float32[1] = negate(%26)
      %28: float32[1] = exponential(%27)
      %29: float32[1] = broadcast_in_dim(%28) {shape=(1,), dimensions=(0,)}
      %30: float32[1] = multiply(%2, %29)
      %31: bool[1] = compare(%2, %15) {direction='EQ'}
      %32: float32[1] = select(%31, %2, %30)
      %33: float32[1] = add(%32, %23)
      %34: float32[1] = reduce_add(%20) {axes=(0,)}
      %35: float32[1] = multiply(%1, %29)
      %36: bool[1] = compare(%1, %15) {direction='EQ'}
      %37: float32[1] = select(%36, %1, %35)
      %38: float32[1] = add(%37, %34)
      %39: int32[] = constant() {value=int32[] 1}
      %40: int32[] = add(%0, %39)
      return %40, %38, %33, %12, %4, %5
    }
"""


def test_a_loop_that_stays_all_the_same_keeps_its_sums(split_in_fives: Split) -> None:
    """The second loop would compute the exponentials once more for what streamed."""

    def both(x: Any) -> Any:
        y = x * 2
        weights = tnp.exp(y - y.max(0))
        return weights.sum(0), tnp.tanh(weights).sum(0)

    graph = traced(both, *of(V[:, :1]))
    result, rows = split_in_fives(graph)
    assert [sorted(row.combiners) for row in rows] == [["maximum"], ["add", "add"]]
    assert_same(graph, result, [V[:, :1]])


def test_online_softmax_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    traced_graph = traced(doubled(careless), ((40, 1), "float32"), ((40, 1), "float32"))
    graph, _ = apply_pass(COMMON_SUBEXPRESSIONS, traced_graph)
    monkeypatch.setattr(driver, "choose_chunk", lambda *_: 8)
    result, rows = split_graph(graph, SplitSettings(100, 1, 1 << 20, trust_fusion=False), PassLog())
    assert sorted(rows[0].combiners) == [RESCALED, RESCALED, "maximum"]
    (loop,) = [node for node in result.nodes if node.bodies]
    body, _ = apply_pass(COMMON_SUBEXPRESSIONS, loop.params["body"])
    assert print_graph(body, sources=False).strip() == dedent(GOLDEN).strip()


def attention(q: Any, k: Any, v: Any) -> Any:
    return nn.dot_product_attention(q, k, v)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_one_query_over_many_keys(causal: bool) -> None:
    function = lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=causal)
    q, k, v = ((8, 1, 16), "float32"), ((30_000, 1, 16), "float32"), ((30_000, 1, 16), "float32")
    assert_one_loop(traced(function, q, k, v), 0.3)


def test_log_sum_exp_of_a_million_scores() -> None:
    function = lambda q, k: special.logsumexp(q @ k.T, axis=1)
    assert_one_loop(traced(function, ((2, 4), "float32"), ((1_000_000, 4), "float32")), 0.1)


def assert_one_loop(graph: Graph, share: float) -> None:
    """Check that the smallest plan is one streaming loop; its peak beyond arguments is a share."""
    planner = Planner(graph, PlannerOptions())
    smallest = planner.smallest()
    streaming = [row for row in smallest.loops if RESCALED in row.combiners]
    assert streaming
    assert len(smallest.loops) <= 2
    fixed = planner.fixed_bytes
    assert smallest.peak_bytes - fixed < share * (peak_bytes(planner.graph) - fixed)


def test_within_vmap_grad_and_scan(split_in_fives: Split) -> None:
    rng = np.random.default_rng(6)
    queries, points = rng.normal(size=(2, 3)), rng.normal(size=(61, 3))

    def energy(query: Any, points: Any) -> Any:
        return special.logsumexp(-((query - points) ** 2).sum(1))

    def all_queries(queries: Any, points: Any) -> Any:
        return tracer.vmap(energy, (0, None))(queries, points)

    def one_by_one(queries: Any, points: Any) -> Any:
        step = lambda carry, query: (carry + 1, energy(query, points))
        return tracer.control.scan(step, tnp.zeros(()), queries)

    def gradients(queries: Any, points: Any) -> Any:
        gradient = tracer.grad(energy, (0, 1))
        hessian = tracer.grad(lambda query: gradient(query, points)[0].sum())
        return gradient(queries[0], points), hessian(queries[1])

    for function in (all_queries, one_by_one, gradients):
        graph = apply_pass(EXPAND, traced(function, *of(queries, points)))[0]
        assert_same(graph, split_in_fives(graph)[0], [queries, points], 1e-12)


@pytest.mark.xla
def test_compiled_streams_give_the_values_of_the_whole() -> None:
    rng = np.random.default_rng(7)
    q, k, v = (rng.normal(size=(n, 1, 8)).astype("float32") for n in (4, 20_000, 20_000))
    k[:7000, :, 0], q[..., 0] = -np.inf, 1  # nothing in the first slices
    plain, tight = tracer.compile(attention), tracer.compile(attention, memory_limit="1.5MB")
    plan = tight.plan(q, k, v)
    assert any(RESCALED in row.combiners for row in plan.loops)
    np.testing.assert_allclose(np.asarray(tight(q, k, v)), np.asarray(plain(q, k, v)), rtol=2e-4)
