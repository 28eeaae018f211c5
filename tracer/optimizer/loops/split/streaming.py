"""Online softmax, derived: sums that depend on a maximum share the loop that finds it.

A sum of `exp(x - m)` along the cut axis would wait for the loop that finds `m`. With the maximum
*so far* in place of `m`, its slices can be added in that same loop: when the maximum changes by
`d`, the sum so far is multiplied by `exp(-d)`. This is Milakov & Gimelshein 2018 ("Online
normalizer calculation for softmax"), Rabe & Staats 2021 ("Self-attention does not need O(n^2)
memory") and Dao et al. 2022 ("FlashAttention"), but derived: whether a sum changes by a factor
follows from the op records on its path (`Op.response`), and where the factor does not vary follows
from the axis rules.

A value known only after the loop has a *reference* inside it: the running maximum, one (for what
divides or multiplies everything, such as softmax's sum), or zero (for what is subtracted in
addition to the maximum). After the loop the results are converted from the reference to the value,
by a factor of exactly one where they are equal. A running maximum that is infinite or NaN is
replaced by zero, so that no difference of infinities arises.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from tracer.ir import Label, Node, Value, registry
from tracer.ops.rules import is_float
from tracer.optimizer.loops.split.levels import Levels, Stream
from tracer.optimizer.loops.split.response import (
    Anchored,
    Change,
    Late,
    Lost,
    Reference,
    Refused,
    Term,
    Tied,
    combined,
    moved,
)


def find_stream(levels: Levels, head: Node, label: Label, level: int) -> Stream | None:
    """Return how a head of a level can run in a loop of an earlier one, the earliest, if it can."""
    combiner = levels.subject.rule(head).reduced.get(label)
    response = None if combiner is None else registry()[combiner].response
    adds_up = response is not None and response.signs == (1, 1)
    if not adds_up or len(head.types) != 1 or not is_float(head.types[0].dtype):
        return None
    found = None
    for candidate in sorted((n for n in levels.heads if n < level), reverse=True):
        try:
            factors = _Derivation(levels, candidate).of_head(head, label)
        except Lost:
            break  # in the loops before it, too
        if factors is not None:
            found = Stream(candidate, factors)
    return found


class _Derivation:
    """Finds the change of one head's sum when the values of later levels change."""

    def __init__(self, levels: Levels, level: int) -> None:
        self.levels = levels
        self.subject = levels.subject
        self.level = level
        self.anchors = {head for head in levels.heads[level] if _is_anchor(head, levels)}
        self.shifted: set[Value] = set()
        self.wholes: dict[tuple[Node, Label, int], Change] = {}

    def of_head(self, head: Node, label: Label) -> tuple[Term, ...] | None:
        while True:
            try:
                return self._attempt(head, label)
            except Late as late:
                # What is subtracted has the reference zero, not one.
                if late.value in self.shifted:
                    return None
                self.shifted.add(late.value)
            except Lost:
                raise
            except Refused:
                return None

    def _attempt(self, head: Node, label: Label) -> tuple[Term, ...] | None:
        changes: dict[tuple[Node, Label], Change] = {}
        for node, mark in self._in_order(head, label):
            changes[node, mark] = self._of_node(node, mark, changes)
        found = changes[head, label]
        for term in found.factors:
            known = self.levels.references.get((self.level, term.reference.value))
            if known is not None and known != term.reference:
                return None
        return found.factors or None

    def _in_order(self, head: Node, label: Label) -> list[tuple[Node, Label]]:
        """Return the slices to compute, those that others need first.

        Refusals are mostly near the head, so the walk begins there, and looks at what is
        read whole as it goes.
        """
        found = {(head, label)}
        queue = deque(found)
        self.wholes = {}
        while queue:
            node, mark = queue.popleft()
            for position, value, axis in self.subject.sliced_operands(node, mark):
                if axis is None:
                    self.wholes[node, mark, position] = self._moved(
                        node, position, self._of_whole(value)
                    )
                elif not self.levels.is_read(value.node, self.level):
                    wanted = self.subject.rule(value.node).results[value.index][axis]
                    if not self.subject.can_cut(value.node, wanted, self.levels.region.length):
                        raise Lost
                    if (value.node, wanted) not in found:
                        found.add((value.node, wanted))
                        queue.append((value.node, wanted))
        return sorted(found, key=lambda item: self.subject.position[item[0]])

    def _of_node(
        self, node: Node, label: Label, changes: dict[tuple[Node, Label], Change]
    ) -> Change:
        operands = []
        for position, value, axis in self.subject.sliced_operands(node, label):
            if axis is None:
                operands.append(self.wholes[node, label, position])
                continue
            made = self.subject.label_of(value, axis)
            change = Change()
            if made is not None:
                change = changes.get((value.node, made), change)
            operands.append(self._moved(node, position, change))
        return combined(node, operands)

    def _moved(self, node: Node, position: int, change: Change) -> Change:
        """Return the change of an operand in terms of the axes of the node's result."""
        rule, value = self.subject.rule(node), node.operands[position]
        change = self._tied(value, change)
        # An axis that goes on as a part of another one is not there.
        labels = tuple(None if x in rule.steps else x for x in rule.operands[position])
        return moved(change, value.type, labels, rule.results[0])

    def _tied(self, value: Value, change: Change) -> Change:
        """Mark an operand of a maximum: it cannot be larger than that."""
        if change.is_real:
            return change
        axes = tuple(range(value.type.ndim))
        ties = tuple(
            Tied(head.results[0], 1.0, axes) for head in self.anchors if value in head.operands
        )
        return replace(change, ties=change.ties + ties) if ties else change

    def _of_whole(self, value: Value) -> Change:
        """Return the change of a value that is read whole: from its reference to itself."""
        levels = self.levels
        if levels.is_stored_by(value, self.level):
            return Change()
        if levels.is_never_stored(value.node) or not is_float(value.dtype):
            raise Lost
        axes = tuple(range(value.type.ndim))
        anchored = self._anchored(value)
        if anchored is not None:
            return Change(shifts=(Term(Reference(value, anchored, True), 1.0, axes),))
        if value in self.shifted:
            return Change(shifts=(Term(Reference(value, None, True), 1.0, axes),))
        return Change(factors=(Term(Reference(value, None, False), 1.0, axes),))

    def _anchored(self, value: Value) -> Anchored | None:
        """Find the maximum a value is derived from, and the positions of its axes in the value."""
        seen: set[Node] = set()
        stack: list[tuple[Value, tuple[int | None, ...]]] = [(value, tuple(range(value.type.ndim)))]
        while stack:
            found, places = stack.pop()
            node = found.node
            if node in self.anchors:
                anchored = _anchored_at(found, places)
                if anchored is not None:
                    return anchored
            if node in seen or node.op is None or node in self.levels.region.heads:
                continue
            seen.add(node)
            rule = self.subject.rule(node)
            where = dict(zip(rule.results[found.index], places, strict=True))
            where = {label: place for label, place in where.items() if label not in rule.steps}
            for operand, labels in zip(node.operands, rule.operands, strict=True):
                stack.append((operand, tuple(where.get(label) for label in labels)))
        return None


def _anchored_at(maximum: Value, places: tuple[int | None, ...]) -> Anchored | None:
    sizes = zip(maximum.shape, places, strict=True)
    if any(place is None and size != 1 for size, place in sizes):
        return None
    return Anchored(maximum, places)


def _is_anchor(head: Node, levels: Levels) -> bool:
    assert head.op is not None
    label = levels.region.heads[head]
    response = head.op.response
    return (
        response is not None
        and response.bound != 0
        and label in levels.subject.rule(head).reduced
        and is_float(head.types[0].dtype)
    )


def references_of(streams: Iterable[Stream]) -> dict[Value, Reference]:
    """Return the references of a loop's heads."""
    found: dict[Value, Reference] = {}
    for stream in streams:
        found.update(stream.references)
    return found
