"""Apply rules to a graph until none pays.

Rules are indexed by the root op of their patterns, so each node of a program is compared with only
the few rules that could match it (see `skeleton`). Of rules that compete for the same nodes, the
one that saves most wins. Of two that need no price (for accuracy, say), the one that matches more
wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tracer.errors import TracerError
from tracer.ir import Builder, Graph, Node, Op, Value, current_builder
from tracer.optimizer.passes import Pass, PassLog, Refusal
from tracer.optimizer.rewrite.match.normal_form import fold_transposes
from tracer.optimizer.rewrite.match.pricing import Candidate, Pricing
from tracer.optimizer.rewrite.match.rewrite import Replacement, replace_nodes
from tracer.optimizer.rewrite.match.rule import Rule
from tracer.optimizer.rewrite.match.skeleton import Skeleton, normal_form, skeletons
from tracer.optimizer.rewrite.match.structure import root_of

RULES_PASS_NAME = "apply rules"
_MAXIMUM_ROUNDS = 16


class RuleIndex:
    """Rules by the op at the root of their patterns.

    Parameters
    ----------
    rules : iterable of Rule
        The rules that may be applied.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._entries: dict[Op, list[tuple[Rule, Skeleton]]] = {}
        for rule in rules:
            for skeleton in skeletons(rule.patterns, rule.samples, rule.sample_numbers):
                self._entries.setdefault(skeleton.op, []).append((rule, skeleton))

    def entries(self, node: Node) -> Sequence[tuple[Rule, Skeleton]]:
        """Return the patterns whose root is this node's op, with their rules."""
        assert node.op is not None
        return self._entries.get(node.op, ())


def rules_pass(rules: Sequence[Rule]) -> Pass:
    """Return the pass that applies these rules."""
    index = RuleIndex(rules)
    return Pass(RULES_PASS_NAME, lambda graph, log: apply_rules(graph, index, log), exact=False)


def apply_rules(graph: Graph, index: RuleIndex, log: PassLog) -> Graph:
    """Rewrite a graph by rules; the same graph when none applies."""
    result = normal_form(graph)
    refusals: dict[Refusal, None] = {}
    changed = False
    for _ in range(_MAXIMUM_ROUNDS):
        found = PassLog()
        chosen = _Round(result, index, found).choose()
        refusals.update(dict.fromkeys(found.refusals))
        if not chosen:
            break
        changed = True
        log.applied += [_applied(candidate) for candidate in chosen]
        result = normal_form(_replaced(result, chosen))
    log.refusals += refusals
    return fold_transposes(result) if changed else graph


def _applied(candidate: Candidate) -> str:
    root = candidate.bound.root
    return f"{candidate.rule.name}: {root.node.name} {root.type}"


class _Round:
    """One look at all nodes of a graph."""

    def __init__(self, graph: Graph, index: RuleIndex, log: PassLog) -> None:
        self.graph, self.index, self.log = graph, index, log
        self.pricing = Pricing(graph)

    def choose(self) -> list[Candidate]:
        """Return rewrites that do not conflict, the best first."""
        candidates = [
            candidate
            for node in self.graph.nodes
            for value in node.results
            for candidate in self._at(value)
        ]
        guarded = [item for item in candidates if item.rule.purpose != "cost"]
        guarded.sort(key=lambda item: -len(item.bound.inner))
        taken = _Taken(self.pricing)
        for candidate in guarded:
            taken.add([candidate])
        cheaper = [item for item in candidates if item.rule.purpose == "cost"]
        for group in self._paying(cheaper):
            taken.add(group)
        return taken.candidates

    def _paying(self, candidates: Sequence[Candidate]) -> list[list[Candidate]]:
        """Return what saves work, the most first: single rewrites, then some only together.

        Two that replace all users of an expensive value save it together, while one alone would
        have to leave it.
        """
        single = [([item], self.pricing.saving([item])) for item in candidates]
        paying = [row for row in single if row[1] > 0]
        others = [group[0] for group, saving in single if saving <= 0]
        for group in _sharing(others):
            saving = self.pricing.saving(group)
            if saving > 0:
                paying.append((group, saving))
            else:
                for item in group:
                    self._refuse(item.rule, item.bound.root, "it would save nothing")
        return [group for group, _ in sorted(paying, key=lambda row: -row[1])]

    def _at(self, root: Value) -> Iterator[Candidate]:
        """Yield the rules that match at a value, each once."""
        seen = set()
        for rule, skeleton in self.index.entries(root.node):
            for leaves in () if rule in seen else skeleton.loose_leaves(root):
                candidate = self._checked(rule, skeleton, root, leaves)
                if isinstance(candidate, Candidate):
                    seen.add(rule)
                    yield candidate
                    break
                self._refuse(rule, root, candidate)

    def _checked(
        self, rule: Rule, skeleton: Skeleton, root: Value, leaves: tuple[Value, ...]
    ) -> Candidate | str:
        """Return what the rule would do here; a string says why it does not apply."""
        try:
            bound = skeleton.bound(root, leaves, rule.numbers(root))
        except (TracerError, IndexError):  # a.shape[1] of a vector is an IndexError
            return "the pattern does not exist for these types"
        if bound is None:
            return "the ops are those of the pattern, a parameter, constant or type is not"
        types = tuple([leaf.type for leaf in leaves])
        for guard in rule.guards:
            reason = guard(bound)
            if reason is not None:
                return reason
        if rule.at_hand is not None:
            wanted = rule.at_hand(types, bound.numbers)
            if not self.pricing.numbering.has(wanted, leaves):
                return f"{root_of(wanted).node.name} of it is not in the program"
        try:
            replacement = rule.replacement(types, bound.numbers)
        except TracerError:
            return "the replacement does not exist for these types"
        if replacement.outputs[0].type is not root.type:
            return f"the replacement would be {replacement.outputs[0].type}"
        return Candidate(rule, bound, replacement)

    def _refuse(self, rule: Rule, root: Value, reason: str) -> None:
        self.log.refuse(f"{rule.name} at {root.node.name} {root.type}", reason, root.node.source)


class _Taken:
    """Rewrites that are applied in one round, none of which spoils another's price."""

    def __init__(self, pricing: Pricing) -> None:
        self.candidates: list[Candidate] = []
        self._pricing = pricing
        self._dying: set[Node] = set()
        self._read: set[Node] = set()
        self._roots: set[Value] = set()

    def add(self, group: Sequence[Candidate]) -> None:
        """Take a group unless a taken one replaces or reads what it makes superfluous."""
        dying = self._pricing.dying(group)
        roots = {item.bound.root for item in group}
        read = {leaf.node for item in group for leaf in item.bound.leaves}
        if roots & self._roots or dying & (self._dying | self._read) or read & self._dying:
            return
        self.candidates += group
        self._dying |= dying
        self._read |= read
        self._roots |= roots


def _sharing(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Group candidates that match some of the same nodes, one candidate for each root."""
    groups: list[tuple[set[Node], list[Candidate]]] = []
    roots: set[Value] = set()
    for item in candidates:
        if item.bound.root in roots:
            continue
        roots.add(item.bound.root)
        nodes, together = {value.node for value in item.bound.inner}, [item]
        for other in [group for group in groups if group[0] & nodes]:
            groups.remove(other)
            nodes, together = nodes | other[0], other[1] + together
        groups.append((nodes, together))
    return [together for _, together in groups]


def _replaced(graph: Graph, chosen: Sequence[Candidate]) -> Graph:
    by_root = {item.bound.root: item for item in chosen}

    def replacement(node: Node) -> Replacement:
        def emit(mapping: Mapping[Value, Value]) -> Sequence[Value]:
            builder = current_builder()
            kept = builder.copy(node, tuple([mapping[value] for value in node.operands]))
            return [
                _emitted(builder, by_root[old], mapping) if old in by_root else new
                for old, new in zip(node.results, kept, strict=True)
            ]

        return emit

    return replace_nodes(graph, {root.node: replacement(root.node) for root in by_root})


def _emitted(builder: Builder, item: Candidate, mapping: Mapping[Value, Value]) -> Value:
    """Write a replacement; its nodes get the user's line of what they replace."""
    leaves = [mapping[value] for value in item.bound.leaves]
    inner = dict(zip(item.replacement.inputs, leaves, strict=True))
    for node in item.replacement.nodes:
        assert node.op is not None
        result = builder.add(node.op, tuple([inner[v] for v in node.operands]), node.params)
        results = result if isinstance(result, tuple) else (result,)
        inner.update(zip(node.results, results, strict=True))
    return inner[item.replacement.outputs[0]]
