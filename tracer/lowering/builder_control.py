"""Builder methods of control flow: loops, branches and optimization barriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from tracer.ir import Graph, ShapeDtype
from tracer.lowering.builder_base import BaseBuilder
from tracer.lowering.shims import hlo, ir
from tracer.lowering.values import Operand
from tracer.lowering.walk import lower_nodes

if TYPE_CHECKING:
    from tracer.lowering.builder import StableHloBuilder


SMALL_LOOP_BYTES = 1024
"""What XLA:CPU's pass `small-while-loop-hoisting` is configured with (cpu_compiler.cc)."""


class ControlBuilder(BaseBuilder):
    """Builder methods of ops whose parameters are Graphs, and of the barrier.

    Attributes
    ----------
    path : str
        Name of the node that is being lowered; see `walk.node_path`.
    """

    def __init__(self, platform: str) -> None:
        super().__init__(platform)
        self.path = ""
        self._loops = 0

    def _lower_body(self, block: Any, name: str, body: Graph, operands: Sequence[Operand]) -> None:
        with ir.InsertionPoint(block):
            path = f"{self.path}/{name}/"
            results = lower_nodes(cast("StableHloBuilder", self), body, operands, path=path)
            hlo.return_([result.raw for result in results])

    def while_(
        self,
        types: Sequence[ShapeDtype],
        operands: Sequence[Operand],
        condition: Graph,
        body: Graph,
    ) -> tuple[Operand, ...]:
        """Emit `while` with the Graphs as its regions."""
        carry = [self.tensor_type(type) for type in types]
        op = hlo.WhileOp(carry, [x.raw for x in operands])
        self._loops += 1
        for name, region, graph in (
            ("condition", op.cond, condition),
            ("body", op.body, body),
        ):
            block = region.blocks.append(*carry)
            self._lower_body(block, name, graph, [Operand(raw) for raw in block.arguments])
        self._loops -= 1
        return tuple(Operand(raw) for raw in op.results)

    def case(
        self,
        types: Sequence[ShapeDtype],
        index: Operand,
        operands: Sequence[Operand],
        branches: Sequence[Graph],
    ) -> tuple[Operand, ...]:
        """Emit `case`; an index out of bounds takes the last branch."""
        op = hlo.CaseOp([self.tensor_type(type) for type in types], index.raw, len(branches))
        for number, (region, branch) in enumerate(zip(op.regions, branches, strict=True)):
            # Branches have no block arguments: they read the operands from outside.
            self._lower_body(region.blocks.append(), f"branches[{number}]", branch, operands)
        return tuple(Operand(raw) for raw in op.results)

    def optimization_barrier(self, operands: Sequence[Operand]) -> tuple[Operand, ...]:
        """Emit `optimization_barrier`.

        XLA:CPU makes one function of a loop that touches less than a kilobyte, and its emitter of
        such functions ends the process at a barrier. So barriers that small are left out of loops.
        """
        small = sum(x.type.nbytes for x in operands) <= SMALL_LOOP_BYTES
        if self._loops and small and self.platform == "cpu":
            return tuple(operands)
        op = hlo.OptimizationBarrierOp([x.raw for x in operands])
        return tuple(Operand(raw) for raw in op.results)
