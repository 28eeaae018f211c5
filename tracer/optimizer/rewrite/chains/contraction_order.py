"""The order in which to take the products of a contraction: dynamic programming over subsets.

Generalised matrix chains after Barthels, Copik and Bientinesi (2018), "The Generalized Matrix Chain
Algorithm". The factors have named axes, not only two sides, so any two of them may meet, and the
table has an entry for each subset instead of each interval. With more factors than `MAXIMUM_EXACT`
the path comes from opt_einsum's dynamic programming (Smith and Gray 2018), which leaves outer
products out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import opt_einsum

from tracer.ops.rules import dtype_kind
from tracer.optimizer.rewrite.chains.product import Product

MAXIMUM_EXACT = 8

Tree = int | tuple["Tree", "Tree"]
"""Which factor, or which two trees are multiplied."""
IsFree = Callable[[int], bool]
"""Tells whether the product of a set of factors (as bits) is computed anyway."""


@dataclass(frozen=True)
class ContractionPlan:
    """One order, its operations and the bytes of its intermediate results at the peak.

    `kept_bytes` is what its result takes, zero for a factor that is stored already.
    """

    tree: Tree
    members: int
    flops: int
    peak_bytes: int
    kept_bytes: int


class Contraction:
    """Sizes and costs of the partial products of one product; sets of axes and factors are bits."""

    def __init__(self, product: Product) -> None:
        dtype = product.root.types[0].dtype
        self.itemsize = dtype.itemsize
        self.term_flops = 8 if dtype_kind(dtype) == "c" else 2
        self.sizes = product.sizes
        self.kept = _bits(product.kept)
        self.labels = tuple(_bits(factor.labels) for factor in product.factors)
        self.everything = (1 << len(self.labels)) - 1
        self._elements: dict[int, int] = {}
        self._axes: dict[int, int] = {}

        # All that plans depend on: the products of a network's layers are often alike.
        sizes = tuple(sorted(self.sizes.items()))
        self._signature = (self.itemsize, self.term_flops, sizes, self.kept, self.labels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Contraction) and self._signature == other._signature

    def __hash__(self) -> int:
        return hash(self._signature)

    def elements(self, axes: int) -> int:
        """Return the number of elements over a set of axes."""
        if axes not in self._elements:
            bits = (label for label in range(axes.bit_length()) if axes >> label & 1)
            self._elements[axes] = math.prod(self.sizes[label] for label in bits)
        return self._elements[axes]

    def axes(self, members: int) -> int:
        """Return the axes of the product of some factors: those that the rest or the result has."""
        if members not in self._axes:
            inside, outside = 0, self.kept
            for position, labels in enumerate(self.labels):
                if members >> position & 1:
                    inside |= labels
                else:
                    outside |= labels
            self._axes[members] = inside & outside
        return self._axes[members]

    def factor(self, position: int) -> ContractionPlan:
        """Return the plan for one factor: it is stored; axes that only it has are summed first."""
        members = 1 << position
        labels = self.labels[position]
        if self.axes(members) == labels:
            return ContractionPlan(position, members, 0, 0, 0)
        size = self.elements(self.axes(members)) * self.itemsize
        return ContractionPlan(position, members, self.elements(labels), size, size)

    def product(self, left: ContractionPlan, right: ContractionPlan) -> ContractionPlan:
        """Return the plan that multiplies the results of two."""
        members = left.members | right.members
        flops = left.flops + right.flops + self.step_flops(left.members, right.members)
        size = self.elements(self.axes(members)) * self.itemsize
        peak = min(
            max(left.peak_bytes, left.kept_bytes + right.peak_bytes),
            max(right.peak_bytes, right.kept_bytes + left.peak_bytes),
        )
        peak = max(peak, left.kept_bytes + right.kept_bytes + size)
        return ContractionPlan((left.tree, right.tree), members, flops, peak, size)

    def step_flops(self, left: int, right: int) -> int:
        """Return the operations of one product, as the op records count what `pair` emits."""
        x, y = self.axes(left), self.axes(right)
        terms = self.elements(x | y)
        is_summed = (x | y) != self.axes(left | right)
        is_nested = (x | y) in (x, y)
        if is_nested and (x == y or not is_summed):
            return terms * (2 if is_summed else 1)
        return self.term_flops * terms

    def of_tree(self, tree: Tree) -> ContractionPlan:
        """Return the plan with a given order."""
        if isinstance(tree, int):
            return self.factor(tree)
        return self.product(self.of_tree(tree[0]), self.of_tree(tree[1]))


def best_plans(
    contraction: Contraction, *, by_bytes: bool = False, is_free: IsFree | None = None
) -> Mapping[int, ContractionPlan]:
    """Return the best plan for each set of factors, by operations or by bytes.

    The full set is never free. Beyond `MAXIMUM_EXACT` factors there is only the full set.
    """
    if len(contraction.labels) > MAXIMUM_EXACT:
        return {contraction.everything: contraction.of_tree(_library_tree(contraction, by_bytes))}
    proper = range(1, contraction.everything)
    free = () if is_free is None else tuple(members for members in proper if is_free(members))
    return _table(contraction, by_bytes, frozenset(free))


@lru_cache(maxsize=256)
def _table(
    contraction: Contraction, by_bytes: bool, free: frozenset[int]
) -> Mapping[int, ContractionPlan]:
    plans = {
        1 << position: contraction.factor(position) for position in range(len(contraction.labels))
    }
    for members in range(1, contraction.everything + 1):
        if members in plans:
            continue
        best = _best_of_halves(contraction, plans, members, by_bytes)
        if members in free:
            best = ContractionPlan(best.tree, members, 0, 0, 0)
        plans[members] = best
    return MappingProxyType(plans)


def _best_of_halves(
    contraction: Contraction, plans: dict[int, ContractionPlan], members: int, by_bytes: bool
) -> ContractionPlan:
    lowest = members & -members
    best: ContractionPlan | None = None
    half = (members - 1) & members
    while half:
        if half & lowest:
            left, right = plans[half], plans[members ^ half]
            # Most halves cost more before they have met.
            if best is None or by_bytes or left.flops + right.flops <= best.flops:
                found = contraction.product(left, right)
                if best is None or rank(found, by_bytes) < rank(best, by_bytes):
                    best = found
        half = (half - 1) & members
    assert best is not None
    return best


def rank(plan: ContractionPlan, by_bytes: bool) -> tuple[int, int]:
    """Return what the best plan has the least of."""
    costs = (plan.flops, plan.peak_bytes)
    return costs[::-1] if by_bytes else costs


def _library_tree(contraction: Contraction, by_bytes: bool) -> Tree:
    symbols = [opt_einsum.get_symbol(label) for label in range(len(contraction.sizes))]

    def text(axes: int) -> str:
        return "".join(symbol for label, symbol in enumerate(symbols) if axes >> label & 1)

    axes = [contraction.axes(1 << position) for position in range(len(contraction.labels))]
    output = contraction.axes(contraction.everything)
    equation = f"{','.join(map(text, axes))}->{text(output)}"
    shapes = [
        tuple(size for label, size in contraction.sizes.items() if each >> label & 1)
        for each in axes
    ]
    optimizer = opt_einsum.DynamicProgramming(minimize="size" if by_bytes else "flops")
    path, _ = opt_einsum.contract_path(equation, *shapes, shapes=True, optimize=optimizer)
    trees: list[Tree] = list(range(len(axes)))
    for pair in path:
        chosen = [trees.pop(position) for position in sorted(pair, reverse=True)]
        trees.append(chosen[0] if len(chosen) == 1 else (chosen[1], chosen[0]))
    return trees[0]


def _bits(labels: Sequence[int]) -> int:
    return sum(1 << label for label in set(labels))
