"""Gradients of extremes that one cut cannot serve are computed apart: the pass.

The gradient of a maximum compares the matrix with its maximum. Slices that are computed again may
differ in their last digit from those that the maximum came of, so *split* never compares the two:
where the weight of the gradient waits for the whole maximum (`d.min(1).max()`), or where extremes
along several axes are wanted (`d.min(1).sum() + d.min(0).sum()`), it stores the matrix. Here each
such gradient gets a copy of the matrix, in which the extreme is found once more
(`contexts.py`). Extremes over all axes are taken in two stages (`stages.py`).

Sums over the gradient are taken for each extreme and added, so they round differently, and infinite
factors of a matrix may give NaN (0 * infinity) where they met the sum of two gradients before.
"""

from __future__ import annotations

from collections.abc import Collection

from tracer.ir import Graph, Node, Value
from tracer.ops.sink_guard import tests_floats
from tracer.optimizer.loops.extremes.contexts import Contexts, NotLinear
from tracer.optimizer.loops.extremes.pattern import ExtremeGradient, LargeTest, find_gradients
from tracer.optimizer.loops.extremes.stages import in_stages
from tracer.optimizer.loops.split.chunk import SplitSettings
from tracer.optimizer.loops.split.grow import grow_region
from tracer.optimizer.loops.split.region import Conflict, Subject
from tracer.optimizer.passes import Pass, PassLog

# Tests are booleans, a fourth of what they compare: sizes count as if all were 32 bit numbers.
_ITEM_BYTES = 4


def separate_extremes_pass(settings: SplitSettings) -> Pass:
    """Return the pass that computes gradients of extremes apart, so that *split* can cut them."""
    return Pass(
        "separate extremes",
        lambda graph, log: _separated(graph, settings, log),
        exact=False,
        bodies=False,
    )


def _separated(graph: Graph, settings: SplitSettings, log: PassLog) -> Graph:
    def is_large(node: Node) -> bool:
        return max(type.nbytes for type in node.types) > settings.threshold_bytes

    def is_copied(node: Node) -> bool:
        return max(type.size for type in node.types) * _ITEM_BYTES > settings.threshold_bytes

    stuck = _stuck(graph, is_large, is_copied)
    if not stuck:
        return graph
    staged = in_stages(graph, stuck, settings.budget_bytes)
    if staged is not graph:
        stuck = _stuck(staged, is_large, is_copied)
    waiting = _dependent(staged, is_copied)
    gradients = [(gradient, gradient.weight in waiting) for gradient in stuck]
    try:
        separated = Contexts(staged, gradients, is_copied).separated()
    except NotLinear as reason:
        log.refuse("gradients of extremes", str(reason), reason.node.source)
        return graph
    log.applied.extend(f"{g.extreme.name} of {g.operand.type} over {g.axes}" for g in stuck)
    return separated


def _stuck(graph: Graph, is_large: LargeTest, is_copied: LargeTest) -> list[ExtremeGradient]:
    subject = Subject(graph)
    return [g for g in find_gradients(subject, is_copied) if _is_stuck(subject, g, is_large)]


def _is_stuck(subject: Subject, gradient: ExtremeGradient, is_large: LargeTest) -> bool:
    """Tell whether a test for equality forbids every cut of what the extreme is taken of."""
    node, met = gradient.operand.node, False
    if node.op is None or not is_large(node):
        return False
    for label in subject.rule(node).results[gradient.operand.index]:
        if not subject.rule(node).is_parallel(label) or subject.steps(node, label) < 2:
            continue
        region = grow_region(subject, node, label, is_large)
        conflicts = [region] if isinstance(region, Conflict) else [*region.kept.values()]
        tests = [c for c in conflicts if c.user is not None and tests_floats(c.user)]
        if not tests:
            return False
        met = True
    return met


def _dependent(graph: Graph, is_copied: LargeTest) -> Collection[Value]:
    """Return the values that are computed from large ones."""
    found: set[Value] = set()
    for node in graph.nodes:
        if is_copied(node) or any(value in found for value in node.operands):
            found.update(node.results)
    return found


__all__ = ["separate_extremes_pass"]
