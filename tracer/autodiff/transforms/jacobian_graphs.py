"""Graphs of Jacobians: one pass, batched over the unit vectors of the results or arguments.

The unit vectors are computed from two iotas where they are used, and never stored. All results (or
arguments) share one batch, so the graph is as long as that of a single pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracer import ops
from tracer.autodiff import linearized, pull_back, push_forward
from tracer.autodiff.batching import batch_graph
from tracer.ir import Builder, Graph, ShapeDtype, Value
from tracer.ops import helpers
from tracer.ops.batch import move_axis

Positions = Sequence[int]


def reverse_jacobian(graph: Graph, wrt: Positions, outputs: Positions) -> Graph:
    """Extend a graph by its Jacobian: a batch of pull-backs.

    Returns
    -------
    Graph
        Outputs are the graph's, then for each of `outputs` one block for each of `wrt`.
    """
    halves = pull_back(graph, wrt, outputs)
    results = [graph.output_types[i] for i in outputs]
    arguments = [graph.input_types[i] for i in wrt]
    total = sum(type.size for type in results)
    flags = _last(halves.backward, halves.seeds)
    backward, _ = batch_graph(halves.backward, flags, total, (True,) * len(wrt))
    with Builder() as builder:
        primals = [builder.input(value.type, value.node.source) for value in graph.inputs]
        own = builder.inline(halves.forward, primals)
        kept = [*(primals[i] for i in halves.inputs), *own[len(graph.outputs) :]]
        rows = builder.inline(backward, [*kept, *_unit_vectors(results, total)])
        blocks = [
            helpers.reshape(part, (*result.shape, *argument.shape))
            for result, parts in zip(results, _cut(rows, results), strict=True)
            for argument, part in zip(arguments, parts, strict=True)
        ]
        return builder.finish([*own[: len(graph.outputs)], *blocks])


def forward_jacobian(graph: Graph, wrt: Positions, outputs: Positions) -> Graph:
    """Extend a graph by its Jacobian: a batch of push-forwards; see `reverse_jacobian`."""
    halves = linearized(graph, wrt, outputs)
    results = [graph.output_types[i] for i in outputs]
    arguments = [graph.input_types[i] for i in wrt]
    total = sum(type.size for type in arguments)
    linear = push_forward(halves)
    flags = _last(linear, len(wrt))
    pushed, _ = batch_graph(linear, flags, total, (True,) * len(results))
    with Builder() as builder:
        primals = [builder.input(value.type, value.node.source) for value in graph.inputs]
        own = builder.inline(halves.forward, primals)
        kept = [*(primals[i] for i in halves.inputs), *own[len(graph.outputs) :]]
        columns = builder.inline(pushed, [*kept, *_unit_vectors(arguments, total)])
        parts = list(zip(arguments, _cut(columns, arguments), strict=True))
        blocks = [
            helpers.reshape(
                move_axis(of_argument[k], 0, len(result.shape)), (*result.shape, *argument.shape)
            )
            for k, result in enumerate(results)
            for argument, of_argument in parts
        ]
        return builder.finish([*own[: len(graph.outputs)], *blocks])


def _last(graph: Graph, count: int) -> tuple[bool, ...]:
    """Flag the last inputs."""
    return (False,) * (len(graph.inputs) - count) + (True,) * count


def _unit_vectors(types: Sequence[ShapeDtype], total: int) -> list[Value]:
    """Return the unit vectors of all arrays together, each cut into arrays of these types."""
    found, start = [], 0
    index = np.dtype(np.int32)
    for type in types:
        shape = (total, type.size)
        rows = ops.iota(shape=shape, dtype=index, dimension=0)
        columns = ops.iota(shape=shape, dtype=index, dimension=1)
        is_one = ops.compare(rows, helpers.shift(columns, start), direction="EQ")
        units = helpers.convert(is_one, type.dtype)
        found.append(helpers.reshape(units, (total, *type.shape)))
        start += type.size
    return found


def _cut(batches: Sequence[Value], types: Sequence[ShapeDtype]) -> list[list[Value]]:
    """Cut the batch axis of each value into the parts that belong to the arrays of these types."""
    parts, start = [], 0
    for type in types:
        stop = start + type.size
        parts.append([helpers.slice_axis(x, 0, start, stop) for x in batches])
        start = stop
    return parts


__all__ = ["forward_jacobian", "reverse_jacobian"]
