"""What is known about a `while` node: its trip count and its invariant carries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tracer import ops
from tracer.ir import Graph, Node, Value
from tracer.ops.rules import dtype_kind


def trip_count(node: Node) -> int | None:
    """Return how often a counted loop runs, or None when that is not known.

    The form is the one XLA knows too: the first carry starts at a constant, the condition
    compares it with a constant by LT, and the body adds the constant one. Counters are integers:
    of 0.0 < 0.5 the difference says nothing.
    """
    place, trips = _counted(node)
    return trips if place == 0 else None


def run_count(node: Node) -> int:
    """Return how often a node runs its bodies, for estimates: once where that is not known.

    The counter of a loop may be any of its carries.
    """
    if node.op is ops.scan:
        return int(node.params["length"])
    place, trips = _counted(node)
    return 1 if place is None else trips


def _counted(node: Node) -> tuple[int | None, int]:
    """Return which carry of a loop goes up by one from one constant to another, and the trips."""
    unknown = None, 0
    if node.op is not ops.while_:
        return unknown
    condition, body = node.params["condition"], node.params["body"]
    test = condition.outputs[0].node
    if test.op is not ops.compare or test.params["direction"] != "LT":
        return unknown
    if test.operands[0] not in condition.inputs:
        return unknown
    place = condition.inputs.index(test.operands[0])
    step = body.outputs[place].node
    if step.op is not ops.add or step.operands[0] is not body.inputs[place]:
        return unknown
    start, stop = integer_constant(node.operands[place]), integer_constant(test.operands[1])
    if start is None or stop is None or integer_constant(step.operands[1]) != 1:
        return unknown
    return place, max(0, stop - start)


def passed_through(node: Node) -> frozenset[int]:
    """Return the results that share the operand's memory: carries handed on, a barrier's values."""
    if node.op is ops.optimization_barrier:
        return frozenset(range(len(node.results)))
    if node.op is not ops.while_:
        return frozenset()
    body = node.params["body"]
    pairs = enumerate(zip(body.inputs, body.outputs, strict=True))
    return frozenset(index for index, (before, after) in pairs if before is after)


def carried_operands(node: Node) -> tuple[Value, ...]:
    """Return the operands whose memory a loop's or barrier's results have, one for each."""
    return node.operands if node.op in (ops.while_, ops.optimization_barrier) else ()


def is_in_loop(values: Sequence[Value]) -> bool:
    """Tell whether one of the values is a loop's carry."""
    return any(value.node.op is ops.while_ for value in values)


def is_computed(value: Value) -> bool:
    """Tell whether a kernel of element-wise ops makes the value."""
    return value.node.op is not None and value.node.op.fusion == "loop"


def fixed_bytes(graph: Graph, donated: frozenset[int] = frozenset()) -> int:
    """Return the bytes of arguments and results, shared memory counted once: no plan takes less."""
    inputs = sum(type.nbytes for type in graph.input_types)
    free = Counter(graph.input_types[i].nbytes for i in donated)
    outputs = Counter(type.nbytes for type in graph.output_types)
    return inputs + sum(nbytes * count for nbytes, count in (outputs - free).items())


def unsplit_bytes(graph: Graph, donated: frozenset[int] = frozenset()) -> int:
    """Return the most bytes that one loop or branch reads: whole, so no split goes below.

    Inputs count too, unless they are donated. What else bodies hold can often be split.
    """
    kept = {value for i, value in enumerate(graph.inputs) if i not in donated}
    most = 0
    for node in graph.nodes:
        if node.op is not None and node.op.invariants is not None:
            most = max(most, sum(value.type.nbytes for value in kept.union(node.operands)))
            most = max((most, *map(unsplit_bytes, node.body_graphs)))
    return most


def integer_constant(value: Value) -> int | None:
    """Return the number of a scalar integer constant; None for everything else."""
    node = value.node
    if node.op is not ops.constant or value.shape != () or dtype_kind(value.dtype) not in "iu":
        return None
    return int(node.params["value"])
