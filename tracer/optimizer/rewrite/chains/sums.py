"""Distributivity: `A @ B + A @ C` is `A @ (B + C)`, and `(I - H.T @ H) @ x` is `x - H.T @ (H @ x)`.

Both forms are priced with the best order of each product, and the cheaper one is written. A common
factor may be anywhere in two products, as long as the rests have the same axes.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tracer import ops
from tracer.ir import Graph, Node, Value
from tracer.optimizer.passes import PassLog
from tracer.optimizer.rewrite.chains.contraction_order import Contraction, Tree
from tracer.optimizer.rewrite.chains.cost import is_worthwhile, planned
from tracer.optimizer.rewrite.chains.emit import Emitter
from tracer.optimizer.rewrite.chains.product import (
    VIEWS,
    Factor,
    Place,
    Product,
    Reader,
    is_read,
    is_readable,
)
from tracer.optimizer.rewrite.chains.sharing import cheapest
from tracer.optimizer.rewrite.match.rewrite import Replacement, replace_nodes

_MAXIMUM_ROUNDS = 4
_MAXIMUM_TERMS = 4


@dataclass(frozen=True)
class Term:
    """One addend, and its product, if it is one that nothing else needs."""

    value: Value
    is_negative: bool
    product: Product | None


def rearrange_sums(graph: Graph, log: PassLog) -> Graph:
    """Factor sums of products and distribute products over sums, where that saves operations."""
    for _ in range(_MAXIMUM_ROUNDS):
        sums = _Sums(graph)
        changed = replace_nodes(graph, sums.replacements(log)) if sums.terms else graph
        if changed is graph:
            break
        graph = changed
    return graph


class _Sums:
    """The sums of a graph that have products among their terms, by what they compute."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.uses = Counter(value for node in graph.nodes for value in node.operands)
        self.uses.update(graph.outputs)
        self.readers: dict[Value, set[Node]] = {}
        self.numbers: dict[Value, int] = {}
        self.terms: dict[Value, list[Term]] = {}
        inside: set[Node] = set()
        if not any(node.op is ops.dot_general for node in graph.nodes):
            return
        for node in graph.nodes:
            for value in node.operands:
                self.readers.setdefault(value, set()).add(node)
        for node in reversed(graph.nodes):
            if node in inside or node.op not in (ops.add, ops.subtract):
                continue
            addends = list(self._addends(node, inside))
            if len(addends) <= _MAXIMUM_TERMS:
                terms = [Term(v, is_negative, self._product(v)) for v, is_negative in addends]
                if any(term.product for term in terms):
                    self.terms[node.results[0]] = terms

    def _addends(self, root: Node, inside: set[Node]) -> Iterator[tuple[Value, bool]]:
        """Yield the addends of a tree of additions and their signs; marks its inner nodes."""
        stack = [(root.results[0], False)]
        while stack:
            value, is_negative = stack.pop()
            node = value.node
            is_sum = node.op in (ops.add, ops.subtract)
            if is_sum and (node is root or self.uses[value] == 1):
                inside.add(node)
                left, right = node.operands
                stack.append((right, is_negative ^ (node.op is ops.subtract)))
                stack.append((left, is_negative))
            else:
                yield value, is_negative

    def _product(self, value: Value) -> Product | None:
        if value.node.op is None or len(value.node.types) > 1 or self.uses[value] != 1:
            return None
        product = Reader(self.uses, self.numbers).read(value.node)
        return product if is_readable(product) and product.multiplies_matrices else None

    def replacements(self, log: PassLog) -> dict[Node, Replacement]:
        """Return the replacements of sums, and of products that have sums as factors."""
        found: dict[Node, Replacement] = {}
        for total, terms in self.terms.items():
            factored = _best_common_factor(terms)
            if factored is not None:
                found[total.node] = factored
                log.applied.append(f"sum {total.type}: {factored}")
        if found or not any(self.uses[total] == 1 for total in self.terms):
            return found
        read: set[Node] = set()
        for root in reversed(self.graph.nodes):
            if root in read or not is_read(root):
                continue
            product = Reader(self.uses, self.numbers).read(root)
            read.update(product.nodes)
            distributed = self._distributed(product) if is_readable(product) else None
            if distributed is not None:
                found[root] = distributed
                log.applied.append(f"product {root.types[0]}: {distributed}")
        return found

    def _distributed(self, product: Product) -> _Distribution | None:
        """Return the product multiplied out over the sum where that saves most."""
        best: _Distribution | None = None
        for factor in product.factors:
            terms = self.terms.get(factor.value)
            if terms is None or not self._is_read_once(factor.value):
                continue
            products = [
                Reader(self.uses, self.numbers, instead={factor.value: term.value}).read(
                    product.root
                )
                for term in terms
            ]
            if not all(each.factors for each in products):
                continue  # a term that is a number alone leaves nothing to put in order
            additions = len(terms) - 1
            before = price(product) + additions * factor.value.type.size
            before += sum(price(term.product) for term in terms if term.product)
            after = sum(map(price, products)) + additions * product.root.types[0].size
            if is_worthwhile(before, after) and (best is None or after < best.after):
                best = _Distribution(terms, products, before, after)
        return best

    def _is_read_once(self, value: Value) -> bool:
        """Tell whether one op reads a value, and one operand of it, also through views.

        Products are read through views that others need too: of `v = s[None]`, `v * v` has the
        sum `s` as a factor twice although one node reads it. (p + b)^2 is not p^2 + b^2.
        """
        while self.uses[value] == 1:
            (reader,) = self.readers.get(value, (None,))
            if reader is None or reader.op not in VIEWS:
                return reader is not None
            (value,) = reader.results
        return False


def price(product: Product) -> int:
    """Return the operations of a product in its best order."""
    contraction = Contraction(product)
    return planned(product, contraction, cheapest(product, contraction)).flops


def _emitted(product: Product, mapping: Mapping[Value, Value], *, whole: bool) -> Value:
    """Write a product in its best order: in the shape of its root, or its long axes only."""
    emitter = Emitter(product, mapping, {})
    tree: Tree = cheapest(product, emitter.contraction).tree
    return emitter.emit(tree) if whole else emitter.emit_kept(tree)


def _total(values: Sequence[tuple[Value, bool]]) -> Value:
    """Add values, subtracting those whose flag is set."""
    ordered = sorted(values, key=lambda item: item[1])
    total, is_negative = ordered[0]
    total = ops.negate(total) if is_negative else total
    for value, subtracts in ordered[1:]:
        total = ops.subtract(total, value) if subtracts else ops.add(total, value)
    return total


@dataclass(frozen=True)
class _Distribution:
    """A product over a sum, multiplied out."""

    terms: Sequence[Term]
    products: Sequence[Product]
    before: int
    after: int

    def __call__(self, mapping: Mapping[Value, Value]) -> Sequence[Value]:
        pairs = zip(self.terms, self.products, strict=True)
        values = [(_emitted(p, mapping, whole=True), term.is_negative) for term, p in pairs]
        return (_total(values),)

    def __str__(self) -> str:
        return f"multiplied out, {self.before:,} -> {self.after:,} operations"


@dataclass(frozen=True)
class _CommonFactor:
    """Two terms of a sum that share a factor, written as its product with the sum of the rests."""

    others: Sequence[Term]
    rests: tuple[Product, Product]
    signs: tuple[bool, bool]
    joined: Product
    """The common factor and, last, a place for the sum of the rests."""
    before: int
    after: int

    def __call__(self, mapping: Mapping[Value, Value]) -> Sequence[Value]:
        pairs = zip(self.rests, self.signs, strict=True)
        inner = _total([(_emitted(rest, mapping, whole=False), sign) for rest, sign in pairs])
        common, place = self.joined.factors
        joined = replace(self.joined, factors=(common, replace(place, value=inner)))
        product = _emitted(joined, ChainMap({inner: inner}, dict(mapping)), whole=True)
        return (
            _total([(product, False), *((mapping[t.value], t.is_negative) for t in self.others)]),
        )

    def __str__(self) -> str:
        return f"common factor taken out, {self.before:,} -> {self.after:,} operations"


def _best_common_factor(terms: Sequence[Term]) -> _CommonFactor | None:
    best: _CommonFactor | None = None
    for i, first in enumerate(terms):
        for second in terms[i + 1 :]:
            for found in _common_factors(first, second):
                others = [term for term in terms if term is not first and term is not second]
                if is_worthwhile(found.before, found.after) and (
                    best is None or found.before - found.after > best.before - best.after
                ):
                    best = replace(found, others=others)
    return best


def _common_factors(first: Term, second: Term) -> Iterator[_CommonFactor]:
    """Yield the ways to take a common factor out of two terms, priced."""
    if first.product is None or second.product is None:
        return
    x, y = first.product, _relabelled(second.product, first.product)
    before = price(x) + price(y) + first.value.type.size
    for i, left in enumerate(x.factors):
        for j, right in enumerate(y.factors):
            names = _matched(left, right, x.kept)
            if names is None or any(y.sizes[b] != x.sizes[a] for b, a in names.items()):
                continue  # slices of one leaf may have the same start and different lengths
            sizes = {**y.sizes, **x.sizes}
            rests = (_rest(x, i, x.kept, {}, sizes), _rest(y, j, x.kept, names, sizes))
            if not rests[0].kept or set(rests[0].kept) != set(rests[1].kept):
                continue
            rests = (rests[0], replace(rests[1], kept=rests[0].kept))
            joined = _joined(x, left, rests[0])
            elements = Contraction(joined).elements(_bits(joined.factors[1]))
            after = sum(map(price, rests)) + elements + price(joined)
            signs = (first.is_negative, second.is_negative)
            yield _CommonFactor((), rests, signs, joined, before, after)


def _bits(factor: Factor) -> int:
    return sum(1 << label for label in factor.labels)


def _relabelled(product: Product, other: Product) -> Product:
    """Return the product with summed labels that the other product does not have."""
    offset = len(other.sizes)
    names = {n: n if n in product.kept else n + offset for n in product.sizes}
    sizes = {names[label]: size for label, size in product.sizes.items()}
    return replace(product, factors=_renamed(product.factors, names), sizes=sizes)


def _renamed(factors: Sequence[Factor], names: Mapping[int, int]) -> tuple[Factor, ...]:
    def place(old: Place) -> Place:
        return old if old.label is None else replace(old, label=names.get(old.label, old.label))

    return tuple(replace(f, places=tuple(map(place, f.places))) for f in factors)


def _matched(left: Factor, right: Factor, kept: Sequence[int]) -> dict[int, int] | None:
    """Return the names that make two factors equal, or None when they are different leaves."""
    if left.number != right.number:
        return None
    names: dict[int, int] = {}
    for a, b in zip(left.places, right.places, strict=True):
        if (a.start, a.stride) != (b.start, b.stride) or (a.label is None) != (b.label is None):
            return None
        if a.label is None or b.label is None:
            continue
        if a.label != b.label and (a.label in kept or b.label in kept):
            return None
        names[b.label] = a.label
    return names


def _rest(
    product: Product,
    position: int,
    kept: Sequence[int],
    names: Mapping[int, int],
    sizes: Mapping[int, int],
) -> Product:
    """Return the product without one factor; it keeps the axes that the factor or the sum has."""
    (common,) = _renamed(product.factors[position : position + 1], names)
    others = _renamed(product.factors[:position] + product.factors[position + 1 :], names)
    inside = dict.fromkeys(label for factor in others for label in factor.labels)
    wanted = tuple(label for label in inside if label in kept or label in common.labels)
    return replace(product, factors=others, kept=wanted, sizes=sizes)


def _joined(product: Product, common: Factor, rest: Product) -> Product:
    """Return the product of the common factor and the sum of the rests, yet to be written."""
    places = tuple(map(Place, rest.kept))
    total = Factor(product.root.results[0], places, number=-1)
    return replace(product, factors=(common, total), scalars=(), sizes=rest.sizes)
