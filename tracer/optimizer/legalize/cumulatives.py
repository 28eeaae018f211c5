"""Running sums and products of integers, and extremes, found by NumPy.

Any order of those gives the same. NumPy combines them in one pass over each line: 1,000,000 int32
in 2.7 ms, where the tree of windows that XLA makes takes 4.6 (sums) and 22 (extremes). Floats of
many elements, and what has elements behind the axis, go in pairs (`scans`), which is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tracer import ops
from tracer.ir import Builder, Graph, Node, Op, Value, rebuild
from tracer.ir.library_calls import ScanCall
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target
from tracer.target.scans import Scans

COMBINED: dict[Op | None, Op] = {
    ops.cumulative_add: ops.add,
    ops.cumulative_multiply: ops.multiply,
    ops.cumulative_maximum: ops.maximum,
    ops.cumulative_minimum: ops.minimum,
}
"""How two elements are combined."""


def numpy_cumulatives_pass(target: Target) -> Pass:
    """Return the pass that has NumPy combine integers, and find extremes, along lines."""
    return Pass("cumulate by numpy", partial(_by_numpy, target.scans), writes_out_cost=True)


def scan_call(node: Node) -> ScanCall | None:
    """Return what a running reduction says of itself; None of any other node."""
    if node.op not in COMBINED:
        return None
    (call,) = node.cost.calls
    assert isinstance(call, ScanCall)
    return call


def _by_numpy(scans: Scans | None, graph: Graph, log: PassLog) -> Graph:
    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        call = scan_call(node)
        if call is None or scans is None or not scans.are_by_numpy(call):
            return None
        log.applied.append(f"{node.name} of {node.types[0]} along axis {node.params['axis']}")
        combiner = COMBINED[node.op].name
        return (ops.numpy_cumulative(operands[0], combiner=combiner, **node.params),)

    return rebuild(graph, rewrite)


__all__ = ["COMBINED", "numpy_cumulatives_pass", "scan_call"]
