"""Barriers: what is behind them XLA neither fuses nor moves."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.values import Operand
from tracer.lowering.settings import is_on
from tracer.lowering.shims import SMALL_LOOP_BYTES, hlo


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
