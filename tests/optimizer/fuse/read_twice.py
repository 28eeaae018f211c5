"""Programs in which several kernels read a value, and what a pass that moves values keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Value, interpret
from tracer.ir.verify import verify, verify_same_signature


def read_twice(graph: Graph, function: Callable[[Value], Value]) -> Graph:
    """Return the program with a function of each result, in float64, which several sums read."""
    with Builder() as builder:
        inputs = [builder.input(type) for type in graph.input_types]
        results = []
        for value in builder.inline(graph, inputs):
            shared = function(ops.convert(value, dtype=np.dtype(np.float64)))
            rank = len(shared.shape)
            results += [ops.reduce_add(shared, axes=(axis,)) for axis in range(rank)]
            results.append(ops.reduce_add(ops.negate(shared), axes=tuple(range(rank))))
        return builder.finish(results)


def check_same(result: Graph, graph: Graph, arrays: Sequence[Any]) -> None:
    """Check that a rewritten graph is valid and means the same, bit for bit."""
    verify(result)
    verify_same_signature(graph, result)
    for one, other in zip(interpret(result, arrays), interpret(graph, arrays), strict=True):
        np.testing.assert_array_equal(one, other)
