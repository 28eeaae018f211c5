"""Graphs for the tests of this folder, written with op records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, ShapeDtype, Value


def build(function: Callable[..., Any], *types: tuple[Any, Any]) -> Graph:
    """Return the graph of a function of Values; `types` are (shape, dtype) of its inputs."""
    with Builder() as builder:
        results = function(*[builder.input(ShapeDtype(*type)) for type in types])
        return builder.finish(results if isinstance(results, list | tuple) else [results])


def point(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    """Return random arrays for the inputs of a graph."""
    rng = np.random.default_rng(seed)
    arrays = []
    for type in graph.input_types:
        values = rng.standard_normal(type.shape)
        if type.dtype.kind == "c":
            values = values + 1j * rng.standard_normal(type.shape)
        arrays.append(np.asarray(values).astype(type.dtype))
    return arrays


def total(x: Value) -> Value:
    """Sum all elements."""
    return ops.reduce_add(x, axes=tuple(range(len(x.shape))))


def names(graph: Graph) -> list[str]:
    """Return the names of the ops of a graph."""
    return [node.name for node in graph.nodes]


def matmul(x: Value, y: Value) -> Value:
    """Return the product of a matrix or vector with a matrix."""
    last = len(x.shape) - 1
    return ops.dot_general(
        x, y, lhs_batch=(), rhs_batch=(), lhs_contracting=(last,), rhs_contracting=(0,)
    )
