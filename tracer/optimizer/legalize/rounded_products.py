"""Products are rounded before the order or sign of a difference of them decides something.

LLVM contracts `u * v - w` to one rounding, in each kernel in its own way. So the difference of
equal products has a sign of its own in each kernel: `sign(diff(x * rate))` of a constant signal was
-1 everywhere, and the gradient of `abs(w[:, None] - w)` with `w = u * u` was wrong by up to two for
each tie. XLA has no option against it.

LLVM does not contract through a choice. `select(p != p, NaN, p)` is `p`, bit for bit but for the
payload of a NaN, and XLA does not simplify it; nothing is stored. Products that nothing compares
stay as they are: contraction makes them quicker and more accurate.

Quotients by one number and powers are products too, after XLA's simplifier. Of 40 other
functions of `tracer.numpy` none was found to end with a product that is contracted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, NotDifferentiable, Value, rebuild
from tracer.ir.combining import NEGATION, SAME_ELEMENTS
from tracer.ops.helpers import full_like
from tracer.optimizer.passes import Pass, PassLog

_PRODUCTS = (ops.multiply, ops.divide, ops.power)


def rounded_products_pass() -> Pass:
    """Return the pass that keeps compared products from being contracted."""
    return Pass("round products", _with_rounded)


def _with_rounded(graph: Graph, log: PassLog) -> Graph:
    tested = {value.node for value in _compared_products(graph)}

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node not in tested:
            return None
        log.applied.append(f"{node.name} of {node.types[0]}")
        return tuple(_rounded(value) for value in builder.copy(node, operands))

    return rebuild(graph, rewrite)


def _rounded(product: Value) -> Value:
    """Write a value again so that LLVM does not contract its product with what reads it."""
    is_nan = ops.compare(product, product, direction="NE")
    return ops.select(is_nan, full_like(product, np.nan), product)  # type: ignore[no-any-return]


def _compared_products(graph: Graph) -> Iterator[Value]:
    """Yield the products of floats that are terms of sums which decide something."""
    stack = [value for node in _compared_sums(graph) for value in node.operands]
    seen = set(stack)
    while stack:
        value = stack.pop()
        if value.dtype.kind != "f":
            continue
        if value.node.op in _PRODUCTS:
            yield value
        elif _is_move(value.node):
            found = [operand for operand in value.node.operands if operand not in seen]
            stack += found
            seen.update(found)


def _compared_sums(graph: Graph) -> list[Node]:
    """Return the sums and differences that reach a step function, such as a comparison or sign.

    What a library computes between them is not followed.
    """
    reaches: set[Value] = set()
    found = []
    for node in reversed(graph.nodes):
        is_reached = any(value in reaches for value in node.results)
        if is_reached and node.op in (ops.add, ops.subtract):
            found.append(node)
        if _is_step(node) or (is_reached and node.op is not None and node.op.fusion != "opaque"):
            reaches.update(node.operands)
    return found


def _is_step(node: Node) -> bool:
    """Tell whether the smallest change of a float may change the result by more."""
    if node.op is None or not any(type.dtype.kind == "f" for type in node.operand_types):
        return False
    # The sign of complex numbers has a derivative.
    return node.op is ops.sign or (isinstance(node.op.vjp, NotDifferentiable) and node.op.vjp.zero)


def _is_move(node: Node) -> bool:
    """Tell whether a fused op gives elements of its operands, at other places or negated."""
    if node.op is None or node.op.fusion not in ("view", "loop"):
        return False
    return node.op.response in (SAME_ELEMENTS, NEGATION) or node.cost.flops == 0


__all__ = ["rounded_products_pass"]
