"""Small graphs for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from tracer import lowering
from tracer.array.trace import trace
from tracer.ir import Graph, ShapeDtype, interpret, parse_graph, print_graph, verify
from tracer.optimizer.final_passes import legalized
from tracer.optimizer.passes import Pass, PassLog
from tracer.optimizer.pipeline import Context, PlannerOptions

Array = np.ndarray[Any, Any]


def traced(function: Callable[..., Any], *types: tuple[Any, Any]) -> Graph:
    """Return the graph of a function written with tracer.numpy."""
    return trace(function, [ShapeDtype(*type) for type in types]).graph


def of(*arrays: Array) -> list[tuple[Any, Any]]:
    """Return shape and dtype of arrays, for `traced`."""
    return [(array.shape, array.dtype) for array in arrays]


def apply(item: Pass, graph: Graph) -> tuple[Graph, PassLog]:
    """Run one pass and verify what comes out."""
    log = PassLog()
    result = item.run(graph, log)
    verify(result)
    return result, log


def text(graph: Graph) -> str:
    """Print without source lines."""
    return print_graph(graph, sources=False).strip()


def rewritten(item: Pass, before: str) -> str:
    """Parse a graph, run one pass, print the result."""
    return text(apply(item, parse_graph(before))[0])


def legal(graph: Graph) -> Graph:
    """Return a graph as it is compiled for this processor, by the last passes of the table."""
    options = PlannerOptions(machine=lowering.target_of("cpu"))
    return legalized(graph, Context(options))[0]


def ops_of(graph: Graph) -> list[str]:
    """Return the names of the ops, bodies included."""
    names = []
    for node in graph.nodes:
        names.append(node.name)
        for bodies in node.bodies.values():
            for body in bodies if isinstance(bodies, tuple) else (bodies,):
                names += ops_of(body)
    return names


def evaluated(graph: Graph, *arrays: Array) -> list[Array]:
    """Interpret a graph on arrays."""
    return interpret(graph, arrays)


def assert_close(one: Any, other: Any, *, digits: float) -> None:
    """Compare two arrays, by a share of the largest element."""
    one, other = np.asarray(one), np.asarray(other)
    assert one.shape == other.shape
    np.testing.assert_allclose(one, other, rtol=0, atol=digits * np.abs(other).max())


def assert_same_without(
    off: str, program: Callable[..., Any], x: Array, same: Callable[[Any, Any], None]
) -> None:
    """Compare what a program computes with and without a pass; no argument may be written over."""
    array, kept = tnp.asarray(x), x.copy()
    found = tracer.compile(program)(array)
    wanted = tracer.compile(program, passes=off)(x)
    for one, other in zip(tracer.tree.leaves(found), tracer.tree.leaves(wanted), strict=True):
        assert one.dtype == other.dtype
        same(one, other)
    np.testing.assert_array_equal(array, kept)
    np.testing.assert_array_equal(x, kept)
