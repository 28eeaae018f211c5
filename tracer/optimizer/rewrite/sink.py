"""Sink: loops and branches compute their large invariant operands themselves, in every trip.

For a limit that cannot be met otherwise. The bodies are split like any graph and then compute
slices of what was stored. The rewrite is `ops.sink`, which differentiation uses too. Recomputed
values may round differently in their last digit, so none is tested for equality with something
computed from it outside.
"""

from __future__ import annotations

from tracer.ir import Graph, Node, Value
from tracer.ops.sink import sink_invariants
from tracer.optimizer.passes import Pass, PassLog


def sink_pass(threshold: int) -> Pass:
    """Return the pass for values of more than `threshold` bytes."""

    def run(graph: Graph, log: PassLog) -> Graph:
        def report(node: Node, value: Value, why: str | None) -> None:
            what = f"{value.type} of {value.node.name}"
            if why is None:
                log.applied.append(f"{what} into {node.name}")
            else:
                log.refuse(f"{what} before {node.name}", why, value.node.source)

        return sink_invariants(graph, lambda type: type.nbytes > threshold, report)

    return Pass("sink", run, exact=False, bodies=False)


__all__ = ["sink_pass"]
