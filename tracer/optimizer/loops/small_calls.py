"""Small calls: a loop of small kernels runs as one function.

XLA:CPU starts the kernels of every trip separately, which takes longer than a small kernel runs.
Here a loop becomes a `small_call`, which XLA compiles to one function: its kernels become plain
consecutive loops. Such a function runs on one core, so it pays only if starting the kernels takes
longer than other cores would save. XLA has a separate emitter for these functions, which rounds
some functions differently in the last digit (`atan`, `cbrt`, `power`, `rsqrt`, `tan`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, map_bodies, rebuild
from tracer.optimizer.model.costs import node_cost, node_count
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.model.trip_counts import trip_count
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target

SMALL_CALLS_NAME = "small-calls"
_FUSIBLE = ("loop", "view", "reduce")
_MAXIMUM_NODES = 2000
"""LLVM takes longer than in proportion for one long function."""
_LONG_INTEGER_FLOPS = 16
"""Integer ops that take more per element are functions that XLA's emitters define differently:
powers with negative exponents."""


_LARGE_STATE_BYTES = 1 << 16
"""What a call is given it cannot write over, so that donated state is copied once: memory that
counts above this."""


def small_calls_pass(machine: Target, donated: frozenset[int] = frozenset()) -> Pass:
    """Return the pass for a machine, and a program whose inputs at these positions are donated."""

    def run(graph: Graph, log: PassLog) -> Graph:
        given = [graph.inputs[i] for i in donated]
        large = {value for value in given if value.type.nbytes > _LARGE_STATE_BYTES}
        return _with_calls(graph, machine, large, log)

    return Pass("small calls", run, exact=False, bodies=False)


def _with_calls(graph: Graph, machine: Target, large: set[Value], log: PassLog) -> Graph:
    """Put loops into calls, the outermost that can be."""

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op is not ops.while_:
            return None
        why = _why_not(node, machine)
        if large.intersection(node.operands):
            why = "it begins with donated memory, which it would copy"
        if why is not None:
            log.refuse(f"{node.name} of {len(node.types)} values", why, node.source)
            return None
        log.applied.append(f"{node}: {_shown(node, machine)}")
        return _called(node, operands)

    graph = rebuild(graph, rewrite)
    inside = {b for node in graph.nodes if node.op is ops.small_call for b in node.body_graphs}

    def in_body(body: Graph) -> Graph:
        return body if body in inside else _with_calls(body, machine, set(), log)

    return map_bodies(graph, in_body)


def _called(node: Node, operands: tuple[Value, ...]) -> Sequence[Value]:
    """Write a call whose body is the loop; scalar constants, as where it starts, go along."""
    own = [value.node.op is ops.constant and not value.shape for value in node.operands]
    given = [value for value, is_own in zip(operands, own, strict=True) if not is_own]
    with Builder() as builder:
        builder.source = node.source
        inputs = iter([builder.input(value.type) for value in given])
        inside = [
            builder.copy(value.node, ())[0] if is_own else next(inputs)
            for value, is_own in zip(node.operands, own, strict=True)
        ]
        body = builder.finish(builder.copy(node, tuple(inside)))
    results: Sequence[Value] = ops.small_call(*given, body=body)
    return results


@dataclass(frozen=True)
class _Work:
    """What a trip does: the kernels it starts, its operations, and how many are not shared."""

    kernels: int = 0
    flops: int = 0
    shared: int = 0
    """Operations of kernels that XLA gives to several cores."""

    def plus(self, other: _Work, times: int = 1) -> _Work:
        return _Work(
            self.kernels + times * other.kernels,
            self.flops + times * other.flops,
            self.shared + times * other.shared,
        )


def _work(graph: Graph, parallel_flops: int) -> _Work:
    total = _Work()
    stored = Liveness(graph, frozenset(range(len(graph.inputs))), is_body=True).stored
    for node in graph.nodes:
        if node.body_graphs:
            trips = trip_count(node)
            for body in node.body_graphs:
                total = total.plus(_work(body, parallel_flops), 1 if trips is None else trips)
        else:
            flops = node_cost(node).flops
            shared = flops if flops > parallel_flops else 0
            total = total.plus(_Work(int(node in stored), flops, shared))
    return total


def _seconds(node: Node, machine: Target) -> tuple[float, float]:
    """Return the seconds to start a trip's kernels, and those that other cores would save."""
    prices, params = machine.prices, node.params
    body, condition = (_work(params[it], prices.parallel_flops) for it in ("body", "condition"))
    work = body.plus(condition)
    # A kernel is shared when the whole of it is large, and the ops of a trip are few kernels.
    is_shared = work.flops > prices.parallel_flops * max(1, work.kernels)
    shared = work.flops if is_shared else work.shared
    saved = shared / prices.vector_rate * (1 - 1 / machine.cores)
    return work.kernels * prices.kernel_seconds, saved


def _shown(node: Node, machine: Target) -> str:
    starts, saved = _seconds(node, machine)
    return (
        f"to start the kernels of a trip takes about {1e6 * starts:.1f} us, other cores save "
        f"{1e6 * saved:.1f} us"
    )


def _why_not(node: Node, machine: Target) -> str | None:
    for graph in node.body_graphs:
        why = unfit(graph)
        if why is not None:
            return why
    trips = trip_count(node)
    if trips is not None and trips < 2:
        return f"it runs {trips} times"
    nodes = sum(map(node_count, node.body_graphs))
    if nodes > _MAXIMUM_NODES:
        return f"{nodes} nodes in one function would take long to compile"
    starts, saved = _seconds(node, machine)
    return None if starts > saved else _shown(node, machine)


def unfit(graph: Graph) -> str | None:
    """Return why a graph cannot be part of one function, or None."""
    for node in graph.nodes:
        why = _unfit_node(node)
        if why is not None:
            return why
    return None


def _unfit_node(node: Node) -> str | None:
    op = node.op
    assert op is not None
    if not node.is_pure:
        return f"{op.name} keeps an order, which one function would not"
    if node.body_graphs:
        return next(filter(None, map(unfit, node.body_graphs)), None)
    if op.fusion not in _FUSIBLE and op.pieces is None:
        return f"{op.name} calls a library or is no plain loop"
    type = node.types[0]
    if type.dtype.kind in "iu" and node.cost.flops > _LONG_INTEGER_FLOPS * max(1, type.size):
        return f"{op.name} of integers may be defined differently there"
    return None


__all__ = ["SMALL_CALLS_NAME", "small_calls_pass", "unfit"]
