"""Separate fills: each loop's result begins as zeros of its own, which are made right before it.

Loops write their results into arrays that begin as zeros. To XLA, and to common subexpressions,
zeros of one shape are one value: made before the first loop, kept until the last one, and copied
for each. That is one array more, and a copy instead of a fill. So the number that later loops are
filled with waits, behind a barrier, for something that their loop reads.

Fills below a thirty-second of the peak are left alone, and loops in bodies: they fill slices, and
small barriers are left out there.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.ops.helpers import splat_of, spread
from tracer.optimizer.model.liveness import peak_bytes
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import current_target

Fill = tuple[str, tuple[int, ...], bytes]


_WORTHWHILE = 32
"""Of the peak, so large a part is worth a barrier."""


def separate_fills_pass() -> Pass:
    """Return the pass that gives each loop fills of its own."""
    return Pass("separate fills", _separated, bodies=False)


def _separated(graph: Graph, log: PassLog) -> Graph:
    seen: set[Fill] = set()
    position = {node: i for i, node in enumerate(graph.nodes)}
    least = max(current_target().sizes.copy_bytes, peak_bytes(graph) // _WORTHWHILE)

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op is not ops.while_:
            return None
        new = list(operands)
        for place, value in enumerate(node.operands):
            fill = _fill_of(value)
            if fill is None or value.type.nbytes < least:
                continue
            last = _last_computed(node, value, position) if fill in seen else None
            seen.add(fill)
            if last is not None:
                new[place] = _made_behind(operands[place], operands[last])
                log.applied.append(f"{value.type} of a loop")
        return builder.copy(node, tuple(new)) if new != list(operands) else None

    return rebuild(graph, rewrite)


def _fill_of(value: Value) -> Fill | None:
    """Return what tells equal fills; None for everything else."""
    number = splat_of(value)
    if number is None or number.node.op is not ops.constant:
        return None
    return str(value.dtype), value.shape, number.node.params["value"].tobytes()


def _last_computed(loop: Node, fill: Value, position: dict[Node, int]) -> int | None:
    """Return the operand of a loop that is computed last, a small one if there is any.

    What a barrier holds is written over by nothing that is computed from it.
    """
    places = [
        place
        for place, value in enumerate(loop.operands)
        if value.node in position and value.node.op is not ops.constant and _fill_of(value) is None
    ]

    def rank(place: int) -> tuple[bool, int]:
        value = loop.operands[place]
        return value.type.nbytes < fill.type.nbytes, position[value.node]

    return max(places, key=rank, default=None)


def _made_behind(fill: Value, other: Value) -> Value:
    """Make a fill that waits for another value."""
    number, _ = ops.optimization_barrier(fill.node.operands[0], other)
    return spread(number, fill.shape)


__all__ = ["separate_fills_pass"]
