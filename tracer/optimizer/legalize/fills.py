"""The number that a mask puts in is read from memory, where the device's compiler reads too much.

Where a mask puts in what changes no result, `where(mask, x, -inf).max()`, LLVM merges the choice
with the combiner: the element is skipped. A loop that skips is no vector loop: the row maxima of
causal attention's scores take 15 times as long as those without a mask, sums of float64 twice as
long (docs/memory-model.md, "Masks"). If the fill comes from memory, LLVM cannot know what it is.

Infinities are stored wherever a choice puts them in, as maxima and minima leave them out and
scaling an infinity changes nothing about it; other numbers where a reduction reads the choice. What
is stored is a row of the last axis, not one number: a barrier of few bytes may not stand in a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.optimizer.legalize.reductions import is_reduction
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target


def stored_fills_pass(target: Target) -> Pass:
    """Return the pass that stores the fills of masks for a target."""
    smallest = target.kernels.least_barrier_bytes
    return Pass("store fills", lambda graph, log: _with_stored_fills(smallest, graph, log))


def _with_stored_fills(smallest: int, graph: Graph, log: PassLog) -> Graph:
    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op is ops.select:
            found = _choice(operands, smallest, log, only_infinite=True)
            return None if found is None else (found,)
        if is_reduction(node) and operands[0].node.op is ops.select:
            found = _choice(operands[0].node.operands, smallest, log, only_infinite=False)
            return None if found is None else builder.copy(node, (found,))
        return None

    return rebuild(graph, rewrite)


def _choice(
    operands: Sequence[Value], smallest: int, log: PassLog, *, only_infinite: bool
) -> Value | None:
    """Write a `select` whose constants are read from memory; None where it has none."""
    chosen, *branches = operands
    numbers = [_number(x, smallest) for x in branches]
    if only_infinite:
        numbers = [n if n is not None and np.isinf(n.astype(float)) else None for n in numbers]
    if all(number is None for number in numbers):
        return None
    log.applied += [
        f"{n} of {x.type}" for n, x in zip(numbers, branches, strict=True) if n is not None
    ]
    return ops.select(  # type: ignore[no-any-return]
        chosen,
        *(x if n is None else _stored(n, x) for n, x in zip(numbers, branches, strict=True)),
    )


def _number(x: Value, smallest: int) -> np.ndarray[Any, Any] | None:
    """Return the one number of an array, if there is and a row of it may be behind a barrier."""
    row = x.type.with_shape(x.shape[-1:])
    if x.dtype.kind == "c" or 0 in x.shape or row.nbytes < smallest:
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


def _stored(number: np.ndarray[Any, Any], like: Value) -> Value:
    row = ops.constant(value=np.full(like.shape[-1:], number))
    (stored,) = ops.optimization_barrier(row)
    last = (len(like.shape) - 1,)
    return ops.broadcast_in_dim(stored, shape=like.shape, dimensions=last)  # type: ignore[no-any-return]


__all__ = ["stored_fills_pass"]
