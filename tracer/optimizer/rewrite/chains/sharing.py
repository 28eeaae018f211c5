"""Products that exist anyway: twice in the same chain, in another chain, or as an output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import cache
from typing import Any

from tracer.optimizer.rewrite.chains.contraction_order import (
    MAXIMUM_EXACT,
    Contraction,
    ContractionPlan,
    best_plans,
    rank,
)
from tracer.optimizer.rewrite.chains.product import Factor, Product

Key = tuple[tuple[tuple[int, Any], ...], Any]
"""The numbers of the leaves, what each looks like, and sizes. Equal exactly for partial products
of the same leaves over the same axes, whatever their names; A.T @ B and B.T @ A have one key."""


class Available:
    """Products that are computed anyway, and how often."""

    def __init__(self) -> None:
        self._counts: Counter[Key] = Counter()
        self._by_leaf: dict[int, set[Key]] = {}
        """By one of their leaves, as a graph may have thousands of products."""

    def add(self, key: Key) -> None:
        """Enter a product that is computed once more."""
        self._counts[key] += 1
        self._by_leaf.setdefault(min(_leaves(key)), set()).add(key)

    def remove(self, key: Key) -> None:
        """Take out a product that is computed once less."""
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]
            self._by_leaf[min(_leaves(key))].remove(key)

    def within(self, product: Product) -> Iterator[Key]:
        """Yield those that are made of leaves of a product only."""
        leaves = {factor.number for factor in product.factors}
        for leaf in leaves:
            for key in self._by_leaf.get(leaf, ()):
                if leaves.issuperset(_leaves(key)):
                    yield key

    def repeated(self) -> set[Key]:
        """Return those that are computed more than once."""
        return {key for key, count in self._counts.items() if count > 1}


def _leaves(key: Key) -> Iterator[int]:
    return (number for number, _ in key[0])


class Subproducts:
    """Names for the partial products of one product that do not depend on its labels."""

    def __init__(self, product: Product, contraction: Contraction) -> None:
        self.factors = product.factors
        self.contraction = contraction
        self.of = cache(self._of)

    def _of(self, members: int) -> tuple[Key, tuple[int, ...]]:
        """Return the key of a set of factors, and the labels it keeps in the key's own order."""
        kept = self.contraction.axes(members)
        chosen = [f for position, f in enumerate(self.factors) if members >> position & 1]
        chosen.sort(key=lambda factor: self._shape(factor, kept))
        numbers: dict[int, int] = {}
        for factor in chosen:
            for label in factor.labels:
                numbers.setdefault(label, len(numbers))
        entries = tuple(
            (
                factor.number,
                tuple(
                    (None if p.label is None else numbers[p.label], p.start, p.stride)
                    for p in factor.places
                ),
            )
            for factor in chosen
        )
        order = tuple([label for label in numbers if kept >> label & 1])
        # The sizes tell slices with the same start apart.
        sizes = tuple((self.contraction.sizes[label], kept >> label & 1) for label in numbers)
        return (entries, sizes), order

    def _shape(self, factor: Factor, kept: int) -> tuple[Any, ...]:
        """Return what a factor looks like without the names of its axes, to sort by."""
        places = tuple(
            (-1 if p.label is None else kept >> p.label & 1, p.start, p.stride)
            for p in factor.places
        )
        return factor.number, places

    def key(self, members: int) -> Key:
        """Return the key of a set of factors."""
        return self.of(members)[0]

    def repeated(self) -> dict[Key, int]:
        """Return the products that occur twice without sharing a factor, and one occurrence."""
        count = len(self.factors)
        values = {factor.value for factor in self.factors}
        if len(values) == count or count > MAXIMUM_EXACT:
            return {}
        seen: dict[Key, list[int]] = {}
        for members in range(3, self.contraction.everything):
            if 2 <= members.bit_count() <= count // 2:
                seen.setdefault(self.key(members), []).append(members)
        return {
            key: sets[0]
            for key, sets in seen.items()
            if any(not first & second for first in sets for second in sets)
        }


def cheapest(
    product: Product,
    contraction: Contraction,
    available: Collection[Key] = (),
    *,
    by_bytes: bool = False,
) -> ContractionPlan:
    """Return the best order when products in `available` cost nothing and repeated ones cost once.

    Repeated products are granted one after the other, each time the one that saves most: the best
    set of them would have to be searched among all.
    """
    names = Subproducts(product, contraction)
    granted: set[Key] = set(available)
    plans = best_plans(contraction, by_bytes=by_bytes, is_free=_is_free(names, granted))
    best, paid = plans[contraction.everything], 0
    repeated = names.repeated() if not by_bytes else {}
    while repeated:
        trials = []
        for key, members in repeated.items():
            trial = best_plans(contraction, is_free=_is_free(names, granted | {key}))
            full = trial[contraction.everything]
            flops = full.flops + paid + plans[members].flops
            trials.append(
                (ContractionPlan(full.tree, full.members, flops, *_bytes(full)), key, trial)
            )
        found, key, trial = min(trials, key=lambda item: rank(item[0], by_bytes=False))
        if found.flops >= best.flops:
            break
        paid = found.flops - trial[contraction.everything].flops
        best, plans = found, trial
        granted.add(key)
        del repeated[key]
    return best


def _bytes(plan: ContractionPlan) -> tuple[int, int]:
    return plan.peak_bytes, plan.kept_bytes


def _is_free(names: Subproducts, granted: Collection[Key]) -> Callable[[int], bool] | None:
    if not granted:
        return None
    return lambda members: members.bit_count() > 1 and names.key(members) in granted
