"""Products are rounded before a sum or difference of them decides something.

LLVM contracts `u * v - w` to one rounding, in each kernel in its own way. So the difference of
equal products has a sign of its own in each kernel: `sign(diff(x * rate))` of a constant signal was
-1 everywhere, and the gradient of `abs(w[:, None] - w)` with `w = u * u` was wrong by up to two for
each tie. XLA has no option against it.

LLVM does not contract through a choice. `select(p != p, NaN, p)` is `p`, bit for bit but for the
payload of a NaN, and XLA does not simplify it; nothing is stored. Products that nothing compares
stay as they are: contraction makes them quicker and more accurate. So do products by powers of two,
which are exact, and sums of many products, whose order is not NumPy's.

Quotients by one number and powers are products too, after XLA's simplifier. Of 40 other
functions of `tracer.numpy` none was found to end with a product that is contracted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.optimizer.legalize.deciding import deciding_values, is_move, is_power_of_two
from tracer.optimizer.legalize.writer import rounded
from tracer.optimizer.passes import Pass, PassLog

_PRODUCTS = (ops.multiply, ops.divide, ops.power)

_FEW_TERMS = 8
"""Longest sum that NumPy and XLA both compute term by term, in order."""


def rounded_products_pass() -> Pass:
    """Return the pass that keeps deciding products from being contracted."""
    return Pass("round products", _with_rounded)


def _with_rounded(graph: Graph, log: PassLog) -> Graph:
    deciding = {value.node for value in _deciding_products(graph)}

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node not in deciding:
            return None
        log.applied.append(f"{node.name} of {node.types[0]}")
        return tuple(map(rounded, builder.copy(node, operands)))

    return rebuild(graph, rewrite)


def _deciding_products(graph: Graph) -> Iterator[Value]:
    """Yield the products of floats that are terms of sums which decide something."""
    sums = {value.node for value in deciding_values(graph) if _is_short_sum(value.node)}
    stack = [value for node in sums for value in node.operands]
    seen = set(stack)
    while stack:
        value = stack.pop()
        if value.dtype.kind != "f":
            continue
        node = value.node
        is_exact = node.op in _PRODUCTS and any(map(is_power_of_two, node.operands))
        if node.op in _PRODUCTS and not is_exact:
            yield value
        elif is_exact or is_move(node):
            found = [operand for operand in node.operands if operand not in seen]
            stack += found
            seen.update(found)


def _is_short_sum(node: Node) -> bool:
    if node.op in (ops.add, ops.subtract):
        return True
    if node.op is ops.cumulative_add:
        return bool(node.operand_types[0].shape[node.params["axis"]] <= _FEW_TERMS)
    # A sum of squares does not vanish.
    if node.op is not ops.reduce_add or _is_square(node.operands[0]):
        return False
    return bool(node.operand_types[0].size <= _FEW_TERMS * node.types[0].size)


def _is_square(value: Value) -> bool:
    return value.node.op is ops.multiply and len(set(value.node.operands)) == 1


__all__ = ["rounded_products_pass"]
