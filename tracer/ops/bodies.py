"""Evaluation, expansion and cost of a body Graph, shared by all ops with bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer.ir import Builder, Cost, Graph, ShapeDtype, Value, current_builder
from tracer.ir.interpret import interpret
from tracer.ir.library_calls import LibraryCall


def evaluate_body(body: Graph, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Evaluate a body with NumPy."""
    return tuple(interpret(body, [np.asarray(array) for array in arrays]))


def graph_cost(graph: Graph) -> Cost:
    """Sum the costs of a graph's nodes; scratch is the largest, since nodes run in turn."""
    costs = [node.cost for node in graph.nodes]
    return Cost(
        sum(cost.flops for cost in costs),
        sum(cost.bytes for cost in costs),
        max((cost.scratch for cost in costs), default=0),
        sum(cost.product_flops for cost in costs),
        max((cost.packing for cost in costs), default=0),
        calls=calls_of(costs),
    )


def calls_of(costs: Sequence[Cost]) -> tuple[LibraryCall, ...]:
    """Return the different calls of libraries: the largest counts, since nodes run in turn."""
    return tuple(dict.fromkeys(call for cost in costs for call in cost.calls))


def lower_expansion(
    expand: Callable[..., Sequence[Value]],
    operand_types: Sequence[ShapeDtype],
    b: Any,
    operands: Sequence[Any],
    **params: Any,
) -> tuple[Any, ...]:
    """Lower an op by lowering the ops that it expands to."""
    with Builder() as builder:
        inputs = [builder.input(type) for type in operand_types]
        graph = builder.finish(expand(*inputs, **params))
    return lower_graph(b, graph, operands)


def lower_graph(b: Any, graph: Graph, operands: Sequence[Any]) -> tuple[Any, ...]:
    """Lower the nodes of a graph in place, its inputs bound to `operands`."""
    lowered: dict[Value, Any] = dict(zip(graph.inputs, operands, strict=True))
    for node in graph.nodes:
        assert node.op is not None
        arguments = [lowered[value] for value in node.operands]
        results = node.op.lower(b, node.types, *arguments, **node.params)
        many = results if isinstance(results, tuple) else (results,)
        lowered.update(zip(node.results, many, strict=True))
    return tuple(lowered[value] for value in graph.outputs)


def inline(graph: Graph, operands: Sequence[Value]) -> list[Value]:
    """Write the nodes of a graph into the builder that is current."""
    return current_builder().inline(graph, operands)
