"""Barriers, and what ops store behind them, since XLA:CPU would fuse it with what reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.dialect import broadcast_in_dim, select
from tracer.lowering.emit.values import Operand
from tracer.lowering.settings import is_on
from tracer.lowering.shims import SMALL_LOOP_BYTES, hlo, ir

_SELECT, _BROADCAST, _CONSTANT = (
    f"stablehlo.{name}" for name in ("select", "broadcast_in_dim", "constant")
)


def optimization_barrier(
    b: ModuleContext, operands: Sequence[Operand], setting: str = "barriers of passes"
) -> tuple[Operand, ...]:
    """Emit `optimization_barrier`, if the setting that it belongs to is on (`settings`).

    XLA:CPU makes one function of a loop that touches less than a kilobyte, and its emitter of
    such functions ends the process at a barrier. So barriers that small are left out of loops.
    Small calls have the same emitter: no barrier is in one.
    """
    if b.is_in_small_call:
        return tuple(operands)
    small = sum(x.type.nbytes for x in operands) <= SMALL_LOOP_BYTES
    if (b.loops and small and b.platform == "cpu") or not is_on(setting):
        return tuple(operands)
    op = hlo.OptimizationBarrierOp([x.raw for x in operands])
    b.barriers.append(op)
    return tuple(Operand(raw) for raw in op.results)


def kept_in_loop(b: ModuleContext, x: Operand, varying: Operand) -> Operand:
    """Return an operand that XLA takes as changing from trip to trip, where `varying` does.

    What is computed from it stays in the loop; outside of loops it is the operand itself.
    """
    if not b.loops:
        return x
    return optimization_barrier(b, (x, varying), "initial values in loops")[0]


def with_stored_fill(b: ModuleContext, operands: Sequence[Operand]) -> list[Operand]:
    """Return the operands of a reduction inside one op; those that are a constant or `x` read it.

    Where the reduction is a node of the graph, the pass *store-fills* has done it.
    """
    return [_with_stored_fill(b, x) for x in operands]


def _with_stored_fill(b: ModuleContext, x: Operand) -> Operand:
    if _name(x.raw) != _SELECT:
        return x
    chosen, *branches = (Operand(raw) for raw in x.raw.owner.operands)
    stored = [_stored(b, branch) for branch in branches]
    return x if stored == branches else select(b, chosen, *stored)


def _stored(b: ModuleContext, x: Operand) -> Operand:
    """Return an array of one constant as it is read.

    It is a row of the last axis, not one number: a barrier of few bytes may not stand in a
    loop (see `optimization_barrier`).
    """
    value = _constant(x)
    shape = x.shape
    row = x.type.with_shape(shape[-1:])
    if value is None or 0 in shape or row.nbytes <= SMALL_LOOP_BYTES or b.platform != "cpu":
        return x
    fill = ir.DenseElementsAttr.get_splat(b.tensor_type(row), value)
    (stored,) = optimization_barrier(b, (Operand(hlo.constant(fill)),), "stored fills")
    return broadcast_in_dim(b, x.type, stored, (len(shape) - 1,))


def _constant(x: Operand) -> Any:
    """Return MLIR's attribute of the one number that an array consists of; None if unknown."""
    raw = x.raw
    while _name(raw) == _BROADCAST:
        raw = raw.owner.operands[0]
    if _name(raw) != _CONSTANT or x.dtype.kind == "c":
        return None
    elements = ir.DenseElementsAttr(raw.owner.attributes["value"])
    return elements.get_splat_value() if elements.is_splat else None


def _name(raw: Any) -> str:
    """Return the name of the op that makes a value; "" for the argument of a block."""
    return "" if isinstance(raw.owner, ir.Block) else raw.owner.name
