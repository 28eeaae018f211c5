"""The language's own tools on every op of the vocabulary: verify, print, parse, interpret."""

from __future__ import annotations

import pytest

from tests.ops.samples import SAMPLES, Sample
from tracer.ir import (
    Builder,
    Graph,
    ShapeDtype,
    interpret,
    parse_graph,
    print_graph,
    registry,
    verify,
)

CASES = [
    pytest.param(name, sample, id=f"{name}-{position}")
    for name, samples in SAMPLES.items()
    for position, sample in enumerate(samples)
]


def graph_of(name: str, sample: Sample) -> Graph:
    with Builder() as builder:
        operands = [builder.input(ShapeDtype(a.shape, a.dtype)) for a in sample.operands]
        results = registry()[name](*operands, **sample.params)
        return builder.finish(results if isinstance(results, tuple) else (results,))


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_verifies_and_reads_back(name: str, sample: Sample) -> None:
    graph = graph_of(name, sample)
    verify(graph)
    again = parse_graph(print_graph(graph))
    verify(again)
    assert again.fingerprint == graph.fingerprint


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_graph_that_was_read_back_computes_the_same(name: str, sample: Sample) -> None:
    graph = graph_of(name, sample)
    wanted = interpret(graph, sample.operands)
    found = interpret(parse_graph(print_graph(graph)), sample.operands)
    assert [array.tobytes() for array in found] == [array.tobytes() for array in wanted]
