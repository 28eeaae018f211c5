"""Long reductions in stages, where the device's compiler does not cut them well itself.

Which stages is said by the target's record (`target/reductions.py`, with the reasons); how they are
written is said in `writer.py`.

The bytes of the partial results are counted before, as a long reduction's memory on the target.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.optimizer.legalize.flat import FlatForms
from tracer.optimizer.legalize.writer import GraphWriter
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target

_REDUCTIONS = frozenset(
    {
        ops.reduce_add,
        ops.reduce_and,
        ops.reduce_maximum,
        ops.reduce_minimum,
        ops.reduce_multiply,
        ops.reduce_or,
    }
)


def staged_reductions_pass(target: Target) -> Pass:
    """Return the pass that writes long reductions in the stages of a target."""
    return Pass(
        "stage reductions",
        lambda graph, log: _staged_graph(GraphWriter(target), graph, log),
        exact=False,
        writes_out_cost=True,
    )


def is_reduction(node: Node) -> bool:
    """Tell whether a node is what this pass may cut."""
    return node.op in _REDUCTIONS


def _staged_graph(writer: GraphWriter, graph: Graph, log: PassLog) -> Graph:
    flat = FlatForms(graph)

    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if not is_reduction(node):
            return None
        assert node.op is not None
        x, axes = flat.merged(node, operands[0])
        found = writer.in_stages(node.op, x, axes, node.operands[0])
        if found is None:
            if x is operands[0] or not writer.is_worthwhile(x):
                return None
            found = node.op(x, axes=axes)
        log.applied.append(f"{node.name} of {node.operand_types[0]} over {node.params['axes']}")
        return (found,)

    return rebuild(graph, rewrite)


__all__ = ["is_reduction", "staged_reductions_pass"]
