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

from tracer import ops
from tracer.ir import Graph, Node, Value
from tracer.ops.sink_guard import tests_floats
from tracer.optimizer.loops.extremes.contexts import Contexts, NotLinear
from tracer.optimizer.loops.extremes.pattern import ExtremeGradient, LargeTest, find_gradients
from tracer.optimizer.loops.extremes.stages import MUCH_LONGER, axis_between, in_stages
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
    )


def _separated(graph: Graph, settings: SplitSettings, log: PassLog) -> Graph:
    def is_large(node: Node) -> bool:
        return max(type.nbytes for type in node.types) > settings.threshold_bytes

    def is_copied(node: Node) -> bool:
        return max(type.size for type in node.types) * _ITEM_BYTES > settings.threshold_bytes

    stuck = _stuck(graph, is_large, is_copied)
    if not stuck:
        return graph
    staged = in_stages(graph, stuck)
    if staged is not graph:
        stuck = _stuck(staged, is_large, is_copied)
    gradients = [(g, _waits(staged, g, is_copied)) for g in stuck]
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
    """Tell whether tests for equality forbid the cuts that a copy would allow.

    Those along the axes that the extreme keeps, or leaves between two stages; unless there is an
    axis to cut that is not much shorter.
    """
    value = gradient.operand
    if value.node.op is None or not is_large(value.node):
        return False
    free, forbidden = 1, 1
    stage = axis_between(gradient)
    for axis, size in enumerate(value.shape):
        cut = _cut(subject, value, axis, is_large) if size > 1 else None
        if cut:
            free = max(free, size)
        elif cut is False and (axis not in gradient.axes or axis == stage):
            forbidden = max(forbidden, size)
    return forbidden > 1 and (free == 1 or forbidden > MUCH_LONGER * free)


def _cut(subject: Subject, value: Value, axis: int, is_large: LargeTest) -> bool | None:
    """Tell whether a value can be cut along an axis; False where a test forbids it."""
    label = subject.rule(value.node).results[value.index][axis]
    if not subject.rule(value.node).is_parallel(label):
        return None
    region = grow_region(subject, value.node, label, is_large)
    conflicts = [region] if isinstance(region, Conflict) else [*region.kept.values()]
    if any(c.user is not None and tests_floats(c.user) for c in conflicts):
        return False
    return None if isinstance(region, Conflict) else True


def _waits(graph: Graph, gradient: ExtremeGradient, is_copied: LargeTest) -> bool:
    """Tell whether a gradient, or what is computed from it, waits for a loop over large values.

    The extreme itself would come of an earlier loop then, so it has to be found again.
    """
    late: set[Value] = set()
    """What is computed from large values and small, and large values that read such."""
    reached: set[Node] = set()
    for node in graph.nodes:
        if node in gradient.weights:
            if gradient.weights[node] in late:
                return True
            reached.add(node)
        elif any(value.node in reached for value in node.operands):
            if node.op is not ops.add and any(v in late for v in node.operands):
                return True
            if is_copied(node):
                reached.add(node)
                continue
        is_small = not is_copied(node) and any(is_copied(v.node) for v in node.operands)
        if is_small or any(value in late for value in node.operands):
            late.update(node.results)
    return False


__all__ = ["separate_extremes_pass"]
