"""Cutting axes that reshapes merge and split: blocks of one side are the elements of the other.

Values are small whole numbers where results are compared bit for bit, so that sums are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import of, text, traced
from tracer.ir import interpret, verify
from tracer.ops.shape import matching_blocks
from tracer.optimizer.loops.split import LoopRow, SplitSettings, driver, split_graph
from tracer.optimizer.passes import PassLog

Array = np.ndarray[Any, Any]
# Every value is large, and every slice too.
SETTINGS = SplitSettings(16, 1, 1, trust_fusion=False)
ROOMY = SplitSettings(64, 1 << 20, 1 << 20, trust_fusion=False)


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype("float64")


@pytest.fixture(params=[1, 2, 3, 5, 16], ids="slices of {}".format)
def steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every trip take this many steps, or half of the axis if there are fewer."""

    def choose(subject: Any, region: Any, *_: Any) -> int:
        return max(1, min(int(request.param), int(region.length) // 2))

    monkeypatch.setattr(driver, "choose_chunk", choose)


def assert_same(
    function: Callable[..., Any], *arrays: Array, chosen: SplitSettings = SETTINGS
) -> tuple[list[LoopRow], PassLog]:
    """Split, and compare with the whole bit for bit."""
    graph, log = traced(function, *of(*arrays)), PassLog()
    result, rows = split_graph(graph, chosen, log)
    verify(result)
    for got, want in zip(interpret(result, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_array_equal(got, want)
    return rows, log


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((8, 5, 3), (40, 3), [(0, 0, 8)]),
        ((40, 3), (8, 5, 3), [(0, 0, 8)]),
        ((2, 3, 4), (2, 12), [(1, 1, 3)]),
        ((6, 4), (4, 6), [(0, 0, 2)]),
        ((3, 4), (4, 3), []),
        ((1, 6, 1), (2, 1, 3), [(1, 0, 2)]),
        ((4, 6, 10), (24, 5, 2), [(0, 0, 4), (2, 1, 5)]),
        ((0, 6), (0, 2, 3), []),
    ],
)
def test_blocks_of_a_reshape(
    before: tuple[int, ...], after: tuple[int, ...], expected: list[tuple[int, int, int]]
) -> None:
    assert matching_blocks(before, after) == expected


def merged(x: Any) -> Any:
    """Merge, work on rows, split again."""
    rows = (x * 2).reshape(-1, x.shape[-1])
    return (rows * rows + 1).reshape(x.shape) * 3


def reduced(x: Any) -> Any:
    return ((x + 1).reshape(-1, x.shape[-1]) * 2).sum(0)


def flattened(x: Any) -> Any:
    return ((x * x).reshape(-1) + 1).sum()


def by_heads(x: Any) -> Any:
    """Split the features into heads, and put them together again."""
    length, features = x.shape
    heads = tnp.transpose((x * 2).reshape(length, 4, features // 4), (1, 0, 2))
    products = heads @ tnp.swapaxes(heads, -1, -2)
    joined = tnp.transpose(products @ heads, (1, 0, 2)).reshape(length, features)
    return joined + x


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize("function", [merged, reduced, flattened])
@pytest.mark.parametrize("shape", [(7, 5, 3), (4, 6, 2), (2, 9, 4), (16, 3, 3)])
def test_slices_of_merged_axes(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    rows, _ = assert_same(function, numbers(*shape))
    assert rows


@pytest.mark.usefixtures("steps")
def test_slices_of_heads() -> None:
    assert_same(by_heads, numbers(5, 12))


@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_one_loop_goes_through_both_reshapes(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "choose_chunk", lambda *_: chunk)
    chosen = SplitSettings(400, 1 << 20, 1 << 20, trust_fusion=False)
    (row,), _ = assert_same(merged, numbers(7, 5, 3), chosen=chosen)
    assert "7 blocks of 5" in row.axis or row.axis.startswith("axis of 7 of")
    assert (row.trips, row.chunk, row.remainder) == (7 // chunk, chunk, 7 % chunk)


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize("name", ["argmax", "argmin", "cumsum", "max", "prod"])
def test_merges_along_an_axis_that_was_merged(name: str) -> None:
    """The loop counts blocks, the index of an extreme and the running line count elements."""
    x = numbers(6, 7, seed=3)
    assert_same(lambda x: getattr(tnp, name)((x * 1).reshape(-1) * 1), x)
    assert_same(lambda x: getattr(tnp, name)((x.reshape(-1) * 1).reshape(3, 14) * 1, axis=0), x)


@pytest.mark.usefixtures("steps")
def test_two_paths_with_different_steps_meet_in_larger_ones() -> None:
    def both(x: Any) -> Any:
        y = x * 2
        return (y.reshape(4, 3, 5) * 3).reshape(12, 5) + (y.reshape(6, 2, 5) + 1).reshape(12, 5)

    assert_same(both, numbers(12, 5))
    rows, log = assert_same(both, numbers(12, 5), chosen=ROOMY)
    assert (rows[0].trips * rows[0].chunk, rows[0].remainder) == (2, 0)
    assert not log.refusals


@pytest.mark.usefixtures("steps")
def test_paths_without_common_steps_store_a_value() -> None:
    """Shares of 4 and of 9 rows out of 36 have only the whole in common."""

    def both(x: Any) -> Any:
        y = x * 2
        return (y.reshape(4, 9) * 3).sum(1), (y.reshape(9, 4) + 1).sum(1)

    _, log = assert_same(both, numbers(36), chosen=ROOMY)
    reasons = " ".join(refusal.reason for refusal in log.refusals)
    assert "blocks only" in reasons


def test_steps_that_break_the_budget_are_not_taken() -> None:
    """Two blocks of 500 rows would be half of everything; rows alone fit."""
    x, w = numbers(2, 500, 4), numbers(4, 64)

    def rows_of(x: Any, w: Any) -> Any:
        return (((x * 2).reshape(1000, 4) @ w) ** 2).sum(1)

    large = SplitSettings(1 << 14, 1 << 20, 1 << 20, trust_fusion=False)
    small = SplitSettings(1 << 14, 1 << 12, 1 << 12, trust_fusion=False)
    coarse, _ = assert_same(rows_of, x, w, chosen=large)
    fine, _ = assert_same(rows_of, x, w, chosen=small)
    assert coarse[0].trips * coarse[0].chunk <= 2
    assert fine[0].trips > 2


@pytest.mark.usefixtures("steps")
def test_softmax_along_a_merged_axis_streams() -> None:
    """What is shifted goes through the reshape; the maximum runs in blocks, too."""
    x = np.random.default_rng(0).standard_normal((6, 7))

    def total(x: Any) -> Any:
        line = tnp.exp(x * 0 + x).reshape(-1)
        return tnp.exp(line - line.max()).sum()

    graph = traced(total, *of(x))
    result, rows = split_graph(graph, SETTINGS, PassLog())
    assert any("rescaled" in name for row in rows for name in row.combiners)
    np.testing.assert_allclose(interpret(result, [x]), interpret(graph, [x]), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize("after", [(40, 12), (40, 2, 6), (5, 8, 4, 3)])
@pytest.mark.parametrize("axes", [0, (0, 2)])
def test_a_shift_whose_own_axes_are_merged_is_right(axes: Any, after: tuple[int, ...]) -> None:
    """The maximum's axes stand in parts of others, where no factor could be written."""
    x = np.random.default_rng(0).standard_normal((40, 4, 3)) * 3

    def sums(x: Any) -> Any:
        y = tnp.sin(x) * 5
        shifted = y - y.max(axes, keepdims=True)
        return tnp.exp(shifted.reshape(after)).sum(0)

    graph = traced(sums, *of(x))
    result, _ = split_graph(graph, SETTINGS, PassLog())
    np.testing.assert_allclose(interpret(result, [x])[0], interpret(graph, [x])[0], rtol=1e-12)


@pytest.mark.usefixtures("steps")
def test_a_maximum_that_comes_back_in_another_order_is_no_bound() -> None:
    """Turned round within blocks it is the maximum of other elements: sums could overflow."""
    x = np.random.default_rng(0).standard_normal((40, 12))

    def sums(x: Any) -> Any:
        y = tnp.sin(x) * 5
        turned = y.max(0).reshape(4, 3)[:, ::-1].reshape(12)
        return tnp.exp(y - turned).sum(0)

    graph = traced(sums, *of(x))
    result, rows = split_graph(graph, SETTINGS, PassLog())
    assert not any("rescaled" in name for row in rows for name in row.combiners)
    np.testing.assert_allclose(interpret(result, [x])[0], interpret(graph, [x])[0], rtol=1e-12)


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize("function", [merged, reduced, flattened])
def test_gradients_and_batches(function: Callable[..., Any]) -> None:
    x = numbers(4, 3, 2)
    assert_same(tracer.grad(lambda x: (function(x) * 2).sum()), x)
    assert_same(tracer.vmap(function), numbers(3, 4, 3, 2))
    assert_same(tracer.vmap(function, in_axes=2), numbers(4, 3, 3, 2))


BATCH, LENGTH, WIDTH, HEADS = 4, 6, 8, 2


def block(x: Any, w: Any, out: Any) -> Any:
    """One attention layer with heads, as it is written by hand."""
    heads = (x.reshape(-1, WIDTH) @ w).reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS)
    heads = tnp.transpose(heads, (0, 2, 1, 3))
    weights = tracer.nn.softmax(heads @ tnp.swapaxes(heads, -1, -2))
    joined = tnp.transpose(weights @ heads, (0, 2, 1, 3)).reshape(-1, WIDTH)
    return (joined @ out).reshape(BATCH, LENGTH, WIDTH) + x


def arrays_of_block() -> list[Array]:
    rng = np.random.default_rng(0)
    shapes = (BATCH, LENGTH, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH)
    return [rng.standard_normal(shape) for shape in shapes]


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize("gradient", [False, True], ids=["value", "gradient"])
def test_an_attention_layer_runs_in_one_loop_over_the_batch(gradient: bool) -> None:
    function = tracer.grad(lambda *a: (block(*a) ** 2).sum(), (0, 1, 2)) if gradient else block
    arrays = arrays_of_block()
    graph = traced(function, *of(*arrays))
    result, rows = split_graph(graph, ROOMY, PassLog())
    verify(result)
    assert len(rows) == 1
    assert rows[0].trips * rows[0].chunk + rows[0].remainder == BATCH
    for got, want in zip(interpret(result, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_what_is_written_for_a_merged_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "choose_chunk", lambda *_: 2)
    graph = traced(lambda x: tnp.sin(tnp.cos(x).reshape(12, 5)), ((4, 3, 5), "float32"))
    result, _ = split_graph(graph, ROOMY, PassLog())
    assert text(result) == GOLDEN


GOLDEN = """
graph(%0: float32[4,3,5]) {
  %1: float32[] = constant() {value=float32[] 0.0}
  %2: float32[12,5] = broadcast_in_dim(%1) {shape=(12, 5), dimensions=()}
  %3: int32[] = constant() {value=int32[] 0}
  %4: int32[], %5: float32[12,5], %6: float32[4,3,5] = while(%3, %2, %0) with
    condition=graph(%0: int32[], %1: float32[12,5], %2: float32[4,3,5]) {
      %3: int32[] = constant() {value=int32[] 2}
      %4: bool[] = compare(%0, %3) {direction='LT'}
      return %4
    }
    body=graph(%0: int32[], %1: float32[12,5], %2: float32[4,3,5]) {
      %3: int32[] = constant() {value=int32[] 2}
      %4: int32[] = multiply(%0, %3)
      %5: int32[] = constant() {value=int32[] 0}
      %6: float32[2,3,5] = dynamic_slice(%2, %4, %5, %5) {sizes=(2, 3, 5)}
      %7: float32[2,3,5] = cosine(%6)
      %8: float32[6,5] = reshape(%7) {shape=(6, 5)}
      %9: int32[] = constant() {value=int32[] 3}
      %10: int32[] = multiply(%4, %9)
      %11: float32[6,5] = sine(%8)
      %12: int32[] = constant() {value=int32[] 0}
      %13: float32[12,5] = dynamic_update_slice(%1, %11, %10, %12)
      %14: int32[] = constant() {value=int32[] 1}
      %15: int32[] = add(%0, %14)
      return %15, %13, %2
    }
  return %5
}
""".strip()


@st.composite
def factorings(draw: Callable[..., Any], size: int) -> tuple[int, ...]:
    """Draw a shape with `size` elements."""
    sizes: list[int] = []
    while size > 1 and len(sizes) < 3:
        size //= (factor := draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0])))
        sizes.append(factor)
    return (*sizes, size)


@st.composite
def programs(draw: Callable[..., Any]) -> tuple[tuple[int, ...], list[Any]]:
    size = draw(st.sampled_from([24, 30, 36, 64]))
    count = draw(st.integers(2, 5))
    return draw(factorings(size)), [
        (draw(factorings(size)), draw(st.sampled_from(["plain", "turned", "twice", "summed"])))
        for _ in range(count)
    ]


def run(x: Any, chain: Sequence[tuple[tuple[int, ...], str]]) -> Any:
    results, y = [], x * 2
    for shape, kind in chain:
        y = y.reshape(shape) + 1
        if kind == "turned":
            y = tnp.transpose(y) * 2
        elif kind == "twice":
            y = y + (x.reshape(shape) * 3)
        elif kind == "summed":
            results.append(y.sum(0))
    return (*results, y)


@pytest.mark.slow
@given(programs(), st.integers(1, 7))
@settings(max_examples=60, deadline=None)
def test_any_chain_of_reshapes(program: tuple[tuple[int, ...], list[Any]], chunk: int) -> None:
    shape, chain = program
    with pytest.MonkeyPatch.context() as patch:
        choose = lambda subject, region, *_: max(1, min(chunk, region.length // 2))
        patch.setattr(driver, "choose_chunk", choose)
        x = numbers(*shape)
        assert math.prod(shape) == x.size
        for chosen in (SETTINGS, ROOMY):
            assert_same(lambda x: run(x, chain), x, chosen=chosen)
