"""The cost of a product as written, and of the numbers that are pulled out of it."""

from __future__ import annotations

from dataclasses import dataclass

from tracer import ops
from tracer.ir import Node, ShapeDtype, Value
from tracer.optimizer.model.liveness import node_cost
from tracer.optimizer.rewrite.chains.contraction_order import Contraction, ContractionPlan
from tracer.optimizer.rewrite.chains.product import Product

# A smaller saving is not worth another rounding.
MINIMUM_FLOPS = 1 << 12
WORTHWHILE = 0.95
_NUMBER = ShapeDtype((), "float32")
_DIVISION_FLOPS = ops.divide.cost((_NUMBER, _NUMBER), (_NUMBER,)).flops


@dataclass(frozen=True)
class Price:
    """Operations, and the bytes of intermediate results at the peak."""

    flops: int
    peak_bytes: int


def is_worthwhile(before: int, after: int) -> bool:
    """Tell whether another order saves enough operations."""
    return before - after >= MINIMUM_FLOPS and after <= WORTHWHILE * before


def written(product: Product) -> Price:
    """Return what the nodes of a product cost as they are."""
    flops = sum(node_cost(node).flops for node in product.nodes)
    reader = {value: node for node in product.nodes for value in node.operands}
    # Live bytes of a result, and the peak on the way to it.
    done: dict[Value, tuple[int, int]] = {}
    for node in product.nodes:
        live = peak = 0
        for operand in node.operands:
            its_live, its_peak = done.get(operand, (0, 0))
            peak = max(peak, live + its_peak)
            live += its_live
        if _is_stored(node, reader.get(node.results[0])):
            peak, live = max(peak, live + node.types[0].nbytes), node.types[0].nbytes
        done[node.results[0]] = (live, peak)
    return Price(flops, done[product.root.results[0]][1])


def _is_stored(node: Node, reader: Node | None) -> bool:
    """Tell whether a result is in memory: element-wise ones are only where a product reads them."""
    assert node.op is not None
    if node.op.fusion in ("opaque", "reduce") or reader is None:
        return True
    assert reader.op is not None
    return reader.op.fusion == "opaque"


def planned(product: Product, contraction: Contraction, plan: ContractionPlan) -> Price:
    """Return what a product costs in another order."""
    return Price(plan.flops + _scaling_flops(product, contraction), plan.peak_bytes)


def scaled_factor(product: Product, contraction: Contraction) -> int | None:
    """Return the factor to multiply the numbers into; None for the result, if none is smaller."""
    if not product.scalars:
        return None
    size = _result_elements(contraction)
    smallest = None
    for position in range(len(product.factors)):
        own = contraction.elements(contraction.axes(1 << position))
        if own < size:
            smallest, size = position, own
    return smallest


def _scaling_flops(product: Product, contraction: Contraction) -> int:
    if not product.scalars:
        return 0
    factor = scaled_factor(product, contraction)
    if factor is None:
        size = _result_elements(contraction)
    else:
        size = contraction.elements(contraction.axes(1 << factor))
    below = sum(scalar.divides for scalar in product.scalars)
    above = len(product.scalars) - below
    among = max(0, above - 1) + max(0, below - 1)
    if above and below:
        among += _DIVISION_FLOPS
    return among + size * (1 if above else _DIVISION_FLOPS)


def _result_elements(contraction: Contraction) -> int:
    return contraction.elements(contraction.axes(contraction.everything))
