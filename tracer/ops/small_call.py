"""small_call: a body that the device runs as one function, without starting a kernel per op.

XLA:CPU starts every kernel of a program separately, and again in every trip of a loop, which takes
longer than a small kernel runs. A call with the attribute `xla_cpu_small_call` is compiled to one
function, including its loops and branches (`ThunkEmitter::EmitCallThunk`,
xla/service/cpu/thunk_emitter.cc). XLA itself does so for loops that touch less than a kilobyte.
"""

from __future__ import annotations

from typing import Any

from tracer.ir import Cost, Graph, NotDifferentiable, Op, ShapeDtype
from tracer.ir.op import Types
from tracer.ops.batch_control import batch_call
from tracer.ops.bodies import evaluate_body, graph_cost
from tracer.ops.rules import whole_axes


def _infer(*types: ShapeDtype, body: Graph) -> Types:
    return body.output_types


def _evaluate(*arrays: Any, body: Graph) -> tuple[Any, ...]:
    return evaluate_body(body, arrays)


def _lower(b: Any, types: Types, *operands: Any, body: Graph) -> tuple[Any, ...]:
    found: tuple[Any, ...] = b.small_call(types, operands, body)
    return found


def _cost(operands: Types, results: Types, *, body: Graph) -> Cost:
    return graph_cost(body)


small_call: Op = Op(
    "small_call",
    doc="Calls `body`, as one function where the device can. Passes write it, after "
    "differentiation.",
    infer=_infer,
    evaluate=_evaluate,
    lower=_lower,
    vjp=NotDifferentiable("it is written by a pass, when all gradients have been taken"),
    axes=whole_axes,
    cost=_cost,
    batch=batch_call,
)

__all__ = ["small_call"]
