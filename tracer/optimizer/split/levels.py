"""In which order the loops of a region run, and which heads share one.

A head whose loop body needs, whole, what another head computes must wait for that head's loop:
softmax's sum of exponentials waits for the maximum, a gradient waits for the loss. The level of a
node counts the loops that must have finished before it can be computed.
"""

from __future__ import annotations

from tracer.ir import Node
from tracer.optimizer.split.region import Region, Subject


def loop_levels(subject: Subject, region: Region) -> tuple[dict[Node, int], dict[Node, int]]:
    """Return (start, done) levels of all nodes.

    A node can run once `start[node]` levels of loops have finished; its stored result is there
    at level `done[node]`, one later than `start` for heads.
    """
    start: dict[Node, int] = {}
    done: dict[Node, int] = {}
    for node in subject.graph.nodes:
        label = region.heads.get(node, region.virtual.get(node))
        level = 0
        for position, value in enumerate(node.operands):
            producer = value.node
            if producer.op is None:
                continue
            sliced = label is not None and label in subject.rule(node).operands[position]
            in_loop = sliced and producer in region.virtual
            level = max(level, start[producer] if in_loop else done[producer])
        start[node] = level
        done[node] = level + 1 if node in region.heads else level
    return start, done
