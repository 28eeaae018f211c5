"""Places of extremes as reductions of integers that hold value and place (`ops/packed_extreme.py`).

XLA:CPU does not vectorise a reduction of (value, index) pairs. Elements of more than 32 bits do not
fit an integer with their places, and stay pairs, in stages where the axis is long: two reductions,
of the values and then of their places, would compute or store the elements twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.ops import helpers
from tracer.ops.packed_extreme import PACKING_FLOPS, element_of, fits, pack, place_of
from tracer.ops.selection import is_extreme
from tracer.optimizer.legalize.writer import GraphWriter
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target

_IS_LARGEST = {ops.argmax: True, ops.argmin: False}


def packed_extremes_pass(target: Target) -> Pass:
    """Return the pass that writes arg-max, arg-min and the largest of rows for a target."""
    return Pass(
        "pack extremes",
        lambda graph, log: _packed(GraphWriter(target), graph, log),
        writes_out_cost=True,
    )


def _packed(writer: GraphWriter, graph: Graph, log: PassLog) -> Graph:
    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        found = _results(writer, node, operands)
        if found is not None:
            log.applied.append(f"{node.name} of {node.operand_types[0]}")
        return found

    return rebuild(graph, rewrite)


def _results(
    writer: GraphWriter, node: Node, operands: tuple[Value, ...]
) -> Sequence[Value] | None:
    if node.op in _IS_LARGEST:
        axis, (x,) = node.params["axis"], operands
        if not fits(x.type, axis):
            return _place_of_pair(writer, node, x)
        best = _best(writer, node, x, axis, largest=_IS_LARGEST[node.op])
        return (helpers.convert(place_of(best), node.types[0].dtype),)
    if node.op is ops.top_k and is_extreme(operands[0].type, node.params["k"]):
        (x,) = operands
        best = _best(writer, node, x, len(x.shape) - 1, largest=True)
        results = element_of(best, x.dtype, largest=True), place_of(best)
        shapes = (type.shape for type in node.types)
        return [helpers.reshape(y, shape) for y, shape in zip(results, shapes, strict=True)]
    return None


def is_wide_extreme(node: Node) -> bool:
    """Tell whether a node reduces pairs: its elements do not fit an integer with their places."""
    return node.op in _IS_LARGEST and not fits(node.operand_types[0], node.params["axis"])


def _place_of_pair(writer: GraphWriter, node: Node, x: Value) -> Sequence[Value] | None:
    """Reduce pairs in stages; None where one is best, as the op itself is lowered."""
    assert node.op is not None
    found = writer.extreme_in_stages(
        x,
        node.params["axis"],
        node.types[0].dtype,
        node.operands[0],
        largest=_IS_LARGEST[node.op],
    )
    return None if found is None else found[1:]


def _best(writer: GraphWriter, node: Node, x: Value, axis: int, *, largest: bool) -> Value:
    """Reduce packed integers, in stages where the axis is long."""
    packed = pack(x, axis=axis, largest=largest)
    found = writer.in_stages(
        ops.reduce_maximum, packed, (axis,), node.operands[0], more_flops=PACKING_FLOPS
    )
    return ops.reduce_maximum(packed, axes=(axis,)) if found is None else found


__all__ = ["packed_extremes_pass"]
