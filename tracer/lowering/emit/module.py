"""Write a StableHLO module for a graph."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tracer.errors import LoweringError
from tracer.ir import Graph
from tracer.lowering.devices.placement import Placement, declare_mesh, sharding_attributes
from tracer.lowering.emit.barriers import give_one_name
from tracer.lowering.emit.blank import ENTRY, bytes_of
from tracer.lowering.emit.builder import StableHloBuilder
from tracer.lowering.emit.context import HostCall
from tracer.lowering.emit.values import Operand
from tracer.lowering.emit.walk import lower_nodes, node_path
from tracer.lowering.shims import func, ir, make_context

_OP_NAME = re.compile(r'error: "([^"]+)"')


def lower_graph(
    graph: Graph,
    platform: str,
    aliases: Mapping[int, int] | None = None,
    placement: Placement | None = None,
    host_calls: list[HostCall] | None = None,
    large: Sequence[int] = (),
) -> Any:
    """Lower a graph to StableHLO for a platform.

    Parameters
    ----------
    graph : Graph
        What to lower.
    platform : str
        "cpu", "gpu" or "tpu".
    aliases : mapping of int to int, optional
        The result that takes over the memory of an input. XLA does not learn about other donated
        inputs: it would pair them with any result of their size, and copy.
    placement : Placement, optional
        How the inputs and outputs are spread over a mesh of devices.
    host_calls : list of HostCall, optional
        Receives the Python functions that the program calls, in the order that XLA wants.
    large : sequence of int
        Results that have the memory of further inputs, one for each: bytes, as many as the result.

    Returns
    -------
    jaxlib.mlir.ir.Module
        The verified module.

    Raises
    ------
    LoweringError
        StableHLO does not accept an op.
    """
    b = StableHloBuilder(platform, host_calls=[] if host_calls is None else host_calls)
    if placement is not None:
        b.mesh_axes, b.devices = placement.mesh.axis_names, len(placement.mesh.local)
    with make_context(), ir.Location.unknown():
        module = ir.Module.create()
        module.operation.attributes["sym_name"] = ir.StringAttr.get("tracer")
        inputs = [b.tensor_type(type) for type in graph.input_types]
        memory = [bytes_of(graph.outputs[place].type) for place in large]
        inputs += [b.tensor_type(type) for type in memory]
        with ir.InsertionPoint(module.body):
            entry = func.FuncOp(ENTRY, ir.FunctionType.get(inputs, []), visibility="public")
        block = entry.add_entry_block()
        with ir.InsertionPoint(block):
            arguments = [*block.arguments][: len(graph.inputs)]
            b.kept = [raw for i, raw in enumerate(arguments) if i not in (aliases or {})]
            outputs = lower_nodes(b, graph, [Operand(raw) for raw in arguments])
            func.ReturnOp([output.raw for output in outputs])
        if platform == "cpu":
            give_one_name(b.barriers)
        signature = ir.FunctionType.get(inputs, [output.raw.type for output in outputs])
        entry.attributes["function_type"] = ir.TypeAttr.get(signature)
        attributes = _donation(graph, aliases or {})
        if placement is not None:
            _place(module, entry, graph, placement, attributes)
        attributes += [_has_memory_of(place) for place in large]
        entry.attributes["arg_attrs"] = _dictionaries(attributes)
        _verify(module, graph)
    return module


def _verify(module: Any, graph: Graph) -> None:
    """Raise `LoweringError` at the node whose ops StableHLO does not accept."""
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        text = str(error)
        found = _OP_NAME.search(text)
        path = node_path(found[1]) if found else ()
        node = graph.nodes[int(path[0])] if path else None
        raise LoweringError(
            f"StableHLO does not accept the program: {text}",
            mend="convert the operands to a more common dtype; if it stays, report it as a bug",
            where=node.source if node is not None else None,
        ) from error


def _place(
    module: Any, entry: Any, graph: Graph, placement: Placement, arguments: list[dict[str, Any]]
) -> None:
    """Write how inputs and outputs are spread over the mesh."""
    declare_mesh(module, placement.mesh)
    for known, more in zip(
        arguments, sharding_attributes(placement.inputs, graph.input_types), strict=True
    ):
        known.update(more)
    results = sharding_attributes(placement.outputs, graph.output_types)
    entry.attributes["res_attrs"] = _dictionaries(results)


def _dictionaries(attributes: list[dict[str, Any]]) -> Any:
    return ir.ArrayAttr.get([ir.DictAttr.get(attribute) for attribute in attributes])


def _donation(graph: Graph, aliases: Mapping[int, int]) -> list[dict[str, Any]]:
    """Return the attributes of the entry's arguments that say which result has their memory."""
    attributes: list[dict[str, Any]] = [{} for _ in graph.inputs]
    for position, result in aliases.items():
        attributes[position] = _has_memory_of(result)
    return attributes


def _has_memory_of(result: int) -> dict[str, Any]:
    index = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), result)
    return {"tf.aliasing_output": index}
