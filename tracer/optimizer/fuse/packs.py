"""Packs of isomorphic subgraphs that do not depend on each other.

Source of the words: Larsen & Amarasinghe, "Exploiting Superword Level Parallelism" (2000), which
packs isomorphic statements. A subgraph here is a connected set of element-wise nodes, all of one
shape, or one small product. Two are isomorphic if they apply the same operations in the same order
to leaves of the same dtypes; element-wise ones may differ in shape. The structure is found by the
axis rules of the op records, never by names of ops or variables.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tracer.ir import Graph, Node, Value, param_key
from tracer.ops.helpers import splat_of
from tracer.optimizer.model.in_order import is_elementwise
from tracer.target import Sizes

MINIMUM_SIZE = 4
"""Fewer are not worth the packing."""


@dataclass(frozen=True, eq=False)
class Subgraph:
    """One of several isomorphic parts.

    Attributes
    ----------
    nodes : tuple of Node
        In the order of the graph, which is the same in all subgraphs.
    leaves : tuple of Value
        What the nodes read and do not make; numbers that are the same for all elements are not
        among them.
    key : object
        The same for isomorphic subgraphs.
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


Pack = tuple[Subgraph, ...]


def find_isomorphic(graph: Graph, sizes: Sizes) -> list[Pack]:
    """Return the packs of isomorphic subgraphs that do not wait for one another, the largest first.

    `sizes` says up to which size parts are small on the device.
    """
    alike: dict[Any, list[Subgraph]] = defaultdict(list)
    for subgraph in _subgraphs(graph, sizes):
        alike[subgraph.key].append(subgraph)
    packs = [
        pack
        for subgraphs in alike.values()
        if len(subgraphs) >= MINIMUM_SIZE
        for pack in _independent(graph, subgraphs)
        if len(pack) >= MINIMUM_SIZE
    ]
    return sorted(packs, key=lambda pack: -len(pack) * len(pack[0].nodes))


def _subgraphs(graph: Graph, sizes: Sizes) -> Iterator[Subgraph]:
    parts: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if _is_small_product(node, sizes):
            yield _product(node)
        elif is_elementwise(node) and 0 < node.types[0].nbytes <= sizes.pack_bytes:
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
        yield _elementwise(sorted(part, key=place.__getitem__))


def _is_small_product(node: Node, sizes: Sizes) -> bool:
    """Tell whether a node is a product of sums over whole axes, which batches make one of.

    Convolutions, which have windows, would become packs of features: XLA:CPU is slow at these.
    """
    assert node.op is not None
    flops = node.cost.product_flops
    is_batched = node.op.batch is not None and len(node.types) == 1 and not node.body_graphs
    return is_batched and 0 < flops <= sizes.pack_flops and not node.axes.whole


def _product(node: Node) -> Subgraph:
    return Subgraph((node,), node.operands, ("product", *_of_node(node), node.operand_types))


def _elementwise(nodes: Sequence[Node]) -> Subgraph:
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
    return Subgraph(tuple(nodes), tuple(leaves), tuple(key))


def _of_node(node: Node) -> tuple[Any, ...]:
    params = tuple(sorted((name, param_key(value)) for name, value in node.params.items()))
    return node.name, params


def _scalar_key(scalar: Value) -> Any:
    """Equal for equal constants, which need not be one node, and for the same value."""
    node = scalar.node
    return scalar if node.op is None or node.operands else _of_node(node)


def _independent(graph: Graph, subgraphs: Sequence[Subgraph]) -> list[Pack]:
    """Return the subgraphs in packs of which no subgraph waits for another one.

    One that waits for itself, as where a product of its values is added to them, is left out.
    """
    bit = {node: 1 << i for i, subgraph in enumerate(subgraphs) for node in subgraph.nodes}
    reached: dict[Node, int] = {}
    for node in graph.nodes:
        found = 0
        for value in node.operands:
            found |= reached.get(value.node, 0) | bit.get(value.node, 0)
        reached[node] = found
    levels: dict[int, list[Subgraph]] = defaultdict(list)
    level_of: list[int] = []
    for i, subgraph in enumerate(subgraphs):
        leaves = [value.node for value in subgraph.leaves]
        before = 0
        for node in leaves:
            before |= reached.get(node, 0) | bit.get(node, 0)
        is_knot = bool(before >> i & 1)
        earlier = [level_of[j] for j in range(i) if before >> j & 1]
        level_of.append(max(earlier, default=-1) + 1)
        # What waits for a subgraph further on in the list has no level yet.
        if not is_knot and not before >> i:
            levels[level_of[i]].append(subgraph)
    return [tuple(pack) for pack in levels.values()]


__all__ = ["Pack", "Subgraph", "find_isomorphic"]
