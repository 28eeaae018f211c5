"""Textbook clean-ups: common subexpressions, constant folding, identities. All exact.

Dead code needs no pass of its own: a Graph keeps only the nodes that its outputs need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, param_key, rebuild
from tracer.optimizer.passes import Pass, PassLog

# A folded constant is written into the program; above this size it would cost more than it saves.
_FOLD_LIMIT_BYTES = 1024


def eliminate_common_subexpressions(graph: Graph, log: PassLog) -> Graph:
    """Compute equal nodes (same op, operands and parameters) once."""
    first: dict[Any, tuple[Value, ...]] = {}
    mapping: dict[Value, Value] = {}
    changed = False
    builder = Builder()
    for value in graph.inputs:
        mapping[value] = builder.input(value.type, value.node.source)
    for node in graph.nodes:
        assert node.op is not None
        operands = tuple([mapping[value] for value in node.operands])
        key = (node.op, operands, tuple((k, param_key(v)) for k, v in sorted(node.params.items())))
        results = first.get(key)
        if results is None or not node.is_pure:
            first[key] = results = builder.copy(node, operands)
        else:
            changed = True
            log.applied.append(f"{node.name} {node.types[0]}")
        mapping.update(zip(node.results, results, strict=True))
    return builder.finish([mapping[v] for v in graph.outputs]) if changed else graph


def fold_constants(graph: Graph, log: PassLog) -> Graph:
    """Evaluate nodes whose operands are all small constants, and products with one.

    The gradient of a sum multiplies by one, which XLA drops, but until then it is one more value
    to store: that of `(x[i] * w).sum()`, a million rows of 16, ran in slices, in twice the time.
    """

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        assert node.op is not None
        other = _times_one(node, operands)
        if other is not None:
            log.applied.append(f"{node.name} {node.types[0]} by one")
            return [other]
        if not operands or not _is_foldable(node):
            return None
        values = [constant_value(value) for value in operands]
        if any(value is None for value in values):
            return None
        results = node.op.evaluate(*values, **node.params)
        log.applied.append(f"{node.name} {node.types[0]}")
        many = results if isinstance(results, tuple) else (results,)
        return [
            ops.constant(value=np.asarray(array, type.dtype))
            for array, type in zip(many, node.types, strict=True)
        ]

    return rebuild(graph, rewrite)


def _times_one(node: Node, operands: Sequence[Value]) -> Value | None:
    """Return what is multiplied or divided by one.

    Not complex numbers, where 0 * inf makes NaN of the other part.
    """
    if node.types[0].dtype.kind == "c":
        return None
    if node.op is ops.multiply and _is_one(operands[0]):
        return operands[1]
    if node.op in (ops.multiply, ops.divide) and _is_one(operands[1]):
        return operands[0]
    return None


def _is_one(value: Value) -> bool:
    while value.node.op in (ops.broadcast_in_dim, ops.reshape):
        value = value.node.operands[0]
    array = constant_value(value)
    return array is not None and bool((array == 1).all())


def _is_foldable(node: Node) -> bool:
    """Tell whether the results are small, and no larger than what they are made of.

    A scalar that is broadcast says more than the dense constant: passes read it as a number, and
    it can be split along any axis.
    """
    assert node.op is not None
    largest = max((type.size for type in node.operand_types), default=0)
    small = all(t.size <= largest and t.nbytes <= _FOLD_LIMIT_BYTES for t in node.types)
    return small and node.is_pure and not node.bodies


def constant_value(value: Value) -> np.ndarray[Any, Any] | None:
    """Return the array when the value is a `constant`, else None."""
    return value.node.params["value"] if value.node.op is ops.constant else None


COMMON_SUBEXPRESSIONS = Pass("common subexpressions", eliminate_common_subexpressions)
CONSTANT_FOLDING = Pass("constant folding", fold_constants)
