"""Loop unrolling: a loop of a few small steps is written out if the time model finds it faster.

The unrolled steps of a short loop fuse with each other and with the surrounding code, and counters
become constants. That pays in the body of another loop, where it happens often, and for cheap
element-wise arithmetic: 1.0 to 3.6 times faster. Steps that shift their state are 1.2 to 3.7 times
slower when they are fused, steps of `tanh` 1.4 to 1.8: those stay loops (docs/fusion.md). Outside
of a loop it saves less than a call costs. Long loops stay. *Operator Fusion in XLA*
(Snider & Liang) unrolls Cartpole's loop by 10 on a GPU and gains 3.5 times, since a step there
waits for its kernels to start. On a CPU the same was 10 to 20 times slower: XLA fuses each step
into all kernels that read part of it, and the kernels of ten steps recompute the first ones
hundreds of times. The time model counts this recomputation (docs/fusion.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer.ir import Builder, Graph, Node, Value, map_bodies, rebuild
from tracer.ops.bodies import inline
from tracer.optimizer.model.costs import node_count
from tracer.optimizer.model.in_order import is_elementwise
from tracer.optimizer.model.liveness import body_extra_bytes
from tracer.optimizer.model.speed import trip_seconds
from tracer.optimizer.model.storage import is_expensive
from tracer.optimizer.model.trip_counts import trip_count
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target

_MOST_TRIPS = 4
_MOST_NODES = 256
"""What is written out takes long to compile."""
_MOST_BYTES = 1 << 18
"""XLA may run steps at the same time that a loop runs in turn: values of this many bytes at most
may then be there together."""


def unrolling_pass(machine: Target) -> Pass:
    """Return the pass for a machine."""

    def run(graph: Graph, log: PassLog) -> Graph:
        return _unrolled(graph, machine, log, most=1)

    return Pass("loop unrolling", run, bodies=False)


def _unrolled(graph: Graph, machine: Target, log: PassLog, *, most: int) -> Graph:
    """Write out loops of few trips; in loops, which run often, of more."""

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        trips = trip_count(node)
        if trips is None:
            return None
        why, gain = _judged(node, trips, machine, most)
        if why is not None:
            log.refuse(f"{node.name} of {len(node.types)} values", why, node.source)
            return None
        log.applied.append(f"{node}: {trips} steps written out{gain}")
        return _written_out(node.params["body"], operands, trips)

    graph = map_bodies(graph, lambda body: _unrolled(body, machine, log, most=_MOST_TRIPS))
    return rebuild(graph, rewrite)


def _judged(node: Node, trips: int, machine: Target, most: int) -> tuple[str | None, str]:
    """Return why a loop stays, or None, and what the rewrite is expected to bring."""
    body: Graph = node.params["body"]
    if node.has_effect:
        return "its steps call Python, which other passes must be able to count", ""
    if trips <= 1:
        return None, ""
    if trips > most:
        in_turn, at_once = 2 * _seconds(body, machine), _seconds(_several(body, 2), machine)
        times = f"take {1e6 * at_once:.1f} us, in two {1e6 * in_turn:.1f} us"
        return f"{trips} trips are not written out; by the model two steps in one {times}", ""
    nodes = trips * node_count(body)
    if nodes > _MOST_NODES:
        return f"{nodes} nodes would take long to compile", ""
    nbytes = trips * body_extra_bytes(body)
    if nbytes > _MOST_BYTES:
        return f"{trips} steps at a time could take {nbytes:,} bytes", ""
    in_turn, at_once = trips * _seconds(body, machine), _seconds(_several(body, trips), machine)
    times = f"{1e6 * at_once:.1f} us, in a loop {1e6 * in_turn:.1f} us"
    if at_once >= in_turn:
        return f"written out it takes {times}: kernels compute what they share again", ""
    odd = next((item for item in body.nodes if not _is_cheap(item)), None)
    if odd is not None:
        return f"written out its steps are one kernel, which is slow for {odd.name}", ""
    return None, f"; {times}"


def _is_cheap(node: Node) -> bool:
    """Tell whether a node is a number, spread or not, or cheap element-wise arithmetic."""
    if all(value.type.size == 1 for value in node.operands):
        return not node.body_graphs
    return is_elementwise(node) and not is_expensive(node)


def _seconds(body: Graph, machine: Target) -> float:
    """Return a trip's seconds: its kernels, and one for the condition."""
    return trip_seconds(body, machine) + machine.prices.kernel_seconds


def _several(body: Graph, trips: int) -> Graph:
    with Builder() as builder:
        inputs = [builder.input(type) for type in body.input_types]
        return builder.finish(_written_out(body, inputs, trips))


def _written_out(body: Graph, operands: Sequence[Value], trips: int) -> Sequence[Value]:
    values = list(operands)
    for _ in range(trips):
        values = inline(body, values)
    return values


__all__ = ["unrolling_pass"]
