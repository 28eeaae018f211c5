"""Lanes: equal, independent parts of a graph.

A *lane* is a connected set of element-wise nodes, all of one shape, or one small product. Lanes are
equal if they apply the same operations in the same order to leaves of the same dtypes; element-wise
lanes may differ in shape. The structure is found by the axis rules of the op records, never by
names of ops or variables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tracer import ops
from tracer.ir import Graph, Node, Value, param_key
from tracer.ir.op import same_params
from tracer.target import Sizes

MINIMUM_LANES = 4
"""Fewer are not worth the packing."""


@dataclass(frozen=True, eq=False)
class Lane:
    """One of several equal parts.

    Attributes
    ----------
    nodes : tuple of Node
        In the order of the graph, which is the same in all lanes.
    leaves : tuple of Value
        What the nodes read and do not make; numbers that are the same for all elements are not
        among them.
    key : object
        The same for equal lanes.
    """

    nodes: tuple[Node, ...]
    leaves: tuple[Value, ...]
    key: Any

    @property
    def size(self) -> int:
        """Elements of each of its element-wise values."""
        return self.nodes[0].types[0].size

    @cached_property
    def is_product(self) -> bool:
        """Whether it is one product, and no element-wise nodes."""
        return not is_elementwise(self.nodes[0])


Group = tuple[Lane, ...]


def is_elementwise(node: Node) -> bool:
    """Tell whether each element depends only on the elements at the same position."""
    op = node.op
    if op is None or op.fusion not in ("loop", "view") or op.slice is not same_params:
        return False
    if not op.pure or len(node.types) != 1 or not node.operands or not node.types[0].ndim:
        return False
    if len(op.reuses) != len(node.operands):
        return False  # moves elements, if only from an axis to the same axis
    rule, shape = node.axes, node.types[0].shape
    labels = rule.results[0]
    return (
        not rule.steps
        and len(set(labels)) == len(labels)
        and all(rule.is_parallel(label) for label in labels)
        and all(operand == labels for operand in rule.operands)
        and all(type.shape == shape for type in node.operand_types)
    )


def splat_of(value: Value) -> Value | None:
    """Return the scalar that all elements of a value equal, if there is one."""
    node = value.node
    if node.op is not ops.broadcast_in_dim or node.operands[0].type.ndim:
        return None
    return node.operands[0]


def find_groups(graph: Graph, sizes: Sizes) -> list[Group]:
    """Return the groups of alike lanes that do not wait for one another, the largest first.

    `sizes` says up to which size parts are small on the device.
    """
    alike: dict[Any, list[Lane]] = defaultdict(list)
    for lane in _lanes(graph, sizes):
        alike[lane.key].append(lane)
    groups = [
        group
        for lanes in alike.values()
        if len(lanes) >= MINIMUM_LANES
        for group in _independent(graph, lanes)
        if len(group) >= MINIMUM_LANES
    ]
    return sorted(groups, key=lambda group: -len(group) * len(group[0].nodes))


def _lanes(graph: Graph, sizes: Sizes) -> Iterator[Lane]:
    parts: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if _is_small_product(node, sizes):
            yield _product_lane(node)
        elif is_elementwise(node) and 0 < node.types[0].nbytes <= sizes.lane_bytes:
            part = [node]
            for value in node.operands:
                other = parts.get(value.node, part)
                if other is not part:
                    larger, smaller = sorted((other, part), key=len, reverse=True)
                    larger.extend(smaller)
                    parts.update(dict.fromkeys(smaller, larger))
                    part = larger
            parts[node] = part
    place = {node: index for index, node in enumerate(graph.nodes)}
    for part in {id(part): part for part in parts.values()}.values():
        yield _elementwise_lane(sorted(part, key=place.__getitem__))


def _is_small_product(node: Node, sizes: Sizes) -> bool:
    """Tell whether a node is a product of sums over whole axes, which batches make one of.

    Convolutions, which have windows, would become groups of features: XLA:CPU is slow at these.
    """
    assert node.op is not None
    flops = node.cost.product_flops
    is_batched = node.op.batch is not None and len(node.types) == 1 and not node.body_graphs
    return is_batched and 0 < flops <= sizes.lane_flops and not node.axes.whole


def _product_lane(node: Node) -> Lane:
    return Lane((node,), node.operands, ("product", *_of_node(node), node.operand_types))


def _elementwise_lane(nodes: Sequence[Node]) -> Lane:
    inside = {node: index for index, node in enumerate(nodes)}
    leaves: dict[Value, int] = {}
    key = []
    for node in nodes:
        operands: list[Any] = []
        for value in node.operands:
            scalar = splat_of(value)
            if value.node in inside:
                operands.append(inside[value.node])
            elif scalar is not None:
                operands.append(("splat", _scalar_key(scalar)))
            else:
                operands.append(("leaf", leaves.setdefault(value, len(leaves)), value.dtype))
        key.append((*_of_node(node), tuple(operands)))
    return Lane(tuple(nodes), tuple(leaves), tuple(key))


def _of_node(node: Node) -> tuple[Any, ...]:
    params = tuple(sorted((name, param_key(value)) for name, value in node.params.items()))
    return node.name, params


def _scalar_key(scalar: Value) -> Any:
    """Equal for equal constants, which need not be one node, and for the same value."""
    node = scalar.node
    return scalar if node.op is None or node.operands else _of_node(node)


def _independent(graph: Graph, lanes: Sequence[Lane]) -> list[Group]:
    """Return the lanes in groups of which no lane waits for another one.

    A lane that waits for itself, as where a product of its values is added to them, is left out.
    """
    bit = {node: 1 << i for i, lane in enumerate(lanes) for node in lane.nodes}
    reached: dict[Node, int] = {}
    for node in graph.nodes:
        found = 0
        for value in node.operands:
            found |= reached.get(value.node, 0) | bit.get(value.node, 0)
        reached[node] = found
    levels: dict[int, list[Lane]] = defaultdict(list)
    level_of: list[int] = []
    for i, lane in enumerate(lanes):
        leaves = [value.node for value in lane.leaves]
        before = 0
        for node in leaves:
            before |= reached.get(node, 0) | bit.get(node, 0)
        is_knot = bool(before >> i & 1)
        earlier = [level_of[j] for j in range(i) if before >> j & 1]
        level_of.append(max(earlier, default=-1) + 1)
        # What waits for a lane further on in the list has no level yet.
        if not is_knot and not before >> i:
            levels[level_of[i]].append(lane)
    return [tuple(group) for group in levels.values()]


__all__ = ["Group", "Lane", "find_groups", "is_elementwise", "splat_of"]
