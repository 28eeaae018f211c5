"""Apply rules to a graph until none pays.

Rules are indexed by the op at the root of their patterns, so that each node of a program is
compared with the few rules that could stand there. A pattern is traced once for each sample of its
leaves' types; where that skeleton of ops fits, it is traced again with the types found there, and
the rule matches only if the program computes exactly this: every op, parameter, constant and type.
Of rules that compete for the same nodes the one that saves most is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from tracer.errors import TracerError
from tracer.ir import Builder, Graph, Node, Op, Value
from tracer.optimizer.expand import expand_calls
from tracer.optimizer.match.normal_form import fold_transposes, normalize_products
from tracer.optimizer.match.pricing import Candidate, Pricing
from tracer.optimizer.match.rule import Bound, Rule, Spelling
from tracer.optimizer.match.structure import Binding, bindings, root_of
from tracer.optimizer.passes import Pass, PassLog, Refusal
from tracer.optimizer.simplify import eliminate_common_subexpressions, fold_constants

RULES_PASS_NAME = "apply rules"
_MAXIMUM_ROUNDS = 16
# A pattern of commuting ops on equal operands fits in many ways that bind the same leaves.
_MAXIMUM_BINDINGS = 16


@dataclass(frozen=True)
class _Skeleton:
    rule: Rule
    pattern: Spelling
    graph: Graph


class RuleIndex:
    """Rules by the op at the root of their patterns.

    Parameters
    ----------
    rules : iterable of Rule
        The rules that may be applied.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._skeletons: dict[Op, list[_Skeleton]] = {}
        for rule in rules:
            seen = set()
            for pattern in rule.patterns:
                for types in rule.samples:
                    graph = normal_form(pattern(types, rule.sample_numbers or {}))
                    key = _shape_of(graph)
                    op = root_of(graph).node.op
                    assert op is not None, f"the pattern of {rule.name} is a variable"
                    if (pattern, key) not in seen:
                        seen.add((pattern, key))
                        skeleton = _Skeleton(rule, pattern, graph)
                        self._skeletons.setdefault(op, []).append(skeleton)

    def skeletons(self, node: Node) -> Sequence[_Skeleton]:
        """Return the patterns whose root is this node's op."""
        assert node.op is not None
        return self._skeletons.get(node.op, ())


def normal_form(graph: Graph) -> Graph:
    """Return a graph in the form in which patterns and programs are compared."""
    log = PassLog()
    graph = normalize_products(expand_calls(graph, log))
    return fold_constants(eliminate_common_subexpressions(graph, log), log)


def _shape_of(graph: Graph) -> tuple[object, ...]:
    """Return which op stands on which: patterns that agree in it have the same skeleton."""
    number = {value: i for i, value in enumerate(graph.inputs)}
    rows: list[object] = []
    for node in graph.nodes:
        rows.append((node.op, tuple([number[value] for value in node.operands])))
        for value in node.results:
            number[value] = len(number)
    return (*rows, number[graph.outputs[0]])


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
        """Return rewrites that do not stand in each other's way, the best first."""
        candidates = [
            candidate
            for node in self.graph.nodes
            for value in node.results
            for candidate in self._at(value)
        ]
        accuracy = [item for item in candidates if item.rule.purpose == "accuracy"]
        priced = [([item], self.pricing.saving([item])) for item in self._cheap(candidates)]
        paying = sorted((row for row in priced if row[1] > 0), key=lambda row: -row[1])
        chosen: list[Candidate] = []
        for group in [[item] for item in accuracy] + [group for group, _ in paying]:
            self._take(group, chosen)
        for (candidate,), saving in priced:
            if saving <= 0:
                self._refuse(candidate.rule, candidate.bound.root, "it would save nothing")
        return chosen

    def _cheap(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        return [item for item in candidates if item.rule.purpose == "cost"]

    def _take(self, group: Sequence[Candidate], chosen: list[Candidate]) -> None:
        """Add candidates unless a chosen one replaces or reads what they make superfluous."""
        dying = self.pricing.dying(group)
        roots = {candidate.bound.root for candidate in group}
        for other in chosen:
            others = self.pricing.dying([other])
            reads = {leaf.node for leaf in other.bound.leaves}
            ours = {leaf.node for candidate in group for leaf in candidate.bound.leaves}
            if other.bound.root in roots or dying & (others | reads) or others & ours:
                return
        chosen += group

    def _at(self, root: Value) -> Iterator[Candidate]:
        """Yield the rules that match at a value, each once."""
        seen = set()
        for skeleton in self.index.skeletons(root.node):
            if skeleton.rule in seen:
                continue
            for loose in islice(bindings(skeleton.graph, root, exact=False), _MAXIMUM_BINDINGS):
                candidate = self._checked(skeleton, root, loose)
                if candidate is not None:
                    seen.add(skeleton.rule)
                    yield candidate
                    break

    def _checked(self, skeleton: _Skeleton, root: Value, loose: Binding) -> Candidate | None:
        rule = skeleton.rule
        leaves = _leaves(skeleton.graph, loose)
        if leaves is None:
            return None
        bound = self._bound(skeleton, root, leaves)
        if isinstance(bound, str):
            self._refuse(rule, root, bound)
            return None
        types = tuple([leaf.type for leaf in leaves])
        for guard in rule.guards:
            reason = guard(bound)
            if reason is not None:
                self._refuse(rule, root, reason)
                return None
        if rule.at_hand is not None:
            wanted = normal_form(rule.at_hand(types, bound.numbers))
            if not self.pricing.numbering.has(wanted, leaves):
                self._refuse(rule, root, f"{root_of(wanted).node.name} is not at hand")
                return None
        return Candidate(rule, bound, normal_form(rule.replacement(types, bound.numbers)))

    def _bound(self, skeleton: _Skeleton, root: Value, leaves: tuple[Value, ...]) -> Bound | str:
        """Compare with the pattern at the types found here; a string says why it differs."""
        numbers = skeleton.rule.numbers(root)
        try:
            wanted = normal_form(skeleton.pattern(tuple([v.type for v in leaves]), numbers))
        except TracerError as error:
            return f"the pattern does not exist for these types: {error.what}"
        for exact in islice(bindings(wanted, root, exact=True), _MAXIMUM_BINDINGS):
            if _leaves(wanted, exact) == leaves:
                inner = tuple([v for k, v in exact.items() if k.node.op is not None])
                return Bound(root, leaves, numbers, inner)
        return "the ops are those of the pattern, a parameter, constant or type is not"

    def _refuse(self, rule: Rule, root: Value, reason: str) -> None:
        self.log.refuse(f"{rule.name} at {root.node.name} {root.type}", reason, root.node.source)


def _leaves(pattern: Graph, found: Binding) -> tuple[Value, ...] | None:
    """Return what the leaves are, None when the pattern does not use them all."""
    values = [found.get(value) for value in pattern.inputs]
    return None if None in values else tuple([value for value in values if value is not None])


def _replaced(graph: Graph, chosen: Sequence[Candidate]) -> Graph:
    by_root: Mapping[Value, Candidate] = {item.bound.root: item for item in chosen}
    mapping: dict[Value, Value] = {}
    with Builder() as builder:
        for value in graph.inputs:
            mapping[value] = builder.input(value.type, value.node.source)
        for node in graph.nodes:
            builder.source = node.source
            results = builder.copy(node, tuple([mapping[value] for value in node.operands]))
            mapping.update(zip(node.results, results, strict=True))
            for value in node.results:
                if value in by_root:
                    mapping[value] = _emitted(builder, by_root[value], mapping)
    return builder.finish([mapping[value] for value in graph.outputs])


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
