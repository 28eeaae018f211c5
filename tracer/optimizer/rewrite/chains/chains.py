"""Reorder chains: products of matrices, vectors, sums, scalings and slices in the best order.

`A @ B @ v` is `A @ (B @ v)`. Each maximal tree of products whose inner results have no other users
is read as one contraction over named axes (`product.py`). It is written in the order with the
fewest operations (`order.py`), or, if that would break the limit, with the smallest intermediate
results. A partial product that another chain, an output or the same chain computes anyway costs
nothing (`sharing.py`). A shared result is computed several times where that is cheaper: `P = A @ B;
P @ v, P @ w`.

Reassociating rounds differently. Each order's error is bounded by n eps |A| |B| ... |z|, n being
the number of terms summed in all products, with other constants of the same size. If data is not
finite, or an intermediate result overflows, one order may give NaN or infinity where the other
gives a number. Integers wrap around, so they are exact. float16 and float8 are left alone: their
intermediate results overflow too easily.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tracer.ir import Graph, Node, Value, current_builder
from tracer.optimizer.model.liveness import peak_bytes
from tracer.optimizer.passes import Pass, PassLog
from tracer.optimizer.rewrite.chains import cost
from tracer.optimizer.rewrite.chains.contraction_order import Contraction, ContractionPlan, Tree
from tracer.optimizer.rewrite.chains.cost import Price, planned, written
from tracer.optimizer.rewrite.chains.emit import AvailableProducts, Emitter
from tracer.optimizer.rewrite.chains.product import VIEWS, Product, Reader, is_read, is_readable
from tracer.optimizer.rewrite.chains.sharing import Available, Key, Subproducts, cheapest
from tracer.optimizer.rewrite.chains.sums import rearrange_sums
from tracer.optimizer.rewrite.match.rewrite import Replacement, replace_nodes

_MAXIMUM_READERS = 8
"""Chains that may compute a shared result again."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def chains_pass(limit_bytes: int | None = None) -> Pass:
    """Return the pass; under a limit that the fastest order breaks, intermediate bytes decide."""

    def run(graph: Graph, log: PassLog) -> Graph:
        return reorder_chains(graph, log, limit_bytes=limit_bytes)

    return Pass("reorder chains", run, exact=False)


def reorder_chains(graph: Graph, log: PassLog, *, limit_bytes: int | None = None) -> Graph:
    """Compute products in the order with the fewest operations, or the fewest bytes."""
    graph = rearrange_sums(graph, log)
    trees = _Trees(graph)
    if not trees.products:
        return graph
    fastest = _reordered(trees, log, by_bytes=False)
    if limit_bytes is None or peak_bytes(fastest) <= limit_bytes:
        return fastest
    smallest_log = PassLog()
    smallest = _reordered(_Trees(graph), smallest_log, by_bytes=True)
    if peak_bytes(smallest) >= peak_bytes(fastest):
        return fastest
    log.applied[:], log.refusals[:] = smallest_log.applied, smallest_log.refusals
    return smallest


class _Trees:
    """The products of a graph, by their root."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.uses = Counter(value for node in graph.nodes for value in node.operands)
        self.uses.update(graph.outputs)
        self.outputs = set(graph.outputs)
        self.numbers: dict[Value, int] = {}
        self.products: dict[Node, Product] = {}
        self.inside: set[Node] = set()
        """Nodes of all products."""
        read: set[Node] = set()
        for root in reversed(graph.nodes):
            if root in read or not is_read(root):
                continue
            product = self.read(root)
            read.update(product.nodes)
            if product.multiplies_matrices and is_readable(product):
                self.products[root] = product
                self.inside.update(product.nodes)

    def read(self, root: Node, inlined: frozenset[Value] = frozenset()) -> Product:
        """Read one product, through the results in `inlined` although others need them too."""
        return Reader(self.uses, self.numbers, inlined).read(root)

    @cached_property
    def users(self) -> dict[Value, list[Node]]:
        """Return the nodes that read each value."""
        found: dict[Value, list[Node]] = {}
        for node in self.graph.nodes:
            for value in node.operands:
                found.setdefault(value, []).append(node)
        return found

    def is_only_multiplied(self, value: Value) -> bool:
        """Tell whether only products read a value, also through views."""
        stack = [value]
        while stack:
            value = stack.pop()
            if value in self.outputs:
                return False
            others = [user for user in self.users.get(value, ()) if user not in self.inside]
            if any(user.op not in VIEWS for user in others):
                return False
            stack.extend(user.results[0] for user in others)
        return True

    def readers(self) -> dict[Value, list[Node]]:
        """Return the roots whose products have a value as a factor."""
        found: dict[Value, list[Node]] = {}
        for root, product in self.products.items():
            for value in {factor.value for factor in product.factors}:
                found.setdefault(value, []).append(root)
        return found


@dataclass
class _Decision:
    """What happens to one product: a new order, or None to leave it."""

    product: Product
    before: Price
    after: Price
    plan: ContractionPlan | None

    @property
    def price(self) -> Price:
        """What it will cost."""
        return self.before if self.plan is None else self.after


@dataclass
class _Search:
    """Chooses orders for all products of a graph."""

    trees: _Trees
    by_bytes: bool
    available: Available = field(default_factory=Available)
    decisions: dict[Node, _Decision] = field(default_factory=dict)
    inlined: dict[Node, frozenset[Value]] = field(default_factory=dict)

    def run(self) -> None:
        """Decide on each product, then on each shared result."""
        for product in self.trees.products.values():
            key = _shared_key(product)
            if key is not None:
                self.available.add(key)
        for root, product in self.trees.products.items():
            self.decisions[root] = self.decide(product)
        if not self.by_bytes:
            self._inline_shared()

    def decide(
        self, product: Product, *, unavailable: Key | None = None, forced: bool = False
    ) -> _Decision:
        """Return the best order of a product, or none when the written one is as good."""
        before = written(product)
        if _is_plain(product) and not forced:
            return _Decision(product, before, before, None)
        contraction = Contraction(product)
        available = set(self.available.within(product)) - {_shared_key(product), unavailable}
        plan = cheapest(product, contraction, available, by_bytes=self.by_bytes)
        after = planned(product, contraction, plan)
        taken = forced or self._is_better(after, before)
        return _Decision(product, before, after, plan if taken else None)

    def _is_better(self, after: Price, before: Price) -> bool:
        if self.by_bytes:
            return (after.peak_bytes, after.flops) < (before.peak_bytes, before.flops)
        return cost.is_worthwhile(before.flops, after.flops)

    def _inline_shared(self) -> None:
        """Recompute a shared product in each of its chains if that is cheaper."""
        readers = self.trees.readers()
        for root in list(self.decisions):
            value = root.results[0]
            roots = [r for r in readers.get(value, ()) if r in self.decisions]
            if not 0 < len(roots) <= _MAXIMUM_READERS or not self.trees.is_only_multiplied(value):
                continue
            if any(self._is_squared(value, r) for r in roots):
                continue
            key = _shared_key(self.decisions[root].product)
            trial = {r: self._decide_inlined(r, value, key) for r in roots}
            old = sum(self.decisions[r].price.flops for r in (root, *roots))
            new = sum(decision.price.flops for decision in trial.values())
            if cost.is_worthwhile(old, new):
                self.decisions.update(trial)
                del self.decisions[root]
                if key is not None:
                    self.available.remove(key)
                for r in roots:
                    self.inlined[r] = self.inlined.get(r, frozenset()) | {value}
                    for factor in trial[r].product.factors:
                        known = readers.setdefault(factor.value, [])
                        known.extend([r] if r not in known else [])

    def _is_squared(self, value: Value, root: Node) -> bool:
        """Tell whether a product has a value as a factor twice, as `P @ P.T` has.

        With P = S @ A the order S @ (A @ A.T) @ S.T loses twice the digits where S takes away what
        the rows of A have in common.
        """
        factors = self.decisions[root].product.factors
        return sum(factor.value is value for factor in factors) > 1

    def _decide_inlined(self, root: Node, value: Value, key: Key | None) -> _Decision:
        inlined = self.inlined.get(root, frozenset()) | {value}
        return self.decide(self.trees.read(root, inlined), unavailable=key, forced=True)


def _is_plain(product: Product) -> bool:
    """Tell whether there is only one way to compute a product."""
    work = sum(node.op not in VIEWS for node in product.nodes)
    if len(product.factors) != 2 or work != 1 or product.scalars:
        return False
    left, right = (set(factor.labels) for factor in product.factors)
    kept = set(product.kept)
    is_whole = all(p.start == 0 and p.stride == 1 for f in product.factors for p in f.places)
    return is_whole and left - right <= kept and right - left <= kept and kept <= left | right


def _shared_key(product: Product) -> Key | None:
    """Return the key under which other chains may find a product, None for one that is scaled."""
    if product.scalars or len(product.factors) < 2:
        return None
    contraction = Contraction(product)
    return Subproducts(product, contraction).key(contraction.everything)


def _reordered(trees: _Trees, log: PassLog, *, by_bytes: bool) -> Graph:
    search = _Search(trees, by_bytes)
    search.run()
    repeated = search.available.repeated()
    for decision in search.decisions.values():
        _report(decision, log)
    chosen = search.decisions.values()
    if not repeated and not any(decision.plan for decision in chosen):
        return trees.graph
    available: AvailableProducts = {}
    replacements: dict[Node, Replacement] = {
        root: _replacement(decision, available) for root, decision in search.decisions.items()
    }
    return replace_nodes(trees.graph, replacements)


def _replacement(decision: _Decision, available: AvailableProducts) -> Replacement:
    def replace(mapping: Mapping[Value, Value]) -> tuple[Value]:
        emitter = Emitter(decision.product, mapping, available)
        found = emitter.known_result()
        if found is not None:
            return (found,)
        if decision.plan is not None:
            return (emitter.emit(decision.plan.tree),)
        root = decision.product.root
        (value,) = current_builder().copy(root, tuple([mapping[v] for v in root.operands]))
        emitter.learn(value)
        return (value,)

    return replace


def _report(decision: _Decision, log: PassLog) -> None:
    """Log what was done with a product that had a choice of orders."""
    product, before, after = decision.product, decision.before, decision.after
    subject = f"product of {len(product.factors)} factors, {product.root.types[0]}"
    if decision.plan is not None:
        log.applied.append(
            f"{subject}: {_order_text(decision.plan.tree)}, {before.flops:,} -> {after.flops:,} "
            f"operations, {before.peak_bytes:,} -> {after.peak_bytes:,} bytes between"
        )
    elif len(product.factors) > 2:
        reason = f"another order takes {after.flops:,} of {before.flops:,} operations"
        log.refuse(subject, reason, product.root.source)


def _order_text(tree: Tree) -> str:
    if isinstance(tree, int):
        return _LETTERS[tree % len(_LETTERS)]
    return f"({_order_text(tree[0])} {_order_text(tree[1])})"
