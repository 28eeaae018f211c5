"""Choices between a value and a constant, in a form whose reductions LLVM computes as vectors.

Where a mask puts in what changes no result, `where(mask, x, -inf).max()`, LLVM merges the choice
with the combiner: the element is skipped. A loop that skips is no vector loop: the row maxima of
causal attention's scores take 15 times as long as those without a mask, sums of float64 twice as
long (docs/memory-model.md, "Masks"). If the fill comes from memory, LLVM cannot know what it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tracer.lowering.emit.control import ControlBuilder
from tracer.lowering.emit.values import Operand
from tracer.lowering.shims import SMALL_LOOP_BYTES, hlo, ir

_SELECT, _BROADCAST, _CONSTANT = (
    f"stablehlo.{name}" for name in ("select", "broadcast_in_dim", "constant")
)


class MaskBuilder(ControlBuilder):
    """Builder methods for what a mask chooses."""

    def select(self, chosen: Operand, on_true: Operand, on_false: Operand) -> Operand:
        """Emit `select`; infinities come from memory, as maxima and minima leave them out.

        Here and not at the reduction, since scaling an infinity changes nothing about it.
        """
        branches = [self._stored(x, infinite=True) for x in (on_true, on_false)]
        return Operand(hlo.select(chosen.raw, *[branch.raw for branch in branches]))

    def with_stored_fill(self, operands: Sequence[Operand]) -> list[Operand]:
        """Return the operands of a reduction; those that are a constant or `x` read it."""
        return [self._with_stored_fill(x) for x in operands]

    def _with_stored_fill(self, x: Operand) -> Operand:
        if _name(x.raw) != _SELECT:
            return x
        chosen, *branches = (Operand(raw) for raw in x.raw.owner.operands)
        stored = [self._stored(branch) for branch in branches]
        return x if stored == branches else self.select(chosen, *stored)

    def _stored(self, x: Operand, *, infinite: bool = False) -> Operand:
        """Return an array of one constant (if asked, only an infinite one) as it is read.

        It is a row of the last axis, not one number: a barrier of few bytes may not stand in a
        loop (see `optimization_barrier`).
        """
        value = _constant(x)
        shape = x.shape
        row = x.type.with_shape(shape[-1:])
        if value is None or 0 in shape or row.nbytes <= SMALL_LOOP_BYTES or self.platform != "cpu":
            return x
        if infinite and not (isinstance(value, ir.FloatAttr) and math.isinf(value.value)):
            return x
        splat = ir.DenseElementsAttr.get_splat(self.tensor_type(row), value)
        (stored,) = self.optimization_barrier((Operand(hlo.constant(splat)),), "stored fills")
        return self.broadcast_in_dim(x.type, stored, (len(shape) - 1,))


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
