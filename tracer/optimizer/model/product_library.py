"""Which of XLA:CPU's libraries multiplies the matrices of a program: it is one for all of them.

YNNPACK does by default. On some processors Eigen is faster for products of float32 and slower for
others (`target.EigenTimes`), so the products of a program are weighed by the time model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

from tracer import ops
from tracer.ir import Graph, Node
from tracer.ir.library_calls import ProductCall
from tracer.optimizer.model.trip_counts import run_count
from tracer.target import Target, planned_for
from tracer.target.products import SUMMED_IN


def is_faster_by_eigen(graph: Graph, machine: Target) -> bool:
    """Tell whether the products of a program take clearly less time if Eigen multiplies them.

    Parameters
    ----------
    graph : Graph
        The program in the forms that are compiled.
    machine : Target
        Where it runs.
    """
    times = machine.kernels.eigen
    if times is None:
        return False
    by_ynnpack = by_eigen = 0.0
    for call, in_single in _products(graph, machine):
        ynnpack, eigen = times.seconds(call, in_single)
        by_ynnpack += ynnpack
        by_eigen += eigen
    return by_eigen < times.worth * by_ynnpack


def cores_of_product(call: ProductCall, machine: Target) -> int:
    """Return among how many cores YNNPACK spreads each product of a batch."""
    prices = machine.prices
    if call.batch < 2 or min(call.rows, call.inner, call.columns) < prices.matrix_side:
        # To wake the others takes a good part of what one small product gains; thin ones are
        # spread sooner.
        return machine.cores
    elements = (call.left + call.right + call.result) // call.batch
    longest = max(call.rows, call.columns)
    most = min(elements // prices.matrix_elements, longest // prices.matrix_side)
    return max(1, min(machine.cores, most))


def packing_by_eigen(machine: Target) -> AbstractContextManager[None]:
    """Predict, inside of the context, what programs store if Eigen packs their operands."""
    return planned_for(replace(machine, packing=replace(machine.packing, ynnpack=False)))


def _products(graph: Graph, machine: Target) -> Iterator[tuple[ProductCall, float]]:
    """Yield products with the seconds that all their runs take in float32 by YNNPACK, about."""
    for node in graph.nodes:
        if node.body_graphs:
            runs = run_count(node)
            for body in node.body_graphs:
                for call, seconds in _products(body, machine):
                    yield call, runs * seconds
        else:
            calls = (call for call in node.cost.calls if isinstance(call, ProductCall))
            for call in calls:
                call = replace(call, dtype=_given_dtype(node) or call.dtype)
                seconds = machine.prices.product_seconds(call.flops, call.result, call.itemsize)
                yield call, seconds / cores_of_product(call, machine)


def _given_dtype(node: Node) -> str | None:
    """Return the one dtype that a product's operands are widened from, if XLA is given that."""
    sources = [x.node.operand_types[0] for x in node.operands if x.node.op is ops.convert]
    names = {source.dtype.name for source in sources}
    if len(names) != 1 or len(sources) < len(node.operands):
        return None
    name = names.pop()
    return name if SUMMED_IN.get(name) == node.types[0].dtype.name else None


__all__ = ["cores_of_product", "is_faster_by_eigen", "packing_by_eigen"]
