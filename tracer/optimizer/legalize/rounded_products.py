"""Products are rounded before a sum or difference of them decides something.

LLVM contracts `u * v - w` to one rounding, in each kernel in its own way. So the difference of
equal products has a sign of its own in each kernel: `sign(diff(x * rate))` of a constant signal was
-1 everywhere, and the gradient of `abs(w[:, None] - w)` with `w = u * u` was wrong by up to two for
each tie. XLA has no option against it.

LLVM does not contract through a choice. `select(p != p, NaN, p)` is `p`, bit for bit but for the
payload of a NaN, and XLA does not simplify it; nothing is stored. Products that nothing compares
stay as they are: contraction makes them quicker and more accurate. So do products by powers of two,
which are exact, and sums of many products, whose order is not NumPy's.

Differences between scaled points decide, too: `z = x / length` is a product, and where one kernel
rounds it before `z[:, None] - z` and another does not, what should cancel does not.

Quotients by one number and powers are products too, after XLA's simplifier. Of 40 other
functions of `tracer.numpy` none was found to end with a product that is contracted.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.optimizer.legalize.deciding import deciding_values, products_less_extremes
from tracer.optimizer.legalize.writer import rounded
from tracer.optimizer.passes import Pass, PassLog


def rounded_products_pass() -> Pass:
    """Return the pass that keeps deciding products from being contracted."""
    return Pass("round products", _with_rounded)


def _with_rounded(graph: Graph, log: PassLog) -> Graph:
    _, products = deciding_values(graph)
    deciding = {value.node for value in products}
    less_extremes = products_less_extremes(graph)

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node in less_extremes:
            log.applied.append(f"what {node.name} of {node.types[0]} takes an extreme from")
            terms = enumerate(operands)
            operands = tuple(rounded(x) if i in less_extremes[node] else x for i, x in terms)
            return builder.copy(node, operands)
        if node not in deciding:
            return None
        log.applied.append(f"{node.name} of {node.types[0]}")
        return tuple(map(rounded, builder.copy(node, operands)))

    return rebuild(graph, rewrite)


__all__ = ["rounded_products_pass"]
