"""Write out inner products: those of computed vectors become sums of products.

`einsum("ijk,ijk->ij", d, d)`, `vecdot(d, d)` and `d[..., None, :] @ d[..., :, None]` of a broadcast
difference d are batches of inner products. A product stores its operands, the (n, m, k)
differences. A sum fuses them, and later passes turn it into norms and one product, or unroll it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracer import ops
from tracer.ir import Graph, Node, Value
from tracer.ops.rules import is_float
from tracer.optimizer.passes import PassLog
from tracer.optimizer.rewrite.match.rewrite import Replacement, replace_nodes
from tracer.target import current_target

_FULL_WIDTH = 4


def write_out_inner_products(graph: Graph, log: PassLog) -> Graph:
    """Replace products that only have batch and contracted axes by sums, if nothing stores them."""
    matches: dict[Node, Replacement] = {}
    for node in graph.nodes:
        if node.op is not ops.dot_general or not _is_candidate(node):
            continue
        subject = f"{node.name} of {node.operands[0].type}"
        left, right = _sides(node)
        if left.labels != right.labels:
            log.refuse(subject, "its operands have their axes in another order", node.source)
            continue
        matches[node] = _InnerProduct(node, left, right)
        log.applied.append(subject)
    return replace_nodes(graph, matches)


def _is_candidate(node: Node) -> bool:
    types = node.operand_types
    return (
        is_float(types[0].dtype)
        and types[0].dtype.itemsize >= _FULL_WIDTH  # narrower products are exact before they add up
        and types[0].size >= current_target().sizes.match_elements
        and node.types[0].size > 1  # one inner product is left to the chains
        and all(side.is_all_shared for side in _sides(node))
        and any(_is_computed(side.source) for side in _sides(node))
    )


def _is_computed(value: Value) -> bool:
    """Tell whether XLA could compute a value inside of the sum that reads it."""
    op = value.node.op
    return op is not None and op.fusion == "loop"


@dataclass(frozen=True)
class _Side:
    """An operand: what it is without axes of size one, and a label for each axis left."""

    source: Value
    shape: tuple[int, ...]
    labels: tuple[int, ...]
    is_all_shared: bool


def _sides(node: Node) -> tuple[_Side, _Side]:
    x, y = node.operands
    p = node.params
    return (
        _side(x, p["lhs_batch"], p["lhs_contracting"]),
        _side(y, p["rhs_batch"], p["rhs_contracting"]),
    )


def _side(value: Value, batch: Sequence[int], contracting: Sequence[int]) -> _Side:
    """Label the axes as the product pairs them: batch axes from zero, contracted ones behind."""
    label = {axis: number for number, axis in enumerate((*batch, *contracting))}
    long = [axis for axis, size in enumerate(value.shape) if size != 1]
    shape = tuple(value.shape[axis] for axis in long)
    source = value
    while source.node.op is ops.reshape and source.shape != shape:
        (source,) = source.node.operands
    is_found = source.shape == shape
    labels = tuple(label.get(axis, -1) for axis in long)
    return _Side(source if is_found else value, shape, labels, -1 not in labels)


@dataclass(frozen=True)
class _InnerProduct:
    node: Node
    left: _Side
    right: _Side

    def __call__(self, mapping: Mapping[Value, Value]) -> Sequence[Value]:
        x, y = (_reshaped(mapping[side.source], side.shape) for side in (self.left, self.right))
        batch = len(self.node.params["lhs_batch"])
        labels = self.left.labels
        contracted = tuple(axis for axis, label in enumerate(labels) if label >= batch)
        kept = [label for label in labels if label < batch]
        total = ops.reduce_add(ops.multiply(x, y), axes=contracted)
        if kept != sorted(kept):
            order = sorted(range(len(kept)), key=kept.__getitem__)
            total = ops.transpose(total, permutation=tuple(order))
        (type,) = self.node.types
        return (_reshaped(total, type.shape),)


def _reshaped(value: Value, shape: tuple[int, ...]) -> Value:
    return value if value.shape == shape else ops.reshape(value, shape=shape)
