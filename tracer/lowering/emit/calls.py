"""Builder method of the call that XLA:CPU compiles to one function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from tracer.ir import Graph, ShapeDtype
from tracer.lowering.emit.control import ControlBuilder
from tracer.lowering.emit.values import Operand
from tracer.lowering.emit.walk import lower_nodes
from tracer.lowering.settings import is_on
from tracer.lowering.shims import func, ir

if TYPE_CHECKING:
    from tracer.lowering.emit.builder import StableHloBuilder

_ONE_FUNCTION = {"xla_cpu_small_call": "true", "inlineable": "false"}
"""XLA's frontend attributes: emit the callee as one kernel, and do not write it into the caller."""


class CallBuilder(ControlBuilder):
    """Builder methods of control flow, and of calls."""

    def __init__(self, platform: str) -> None:
        super().__init__(platform)
        self._calls = 0
        self._depth = 0

    def small_call(
        self, types: Sequence[ShapeDtype], operands: Sequence[Operand], body: Graph
    ) -> tuple[Operand, ...]:
        """Emit a call of a function of its own; on platforms without such calls, its body.

        The function hands its arguments back too, which takes no copy: XLA's emitter ends the
        process where an argument is not read, and simplification may leave one unread.
        """
        path = f"{self.path}/body/"
        builder = cast("StableHloBuilder", self)
        if self.platform != "cpu" or self._depth or not is_on("small calls"):
            return tuple(lower_nodes(builder, body, operands, path=path))
        name = f"small_call_{self._calls}"
        self._calls += 1
        self._depth += 1
        inputs = [self.tensor_type(type) for type in body.input_types]
        results = [*(self.tensor_type(type) for type in types), *inputs]
        with ir.InsertionPoint.at_block_begin(_module_block()):
            callee = func.FuncOp(name, ir.FunctionType.get(inputs, results), visibility="private")
        block = callee.add_entry_block()
        with ir.InsertionPoint(block):
            arguments = [Operand(raw) for raw in block.arguments]
            outputs = lower_nodes(builder, body, arguments, path=path)
            func.ReturnOp([output.raw for output in (*outputs, *arguments)])
        self._depth -= 1
        call = func.CallOp(callee, [x.raw for x in operands])
        attributes = {key: ir.StringAttr.get(value) for key, value in _ONE_FUNCTION.items()}
        call.operation.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(attributes)
        return tuple(Operand(raw) for raw in list(call.results)[: len(types)])

    def optimization_barrier(
        self, operands: Sequence[Operand], setting: str = "barriers of passes"
    ) -> tuple[Operand, ...]:
        """Emit `optimization_barrier`, but not in a call: its emitter ends the process at one."""
        return tuple(operands) if self._depth else super().optimization_barrier(operands, setting)


def _module_block() -> Any:
    """Return the block that holds the functions."""
    operation = ir.InsertionPoint.current.block.owner
    while operation.parent is not None:
        operation = operation.parent
    return operation.regions[0].blocks[0]
