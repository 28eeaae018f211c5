"""The shard pass: the same values, parts of the right size, and refusals with their reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

import tracer.numpy as tnp
from tests.optimizer.graphs import of, ops_of, text, traced
from tests.optimizer.random_programs import Program, programs, settings
from tracer import nn
from tracer.autodiff import value_and_gradient
from tracer.errors import ShapeError
from tracer.ir import Builder, Graph, ShapeDtype, interpret, verify, verify_same_signature
from tracer.ops import add, shard
from tracer.optimizer.loops.split import SplitSettings, split_graph
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.partition import alike_axes, device_view, input_axes, output_axes, shard_graph
from tracer.optimizer.passes import PassLog

SETTINGS = SplitSettings(1 << 10, 1 << 14, 1 << 14)
TOLERANCE = 1e-9


def kernel_product(x: Any, y: Any, v: Any) -> Any:
    return tnp.exp(-((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)) @ v


def points(n: int = 64) -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape) for shape in ((n, 2), (n, 2), (n, 3))]


def sharded(
    graph: Graph, count: int = 4, chosen: SplitSettings = SETTINGS
) -> tuple[Graph, PassLog]:
    log = PassLog()
    result = shard_graph(graph, count, chosen, log)
    verify(result)
    verify_same_signature(graph, result)
    return result, log


def assert_same(before: Graph, after: Graph, arrays: Any, tolerance: float = TOLERANCE) -> None:
    wanted = interpret(before, arrays)
    for got, want in zip(interpret(after, arrays), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_rows_are_spread_and_inputs_with_them() -> None:
    arrays = points()
    graph = traced(kernel_product, *of(*arrays))
    result, log = sharded(graph)
    assert_same(graph, result, arrays)
    assert ops_of(result).count("shard") == 1
    assert input_axes(result) == (0, None, None)
    assert output_axes(result) == (0,)
    (line,) = log.applied
    assert "4 devices, 16 on each" in line
    assert "kernel_product" in line


def test_outputs_that_return_as_inputs_lie_like_these() -> None:
    def program(x: Any, y: Any, v: Any, small: Any) -> Any:
        made = kernel_product(x, y, v)
        # All of v is read, and its parts; x is returned as it was.
        return made, tnp.tanh(made) * v, x, small + made.sum()

    arrays = [*points(256), np.ones((4, 4))]
    graph = traced(program, *of(*arrays))
    result, _ = sharded(graph)
    assert_same(graph, result, arrays)
    alone = alike_axes(result, {})
    assert alone == (input_axes(result), output_axes(result))
    assert alone == ((None, None, None, None), (0, 0, None, None))
    assert alike_axes(result, {1: 2, 2: 0, 3: 3}) == ((0, None, 0, None), (0, 0, 0, None))
    # An input of which no device reads parts is whole, whatever returns as it.
    assert alike_axes(result, {0: 1}) == alone


def test_a_device_takes_a_share_of_the_memory() -> None:
    arrays = points(256)
    graph = traced(kernel_product, *of(*arrays))
    result, _ = sharded(graph, 8)
    view = device_view(result, input_axes(result), output_axes(result), 8)
    verify(view)
    assert view.input_types[0].shape == (32, 2)
    assert view.output_types[0].shape == (32, 3)
    assert 6 * Liveness(view).peak_bytes < Liveness(graph).peak_bytes


def test_parts_are_split_in_loops() -> None:
    arrays = points()
    graph = traced(kernel_product, *of(*arrays))
    result, _ = sharded(graph)
    split, rows = split_graph(result, SplitSettings(1 << 10, 1 << 11, 1 << 11), PassLog())
    verify(split)
    assert_same(graph, split, arrays)
    assert rows
    (node,) = [node for node in split.nodes if node.op is shard]
    assert "while" in ops_of(node.params["body"])


def test_sums_over_the_axis_are_reduced_outside() -> None:
    x = np.random.default_rng(0).standard_normal((64, 8))

    def gram(x: Any) -> Any:
        z = tnp.tanh(tnp.exp(x * 0.1) @ x.T[:, :8])
        return z.T @ z

    graph = traced(gram, *of(x))
    result, _ = sharded(graph)
    assert_same(graph, result, [x])
    assert output_axes(result) == (None,)
    assert ops_of(result)[-1] == "reduce_add"


def test_narrow_sums_are_added_in_float32() -> None:
    graph = traced(lambda x: tnp.sum(x @ x.T), ((64, 16), np.float16))
    result, _ = sharded(graph)
    (node,) = [node for node in result.nodes if node.op is shard]
    assert node.types[0] == ShapeDtype((4,), np.float32)
    assert result.output_types == (ShapeDtype((), np.float16),)


def test_softmax_waits_for_its_maximum_in_turns() -> None:
    """Along the reduced axis the maximum is known to all before the sums are made."""
    x = np.random.default_rng(1).standard_normal((2, 512))
    graph = traced(lambda x: nn.softmax(tnp.sinh(x), axis=1), *of(x))
    result, log = sharded(graph)
    assert_same(graph, result, [x])
    assert any("turns" in line for line in log.applied)


def test_the_steps_that_remain_are_computed_on_each_device() -> None:
    arrays = points(63)
    graph = traced(kernel_product, *of(*arrays))
    result, log = sharded(graph, 8)
    assert_same(graph, result, arrays)
    assert "8 devices, 7 on each and the last 7 on all" in log.applied[0]
    assert input_axes(result) == (None, None, None)
    assert output_axes(result) == (None,)
    assert ops_of(result).count("shard") == 2
    assert ops_of(result)[-1] == "concatenate"


def test_sums_over_an_uneven_axis_see_each_row_once() -> None:
    x = np.random.default_rng(0).integers(-9, 9, (67, 40)).astype(np.float64)
    graph = traced(lambda x: (tnp.abs(x @ x.T) @ x).T @ x, *of(x))
    result, log = sharded(graph, 8)
    assert_same(graph, result, [x], 0)
    assert "8 on each and the last 3 on all" in log.applied[0]
    assert "reduce_add" in ops_of(result)


SWEPT: dict[str, Any] = {
    "rows": lambda x, y: tnp.abs(x @ y) @ y.T,
    "sum": lambda x, y: tnp.abs(x @ y).sum(0),
    "maximum": lambda x, y: tnp.abs(x @ y).max(0),
    "argmax": lambda x, y: tnp.argmax(x @ y, axis=1),
    "top_k": lambda x, y: tnp.top_k(x @ y, 3),
    "in turns": lambda x, y: (x @ y) / tnp.abs(x @ y).max(0, keepdims=True) @ y.T,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SWEPT)
@pytest.mark.parametrize("count", [3, 8])
def test_every_size_exactly(name: str, count: int) -> None:
    for n in range(1, 41):
        rng = np.random.default_rng(n)
        x, y = (2.0 ** rng.integers(-2, 3, shape) for shape in ((n, 5), (5, 7)))
        graph = traced(SWEPT[name], *of(x, y))
        result, log = sharded(graph, count, SplitSettings(1, 1 << 14, 1 << 14))
        assert_same(graph, result, [x, y], 1e-15 if name == "in turns" else 0)
        assert log.applied or n < count


def test_fewer_rows_than_devices_are_not_spread() -> None:
    graph = traced(lambda x: tnp.sum(tnp.tanh(x @ x.T)), ((7, 3), np.float64))
    result, log = sharded(graph, 8, SplitSettings(1, 1 << 14, 1 << 14))
    assert result is graph
    assert any("7 are too few to cut into 8 parts" in row.reason for row in log.refusals)


def test_uneven_results_that_are_most_of_the_work_stay_whole() -> None:
    """To gather and to join them would store them twice."""
    graph = traced(lambda x: tnp.sin(tnp.exp(x)), ((63, 63), np.float64))
    result, log = sharded(graph, 8)
    assert result is graph
    assert any("63 cannot be cut into 8 equal parts" in row.reason for row in log.refusals)


def test_another_axis_is_taken_where_one_does_not_divide() -> None:
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(shape) for shape in ((63, 2), (64, 2), (64, 3))]
    graph = traced(kernel_product, *of(*arrays))
    result, log = sharded(graph, 8)
    assert_same(graph, result, arrays)
    assert "axis of 64" in log.applied[0]


def test_merges_in_an_order_of_their_own_are_refused() -> None:
    graph = traced(lambda x: tnp.cumsum(tnp.sin(x) * 2), ((4096,), np.float64))
    result, log = sharded(graph)
    assert result is graph
    assert any("one after the other" in row.reason for row in log.refusals)


def test_small_values_stay_where_they_are() -> None:
    graph = traced(lambda x: tnp.sin(x) @ x.T, ((8, 4), np.float64))
    assert sharded(graph)[0] is graph


def test_operands_have_to_be_cut_equally() -> None:
    with Builder() as builder:
        x = builder.input(ShapeDtype((3,), np.float64))
        body = builder.finish([add(x, x)])
    with Builder() as builder, pytest.raises(ShapeError, match="cannot be cut into 2 equal parts"):
        shard(
            builder.input(ShapeDtype((5,), np.float64)),
            body=body, count=2, operand_axes=(0,), result_axes=(0,),
        )  # fmt: skip


counts = st.sampled_from([2, 3, 4])


def assert_spread_is_same(
    program: Program, graph: Graph, count: int, chosen: SplitSettings, tolerance: float
) -> None:
    result, log = sharded(graph, count, chosen)
    assert bool(log.applied) == (result is not graph)
    assert_same(graph, result, program.arrays, tolerance)
    split, _ = split_graph(result, chosen, PassLog())
    verify(split)
    assert_same(graph, split, program.arrays, tolerance)
    verify(device_view(result, input_axes(result), output_axes(result), count))


@pytest.mark.slow
@run_settings(max_examples=100)
@given(programs("integer"), counts, settings())
def test_random_integers_exactly(program: Program, count: int, chosen: SplitSettings) -> None:
    assert_spread_is_same(program, program.graph, count, chosen, 0)


@pytest.mark.slow
@run_settings(max_examples=100)
@given(programs("float"), counts, settings())
def test_random_floats(program: Program, count: int, chosen: SplitSettings) -> None:
    assert_spread_is_same(program, program.graph, count, chosen, TOLERANCE)


@pytest.mark.slow
@run_settings(max_examples=50)
@given(programs("smooth", maximum_steps=8), counts, settings())
def test_random_gradients(program: Program, count: int, chosen: SplitSettings) -> None:
    graph = value_and_gradient(program.graph, range(len(program.graph.inputs)))
    assert_spread_is_same(program, graph, count, chosen, TOLERANCE)


GOLDEN = """
graph(%0: float32[64,4], %1: float32[64,2]) {
  %2: float32[4,64] = transpose(%0) {permutation=(1, 0)}
  %3: int32[4] = iota() {shape=(4,), dtype=int32, dimension=0}
  %4: float32[64,2] = shard(%3, %0, %2, %1) {count=4, operand_axes=(0, 0, None, None), \
result_axes=(0,)} with
    body=graph(%0: int32[1], %1: float32[16,4], %2: float32[4,64], %3: float32[64,2]) {
      %4: float32[16,64] = dot_general(%1, %2) {lhs_batch=(), rhs_batch=(), lhs_contracting=(1,), \
rhs_contracting=(0,)}
      %5: float32[16,64] = tanh(%4)
      %6: float32[16,2] = dot_general(%5, %3) {lhs_batch=(), rhs_batch=(), lhs_contracting=(1,), \
rhs_contracting=(0,)}
      return %6
    }
  return %4
}
"""


def test_what_the_pass_writes() -> None:
    types = ((64, 4), np.float32), ((64, 2), np.float32)
    graph = traced(lambda x, v: tnp.tanh(x @ x.T) @ v, *types)
    assert text(sharded(graph)[0]) == GOLDEN.strip()
