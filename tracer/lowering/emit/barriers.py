"""One buffer has one name: every reader of a barrier's operand reads it behind a barrier.

A barrier's result is its operand's memory under another name. XLA:CPU lets an instruction write its
result over an operand in its last use if it reads that operand element for element. XLA asks this
of each operand alone, and only of operands that the instruction reads by the name that defines them
(`HeapSimulator::RunComputation`, xla/service/heap_simulator/heap_simulator.cc). So an instruction
that reads `x` element for element, and also `transpose(barrier(x))`, was written over `x` while it
still read it: `p = (a + c) @ b; (0.5 * (p + p.T)) @ c` was 41 % off.

This module renames, so that only barriers read such a value by the name that defines it. Then XLA
never writes over it. `tracer.lowering.memory.overwrites` checks each compiled program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tracer.lowering.shims import hlo, ir

_BARRIER = "stablehlo.optimization_barrier"
_BROADCAST = "stablehlo.broadcast_in_dim"
_VIEWS = {f"stablehlo.{name}" for name in ("bitcast_convert", "reshape", "transpose")}


def give_one_name(barriers: Iterable[Any]) -> None:
    """Let all readers of what barriers hold read it behind a barrier.

    Parameters
    ----------
    barriers : iterable of jaxlib.mlir.ir.OpView
        The barriers of a module, which is changed: readers of an operand, or of the value that it
        is a view of, read the barrier's result, or that of one more barrier next to the definition.
    """
    seen: set[Any] = set()
    for barrier in barriers:
        for operand, result in zip(barrier.operands, barrier.results, strict=True):
            root = _defined_by(operand)
            if root is None or root in seen or not _has_uses(result):
                continue
            seen.add(root)
            if not _is_read_by_barriers_only(root):
                _put_behind(barrier if _is_of(root, barrier) else _new_barrier(root), root)


def _defined_by(value: Any) -> Any:
    """Return the value whose memory a value may be; None where XLA never writes over that.

    Arguments of the program, carries of loops and constants are not written over, and several
    results of one op are read by separate names.
    """
    while not isinstance(value.owner, ir.Block):
        owner = value.owner
        if owner.name == "stablehlo.constant" or len(owner.results) > 1:
            return None
        if not _is_view(owner):
            return value
        value = owner.operands[0]
    return None


def _is_view(op: Any) -> bool:
    """Tell whether an op's result may be its operand's memory under another name."""
    if op.name != _BROADCAST:
        return str(op.name) in _VIEWS
    given, made = (ir.RankedTensorType(x.type).shape for x in (op.operands[0], op.results[0]))
    return bool(math.prod(given) == math.prod(made))


def _is_of(root: Any, barrier: Any) -> bool:
    """Tell whether a barrier holds only this value, right where the value is made."""
    operation = barrier.operation
    is_alone = len(barrier.operands) == 1 and barrier.operands[0] == root
    return is_alone and bool(operation.parent == root.owner.operation.parent)


def _has_uses(value: Any) -> bool:
    return any(True for _ in value.uses)


def _is_read_by_barriers_only(root: Any) -> bool:
    """Tell whether only barriers read a value, or a view of it."""
    readers = [use.owner for use in root.uses]
    return all(
        reader.name == _BARRIER
        or (_is_view(reader) and _is_read_by_barriers_only(reader.results[0]))
        for reader in readers
    )


def _new_barrier(root: Any) -> Any:
    with root.owner.location, ir.InsertionPoint.after(root.owner):
        return hlo.OptimizationBarrierOp([root])


def _put_behind(barrier: Any, root: Any) -> None:
    """Let all readers of a value read it behind its own barrier, next to its definition."""
    barrier.operation.move_after(root.owner)
    root.replace_all_uses_except(barrier.results[0], barrier.operation)


__all__ = ["give_one_name"]
