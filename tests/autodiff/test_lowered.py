"""Gradients through XLA: the same numbers, and the memory that was promised."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.autodiff.graphs import build, matmul, point, total
from tracer import lowering, ops
from tracer.autodiff import value_and_gradient
from tracer.ir import Graph, Value, interpret

pytestmark = pytest.mark.xla
N = 64


def compiled(graph: Graph) -> lowering.Executable:
    return lowering.compile_graph(graph, device=lowering.default_device())


def run(graph: Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    device = lowering.default_device()
    buffers = compiled(graph)(*[lowering.to_device(array, device) for array in arrays])
    return [lowering.to_host(buffer) for buffer in buffers]


def step(w: Value, c: Value, x: Value) -> list[Value]:
    carry = ops.tanh(ops.add(matmul(c, w), x))
    return [carry, ops.multiply(carry, ops.sine(carry))]


def recurrent(steps: int) -> Graph:
    vector = ((N,), "float32")
    body = build(step, ((N, N), "float32"), vector, vector)

    def loop(w: Value, c: Value, xs: Value) -> Value:
        params = {"length": steps, "num_consts": 1, "num_carry": 1, "reverse": False}
        return total(ops.scan(w, c, xs, body=body, **params)[1])

    return build(loop, ((N, N), "float32"), vector, ((steps, N), "float32"))


def test_gradient_of_a_scan_is_that_of_the_interpreter() -> None:
    graph = value_and_gradient(recurrent(7), [0, 1, 2])
    arrays = [0.1 * array for array in point(graph)]
    for one, other in zip(run(graph, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


def test_stacks_and_constants_of_a_scan_are_not_copied() -> None:
    text = compiled(value_and_gradient(recurrent(50), [0, 1, 2])).hlo()
    assert "while(" in text
    assert not re.findall(rf"f32\[50,{N}\]\S* copy\(", text)
    assert not re.findall(rf"f32\[{N},{N}\]\S* copy\(", text)


def test_a_scan_keeps_a_few_stacks() -> None:
    steps = 500
    memory = compiled(value_and_gradient(recurrent(steps), [0])).memory
    stack = 4 * steps * N
    # Carries entering and leaving the steps, and the results with their cotangents.
    assert memory.temporary_bytes <= 4.5 * stack


def test_checkpoint_keeps_less_and_is_not_undone() -> None:
    batch, matrix = ((20 * N, N), "float32"), ((N, N), "float32")

    def block(x: Value, w: Value) -> Value:
        for _ in range(8):
            x = ops.tanh(matmul(x, w))
        return x

    body = build(block, batch, matrix)

    def network(x: Value, w: Value, *, kept: bool) -> Value:
        for _ in range(4):
            x = block(x, w) if kept else ops.checkpoint(x, w, body=body, prevent_cse=True)[0]
        return total(x)

    plain = build(lambda x, w: network(x, w, kept=True), batch, matrix)
    saving = build(lambda x, w: network(x, w, kept=False), batch, matrix)
    before, after = (
        compiled(value_and_gradient(graph, [0, 1])).memory.temporary_bytes
        for graph in (plain, saving)
    )
    assert after < 0.6 * before
