"""Grow a region from a seed: which nodes become virtual, which are heads, and what forbids it."""

from __future__ import annotations

from collections.abc import Set
from math import gcd

from tracer.ir import Label, Node
from tracer.ops.sink_guard import tests_floats
from tracer.optimizer.loops.split.generated import nodes_read_again
from tracer.optimizer.loops.split.grouping import LoopPlan, plan_loops
from tracer.optimizer.loops.split.region import Conflict, LargeTest, Region, Subject


def grow_region(
    subject: Subject, seed: Node, label: Label, is_large: LargeTest, shortest: int = 2
) -> Region | Conflict:
    """Grow the region of one seed along one axis, or say which use forbids it.

    Values that turn out to be needed whole are stored (they become heads) and the region is
    grown again, until nothing changes or the seed itself has to be stored. Where it meets a
    reshape that merges or splits the axis, it goes on in larger steps, but not in fewer than
    `shortest`.
    """
    kept: dict[Node, Conflict] = {}
    length = subject.steps(seed, label)
    while True:
        growth = _Growth(subject, is_large, kept.keys(), shortest)
        region = growth.grow(seed, label, length)
        if growth.length < length:
            length, kept = growth.length, {}
            continue
        # All that one attempt finds, so that a long graph does not take an attempt for each.
        found = growth.conflicts or _emission_conflicts(subject, region)
        found = found or _equality_conflicts(subject, region)
        for conflict in found:
            if conflict.node is seed or conflict.node in kept:
                return conflict
        if not found:
            region.kept.update((node, kept[node]) for node in kept if node in region.heads)
            region.extent = _extent(subject, region)
            return region
        kept.update((conflict.node, conflict) for conflict in found)


class _Growth:
    """One attempt at a region, with the nodes that are known to need storage."""

    def __init__(
        self, subject: Subject, is_large: LargeTest, kept: Set[Node], shortest: int
    ) -> None:
        self.subject = subject
        self.is_large = is_large
        self.stored = kept | subject.outputs
        self.shortest = shortest
        self.queue: list[tuple[Node, Label, bool]] = []
        self.conflicts: list[Conflict] = []

    def grow(self, seed: Node, label: Label, length: int) -> Region:
        self.length = length
        subject = self.subject
        self.region = region = Region(length, taken=subject.taken, lost=subject.lost)
        if self.subject.may_read_again:
            region.reads_again = self.is_large
        self.queue.append((seed, label, True))
        while self.queue:
            node, label, is_virtual = self.queue.pop()
            if node in region.virtual or node in region.heads:
                continue
            if is_virtual:
                region.virtual[node] = label
            is_stored = not is_virtual or node in self.stored
            is_summed = not is_stored and subject.adds_up(node, label)
            if is_stored or is_summed:
                region.heads[node] = label
            if is_summed:
                region.summed.add(node)
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
            has_slices = self.subject.has_slices(producer, produced)
            if has_slices and self._takes_steps(producer, produced):
                self.queue.append((producer, produced, True))

    def _look_down(self, node: Node, label: Label) -> Conflict | None:
        """Take every use of a virtual node into the region, or say which one forbids it."""
        rule = self.subject.rule(node)
        used_by: list[tuple[Node, Label, bool]] = []
        for user, position, index in self.subject.users(node):
            if label not in rule.results[index]:
                if label in rule.reduced:
                    continue  # It is read behind the loop.
                return Conflict(node, user, f"result {index} of {node.known_name} lacks the axis")
            used = self.subject.rule(user).operands[position][rule.results[index].index(label)]
            if used in self.subject.rule(user).whole:
                return Conflict(node, user, f"{user.known_name} needs the axis whole")
            if not self._takes_steps(user, used):
                steps = self.subject.steps(user, used)
                return Conflict(
                    node, user, f"{user.known_name} cuts the axis in {steps} blocks only"
                )
            parallel = self.subject.has_slices(user, used)
            used_by.append((user, used, parallel and self.is_large(user)))
        self.queue.extend(used_by)
        return None

    def _takes_steps(self, node: Node, label: Label) -> bool:
        """Tell whether a node can be cut in the region's steps, or will be in larger ones."""
        steps = self.subject.steps(node, label)
        if steps % self.region.length == 0:
            return True
        longer = gcd(self.length, steps)
        if longer < self.shortest:
            return False
        self.length = longer
        return True


def _extent(subject: Subject, region: Region) -> int:
    found = region.length
    for node, label in (*region.virtual.items(), *region.heads.items()):
        rule, types = subject.rule(node), (*node.types, *node.operand_types)
        for labels, type in zip((*rule.results, *rule.operands), types, strict=True):
            if label in labels:
                found = max(found, type.shape[labels.index(label)])
    return found


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
            if not region.computes_again(producer) or (axis is None and producer in region.summed):
                continue
            if axis is None and nodes_read_again(value, region):
                continue
            if axis is None:
                found.setdefault(
                    producer, Conflict(producer, node, f"{node.known_name} needs it whole")
                )
                continue
            wanted = subject.rule(producer).results[value.index][axis]
            if subject.can_cut(producer, wanted, region.length):
                stack.append((producer, wanted))
            else:
                reason = f"{producer.known_name} cannot be cut along that axis"
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
        if node.op is not None and tests_floats(node)
    ]
    if not compared:
        return []
    plan = plan_loops(subject, region)
    levels = plan.levels
    for node in compared:
        for value in node.operands:
            producer = value.node
            virtual = region.computes_again(producer)
            is_later = virtual and levels.start[node] > levels.start[producer]
            if is_later or (virtual and _meets_stored(region, plan, node, producer)):
                # One at a time: to store one changes the levels of the others.
                return [Conflict(producer, node, "another loop's result is compared with it")]
    return []


def _meets_stored(region: Region, plan: LoopPlan, node: Node, producer: Node) -> bool:
    """Tell whether a loop recomputes an operand of a test whose other one depends on a result.

    The result stored by an earlier loop came from that loop's own computation of the operand.
    """
    for loop in plan.loops:
        inside = {inner for inner, _ in loop.nodes}
        if not {node, producer} <= inside or plan.levels.start[producer] >= loop.level:
            continue
        hanging: set[Node] = set()
        for inner, _ in loop.nodes:
            read = (value.node for value in inner.operands)
            if any(n in hanging or (n in region.heads and n not in inside) for n in read):
                hanging.add(inner)
        if node in hanging:
            return True
    return False
