"""Grow a region from a seed: which nodes become virtual, which are heads, and what forbids it."""

from __future__ import annotations

from collections.abc import Set

from tracer.ir import AxisRule, Label, Node
from tracer.ops.rules import is_inexact
from tracer.optimizer.split.levels import plan_loops
from tracer.optimizer.split.region import Conflict, LargeTest, Region, Subject


def grow_region(
    subject: Subject, seed: Node, label: Label, is_large: LargeTest
) -> Region | Conflict:
    """Grow the region of one seed along one axis, or say which use forbids it.

    Values that turn out to be needed whole are stored (they become heads) and the region is
    grown again, until nothing changes or the seed itself has to be stored.
    """
    kept: dict[Node, Conflict] = {}
    while True:
        growth = _Growth(subject, is_large, kept.keys())
        region = growth.grow(seed, label)
        # All that one attempt finds, so that a long graph does not take an attempt for each.
        found = growth.conflicts or _emission_conflicts(subject, region)
        found = found or _equality_conflicts(subject, region)
        for conflict in found:
            if conflict.node is seed or conflict.node in kept:
                return conflict
        if not found:
            region.kept.update((node, kept[node]) for node in kept if node in region.heads)
            return region
        kept.update((conflict.node, conflict) for conflict in found)


class _Growth:
    """One attempt at a region, with the nodes that are known to need storage."""

    def __init__(self, subject: Subject, is_large: LargeTest, kept: Set[Node]) -> None:
        self.subject = subject
        self.is_large = is_large
        self.stored = kept | subject.outputs
        self.queue: list[tuple[Node, Label, bool]] = []
        self.conflicts: list[Conflict] = []

    def grow(self, seed: Node, label: Label) -> Region:
        self.region = region = Region(_label_size(self.subject.rule(seed), seed, label))
        self.queue.append((seed, label, True))
        while self.queue:
            node, label, is_virtual = self.queue.pop()
            if node in region.virtual or node in region.heads:
                continue
            if is_virtual:
                region.virtual[node] = label
            if not is_virtual or node in self.stored:
                region.heads[node] = label
            self._look_up(node, label)
            if is_virtual and node not in self.stored:
                conflict = self._look_down(node, label)
                if conflict is not None:
                    self.conflicts.append(conflict)
        return region

    def _look_up(self, node: Node, label: Label) -> None:
        """Make large producers of the slice virtual too."""
        for _, value, axis in self.subject.sliced_operands(node, label):
            producer = value.node
            if axis is None or producer.op is None or not self.is_large(producer):
                continue
            rule = self.subject.rule(producer)
            produced = rule.results[value.index][axis]
            if rule.is_parallel(produced):
                self.queue.append((producer, produced, True))

    def _look_down(self, node: Node, label: Label) -> Conflict | None:
        """Take every use of a virtual node into the region, or say which one forbids it."""
        rule = self.subject.rule(node)
        used_by: list[tuple[Node, Label, bool]] = []
        for user, position, index in self.subject.users(node):
            if label not in rule.results[index]:
                return Conflict(node, user, f"result {index} of {node.name} lacks the axis")
            used = self.subject.rule(user).operands[position][rule.results[index].index(label)]
            if used in self.subject.rule(user).whole:
                return Conflict(node, user, f"{user.name} needs the axis whole")
            parallel = self.subject.rule(user).is_parallel(used)
            used_by.append((user, used, parallel and self.is_large(user)))
        self.queue.extend(used_by)
        return None


def _label_size(rule: AxisRule, node: Node, label: Label) -> int:
    for labels, type in zip(rule.results, node.types, strict=True):
        if label in labels:
            return type.shape[labels.index(label)]
    raise AssertionError("a seed's label stands in its results")


def _emission_conflicts(subject: Subject, region: Region) -> list[Conflict]:
    """Return where virtual values are needed whole or cannot be cut as needed."""
    found: dict[Node, Conflict] = {}
    seen: set[tuple[Node, Label]] = set()
    stack = list(region.heads.items())
    while stack:
        node, label = stack.pop()
        if (node, label) in seen:
            continue
        seen.add((node, label))
        for _, value, axis in subject.sliced_operands(node, label):
            producer = value.node
            if producer not in region.virtual or producer in region.heads:
                continue
            if axis is None:
                found.setdefault(producer, Conflict(producer, node, f"{node.name} needs it whole"))
                continue
            wanted = subject.rule(producer).results[value.index][axis]
            if subject.rule(producer).is_parallel(wanted):
                stack.append((producer, wanted))
            else:
                reason = f"{producer.name} cannot be cut along that axis"
                found.setdefault(producer, Conflict(producer, node, reason))
    return list(found.values())


def _equality_conflicts(subject: Subject, region: Region) -> list[Conflict]:
    """Return where a recomputed value is compared for equality with an earlier loop's.

    Two loops may round a value differently in its last digit, and then `x == max(x)`, the heart
    of a maximum's gradient, holds nowhere. Within one loop both sides see the same value.
    """
    compared = [
        node
        for node in (*region.virtual, *region.heads)
        if node.op is not None
        and node.op.tests_equality(**node.params)
        and is_inexact(node.operand_types[0].dtype)
    ]
    if not compared:
        return []
    levels = plan_loops(subject, region).levels
    for node in compared:
        for value in node.operands:
            producer = value.node
            virtual = producer in region.virtual and producer not in region.heads
            if virtual and levels.start[node] > levels.start[producer]:
                # One at a time: to store one changes the levels of the others.
                return [Conflict(producer, node, "another loop's result is compared with it")]
    return []
