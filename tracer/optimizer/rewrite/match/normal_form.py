"""A normal form of products: contracted axes last on the left and first on the right.

Then `A.T @ B` and `einsum("ji,jk->ik", A, B)` are the same ops, and one rule covers both. The way
back folds transposes into the product again, where they cost nothing. Both directions are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild

Axes = tuple[int, ...]


def normalize_products(graph: Graph) -> Graph:
    """Write every `dot_general` on operands whose axes are in the order of a matrix product."""
    return rebuild(graph, _normalized)


def fold_transposes(graph: Graph) -> Graph:
    """Let products read the operands of transposes, where the result keeps its axes."""
    return rebuild(graph, _folded)


def _normalized(
    builder: Builder, node: Node, operands: tuple[Value, ...]
) -> Sequence[Value] | None:
    if node.op is not ops.dot_general:
        return None
    (x, y), batch = operands, node.params["lhs_batch"]
    count, inner = len(batch), len(node.params["lhs_contracting"])
    left, right = _matrix_orders(node)
    if left == tuple(range(len(left))) and right == tuple(range(len(right))):
        return None
    free = x.type.ndim - inner
    return (
        ops.dot_general(
            _transposed(x, left),
            _transposed(y, right),
            lhs_batch=tuple(range(count)),
            rhs_batch=tuple(range(count)),
            lhs_contracting=tuple(range(free, free + inner)),
            rhs_contracting=tuple(range(count, count + inner)),
        ),
    )


def _matrix_orders(node: Node) -> tuple[Axes, Axes]:
    """Return the axes of both operands in the order of a matrix product."""
    (x, y), params = node.operands, node.params
    left = (*params["lhs_batch"], *params["lhs_contracting"])
    right = (*params["rhs_batch"], *params["rhs_contracting"])
    free_left = tuple(axis for axis in range(x.type.ndim) if axis not in left)
    free_right = tuple(axis for axis in range(y.type.ndim) if axis not in right)
    return (
        (*params["lhs_batch"], *free_left, *params["lhs_contracting"]),
        (*right, *free_right),
    )


def _transposed(value: Value, order: Axes) -> Value:
    if order == tuple(range(len(order))):
        return value
    return ops.transpose(value, permutation=order)  # type: ignore[no-any-return]


def _folded(builder: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.op is not ops.dot_general:
        return None
    params = dict(node.params)
    values = list(operands)
    for position, side in enumerate(("lhs", "rhs")):
        inner = values[position].node
        if inner.op is not ops.transpose:
            continue
        order = inner.params["permutation"]
        used = (*params[f"{side}_batch"], *params[f"{side}_contracting"])
        free = [order[axis] for axis in range(len(order)) if axis not in used]
        if free != sorted(free):
            continue
        values[position] = inner.operands[0]
        for kind in ("batch", "contracting"):
            params[f"{side}_{kind}"] = tuple(order[axis] for axis in params[f"{side}_{kind}"])
    if values == list(operands):
        return None
    return (ops.dot_general(*values, **params),)
