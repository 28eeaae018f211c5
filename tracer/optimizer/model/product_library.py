"""Which of XLA:CPU's libraries multiplies the matrices of a program: it is one for all of them.

YNNPACK does by default. On some processors Eigen is faster for products of float32 and slower for
others (`target.EigenTimes`), so the products of a program are weighed by the time model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tracer.ir import Graph
from tracer.ir.library_calls import ProductCall
from tracer.optimizer.model.trip_counts import trip_count
from tracer.optimizer.model.xla_order import bytes_in_any_order
from tracer.target import Target, planned_for


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
    for call, seconds in _products(graph, machine):
        by_ynnpack += seconds
        by_eigen += seconds * times.share(call)
    return by_eigen < times.worth * by_ynnpack


def bytes_by_eigen(graph: Graph, machine: Target) -> int:
    """Return what a program takes at most if Eigen packs its operands, in bytes, in any order."""
    with planned_for(replace(machine, packing=replace(machine.packing, ynnpack=False))):
        return bytes_in_any_order(graph)


def _products(graph: Graph, machine: Target) -> Iterator[tuple[ProductCall, float]]:
    """Yield products with the seconds that all their runs take by YNNPACK, about."""
    for node in graph.nodes:
        if node.body_graphs:
            trips = trip_count(node) or 1
            for body in node.body_graphs:
                for call, seconds in _products(body, machine):
                    yield call, trips * seconds
        else:
            calls = (call for call in node.cost.calls if isinstance(call, ProductCall))
            for call in calls:
                yield call, machine.prices.product_seconds(call.flops, call.result, call.itemsize)


__all__ = ["bytes_by_eigen", "is_faster_by_eigen"]
