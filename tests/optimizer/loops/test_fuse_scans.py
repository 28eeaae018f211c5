"""Fusing a scan with the scan over what it stacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.array.trace import trace
from tracer.ir import Graph
from tracer.ir.interpret import interpret
from tracer.ir.verify import verify
from tracer.optimizer.loops.fuse_scans import fuse_scans
from tracer.optimizer.passes import PassLog

X = np.linspace(-1.0, 1.0, 12).reshape(4, 3)


def scans(graph: Graph) -> int:
    return sum(node.name == "scan" for node in graph.nodes)


def fused(function: Any, *arrays: Any) -> Graph:
    graph = trace(function, arrays).graph
    result = fuse_scans(graph, PassLog())
    verify(result)
    wanted = interpret(graph, list(arrays))
    for one, other in zip(interpret(result, list(arrays)), wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    return result


def running(x: Any, *, reverse: bool = False) -> Any:
    return tracer.scan(lambda c, row: (tnp.sin(c + row), c * row), X[0], x, reverse=reverse)


def test_stacks_that_only_the_second_reads_are_gone() -> None:
    graph = fused(lambda x: running(running(x)[1])[0], X)
    (scan,) = [node for node in graph.nodes if node.name == "scan"]
    # The two carries, and what the second stacks itself.
    assert [type.shape for type in scan.types] == [(3,), (3,), (4, 3)]


def test_stacks_that_others_read_stay() -> None:
    def both(x: Any) -> Any:
        last, stacked = running(x)
        again = tracer.scan(lambda c, r: (c + r[0] * r[1], c), X[1], (stacked, x))
        return last, again, stacked.sum()

    assert scans(fused(both, X)) == 1


def test_chains_fuse_to_one() -> None:
    def chain(x: Any) -> Any:
        for _ in range(3):
            x = tracer.scan(lambda c, row: (c + row, c * row), tnp.zeros(3), x)[1]
        return x

    assert scans(fused(chain, X)) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: running(running(x)[1], reverse=True),  # the other direction
        lambda x: running(running(x)[1][:3]),  # other steps
        lambda x: running(2 * running(x)[1]),  # something between
        lambda x: tracer.scan(lambda c, r: (c + r, c), *running(x)),  # begins where the first ends
        lambda x: (running(x), running(x + 1)),  # nothing in common
    ],
)
def test_what_is_not_fused(function: Any) -> None:
    assert scans(fused(function, X)) == 2


@pytest.mark.xla
def test_forward_mode_stacks_nothing() -> None:
    def loss(x: Any) -> Any:
        return tracer.scan(lambda c, _: (tnp.sin(tnp.sin(c)) * c, None), x, None, length=1000)[0]

    start = np.linspace(0.5, 1.0, 1000)
    push = tracer.compile(lambda x, t: tracer.jvp(loss, (x,), (t,)))
    assert push.plan(start, start).compiled_bytes < 200_000  # a stack alone takes 8 MB
    value, tangent = push(start, np.ones(1000))
    expected, slope = start, np.ones(1000)
    for _ in range(1000):
        inner = np.sin(expected)
        factor = np.cos(inner) * np.cos(expected) * expected + np.sin(inner)
        expected, slope = np.sin(inner) * expected, slope * factor
    np.testing.assert_allclose(value, expected, rtol=1e-9)
    np.testing.assert_allclose(tangent, slope, rtol=1e-9)


@pytest.mark.parametrize("reads", ["a number", "the whole"])
def test_a_scan_that_needs_what_the_first_gives_at_its_end_comes_after_it(reads: str) -> None:
    """Its slices are the first's, but it also waits for the last of them."""

    def function(x: Any) -> Any:
        last, stacked = running(x)
        if reads == "a number":
            return tracer.scan(lambda c, r: (c + r, c), 2 * last, stacked)
        return tracer.scan(lambda c, r: (c + r * stacked.sum(0), c), X[0], stacked)

    assert scans(fused(function, X)) == 2
