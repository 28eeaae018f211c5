"""The orders in which XLA:CPU runs the stored values, and the memory a program takes in them.

XLA does not keep the order of the program. Under a tight limit it goes depth first from the
results, through the operand with the most other readers and then the most bytes behind it
(`DFSMemoryScheduler`, xla/hlo/transforms/simplifiers/hlo_memory_scheduler.cc). Otherwise it goes
breadth first (`BFScheduler`, same file). In both, independent work runs before a loop, such as the
remainder of a loop whose trips do not divide an axis. docs/memory-model.md compares with XLA's
counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracer.ir import Graph, Node
from tracer.optimizer.model.lifetimes import Lifetimes
from tracer.optimizer.model.liveness import Liveness, largest_packings

Needs = Mapping[Node, Sequence[Node]]
# A training step in slices took twice what was predicted for XLA's order for concurrency.
_FARTHEST_OFF = 2.5


def compiled_peak_bytes(
    graph: Graph, donated: frozenset[int] = frozenset(), *, for_memory: bool
) -> int:
    """Return the predicted peak of a program in XLA's own order.

    Parameters
    ----------
    graph : Graph
        The program.
    donated : frozenset of int
        Inputs whose buffers may be overwritten once they are dead.
    for_memory : bool
        XLA is asked for its memory-optimised order (`lowering.memory_optimized_options`).
    """
    order = depth_first if for_memory else breadth_first
    return Liveness(graph, donated, order=order).peak_bytes


def most_bytes_by_default(graph: Graph, donated: frozenset[int] = frozenset()) -> int:
    """Return what a program takes at most, in bytes, in the order that XLA takes by default."""
    predicted = compiled_peak_bytes(graph, donated, for_memory=False)
    return min(bytes_in_any_order(graph), int(_FARTHEST_OFF * predicted))


def bytes_in_any_order(graph: Graph, *, is_body: bool = False) -> int:
    """Return what a program takes at most, in bytes, whatever the order: all values at a time.

    What there is to store is predicted better than an order.
    """
    live = Liveness(graph, is_body=is_body)
    stored = sum(type.nbytes for node in live.schedule for type in node.types)
    largest = max((_largest_scratch(live, node) for node in live.schedule), default=0)
    if is_body:
        return stored + largest
    arguments = sum(type.nbytes for type in graph.input_types)
    of_libraries = sum(largest_packings(graph))
    return arguments + stored + largest + live.copied_bytes() + of_libraries


def _largest_scratch(live: Liveness, node: Node) -> int:
    bodies = (bytes_in_any_order(body, is_body=True) for body in node.body_graphs)
    return max(bodies, default=0) or live.scratch_bytes(node)


def depth_first(live: Lifetimes) -> list[Node]:
    """Return the stored nodes in the order of XLA's scheduler for memory."""
    needs = _needs(live)
    ends = _ends(live, needs)
    weights = _weights(needs, ends)

    def by_weight(nodes: Sequence[Node]) -> list[Node]:
        return sorted(nodes, key=lambda node: (weights[node].rank, live.position[node]))

    order: dict[Node, None] = {}
    entered: set[Node] = set()
    for end in (*by_weight(ends), *needs):
        stack = [end]
        while stack:
            node = stack[-1]
            if node in order:
                stack.pop()
            elif node in entered:
                order[stack.pop()] = None
            else:
                entered.add(node)
                stack.extend(n for n in reversed(by_weight(needs[node])) if n not in entered)
    return list(order)


def breadth_first(live: Lifetimes) -> list[Node]:
    """Return the stored nodes in the order of XLA's scheduler for concurrency."""
    needs = _needs(live)
    waiting = {node: len(before) for node, before in needs.items()}
    readers: dict[Node, list[Node]] = {node: [] for node in needs}
    for node, before in needs.items():
        for each in before:
            readers[each].append(node)
    ready = deque(node for node, count in waiting.items() if count == 0)
    order: list[Node] = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for reader in readers[node]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    return order


@dataclass(frozen=True)
class _Weight:
    """What is behind a node: readers beyond the first of each value, and bytes."""

    readers: int
    nbytes: int

    @property
    def rank(self) -> tuple[int, int]:
        return -self.readers, -self.nbytes


def _needs(live: Lifetimes) -> Needs:
    """Return the stored nodes that each stored node reads."""
    return {
        node: list(dict.fromkeys(v.node for v in live.buffers_read(node) if v.node in live.stored))
        for node in live.graph.nodes
        if node in live.stored
    }


def _ends(live: Lifetimes, needs: Needs) -> list[Node]:
    """Return the nodes that write the results."""
    return list(dict.fromkeys(n for v in live.graph.outputs if (n := live.root(v).node) in needs))


def _weights(needs: Needs, ends: Sequence[Node]) -> dict[Node, _Weight]:
    readers = dict.fromkeys(needs, 0)
    for node in (*ends, *(each for before in needs.values() for each in before)):
        readers[node] += 1
    weights: dict[Node, _Weight] = {}
    total = 0
    for node, before in needs.items():
        own = sum(type.nbytes for type in node.types)
        total += own
        behind = [weights[each] for each in before]
        count = max(0, readers[node] - 1) + sum(weight.readers for weight in behind)
        # What is reached on several ways counts for each; XLA's bounds keep that small.
        nbytes = min(total, own + sum(weight.nbytes for weight in behind))
        weights[node] = _Weight(min(count, len(needs)), nbytes)
    return weights
