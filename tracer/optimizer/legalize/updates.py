"""What is written into an array in place is stored first, where it is computed from that array.

XLA:CPU fuses a `dynamic_update_slice` with what it writes and lets the kernel write over its
operand. If the kernel also reads that operand at other places, some of these are overwritten
before they are read. XLA looks for such reads, but not behind a reshape: in jaxlib 0.10.2
`x.at[1:].add(x[:-1])[None]` adds sums to sums, in `jax.jit` too. Behind a barrier the update is
computed before anything is written. A `scatter` with one index counts too: XLA makes an update of
it.

Small barriers are left out in loops (`Kernels.least_barrier_bytes`). So a small update is stored
with so many zeros behind it that its barrier is not.

An update that reads of the array only the elements that it replaces, each for itself, stays in the
kernel: `x.at[1:].add(1)`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.ops.gather import index_shape
from tracer.optimizer.legalize.writer import stored
from tracer.optimizer.model.trip_counts import integer_constant
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import current_target


def stored_updates_pass() -> Pass:
    """Return the pass that stores updates which read the array that they are written into."""
    return Pass("store updates", _with_stored, writes_out_cost=True)


def _with_stored(graph: Graph, log: PassLog) -> Graph:
    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        place = _update_operand(node)
        if place is None or not _reads_elsewhere(node):
            return None
        log.applied.append(f"{node.operand_types[place]} into {node.types[0]}")
        update = _stored(operands[place])
        return builder.copy(node, (*operands[:place], update, *operands[place + 1 :]))

    return rebuild(graph, rewrite)


def _update_operand(node: Node) -> int | None:
    """Return which operand XLA may write into the first one, from one place on; None if none."""
    if node.op is ops.dynamic_update_slice:
        return 1
    return 2 if node.op is ops.scatter and _has_one_index(node) else None


def _has_one_index(scatter: Node) -> bool:
    batch, _ = index_shape(scatter.operand_types[1], scatter.params["index_vector_dim"])
    return math.prod(batch) == 1


def _stored(update: Value) -> Value:
    """Store an update behind a barrier that is kept in loops too."""
    missing = current_target().kernels.least_barrier_bytes - update.type.nbytes
    if missing <= 0:
        return stored(update)
    size, zeros = update.type.size, -(-missing // update.dtype.itemsize)
    flat = ops.reshape(update, shape=(size,))
    zero = ops.constant(value=np.zeros((), update.dtype))
    padded = stored(ops.pad(flat, zero, low=(0,), high=(zeros,), interior=(0,)))
    kept = ops.slice(padded, start=(0,), limit=(size,), strides=(1,))
    result: Value = ops.reshape(kept, shape=update.shape)
    return result


def _reads_elsewhere(node: Node) -> bool:
    """Tell whether a kernel that computes the update may read other elements than it replaces."""
    arrays, update = _names(node.operands[0]), node.operands[_update_operand(node) or 0]
    stack = [(update, True)]
    seen = set(stack)
    while stack:
        value, in_order = stack.pop()
        made = value.node
        if value in arrays:
            # Without a window of its own, the update is as large as the array.
            if not (in_order and update.shape == value.shape):
                return True
        elif made.op is not None and not (in_order and _is_window(made, node, arrays)):
            if made.op.fusion == "opaque" and _update_operand(made) is None:
                continue
            for i, operand in enumerate(made.operands):
                found = operand, in_order and i in made.op.reuses
                if found not in seen:
                    seen.add(found)
                    stack.append(found)
    return False


def _names(value: Value) -> set[Value]:
    """Return a value and those whose memory it may be under another name."""
    names = {value}
    while _is_view(value.node):
        value = value.node.operands[0]
        names.add(value)
    return names


def _is_view(node: Node) -> bool:
    """Tell whether a node renames its operand; so does a broadcast to as many elements."""
    if node.op is ops.broadcast_in_dim:
        return node.operand_types[0].size == node.types[0].size
    return node.op is not None and node.op.fusion == "view"


def _is_window(node: Node, update: Node, arrays: Collection[Value]) -> bool:
    """Tell whether a node is what the array holds where the update is written."""
    if update.op is not ops.dynamic_update_slice:
        return False
    if node.op not in (ops.slice, ops.dynamic_slice) or node.operands[0] not in arrays:
        return False
    if node.types[0].shape != update.operand_types[1].shape:
        return False
    starts = update.operands[2:]
    if node.op is ops.dynamic_slice:
        return node.operands[1:] == starts
    is_dense = set(node.params["strides"]) <= {1}
    return is_dense and [*map(integer_constant, starts)] == list(node.params["start"])


__all__ = ["stored_updates_pass"]
