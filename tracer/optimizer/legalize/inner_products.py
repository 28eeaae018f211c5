"""Long inner products as sums of products, where the device's compiler adds them in one chain.

XLA:CPU takes one long inner product, or one for each element of a batch, for a reduction of one
chain: a million float32 are off by 1e-4. As a sum it goes in stages like any other. Narrow floats
stay: their products are exact before they are added.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, ShapeDtype, Value, rebuild
from tracer.ops.product import COMPUTED_ITEMSIZE, Side, sides_of
from tracer.ops.rules import is_inexact, size_of
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target


def summed_products_pass(target: Target) -> Pass:
    """Return the pass that writes long inner products as sums for a target."""
    least = target.kernels.long_inner_product
    return Pass(
        "sum inner products",
        lambda graph, log: _summed(least, graph, log),
        exact=False,
        writes_out_cost=True,
    )


def _summed(least: float, graph: Graph, log: PassLog) -> Graph:
    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if node.op is not ops.dot_general:
            return None
        left, right = sides_of(node)
        if not _is_inner(node.types[0], left) or size_of(left.type, left.inner) < least:
            return None
        log.applied.append(f"{node.operand_types[0]} by {node.operand_types[1]}")
        return (_sum(node.types[0], operands, left, right),)

    return rebuild(graph, rewrite)


def _is_inner(type: ShapeDtype, left: Side) -> bool:
    """Tell whether a product is one inner product, or one for each element of a batch."""
    is_wide = is_inexact(type.dtype) and type.dtype.itemsize >= COMPUTED_ITEMSIZE
    return is_wide and type.size == size_of(left.type, left.batch)


def _sum(type: ShapeDtype, operands: Sequence[Value], left: Side, right: Side) -> Value:
    x, y = operands
    paired = dict(zip((*left.batch, *left.inner), (*right.batch, *right.inner), strict=True))
    long = [axis for axis, size in enumerate(left.type.shape) if size > 1]
    others = [paired[axis] for axis in long]
    if others != sorted(others):
        ones = [axis for axis in range(right.type.ndim) if axis not in others]
        y = ops.transpose(y, permutation=(*others, *ones))
    shape = tuple(left.type.shape[axis] for axis in long)
    terms = ops.multiply(*(ops.reshape(operand, shape=shape) for operand in (x, y)))
    axes = tuple(place for place, axis in enumerate(long) if axis in left.inner)
    total = ops.reduce_add(terms, axes=axes)
    batch = [axis for axis in long if axis in left.batch]
    wanted = [axis for axis in left.batch if axis in batch]
    if wanted != batch:
        total = ops.transpose(total, permutation=tuple(batch.index(axis) for axis in wanted))
    return ops.reshape(total, shape=type.shape)  # type: ignore[no-any-return]


__all__ = ["summed_products_pass"]
