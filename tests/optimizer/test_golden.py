"""What each pass writes, as text."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, ops_of, rewritten, text, traced
from tracer import ops
from tracer.autodiff.transforms import checkpoint
from tracer.ir import Graph
from tracer.optimizer.loops.split import LoopRow, SplitSettings, split_graph
from tracer.optimizer.passes import PassLog
from tracer.optimizer.pipeline import EXPAND, STANDARD_PASSES
from tracer.optimizer.rewrite.match import CONTRACTIONS, UNROLL
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS, CONSTANT_FOLDING


def golden(expected: str) -> str:
    return dedent(expected).strip()


def test_equal_nodes_are_computed_once() -> None:
    before = """
        graph(%0: float32[3]) {
          %1: float32[3] = sine(%0) {}
          %2: float32[3] = sine(%0) {}
          %3: float32[3] = cosine(%0) {}
          %4: float32[3] = add(%1, %2) {}
          return %4, %3
        }"""
    assert rewritten(COMMON_SUBEXPRESSIONS, before) == golden("""
        graph(%0: float32[3]) {
          %1: float32[3] = sine(%0)
          %2: float32[3] = cosine(%0)
          %3: float32[3] = add(%1, %1)
          return %3, %2
        }""")


def test_constants_that_differ_only_in_sign_of_zero_or_dtype_are_kept_apart() -> None:
    before = """
        graph() {
          %0: float32[] = constant() {value=float32[] 0.0}
          %1: float32[] = constant() {value=float32[] -0.0}
          %2: float64[] = constant() {value=float64[] 0.0}
          return %0, %1, %2
        }"""
    assert rewritten(COMMON_SUBEXPRESSIONS, before).count("constant") == 3


def test_barriers_are_never_merged() -> None:
    before = """
        graph(%0: float32[3]) {
          %1: float32[3] = optimization_barrier(%0) {}
          %2: float32[3] = optimization_barrier(%0) {}
          return %1, %2
        }"""
    assert rewritten(COMMON_SUBEXPRESSIONS, before).count("optimization_barrier") == 2


def test_operations_on_constants_are_folded() -> None:
    before = """
        graph(%0: float32[]) {
          %1: float32[] = constant() {value=float32[] 3.0}
          %2: float32[] = multiply(%1, %1) {}
          %3: float32[] = add(%0, %2) {}
          return %3
        }"""
    assert rewritten(CONSTANT_FOLDING, before) == golden("""
        graph(%0: float32[]) {
          %1: float32[] = constant() {value=float32[] 9.0}
          %2: float32[] = add(%0, %1)
          return %2
        }""")


@pytest.mark.parametrize("operands", ["%2, %0", "%0, %2"])
@pytest.mark.parametrize("op", ["multiply", "divide"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "complex64"])
def test_what_is_multiplied_by_one_is_itself(op: str, operands: str, dtype: str) -> None:
    one = {"int8": "1", "float32": "1.0"}.get(dtype, "(1.0, 0.0)")
    before = f"""
        graph(%0: {dtype}[5]) {{
          %1: {dtype}[] = constant() {{value={dtype}[] {one}}}
          %2: {dtype}[5] = broadcast_in_dim(%1) {{shape=(5,), dimensions=()}}
          %3: {dtype}[5] = {op}({operands}) {{}}
          return %3
        }}"""
    found = rewritten(CONSTANT_FOLDING, before)
    is_itself = dtype != "complex64" and (op == "multiply" or operands == "%0, %2")
    assert (op in found) != is_itself


def test_a_broadcast_scalar_stays_a_scalar() -> None:
    before = """
        graph() {
          %0: float32[] = constant() {value=float32[] 3.0}
          %1: float32[5] = broadcast_in_dim(%0) {shape=(5,), dimensions=()}
          return %1
        }"""
    assert "broadcast_in_dim" in rewritten(CONSTANT_FOLDING, before)


@pytest.mark.parametrize("item", STANDARD_PASSES, ids=lambda item: item.name)
def test_a_pass_with_nothing_to_do_returns_the_same_object(item) -> None:
    graph = traced(lambda x: tnp.sin(x) + x, ((3,), "float32"))
    result, log = apply(item, graph)
    assert result is graph
    assert log.applied == []


def test_checkpoint_is_expanded() -> None:
    graph = traced(lambda x: checkpoint(tnp.sin)(x) * 2, ((3,), "float32"))
    assert "checkpoint" in ops_of(graph)
    expanded = apply(EXPAND, graph)[0]
    assert "checkpoint" not in ops_of(expanded)
    assert "sine" in ops_of(expanded)


@pytest.mark.usefixtures("small_matches")
def test_a_short_reduction_is_unrolled() -> None:
    graph = traced(
        lambda x, y: ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1),
        ((4, 2), "float32"),
        ((5, 2), "float32"),
    )
    assert text(apply(UNROLL, graph)[0]) == golden("""
        graph(%0: float32[4,2], %1: float32[5,2]) {
          %2: float32[4,1] = slice(%0) {start=(0, 0), limit=(4, 1), strides=(1, 1)}
          %3: float32[4,1,1] = reshape(%2) {shape=(4, 1, 1)}
          %4: float32[4,5,1] = broadcast_in_dim(%3) {shape=(4, 5, 1), dimensions=(0, 1, 2)}
          %5: float32[5,1] = slice(%1) {start=(0, 0), limit=(5, 1), strides=(1, 1)}
          %6: float32[1,5,1] = reshape(%5) {shape=(1, 5, 1)}
          %7: float32[4,5,1] = broadcast_in_dim(%6) {shape=(4, 5, 1), dimensions=(0, 1, 2)}
          %8: float32[4,5,1] = subtract(%4, %7)
          %9: float32[4,5,1] = multiply(%8, %8)
          %10: float32[4,5] = reshape(%9) {shape=(4, 5)}
          %11: float32[4,1] = slice(%0) {start=(0, 1), limit=(4, 2), strides=(1, 1)}
          %12: float32[4,1,1] = reshape(%11) {shape=(4, 1, 1)}
          %13: float32[4,5,1] = broadcast_in_dim(%12) {shape=(4, 5, 1), dimensions=(0, 1, 2)}
          %14: float32[5,1] = slice(%1) {start=(0, 1), limit=(5, 2), strides=(1, 1)}
          %15: float32[1,5,1] = reshape(%14) {shape=(1, 5, 1)}
          %16: float32[4,5,1] = broadcast_in_dim(%15) {shape=(4, 5, 1), dimensions=(0, 1, 2)}
          %17: float32[4,5,1] = subtract(%13, %16)
          %18: float32[4,5,1] = multiply(%17, %17)
          %19: float32[4,5] = reshape(%18) {shape=(4, 5)}
          %20: float32[4,5] = add(%10, %19)
          return %20
        }""")


@pytest.mark.usefixtures("small_matches")
def test_both_sides_of_one_array_share_the_features() -> None:
    graph = traced(lambda x: (x[:, None] - x[None]).sum(-1), ((4, 2), "float32"))
    unrolled = apply(UNROLL, graph)[0]
    sliced = {node.operands[0] for node in unrolled.nodes if node.op is ops.slice}
    assert sliced == set(unrolled.inputs)


@pytest.mark.usefixtures("small_matches")
def test_a_sum_of_broadcast_products_becomes_one_product() -> None:
    graph = traced(
        lambda x, y: (x[:, None, :] * y[None, :, :]).sum(-1),
        ((4, 9), "float32"),
        ((5, 9), "float32"),
    )
    assert text(apply(CONTRACTIONS, graph)[0]) == golden("""
        graph(%0: float32[4,9], %1: float32[5,9]) {
          %2: float32[4,1,9] = reshape(%0) {shape=(4, 1, 9)}
          %3: float32[1,5,9] = reshape(%1) {shape=(1, 5, 9)}
          %4: float32[4,9] = reshape(%2) {shape=(4, 9)}
          %5: float32[5,9] = reshape(%3) {shape=(5, 9)}
          %6: float32[4,5] = dot_general(%4, %5) {lhs_batch=(), rhs_batch=(), \
lhs_contracting=(1,), rhs_contracting=(1,)}
          return %6
        }""")


@pytest.mark.usefixtures("small_matches")
def test_a_squared_distance_becomes_norms_and_one_product() -> None:
    graph = traced(
        lambda x, y: ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1),
        ((4, 9), "float32"),
        ((5, 9), "float32"),
    )
    names = ops_of(apply(CONTRACTIONS, graph)[0])
    assert names.count("dot_general") == 1
    assert max(node.types[0].ndim for node in apply(CONTRACTIONS, graph)[0].nodes) == 3
    assert all(n.types[0].size <= 45 for n in apply(CONTRACTIONS, graph)[0].nodes)


def kernel(rows: int) -> Graph:
    return traced(
        lambda x, y, v: tnp.exp(x[:, None] * y[None, :]) @ v,
        ((rows,), "float32"),
        ((6,), "float32"),
        ((6,), "float32"),
    )


def split(
    graph: Graph, threshold: int, working_set: int, budget: int
) -> tuple[Graph, list[LoopRow]]:
    return split_graph(graph, SplitSettings(threshold, working_set, budget), PassLog())


def test_a_kernel_product_is_one_loop() -> None:
    graph, (row,) = split(kernel(8), 100, 120, 150)
    assert (row.trips, row.chunk, row.remainder, row.combiners) == (2, 4, 0, ("write",))
    assert text(graph) == golden("""
        graph(%0: float32[8], %1: float32[6], %2: float32[6]) {
          %3: float32[8,1] = reshape(%0) {shape=(8, 1)}
          %4: float32[1,6] = reshape(%1) {shape=(1, 6)}
          %5: float32[] = constant() {value=float32[] 0.0}
          %6: float32[8] = broadcast_in_dim(%5) {shape=(8,), dimensions=()}
          %7: int32[] = constant() {value=int32[] 0}
          %8: int32[], %9: float32[8], %10: float32[8,1], %11: float32[1,6], %12: float32[6] = \
while(%7, %6, %3, %4, %2) with
            condition=graph(%0: int32[], %1: float32[8], %2: float32[8,1], %3: float32[1,6], \
%4: float32[6]) {
              %5: int32[] = constant() {value=int32[] 2}
              %6: bool[] = compare(%0, %5) {direction='LT'}
              return %6
            }
            body=graph(%0: int32[], %1: float32[8], %2: float32[8,1], %3: float32[1,6], \
%4: float32[6]) {
              %5: int32[] = constant() {value=int32[] 4}
              %6: int32[] = multiply(%0, %5)
              %7: int32[] = constant() {value=int32[] 0}
              %8: float32[4,1] = dynamic_slice(%2, %6, %7) {sizes=(4, 1)}
              %9: float32[4,6] = broadcast_in_dim(%8) {shape=(4, 6), dimensions=(0, 1)}
              %10: float32[4,6] = broadcast_in_dim(%3) {shape=(4, 6), dimensions=(0, 1)}
              %11: float32[4,6] = multiply(%9, %10)
              %12: float32[4,6] = exponential(%11)
              %13: float32[4] = dot_general(%12, %4) {lhs_batch=(), rhs_batch=(), \
lhs_contracting=(1,), rhs_contracting=(0,)}
              %14: float32[8] = dynamic_update_slice(%1, %13, %6)
              %15: int32[] = constant() {value=int32[] 1}
              %16: int32[] = add(%0, %15)
              return %16, %14, %2, %3, %4
            }
          return %9
        }""")


def test_a_remainder_is_computed_after_the_loop() -> None:
    graph, (row,) = split(kernel(7), 100, 60, 100)
    assert (row.trips, row.chunk, row.remainder) == (2, 3, 1)
    after = text(graph).split("return %16, %14, %2, %3, %4\n    }")[1]
    assert "graph() {" + after == golden("""
        graph() {
          %13: int32[] = constant() {value=int32[] 6}
          %14: int32[], %15: float32[7] = optimization_barrier(%13, %9)
          %16: int32[] = constant() {value=int32[] 0}
          %17: float32[1,1] = dynamic_slice(%3, %14, %16) {sizes=(1, 1)}
          %18: float32[1,6] = broadcast_in_dim(%17) {shape=(1, 6), dimensions=(0, 1)}
          %19: float32[1,6] = broadcast_in_dim(%4) {shape=(1, 6), dimensions=(0, 1)}
          %20: float32[1,6] = multiply(%18, %19)
          %21: float32[1,6] = exponential(%20)
          %22: float32[1] = dot_general(%21, %2) {lhs_batch=(), rhs_batch=(), \
lhs_contracting=(1,), rhs_contracting=(0,)}
          %23: float32[7] = dynamic_update_slice(%15, %22, %14)
          return %23
        }""")


def attention(q, k, v):
    scores = q @ k.T
    weights = tnp.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ v


def test_softmax_attention_runs_in_one_loop_over_rows() -> None:
    graph, (row,) = split(traced(attention, *[((8, 2), "float32")] * 3), 100, 200, 300)
    assert row.combiners == ("write",), "largest and sum of each row stay inside the loop"
    assert {tensor.split(" of ")[1] for tensor, _ in row.tensors} <= set(ops_of(graph))
    loops = [node for node in graph.nodes if node.bodies]
    assert len(loops) == 1
    inside = [node.name for node in loops[0].params["body"].nodes]
    for name in ("reduce_maximum", "exponential", "reduce_add", "divide"):
        assert inside.count(name) == 1
    assert inside.count("dot_general") == 2
    outside = [node for node in graph.nodes if not node.bodies]
    assert all(node.types[0].size <= 16 for node in outside)


def test_what_waits_for_a_whole_sum_runs_in_a_second_loop() -> None:
    def normalised(x, y):
        weights = tnp.exp(x[:, None] * y[None, :])
        return tnp.sin(weights / weights.sum()).sum(1)  # no factor passes a sine

    before = traced(normalised, ((8,), "float32"), ((6,), "float32"))
    graph, rows = split(before, 100, 60, 100)
    assert [row.combiners for row in rows] == [("add",), ("write",)]
    first, second = [node for node in graph.nodes if node.bodies]
    assert first.results[1] in second.operands, "the sum is an invariant of the second loop"
    arrays = [np.linspace(-1, 1, n, dtype=np.float32) for n in (8, 6)]
    np.testing.assert_allclose(
        evaluated(graph, *arrays)[0], evaluated(before, *arrays)[0], rtol=1e-6
    )


def test_a_trip_above_the_budget_is_cut_along_a_second_axis() -> None:
    before = traced(
        lambda x, y, v: tnp.exp(x[:, None] * y[None, :]) @ v,
        *[(shape, "float32") for shape in ((64,), (64,), (64, 2))],
    )
    graph, rows = split(before, 100, 100, 100)
    assert [row.trips for row in rows] == [64, 9]
    assert [row.chunk for row in rows] == [1, 7]
    (outer,) = [node for node in graph.nodes if node.bodies]
    assert any(node.bodies for node in outer.params["body"].nodes)
    arrays = [np.linspace(-1, 1, n, dtype=np.float32) for n in (64, 64, 128)]
    arrays[2] = arrays[2].reshape(64, 2)
    np.testing.assert_allclose(
        evaluated(graph, *arrays)[0], evaluated(before, *arrays)[0], rtol=1e-5, atol=1e-5
    )


def test_sums_of_narrow_floats_do_not_stop_to_grow() -> None:
    from tracer import ops
    from tracer.ir import Builder, ShapeDtype

    with Builder() as builder:
        x = builder.input(ShapeDtype((3000,), "float16"))
        columns = ops.broadcast_in_dim(x, shape=(3000, 50), dimensions=(0,))
        product = {"lhs_batch": (), "rhs_batch": (), "lhs_contracting": (0,)}
        total = ops.dot_general(ops.exponential(columns), x, rhs_contracting=(0,), **product)
        before = builder.finish([total])
    graph, (row,) = split(before, 1000, 1000, 1000)
    assert row.trips >= 200
    ones = np.ones(3000, np.float16)
    # Each slice is rounded to 11 bits; their sum must not lose more than a few of those roundings.
    np.testing.assert_allclose(evaluated(graph, ones)[0], 3000 * np.e, rtol=2e-3)


@pytest.mark.slow
def test_long_chains_that_are_read_along_two_axes_need_no_stack() -> None:
    def chained(x):
        values = x[:, None] * x[None, :]
        for _ in range(1500):
            values = tnp.sin(values)
        return (values + values.T) @ x

    before = traced(chained, ((12,), "float32"))
    graph, (row,) = split(before, 100, 100, 100)
    assert row.trips >= 2
    x = np.linspace(-1, 1, 12, dtype=np.float32)
    np.testing.assert_allclose(evaluated(graph, x)[0], evaluated(before, x)[0], rtol=1e-5)


def test_remainders_along_every_axis_come_to_an_end() -> None:
    """Results and reads of earlier loops are never seeds: this used to go on for ever."""

    def outer(x):
        k = tnp.tanh(x[0][:, None] * x[0][None, :])
        return tnp.tanh(k[:, :, None] - k.max(1)[None, None, :]) * 0.5

    before = traced(outer, ((1, 5), "float64"))
    for threshold in (0, 8, 40):
        for trust_fusion in (True, False):
            chosen = SplitSettings(threshold, 64, 200, trust_fusion=trust_fusion)
            graph, rows = split_graph(before, chosen, PassLog())
            assert len(rows) < 20
            x = np.linspace(-1, 1, 5)[None]
            np.testing.assert_allclose(evaluated(graph, x)[0], evaluated(before, x)[0], rtol=1e-12)
