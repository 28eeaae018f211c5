"""The number that a mask puts in is read from memory, where the device's compiler reads too much.

Where a mask puts in what changes no result, `where(mask, x, -inf).max()`, LLVM merges the choice
with the combiner: the element is skipped. A loop that skips is no vector loop: the row maxima of
causal attention's scores take 15 times as long as those without a mask, sums of float64 twice as
long (docs/memory-model.md, "Masks"). If the fill comes from memory, LLVM cannot know what it is.

Infinities are stored wherever a choice puts them in, as maxima and minima leave them out and
scaling an infinity changes nothing about it; other numbers where a reduction reads the choice. What
is stored is a row of the last axis (`GraphWriter.stored_number`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.optimizer.legalize.extremes import is_wide_extreme
from tracer.optimizer.legalize.reductions import is_reduction
from tracer.optimizer.legalize.writer import GraphWriter
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target


def stored_fills_pass(target: Target) -> Pass:
    """Return the pass that stores the fills of masks for a target."""
    writer = GraphWriter(target)
    return Pass("store fills", lambda graph, log: _with_stored_fills(writer, graph, log))


def _with_stored_fills(writer: GraphWriter, graph: Graph, log: PassLog) -> Graph:
    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op is ops.select:
            found = _choice(operands, writer, log, only_infinite=True)
            return None if found is None else (found,)
        reduces = is_reduction(node) or is_wide_extreme(node)
        if reduces and operands[0].node.op is ops.select:
            found = _choice(operands[0].node.operands, writer, log, only_infinite=False)
            return None if found is None else builder.copy(node, (found,))
        return None

    return rebuild(graph, rewrite)


def _choice(
    operands: Sequence[Value], writer: GraphWriter, log: PassLog, *, only_infinite: bool
) -> Value | None:
    """Write a `select` whose constants are read from memory; None where it has none."""
    chosen, *branches = operands
    stored, applied = [], []
    for x in branches:
        number = _number(x)
        is_wanted = number is not None and (not only_infinite or np.isinf(number.astype(float)))
        found = writer.stored_number(number, x) if number is not None and is_wanted else None
        stored.append(x if found is None else found)
        applied += [] if found is None else [f"{number} of {x.type}"]
    log.applied += applied
    return ops.select(chosen, *stored) if applied else None


def _number(x: Value) -> np.ndarray[Any, Any] | None:
    """Return the one number of an array, if there is."""
    if x.dtype.kind == "c":
        return None
    while x.node.op is ops.broadcast_in_dim:
        x = x.node.operands[0]
    if x.node.op is not ops.constant:
        return None
    value = x.node.params["value"]
    first = value.reshape(-1)[:1]
    # By their bits: -0 is not 0, and a NaN is itself.
    is_uniform = value.tobytes() == first.tobytes() * value.size
    return first.reshape(()) if value.size and is_uniform else None


__all__ = ["stored_fills_pass"]
