"""The peak model: hand-computed cases, an independent lower bound, and XLA's own count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import legal, traced
from tests.optimizer.random_programs import Program, programs
from tracer import ShapeDtype, lowering, ops
from tracer.ir import Builder, Graph
from tracer.optimizer.alias.donations import match_donations
from tracer.optimizer.model.buffers import Buffer
from tracer.optimizer.model.costs import counted_scratch, packing_bytes
from tracer.optimizer.model.liveness import (
    Liveness,
    graph_flops,
    largest_packings,
    node_count,
    peak_bytes,
)
from tracer.optimizer.model.partial_sums import partial_sums_bytes
from tracer.optimizer.passes import PassManager
from tracer.optimizer.pipeline import STANDARD_PASSES
from tracer.target import ACCELERATORS, Storage, Target, planned_for

N = 64
MATRIX = ((N, N), "float32")
UNIT = N * N * 4
"""Bytes of one matrix: the cases below count in these."""


def units(function: Callable[..., Any], *types: Any, donated: tuple[int, ...] = ()) -> float:
    return peak_bytes(traced(function, *types), frozenset(donated)) / UNIT


def test_a_fused_chain_takes_its_result_only() -> None:
    assert units(lambda x: tnp.sin(tnp.exp(x) + 1), MATRIX) == 2


def test_a_donated_argument_is_overwritten() -> None:
    assert units(lambda x: tnp.sin(tnp.exp(x) + 1), MATRIX, donated=(0,)) == 1


def test_a_value_that_is_read_out_of_order_is_not_overwritten() -> None:
    assert units(lambda x: x + x.T, MATRIX, donated=(0,)) == 2
    assert units(lambda x: 2 * x + (2 * x).T, MATRIX, donated=(0,)) == 2


def packing() -> float:
    """Scratch that the op record states for one product of matrices, in matrices."""
    (product,) = traced(lambda x: x @ x, MATRIX).nodes
    return packing_bytes(product) / UNIT


def test_a_chain_of_products_keeps_two_at_a_time() -> None:
    """The argument, two of the three products at any time, and what two of them pack."""
    assert units(lambda x: x @ x @ x @ x, MATRIX) == 3 + 2 * packing()


def test_a_diamond_keeps_both_sides() -> None:
    """x, a = x @ x, then a @ a and a @ x side by side, and their sum in place of one.

    Both pack at the same time.
    """

    def diamond(x):
        a = x @ x
        return (a @ a) + (a @ x)

    assert units(diamond, MATRIX) == 4 + 2 * packing()


def test_packings_of_a_loop_and_of_what_stands_beside_it_add_up() -> None:
    """Two kernels may run at a time; a third that packs adds nothing."""

    def beside(x, products):
        total = tracer.fori_loop(0, 3, lambda i, c: c @ c, x)
        for _ in range(products):
            total = total + (x @ x.T) * 0.5
        return total

    def most(products: int) -> tuple[int, ...]:
        return largest_packings(traced(lambda x: beside(x, products), MATRIX))

    one = packing() * UNIT
    assert most(0) == (one,)
    assert most(1) == most(3) == (one, one)


def test_scratch_that_xla_counts_is_no_packing() -> None:
    """The copy of the matrix by columns is in XLA's count; what LAPACK takes besides is not."""
    (node,) = (n for n in traced(tnp.linalg.eigvalsh, MATRIX).nodes if packing_bytes(n))
    assert counted_scratch(node) == UNIT


def test_a_computed_value_is_written_before_it_is_transposed_for_a_product() -> None:
    """XLA has it in both forms, also if it is stored and cheap; not if it was dear to compute."""

    def most(graph: Graph) -> float:
        return (peak_bytes(graph) - sum(largest_packings(graph))) / UNIT

    assert most(traced(lambda x: (2 * x).T @ x, MATRIX)) == 4
    assert most(traced(lambda x: x.T @ x, MATRIX)) == 3
    assert most(traced(lambda x: (2 * x).T + x, MATRIX)) == 2

    def gram(function: Callable[[Any], Any]) -> float:
        graph = traced(lambda x: (lambda y: y.T @ y)(function(x)), ((8 * N, N), "float32"))
        return most(graph) / 8

    assert gram(lambda x: 2 * x) > 4
    assert gram(tnp.exp) < 3.2


def test_products_drop_axes_of_one_element() -> None:
    """What is computed from one, or for one, with the axis is not written over what is read."""

    def stored(batch: int) -> float:
        graph = traced(batched_attention, *[((batch, 512, 32), "float32")] * 3)
        return (peak_bytes(graph) - sum(largest_packings(graph))) / (4 * batch * 512**2)

    assert stored(2) < 1.5 < 2 < stored(1)


def test_reductions_take_their_operand_in() -> None:
    # In two stages: the first leaves sums of 256, no sum of float32 is one long chain.
    assert units(lambda x: tnp.exp(x).sum(), MATRIX) == 1 + (UNIT / 256 + 4) / UNIT


def test_an_argument_handed_back_is_a_copy() -> None:
    assert units(lambda x: (x, x), MATRIX) == 3
    assert units(lambda x: x.reshape(-1), MATRIX) == 2
    assert units(lambda x: x.reshape(-1), MATRIX, donated=(0,)) == 1


def test_a_result_given_twice_takes_two_buffers() -> None:
    def twice(x):
        y = tnp.exp(x)
        return y, y.reshape(-1)

    assert units(twice, MATRIX) == 3


def test_a_loop_carries_in_place() -> None:
    found = units(lambda x: tracer.fori_loop(0, 5, lambda i, c: 0.5 * c + x, tnp.exp(x)), MATRIX)
    assert 2 <= found <= 3.01


def test_a_carry_that_is_handed_on_lives_as_long_as_the_result() -> None:
    def keeps(x, later):
        first = x @ x
        total, kept = tracer.fori_loop(0, 5, lambda i, c: (c[0] + c[1].sum(), c[1]), (0.0, first))
        product = tnp.sort(x * total, axis=0)
        return product @ product + kept if later else product @ product

    sooner = units(lambda x: keeps(x, later=False), MATRIX)
    assert units(lambda x: keeps(x, later=True), MATRIX) > sooner


def test_counts_go_through_bodies() -> None:
    def loop(trips: int) -> Graph:
        return traced(lambda x: tracer.fori_loop(0, trips, lambda i, c: c @ c, x), MATRIX)

    one = graph_flops(traced(lambda x: x @ x, MATRIX))
    assert graph_flops(loop(7)) >= 7 * one
    assert graph_flops(loop(7)) <= 7 * one + 1000
    assert node_count(loop(7)) > len(loop(7).nodes)


def test_what_is_alive_at_the_peak_is_named() -> None:
    def product(x):
        return (x @ x) @ x

    tensors = Liveness(traced(product, MATRIX)).live_at_peak()
    assert [tensor.nbytes for tensor in tensors] == [UNIT, UNIT]
    assert all(tensor.value.node.name == "dot_general" for tensor in tensors)
    sources = [tensor.value.node.source for tensor in tensors]
    assert all(source is not None and source.function == "product" for source in sources)


def stored_bytes_alive(graph: Graph) -> int:
    """A dumb lower bound that shares no code with the model.

    At each step: all inputs, and every result of an op that must be in memory (opaque or reduce)
    that is made and still an operand of some later node or an output, counted once; a result may
    lie where an operand of this very step lies, so only what is needed strictly later counts.
    """
    order = list(graph.nodes)
    inputs = sum(value.type.nbytes for value in graph.inputs)
    peak = inputs
    for step in range(len(order)):
        made = [
            n for n in order[: step + 1] if n.op is not None and n.op.fusion in ("opaque", "reduce")
        ]
        later = [operand for n in order[step + 1 :] for operand in n.operands]
        needed = {*later, *graph.outputs}
        alive = sum(v.type.nbytes for n in made for v in n.results if v in needed)
        peak = max(peak, inputs + alive)
    return peak


@given(programs("integer"))
def test_the_peak_is_at_least_what_must_be_stored(program: Program) -> None:
    assert peak_bytes(program.graph) >= stored_bytes_alive(program.graph)
    live = Liveness(program.graph)
    outputs = sum(v.type.nbytes for v in program.graph.outputs)
    inputs = sum(v.type.nbytes for v in program.graph.inputs)
    assert live.peak_bytes >= inputs + outputs
    assert all(moment.live_bytes >= inputs for moment in live.timeline)


@given(programs("integer"))
def test_donation_never_takes_more(program: Program) -> None:
    everything = frozenset(range(len(program.graph.inputs)))
    assert peak_bytes(program.graph, everything) <= peak_bytes(program.graph)


BIG = ((256, 256), "float32")
ROWS = ((512, 32), "float32")


def attention(q, k, v):
    return tracer.nn.softmax(q @ k.T) @ v


def batched_attention(q, k, v):
    return tracer.nn.softmax(q @ k.swapaxes(1, 2)) @ v


def kernel(x, v):
    d2 = ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)
    return tnp.exp(-d2) @ v


COMPARED = {
    "chain": (lambda x: tnp.sin(tnp.exp(x) + 1), [BIG], ()),
    "chain, donated": (lambda x: tnp.sin(tnp.exp(x) + 1), [BIG], (0,)),
    "plus transpose, donated": (lambda x: x + x.T, [BIG], (0,)),
    "products": (lambda x: x @ x @ x @ x, [BIG], ()),
    "diamond": (lambda x: (x @ x) @ (x @ x.T) + x @ x, [BIG], ()),
    "pass through": (lambda x: (x, x), [BIG], ()),
    "given twice": (lambda x: (lambda y: (y, y.reshape(-1)))(tnp.exp(x)), [BIG], ()),
    "sum": (lambda x: tnp.exp(x).sum(), [BIG], ()),
    "transpose": (lambda x: x.T, [BIG], ()),
    "sort": (lambda x: tnp.sort(x, axis=0), [BIG], ()),
    "cumulative": (lambda x: tnp.cumsum(x, axis=0), [BIG], ()),
    "softmax": (lambda x: tracer.nn.softmax(x @ x), [BIG], ()),
    "attention": (attention, [ROWS] * 3, ()),
    "attention of one": (batched_attention, [((1, 512, 32), "float32")] * 3, ()),
    "covariance": (lambda x: (x - x.mean(0)).T @ (x - x.mean(0)), [BIG], ()),
    "kernel": (kernel, [((512, 3), "float32"), ((512,), "float32")], ()),
    "loop": (lambda x: tracer.fori_loop(0, 9, lambda i, c: c @ x, x), [BIG], ()),
    "gradient": (tracer.grad(lambda w, x: tnp.tanh(tnp.tanh(x @ w) @ w).sum()), [BIG] * 2, ()),
    "gradient of a kernel": (
        tracer.grad(lambda x, v: (kernel(x, v) ** 2).sum()),
        [((512, 3), "float32"), ((512,), "float32")],
        (),
    ),
}
LOW, HIGH = 0.65, 1.6
"""Predicted over counted. XLA's schedule may keep more alive than ours (gradients of products) or
fuse what the model stores; the planner compiles and checks, so a factor is enough."""
LOW_WITH_SCRATCH = 0.35
"""For programs where the lowering's bound on library scratch is most of the count: products with a
vector of n x n matrices, 1.5 n x n of bound. There XLA's own part must be met instead."""


@pytest.mark.xla
def test_prediction_is_close_to_the_count_of_xla() -> None:
    rows, wrong = [], []
    for name, (function, types, donated) in COMPARED.items():
        graph = PassManager().run(traced(function, *types), STANDARD_PASSES)
        predicted = peak_bytes(graph, frozenset(donated))
        memory = lowering.compile_graph(
            legal(graph),
            donate=donated,
            aliases=match_donations(graph, donated).pairs,
            options=lowering.memory_optimized_options(),
        ).memory
        ratio = predicted / memory.peak_bytes
        rows.append(
            f"{name:<26} {predicted:>10,} {memory.peak_bytes:>10,} {memory.scratch_bytes:>10,} "
            f"{ratio:6.2f}"
        )
        own = memory.peak_bytes - memory.scratch_bytes
        mostly_scratch = memory.scratch_bytes > 0.4 * memory.peak_bytes
        low = LOW_WITH_SCRATCH if mostly_scratch and predicted >= LOW * own else LOW
        if not low <= ratio <= HIGH:
            wrong.append(name)
    head = "program                     predicted    counted    scratch  ratio"
    table = "\n".join([head, *rows])
    assert not wrong, f"{wrong} outside of {LOW} to {HIGH}:\n{table}"


def reductions(function: Callable[[Any], Any]) -> float:
    """Matrices stored beside the argument when rows and columns of a value are summed."""

    def both(x: Any) -> Any:
        y = function(x)
        return y.sum(0), y.sum(1)

    graph = traced(both, MATRIX)
    return sum(type.nbytes == UNIT for node in Liveness(graph).stored for type in node.types)


def test_cheap_values_are_computed_again_by_each_reduction() -> None:
    assert reductions(lambda x: (x + 1) * 2 - x) == 0
    assert reductions(lambda x: x / 3) == 0


def test_expensive_values_are_stored_for_several_kernels() -> None:
    assert reductions(tnp.exp) == 1
    assert reductions(lambda x: 1 / x) == 1
    assert reductions(lambda x: tnp.exp(x) + 1) == 1


def test_a_forward_value_that_a_backward_pass_reads_is_stored() -> None:
    """`x + y` reads more than it makes, and its second reader waits for what becomes of it."""

    def stored(late: bool) -> int:
        def function(x: Any, y: Any) -> Any:
            total = x + y
            peak = total.max()
            return (total * peak).sum() if late else peak

        nodes = Liveness(traced(function, MATRIX, MATRIX)).stored
        return sum(type.nbytes == UNIT for node in nodes for type in node.types)

    assert stored(late=False) == 0
    assert stored(late=True) == 1


def test_what_a_library_reads_keeps_what_kernels_compute_it_from() -> None:
    """`2 e` is stored for the product; its sum is computed from `e`, which stays."""

    def function(x: Any, summed: bool) -> Any:
        e = tnp.sort(x, axis=0)
        y = 2 * e
        product = (y @ x).sum()
        return (product, (y * product).sum()) if summed else product

    apart = units(lambda x: function(x, summed=True), MATRIX)
    assert apart >= units(lambda x: function(x, summed=False), MATRIX) + 1


def test_results_are_there_from_the_beginning() -> None:
    """Two complex spectra beside the argument and a real result that neither fits into."""
    found = units(lambda x: tnp.abs(tnp.fft.fft2(tnp.fft.fft2(x))), MATRIX)
    assert found >= 6


def test_a_kernel_between_two_loops_has_a_buffer_of_its_own() -> None:
    def loop(c: Any, x: Any) -> Any:
        return tracer.fori_loop(0, 9, lambda i, c: tnp.tanh(c) + x, c)

    def planned(function: Callable[[Any], Any]) -> float:
        return peak_bytes(PassManager().run(traced(function, MATRIX), STANDARD_PASSES)) / UNIT

    assert planned(lambda x: loop(loop(2 * x, x), x).sum()) < 2.2
    assert 3 <= planned(lambda x: loop(tnp.sin(loop(2 * x, x)), x).sum()) < 3.2


NO_PACKING = Target(storage=Storage(packs=False))


def test_gpus_and_tpus_read_operands_where_they_are() -> None:
    graph = traced(lambda x, y: tnp.sin(x @ y.T) @ y, MATRIX, MATRIX)
    assert largest_packings(graph)
    packed = peak_bytes(graph)
    with planned_for(NO_PACKING):
        assert largest_packings(graph) == ()
        assert peak_bytes(graph) == packed - sum(largest_packings_of_cpu(graph))
    assert peak_bytes(graph) == packed


def largest_packings_of_cpu(graph: Graph) -> tuple[int, ...]:
    with planned_for(Target()):
        return largest_packings(graph)


GPU = ACCELERATORS["gpu"]["h100"]


def test_gpus_take_reductions_into_kernels_that_read_their_operand_again() -> None:
    def stored(function: Callable[[Any], Any]) -> float:
        rows = ((8 * N, N), "float32")
        graph = traced(lambda x, y: function(x @ y.T) @ y, rows, rows)
        return peak_bytes(graph) / (8 * N * 8 * N * 4)

    for function in (tracer.nn.softmax, lambda z: z - z.mean(1, keepdims=True), tnp.sinh):
        with planned_for(NO_PACKING):
            alone = stored(function)
        with planned_for(GPU):
            assert (stored(function) > alone + 0.5) == (function is not tnp.sinh)


@pytest.mark.parametrize(
    ("left", "right", "parts"),
    [
        ((128, 32_768), (32_768, 128), 128),
        ((1024, 4096), (4096, 256), 8),
        ((4, 120, 2048), (4, 2048, 64), 16),
        ((8, 64, 4096), (8, 4096, 64), 16),
        ((2048, 2048), (2048, 2048), 0),
        ((2048, 2048), (2048, 1), 0),
        ((64, 64), (64, 64), 0),
    ],
)
def test_gpus_divide_the_sums_of_products_with_few_results(
    left: tuple[int, ...], right: tuple[int, ...], parts: int
) -> None:
    """As many parts as XLA's count for an H100 has beyond operands and results."""
    graph = traced(lambda x, y: x @ y, (left, "float32"), (right, "float32"))
    (node,) = graph.nodes
    assert partial_sums_bytes(node, GPU.storage) == parts * node.types[0].nbytes
    assert partial_sums_bytes(node, Target().storage) == 0


def test_a_buffer_is_parted_with_all_that_comes_after() -> None:
    """Zeros that one loop hands on and a later one is written over: what both hold moves along."""
    graph = traced(lambda x: tnp.exp(tnp.sin(tnp.exp(x))), MATRIX)
    first, second, third = (node.results[0] for node in graph.nodes)
    buffer = Buffer(UNIT, 0, 9, values=[first, second, third])
    assert buffer.before(second) == [first]
    moved = buffer.split(second, 4)
    assert (buffer.values, buffer.death) == ([first], 4)
    assert (moved.values, moved.birth, moved.death) == ([second, third], 4, 9)


def test_what_a_barrier_holds_is_not_written_over() -> None:
    """XLA asks only for operands that are read by the name that defines them."""

    axes: dict[str, Any] = dict.fromkeys(("lhs_batch", "rhs_batch"), ())
    axes |= {"lhs_contracting": (1,), "rhs_contracting": (0,)}

    def shares(is_held: bool) -> bool:
        with Builder() as builder:
            given, scale = builder.input(ShapeDtype(*MATRIX)), builder.input(ShapeDtype(*MATRIX))
            x = ops.dot_general(given, given, **axes)
            if is_held:
                x, scale = ops.optimization_barrier(x, scale)
            y = ops.multiply(x, scale)
            live = Liveness(builder.finish([ops.dot_general(y, y, **axes)]))
        return live.buffers[y] is live.buffers[x]

    assert shares(is_held=False)
    assert not shares(is_held=True)
