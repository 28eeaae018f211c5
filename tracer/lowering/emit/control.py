"""Ops whose parameters are Graphs: loops, branches, calls, and what each device of a mesh runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracer.ir import Graph, ShapeDtype
from tracer.lowering.devices.placement import sharding_attribute
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.dialect import (
    concatenate,
    reshape,
    slice,
)
from tracer.lowering.emit.host_calls import order
from tracer.lowering.emit.stored import optimization_barrier
from tracer.lowering.emit.values import Operand
from tracer.lowering.emit.walk import lower_nodes
from tracer.lowering.settings import is_on
from tracer.lowering.shims import SMALL_LOOP_BYTES, func, hlo, ir, sdy

_ONE_FUNCTION = {"xla_cpu_small_call": "true", "inlineable": "false"}
"""XLA's frontend attributes: emit the callee as one kernel, and do not write it into the caller."""


def _lower_body(
    b: ModuleContext,
    block: Any,
    name: str,
    body: Graph,
    operands: Sequence[Operand],
    types: Sequence[ShapeDtype] = (),
    *,
    keeps_order: bool = False,
) -> None:
    """Lower a region; `types`: those that its results are handed on with, if others.

    The last result is what orders the calls with an effect, where `keeps_order`.
    """
    with ir.InsertionPoint(block):
        path = f"{b.path}/{name}/"
        results = lower_nodes(b, body, operands, path=path)
        if types:
            results = _reshaped(b, types, results)
        if keeps_order:
            results = [*results, order(b)]
        hlo.return_([result.raw for result in results])


def while_(
    b: ModuleContext,
    types: Sequence[ShapeDtype],
    operands: Sequence[Operand],
    condition: Graph,
    body: Graph,
) -> tuple[Operand, ...]:
    """Emit `while` with the Graphs as its regions.

    What the body hands on unchanged goes in without axes of one element: where such an axis
    lies between others XLA's layouts differ outside and inside, and it copied the value.
    """
    kept = [x is y for x, y in zip(body.inputs, body.outputs, strict=True)]
    narrow = [_without_ones(t) if same else t for t, same in zip(types, kept, strict=True)]
    starts, in_order = _reshaped(b, narrow, operands), condition.has_effect or body.has_effect
    if in_order:
        starts.append(order(b))
    carry = [x.raw.type for x in starts]
    op = hlo.WhileOp(carry, [x.raw for x in starts])
    b.loops += 1
    for name, region, graph, results in (
        ("condition", op.cond, condition, ()),
        ("body", op.body, body, narrow),
    ):
        block = region.blocks.append(*carry)
        given = [Operand(raw) for raw in block.arguments]
        b.order = given[len(types)] if in_order else b.order
        with ir.InsertionPoint(block):
            arguments = _reshaped(b, types, given[: len(types)])
        keeps_order = in_order and graph is body
        _lower_body(b, block, name, graph, arguments, results, keeps_order=keeps_order)
    b.loops -= 1
    found = [Operand(raw) for raw in op.results]
    b.order = found[len(types)] if in_order else b.order
    return tuple(_reshaped(b, types, found[: len(types)]))


def _reshaped(
    b: ModuleContext, types: Sequence[ShapeDtype], values: Sequence[Operand]
) -> list[Operand]:
    """Reshape values to types that differ from theirs by axes of one element at most."""
    return [
        x if x.shape == type.shape else reshape(b, type, x)
        for type, x in zip(types, values, strict=True)
    ]


def case(
    b: ModuleContext,
    types: Sequence[ShapeDtype],
    index: Operand,
    operands: Sequence[Operand],
    branches: Sequence[Graph],
) -> tuple[Operand, ...]:
    """Emit `case`; an index out of bounds takes the last branch."""
    results, before = [b.tensor_type(type) for type in types], b.order
    in_order = any(branch.has_effect for branch in branches)
    if in_order:
        before = order(b)
        results.append(before.raw.type)
    op = hlo.CaseOp(results, index.raw, len(branches))
    for number, (region, branch) in enumerate(zip(op.regions, branches, strict=True)):
        b.order = before
        # Branches have no block arguments: they read the operands from outside.
        block, name = region.blocks.append(), f"branches[{number}]"
        _lower_body(b, block, name, branch, operands, keeps_order=in_order)
    found = [Operand(raw) for raw in op.results]
    b.order = found[len(types)] if in_order else before
    return tuple(found[: len(types)])


def shard(
    b: ModuleContext,
    types: Sequence[ShapeDtype],
    operands: Sequence[Operand],
    body: Graph,
    count: int,
    operand_axes: Sequence[int | None],
    result_axes: Sequence[int | None],
) -> tuple[Operand, ...]:
    """Emit a body that each device of the mesh runs on its own part of the operands.

    The axes are those that the parts are cut along; None for operands that are given whole and
    results that all devices have. A program for one device computes all parts in turn.
    """
    if not b.mesh_axes:
        return _in_turn(b, operands, body, count, operand_axes, result_axes)
    op = sdy.ManualComputationOp(
        [b.tensor_type(type) for type in types],
        [x.raw for x in operands],
        _cut(b, [x.type.ndim for x in operands], operand_axes),
        _cut(b, [type.ndim for type in types], result_axes),
        sdy.ManualAxesAttr.get([ir.StringAttr.get(name) for name in b.mesh_axes]),
    )
    block = op.body.blocks.append(*[b.tensor_type(type) for type in body.input_types])
    with ir.InsertionPoint(block):
        arguments = [Operand(raw) for raw in block.arguments]
        path = f"{b.path}/body/"
        results = lower_nodes(b, body, arguments, path=path)
        sdy.ReturnOp([result.raw for result in results])
    return tuple(Operand(raw) for raw in op.results_)


def _in_turn(
    b: ModuleContext,
    operands: Sequence[Operand],
    body: Graph,
    count: int,
    operand_axes: Sequence[int | None],
    result_axes: Sequence[int | None],
) -> tuple[Operand, ...]:
    found = []
    for number in range(count):
        given = [
            x if axis is None else _part(b, x, axis, number, count)
            for x, axis in zip(operands, operand_axes, strict=True)
        ]
        path = f"{b.path}/body/"
        found.append(lower_nodes(b, body, given, path=path))
    return tuple(
        parts[0] if axis is None else concatenate(b, parts, axis)
        for parts, axis in zip(zip(*found, strict=True), result_axes, strict=True)
    )


def _part(b: ModuleContext, x: Operand, axis: int, number: int, count: int) -> Operand:
    size = x.shape[axis] // count
    start, limit = [0] * len(x.shape), list(x.shape)
    start[axis], limit[axis] = number * size, (number + 1) * size
    return slice(b, x, start, limit, [1] * len(start))


def _cut(b: ModuleContext, ndims: Sequence[int], axes: Sequence[int | None]) -> Any:
    """Return Shardy's attribute of values that are cut along one axis each, or whole."""
    return sdy.TensorShardingPerValueAttr.get(
        [
            sharding_attribute([b.mesh_axes if i == axis else () for i in range(ndim)])
            for ndim, axis in zip(ndims, axes, strict=True)
        ]
    )


def small_call(
    b: ModuleContext, types: Sequence[ShapeDtype], operands: Sequence[Operand], body: Graph
) -> tuple[Operand, ...]:
    """Emit a call of a separate function; on platforms without such calls, its body.

    The function hands its arguments back too, which takes no copy: XLA's emitter ends the
    process where an argument is not read, and simplification may leave one unread. So it does
    where XLA knows an argument (a number, or a count 0, 1, ... that constants add up to) and
    writes it into the function: none is known behind a barrier.
    """
    path = f"{b.path}/body/"
    is_one = b.platform == "cpu" and not b.is_in_small_call and is_on("small calls")
    given = _unknown(b, operands) if is_one else None
    if given is None:
        return tuple(lower_nodes(b, body, operands, path=path))
    name = f"small_call_{b.small_calls}"
    b.small_calls += 1
    b.is_in_small_call = True
    inputs = [b.tensor_type(type) for type in body.input_types]
    results = [*(b.tensor_type(type) for type in types), *inputs]
    with ir.InsertionPoint.at_block_begin(_module_block()):
        callee = func.FuncOp(name, ir.FunctionType.get(inputs, results), visibility="private")
    block = callee.add_entry_block()
    with ir.InsertionPoint(block):
        arguments = [Operand(raw) for raw in block.arguments]
        outputs = lower_nodes(b, body, arguments, path=path)
        func.ReturnOp([output.raw for output in (*outputs, *arguments)])
    b.is_in_small_call = False
    call = func.CallOp(callee, [x.raw for x in given])
    attributes = {key: ir.StringAttr.get(value) for key, value in _ONE_FUNCTION.items()}
    call.operation.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get(attributes)
    return tuple(Operand(raw) for raw in list(call.results)[: len(types)])


def _unknown(b: ModuleContext, operands: Sequence[Operand]) -> Sequence[Operand] | None:
    """Put what XLA may know behind a barrier: scalars, and arrays that are made of constants.

    In loops with the largest operand; None where that is small.
    """
    held = [i for i, x in enumerate(operands) if x.type.size == 1 or _is_made_of_constants(x.raw)]
    if not held:
        return operands
    if b.loops:
        largest = max(range(len(operands)), key=lambda i: operands[i].type.nbytes)
        held = list(dict.fromkeys([*held, largest]))
        if sum(operands[i].type.nbytes for i in held) <= SMALL_LOOP_BYTES:
            return None
    given = list(operands)
    behind = optimization_barrier(b, [operands[i] for i in held], "small calls")
    for i, x in zip(held, behind, strict=True):
        given[i] = x
    return given


def _is_made_of_constants(value: Any) -> bool:
    """Tell whether no argument, of the program or of a loop, leads to a value."""
    waiting, seen = [value], set()
    while waiting:
        owner = waiting.pop().owner
        if isinstance(owner, ir.Block):
            return False
        if owner not in seen:
            seen.add(owner)
            waiting.extend(owner.operands)
    return True


def _without_ones(type: ShapeDtype) -> ShapeDtype:
    return type.with_shape([n for n in type.shape if n != 1])


def _module_block() -> Any:
    """Return the block that holds the functions."""
    operation = ir.InsertionPoint.current.block.owner
    while operation.parent is not None:
        operation = operation.parent
    return operation.regions[0].blocks[0]
