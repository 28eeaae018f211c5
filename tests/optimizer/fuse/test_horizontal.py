"""Horizontal fusion: alike subgraphs at once, packed carries; its guards; what XLA makes of it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.random_programs import Program, programs
from tracer import nn, ops, tree
from tracer.array.trace import trace
from tracer.ir import Builder, Graph, ShapeDtype, interpret, print_graph
from tracer.ir.verify import verify, verify_same_signature
from tracer.optimizer.fuse import horizontal
from tracer.optimizer.fuse.flat import flat_range, join_parts
from tracer.optimizer.fuse.horizontal import horizontal_pass
from tracer.optimizer.fuse.packs import find_isomorphic
from tracer.optimizer.passes import PassLog, PassManager
from tracer.optimizer.rewrite.expand import EXPAND
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS, CONSTANT_FOLDING
from tracer.target import DEFAULT_TARGET, Prices, Target

RNG = np.random.default_rng(0)


def simplified(function: Any, *arrays: Any) -> Graph:
    passes = (EXPAND, COMMON_SUBEXPRESSIONS, CONSTANT_FOLDING, COMMON_SUBEXPRESSIONS)
    return PassManager().run(trace(function, arrays).graph, passes)


def fused(
    function: Any, *arrays: Any, machine: Target = DEFAULT_TARGET
) -> tuple[Graph, Graph, PassLog]:
    """Run the pass, check that the meaning is the same; return both graphs and the log."""
    graph = simplified(function, *arrays)
    log = PassLog()
    result = horizontal_pass(machine).run(graph, log)
    verify(result)
    verify_same_signature(graph, result)
    leaves = [np.asarray(leaf) for leaf in tree.flatten(arrays)[0]]
    for one, other in zip(interpret(result, leaves), interpret(graph, leaves), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    return graph, result, log


def count(graph: Graph, op: ops.Op) -> int:
    return sum(node.op is op for node in graph.nodes)


def random(*shape: int) -> Any:
    return RNG.standard_normal(shape)


SHAPES = [(2, 3), (4,), (1, 5), (6,), (2, 2), (3,)]


def adam(state: Any, targets: Any) -> Any:
    """Take a step on a quadratic bowl for parameters of several shapes."""
    step, parameters, first, second = state
    new: Any = ([], [], [])
    for p, m, v, target in zip(parameters, first, second, targets, strict=True):
        g = 2 * (p - target)
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g * g
        p = p - 0.1 * (m / (1 - 0.9**step)) / (tnp.sqrt(v / (1 - 0.99**step)) + 1e-8)
        for kind, value in zip(new, (p, m, v), strict=True):
            kind.append(value)
    return (step + 1, *new)


def train(parameters: Any, first: Any, second: Any, targets: Any) -> Any:
    start = (1.0, parameters, first, second)
    return tracer.fori_loop(0, 100, lambda _, state: adam(state, targets), start)[1:]


def training_arrays(shapes: Any) -> Any:
    zeros = [np.zeros(shape) for shape in shapes]
    return [random(*s) for s in shapes], zeros, list(zeros), [random(*s) for s in shapes]


def test_an_optimisers_state_is_carried_as_one_array_for_each_kind() -> None:
    before, after, log = fused(train, *training_arrays(SHAPES))
    (loop,) = [node for node in after.nodes if node.op is ops.while_]
    total = sum(int(np.prod(shape)) for shape in SHAPES)
    packed = [type.shape for type in loop.types if type.ndim]
    assert packed == [(total,)] * 4
    assert len(loop.params["body"].nodes) < len(before.nodes[-1].params["body"].nodes) / 3
    assert "24 carries of a loop as 4" in log.applied[0]


def test_golden_text_of_a_packed_loop() -> None:
    def loop(values: Any) -> Any:
        return tracer.fori_loop(0, 100, lambda _, xs: [tnp.sin(x) for x in xs], values)

    _, after, _ = fused(loop, [random(2), random(1, 3), random(4), random(2, 2)])
    (node,) = [node for node in after.nodes if node.op is ops.while_]
    body = re.sub(r"%\d+", "%", print_graph(node.params["body"], sources=False))
    assert body.count("sine(") == 1
    assert "f64[13]" in body or "float64[13]" in body


def test_the_counter_stays_the_first_carry() -> None:
    _, after, _ = fused(train, *training_arrays(SHAPES))
    (loop,) = [node for node in after.nodes if node.op is ops.while_]
    assert loop.types[0].shape == ()
    assert horizontal.is_loop(loop)


def test_carries_that_other_ops_of_the_body_read_are_cut_out_for_them() -> None:
    def loop(values: Any) -> Any:
        def step(_: Any, xs: Any) -> Any:
            largest = tnp.max(xs[1])
            return [x - 0.1 * tnp.tanh(x) * largest for x in xs]

        return tracer.fori_loop(0, 100, step, values)

    _, after, _ = fused(loop, [random(16) for _ in range(40)])
    (node,) = [node for node in after.nodes if node.op is ops.while_]
    assert max(type.size for type in node.types) == 640
    assert count(node.params["body"], ops.slice) == 1


def test_rows_of_one_array_that_are_stacked_again_need_neither_cut_nor_join() -> None:
    def rows(x: Any) -> Any:
        return tnp.stack([tnp.tanh(x[i]) * 2 + x[i] for i in range(8)])

    _, after, _ = fused(rows, random(8, 5))
    assert count(after, ops.concatenate) == count(after, ops.slice) == 0
    assert count(after, ops.tanh) == 1


def test_products_of_rows_become_one_batched_product() -> None:
    def products(x: Any, y: Any) -> Any:
        return tnp.stack([x[i] @ y[i] for i in range(8)])

    _, after, log = fused(products, random(8, 3, 4), random(8, 4, 2))
    (product,) = [node for node in after.nodes if node.op is ops.dot_general]
    assert product.types[0].shape == (8, 3, 2)
    assert count(after, ops.concatenate) == 0
    assert "8 times (dot_general)" in log.applied[0]


def test_products_that_share_an_operand_read_it_once() -> None:
    def products(x: Any, ws: Any) -> Any:
        return tnp.stack([x @ w for w in ws])

    _, after, _ = fused(products, random(3, 4), [random(4, 2) for _ in range(8)])
    (product,) = [node for node in after.nodes if node.op is ops.dot_general]
    assert (3, 4) in [type.shape for type in product.operand_types]


def test_single_arrays_in_and_out_are_refused() -> None:
    """Joined and cut apart they would take as long: each result is a kernel of its own."""

    def each(values: Any) -> Any:
        return [tnp.sin(x) + 1 for x in values]

    before, after, log = fused(each, [random(8) for _ in range(20)])
    assert after is before
    assert not log.applied
    assert "joining and cutting takes as long" in log.refusals[0].reason
    assert "20 times" in log.refusals[0].subject


def test_masks_of_dropout_are_not_drawn_as_one_array() -> None:
    """It took 1.8 times the memory, and a tenth longer, than masks that are stored one by one."""
    key = tracer.random.key(0)

    def dropouts(x: Any, a: Any) -> Any:
        for i in range(6):
            keep = tracer.random.bernoulli(tracer.random.fold_in(key, i), 0.9, x.shape)
            x = tnp.where(keep, tnp.tanh(a @ x), 0.0)
        return (x * x).sum()

    before, after, log = fused(tracer.grad(dropouts), *[random(192, 192)] * 2)
    assert after is before
    assert any("too much memory" in row.reason for row in log.refusals)


@pytest.fixture
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fuse whatever can be, so that guards other than the price are met."""
    monkeypatch.setattr(horizontal, "_is_enough", lambda *_: True)
    monkeypatch.setattr(horizontal, "_may_pay", lambda *_: True)


@pytest.mark.usefixtures("_always")
def test_lanes_that_wait_for_one_another_stay_apart() -> None:
    def chain(x: Any, ws: Any) -> Any:
        for w in ws:
            x = tnp.tanh(tnp.sort(x) * w)
        return x

    before, after, _ = fused(chain, random(7), [random(7) for _ in range(6)])
    assert after is before


@pytest.mark.usefixtures("_always")
def test_a_lane_that_waits_for_itself_is_left_out() -> None:
    def knots(values: Any) -> Any:
        return [(y := tnp.tanh(x)) + tnp.sort(y) for x in values]

    before, after, _ = fused(knots, [random(7) for _ in range(6)])
    assert after is before


@pytest.mark.usefixtures("_always")
def test_numbers_that_differ_make_lanes_differ() -> None:
    before, after, _ = fused(
        lambda values: [x * float(i) for i, x in enumerate(values)], [random(7) for _ in range(6)]
    )
    assert after is before


@pytest.mark.usefixtures("_always")
@pytest.mark.parametrize(
    "positional",
    [
        lambda x: tnp.flip(x),
        lambda x: x + tnp.arange(7.0),
        lambda x: x[::-1] * 2,
        lambda x: tnp.cumsum(x),
        lambda x: tnp.roll(x, 1),
        lambda x: x * tnp.sum(x),
    ],
)
def test_what_depends_on_the_place_keeps_its_meaning(positional: Any) -> None:
    fused(lambda values: [tnp.sin(positional(x)) for x in values], [random(7) for _ in range(6)])


@pytest.mark.usefixtures("_always")
def test_convolutions_are_left_alone() -> None:
    """As one they would have groups of features, which XLA:CPU is slow at."""

    def convolutions(x: Any, kernels: Any) -> Any:
        return [nn.conv_general_dilated(x, kernel) for kernel in kernels]

    before, after, _ = fused(convolutions, random(1, 2, 8), [random(3, 2, 3) for _ in range(6)])
    assert any(node.cost.product_flops for node in before.nodes)
    assert after is before


@pytest.mark.usefixtures("_always")
def test_large_arrays_are_left_alone() -> None:
    size = DEFAULT_TARGET.sizes.pack_bytes // 8
    graph = simplified(
        lambda values: [tnp.sin(x) for x in values], [np.zeros(size + 1) for _ in range(6)]
    )
    assert horizontal_pass(DEFAULT_TARGET).run(graph, PassLog()) is graph
    graph = simplified(lambda v: [tnp.sin(x) for x in v], [np.zeros(size)] * 6)
    assert find_isomorphic(graph, DEFAULT_TARGET.sizes)


def test_carries_in_another_order_are_not_packed() -> None:
    """The next value of each is that of its neighbour: packed, they would have to be moved."""

    def rotated(values: Any) -> Any:
        def step(_: Any, xs: Any) -> Any:
            new = [tnp.tanh(x) for x in xs]
            return [*new[1:], new[0]]

        return tracer.fori_loop(0, 100, step, values)

    _, after, _ = fused(rotated, [random(5) for _ in range(6)])
    (loop,) = [node for node in after.nodes if node.op is ops.while_]
    assert max(type.size for type in loop.types) == 5


def test_few_trips_are_not_worth_joining_the_carries_before_them() -> None:
    def loop(values: Any) -> Any:
        return tracer.fori_loop(0, 3, lambda _, xs: [tnp.sin(x) for x in xs], values)

    before, after, log = fused(loop, [random(4) for _ in range(20)])
    assert after is before
    assert "3 trips" in log.refusals[0].reason


def test_a_limit_that_packing_comes_near_keeps_the_arrays_apart() -> None:
    graph = simplified(train, *training_arrays(SHAPES))
    log = PassLog()
    assert horizontal_pass(DEFAULT_TARGET, limit_bytes=2000).run(graph, log) is graph
    assert "near the limit" in log.refusals[0].reason
    assert horizontal_pass(DEFAULT_TARGET, limit_bytes=1 << 20).run(graph, PassLog()) is not graph


def test_only_contiguous_slices_are_parts_of_an_array() -> None:
    with Builder() as builder:
        x = builder.input(ShapeDtype((4, 6), "float32"))
        rows = ops.slice(x, start=(1, 0), limit=(3, 6), strides=(1, 1))
        part = ops.slice(x, start=(2, 1), limit=(3, 4), strides=(1, 1))
        columns = ops.slice(x, start=(0, 2), limit=(4, 4), strides=(1, 1))
        strided = ops.slice(x, start=(0, 0), limit=(1, 6), strides=(1, 2))
        assert (flat_range(rows).root, flat_range(rows).start, flat_range(rows).stop) == (x, 6, 18)
        assert (flat_range(part).start, flat_range(part).stop) == (13, 16)
        assert flat_range(columns).root is columns
        assert flat_range(strided).root is strided


def test_parts_are_joined_only_in_their_order_and_along_the_outermost_axis() -> None:
    def joined(order: list[int], axis: int) -> int:
        x = random(3, 2)
        graph = simplified(lambda x: tnp.concatenate([x[i : i + 1] for i in order], axis=axis), x)
        result = join_parts(graph)
        (got,), (want,) = interpret(result, [x]), interpret(graph, [x])
        np.testing.assert_array_equal(got, want)
        return count(result, ops.concatenate)

    assert joined([0, 1, 2], 0) == 0
    assert joined([0, 2, 1], 0) == 1
    assert joined([0, 1, 2], 1) == 0  # one row each: side by side they are in order too
    assert joined([1, 2], 0) == 0


@given(data=st.data())
@run_settings(max_examples=60, deadline=None)
def test_random_programs_several_times_side_by_side(data: st.DataObject) -> None:
    """A random program on several sets of arrays at once: all that is alike is fused."""
    program: Program = data.draw(programs())
    copies = 5
    with Builder() as builder:
        outputs = []
        for _ in range(copies):
            inputs = [builder.input(type) for type in program.graph.input_types]
            outputs.extend(builder.inline(program.graph, inputs))
        graph = builder.finish(outputs)
    arrays = [np.roll(array, shift) for shift in range(copies) for array in program.arrays]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(horizontal, "_is_enough", lambda *_: True)
        patch.setattr(horizontal, "_may_pay", lambda *_: True)
        result = horizontal_pass(DEFAULT_TARGET).run(graph, PassLog())
    verify(result)
    verify_same_signature(graph, result)
    for got, want in zip(interpret(result, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def kernels(text: str) -> int:
    return len(re.findall(r" fusion\(", text))


@pytest.mark.xla
def test_the_compiled_loop_has_few_kernels_and_computes_the_same() -> None:
    arrays = training_arrays([SHAPES[i % len(SHAPES)] for i in range(60)])
    on, off = tracer.compile(train), tracer.compile(train, passes=["-horizontal-fusion"])
    got, want = (tree.flatten(compiled(*arrays))[0] for compiled in (on, off))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-9, atol=1e-12)
    bodies = [_loop_text(compiled.hlo(*arrays)) for compiled in (on, off)]
    assert kernels(bodies[0]) < 10
    assert kernels(bodies[1]) > 150


def _loop_text(text: str) -> str:
    """Return the text of the computation that is the loop's body."""
    (name,) = re.findall(r" while\(.*body=%?([\w.\-]+)", text)
    start = re.search(rf"^%?{re.escape(name)} .*\{{$", text, re.MULTILINE)
    assert start is not None
    return text[start.end() : text.index("\n}", start.end())]


@pytest.mark.usefixtures("_always")
def test_a_carry_that_several_lanes_read_is_not_packed_with_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is one carry: packed, it would be carried once for each subgraph."""
    monkeypatch.setattr(horizontal, "_WORTHWHILE", 1e9)

    def function(values: Any, shared: Any) -> Any:
        def body(_: Any, state: Any) -> Any:
            own, rate = state
            return [x * rate + x for x in own], rate

        return tracer.fori_loop(0, 9, body, (values, shared))

    free = Target(prices=Prices(part_seconds=0))
    _, after, _ = fused(function, [random(6) for _ in range(5)], random(6), machine=free)
    (loop,) = [node for node in after.nodes if node.op is ops.while_]
    assert [type.size for type in loop.types if type.ndim] in ([6, 30], [30, 6])
