"""What a broadcast repeats: computed once, not once for each repetition.

XLA:CPU fuses cheap element-wise ops into whatever reads them. Behind a broadcast they are computed
again for each element of its result: `logsumexp((-0.5 * (a + b - c))[:, None] - cost, axis=0)`
takes 1.6 times as long as with the vector at hand (1500 x 1500, docs/memory-model.md).
"""

from __future__ import annotations

from tracer.ir import Node, ShapeDtype, Value
from tracer.lowering.emit.control import ControlBuilder
from tracer.lowering.emit.values import Operand
from tracer.lowering.shims import SMALL_LOOP_BYTES

_REPETITIONS = 16
_WORTHWHILE_FLOPS = 1 << 20
"""Operations that have to be saved: to start a kernel takes as long as so many."""
_LARGEST_BYTES = 1 << 18
"""What is stored beside what the peak model counts stays small."""


class BroadcastBuilder(ControlBuilder):
    """Builder method for operands of broadcasts.

    Attributes
    ----------
    operand_values : tuple of Value
        Operands of the node that is being lowered: they tell how its operands are computed.
    """

    def __init__(self, platform: str) -> None:
        super().__init__(platform)
        self.operand_values: tuple[Value, ...] = ()

    def computed_once(self, type: ShapeDtype, x: Operand) -> Operand:
        """Return the operand of a broadcast to `type`; one that takes operations is stored."""
        nbytes = x.type.nbytes
        if self.platform != "cpu" or not SMALL_LOOP_BYTES < nbytes <= _LARGEST_BYTES:
            return x
        if type.size < _REPETITIONS * x.type.size:
            return x
        if type.size * fused_flops(self.operand_values[0]) < _WORTHWHILE_FLOPS:
            return x
        (stored,) = self.optimization_barrier((x,), "operands of broadcasts")
        return stored


def fused_flops(value: Value, *, enough: int = 1 << 30) -> int:
    """Return the operations for each element that are fused into what reads a value.

    Counting ends when there are more than `enough`.
    """
    flops = 0
    seen: set[Node] = set()
    stack = [value.node]
    while stack and flops <= enough:
        node = stack.pop()
        if node in seen or node.op is None or node.op.fusion not in ("loop", "view"):
            continue
        seen.add(node)
        flops += node.cost.flops // max(1, node.types[0].size)
        stack.extend(operand.node for operand in node.operands)
    return flops
