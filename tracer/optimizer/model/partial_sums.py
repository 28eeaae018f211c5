"""The bytes of a product's partial sums, where a device divides its sums among cores."""

from __future__ import annotations

import math

from tracer import ops
from tracer.ir import Node
from tracer.target import Storage


def partial_sums_bytes(node: Node, storage: Storage) -> int:
    """Return the bytes of a product's partial sums, where its sums are divided among cores.

    Source: XLA's `SplitK` for GPUs: as many parts, a power of two, as there are cores for each
    tile of the result, of as many terms as the side of a tile at least.
    """
    if not storage.split_cores or node.op is not ops.dot_general:
        return 0
    rule, sizes, tile = node.axes, dict[object, int](), storage.tile
    for labels, type in zip(rule.operands, node.operand_types, strict=True):
        sizes.update(zip(labels, type.shape, strict=True))
    left, right = (
        math.prod(sizes[label] for label in rule.results[0] if label not in others)
        for others in reversed(rule.operands)
    )
    if 1 in (left, right):  # with a vector: no tiles
        return 0
    batch = node.types[0].size // max(1, left * right)
    tiles = max(1, batch * -(-left // tile) * -(-right // tile))
    terms = math.prod(sizes[label] for label in rule.reduced)
    parts = min(storage.split_cores // tiles, terms // tile)
    if parts < 2:
        return 0
    return (1 << (parts.bit_length() - 1)) * node.types[0].size * storage.accumulator_bytes
