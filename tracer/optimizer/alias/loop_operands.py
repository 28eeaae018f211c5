"""Reuse operands: a loop that writes a value slice by slice begins with the operand it replaces.

Splitting makes loops that read a slice of a stored value in each trip and write a slice of a
result, which begins as zeros. Where both have one type, a trip reads and writes the same place, and
nothing reads the operand afterwards, one buffer serves both: the loop carries the operand, and each
trip writes over what it has read. XLA does so for the operands of a kernel, not for those of a
loop. (Coalescing of copies: Chaitin 1982, Budimlic et al. 2002, of buffers instead of registers.)

Values do not change. The gradient of an exact Gaussian process keeps two matrices instead of
three: each triangular solve writes over its right-hand sides.

Left alone: values below a thirty-second of the peak, donated arguments (XLA's donation pairs them
with results), operands that are read in slices along several axes, and loops whose last trip begins
early and so reads what is written over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.ops.helpers import splat_of
from tracer.optimizer.model.liveness import peak_bytes
from tracer.optimizer.model.trip_counts import integer_constant, trip_count
from tracer.optimizer.passes import Pass, PassLog
from tracer.optimizer.schedule.tasks import unplaced_ancestors

_WORTHWHILE = 32
"""Of the peak, so large a part is worth a carry of its own."""


def reused_operands_pass() -> Pass:
    """Return the pass that lets loops write over the operands that they replace."""
    return Pass("reuse operands", _with_reused)


@dataclass(frozen=True)
class _Reuse:
    """A carry of a loop that can begin as one of the loop's operands.

    Attributes
    ----------
    loop : Node
    carry, operand : int
        Positions among the loop's operands.
    reads : dict of Node to Value
        Reads of the operand behind the loop, and what they read instead.
    """

    loop: Node
    carry: int
    operand: int
    reads: dict[Node, Value]


def _with_reused(graph: Graph, log: PassLog) -> Graph:
    peak = peak_bytes(graph)
    # Many at once, so that a program of many loops is not looked at for each of them.
    most = None
    while found := [*islice(_one_of_each_loop(graph, peak // _WORTHWHILE), most)]:
        changed = _rewritten(graph, found)
        # The model may keep both: the operand as a part of something else that is still read.
        if peak_bytes(changed) > peak:
            if len(found) == 1:
                break
            most = len(found) // 2
            continue
        for reuse in found:
            operand = reuse.loop.operands[reuse.operand]
            log.applied.append(f"{operand.type} of {operand.node.name}, by a loop")
        graph = changed
    return graph


def _one_of_each_loop(graph: Graph, least: int) -> Iterator[_Reuse]:
    """Yield reuses that can be written together: of other loops, and so of other operands."""
    for _, found in groupby(_reuses(graph, least), lambda reuse: reuse.loop):
        yield next(found)


def _reuses(graph: Graph, least: int) -> Iterator[_Reuse]:
    search = _Search(graph)
    for loop in graph.nodes:
        trips = trip_count(loop)
        for carry in range(1, len(loop.operands) if trips else 0):
            if loop.operands[carry].type.nbytes < least:
                continue
            window = _written(loop, carry, trips or 0)
            if window is not None and _is_fill(loop.operands[carry]):
                yield from search.operands_for(loop, carry, window)


class _Search:
    """Looks for operands of one graph's loops that carries can begin as."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.outputs = graph, set(graph.outputs)
        self.position = {node: i for i, node in enumerate(graph.nodes)}

    def operands_for(self, loop: Node, carry: int, window: _Window) -> Iterator[_Reuse]:
        """Yield what one carry can begin as."""
        behind = self._rest(loop.results[carry], window)
        if behind is None:
            return
        for operand, value in enumerate(loop.operands):
            if value.type != loop.operands[carry].type or not self._is_free(loop, operand):
                continue
            if _is_read_where_written(loop, operand, window):
                reads = self._reads_behind(loop, operand, behind, window.axis)
                if reads is not None:
                    yield _Reuse(loop, carry, operand, reads)

    def _is_free(self, loop: Node, operand: int) -> bool:
        """Tell whether an operand is computed, and neither it nor what is handed on a result."""
        value, handed_on = loop.operands[operand], loop.results[operand]
        is_result = not self.outputs.isdisjoint((value, handed_on))
        is_read = is_result or bool(_uses(self.graph, handed_on))
        return value.node.op is not None and not _is_fill(value) and not is_read

    def _rest(self, result: Value, window: _Window) -> dict[tuple[int, int], Value] | None:
        """Follow a result of a loop until all of it is written.

        Returns
        -------
        dict of (int, int) to Value, or None
            The windows that updates behind the loop write, and what they write into; None where
            something else reads the result before, or where not all of it is written.
        """
        low, high, length = window.low, window.high, result.shape[window.axis]
        found: dict[tuple[int, int], Value] = {}
        while (low, high) != (0, length):
            readers = _uses(self.graph, result)
            if len(readers) != 1 or result in self.outputs:
                return None
            node, place = readers[0]
            if node.op is ops.optimization_barrier:
                result = node.results[place]
                continue
            if node.op is not ops.dynamic_update_slice or place != 0:
                return None
            part = node.operand_types[1].shape
            start = _constant_window(node.operands[2:], part, result, window.axis)
            if start is None or (start[1] != low and start[0] != high):
                return None
            found[start] = result
            low, high = min(low, start[0]), max(high, start[1])
            result = node.results[0]
        return found

    def _reads_behind(
        self, loop: Node, operand: int, behind: dict[tuple[int, int], Value], axis: int
    ) -> dict[Node, Value] | None:
        """Return the reads of an operand behind its loop with what they can read instead."""
        value, reads = loop.operands[operand], dict[Node, Value]()
        for node, place in _uses(self.graph, value):
            if node is loop and place == operand:
                continue
            if node.op is not ops.dynamic_slice or place != 0:
                return None
            at = _constant_window(node.operands[1:], node.types[0].shape, value, axis)
            held = None if at is None else behind.get(at)
            # What they read instead has to be there by then.
            if held is None or self.position[held.node] >= self.position[node]:
                return None
            reads[node] = held
        return reads


@dataclass(frozen=True)
class _Window:
    """What all trips of a loop write of a carry: [low, high) along an axis, no place twice."""

    update: Node
    axis: int
    low: int
    high: int


def _written(loop: Node, carry: int, trips: int) -> _Window | None:
    """Return what a loop writes of a carry, if that is one slice a trip, side by side."""
    body: Graph = loop.params["body"]
    update, inside = body.outputs[carry].node, body.inputs[carry]
    if update.op is not ops.dynamic_update_slice or update.operands[0] is not inside:
        return None
    if _uses(body, inside) != [(update, 0)] or _uses(body, update.results[0]):
        return None
    if body.outputs.count(update.results[0]) != 1 or inside in body.outputs:
        return None
    part, whole = update.operand_types[1].shape, update.types[0].shape
    axes = [axis for axis, size in enumerate(whole) if part[axis] != size]
    starts = update.operands[2:]
    if len(axes) != 1 or any(_number(x) != 0 for i, x in enumerate(starts) if i != axes[0]):
        return None
    axis = axes[0]
    first = integer_constant(loop.operands[0])
    start = _affine(starts[axis], body.inputs[0])
    if start is None or first is None or abs(start[0]) != part[axis]:
        return None
    ends = [start[0] * i + start[1] for i in (first, first + trips - 1)]
    low, high = min(ends), max(ends) + part[axis]
    return _Window(update, axis, low, high) if low >= 0 and high <= whole[axis] else None


def _is_read_where_written(loop: Node, operand: int, window: _Window) -> bool:
    """Tell whether trips read an operand only at the place that they write, before they do."""
    body: Graph = loop.params["body"]
    inside, update = body.inputs[operand], window.update
    if body.outputs[operand] is not inside or body.outputs.count(inside) != 1:
        return False
    reads = _uses(body, inside)
    shape = update.operand_types[1].shape
    needed = unplaced_ancestors(update.operands[1].node, set())
    return bool(reads) and all(
        node.op is ops.dynamic_slice
        and place == 0
        and node.types[0].shape == shape
        and _same_starts(node.operands[1:], update.operands[2:])
        and node in needed
        for node, place in reads
    )


def _rewritten(graph: Graph, reuses: Sequence[_Reuse]) -> Graph:
    known: dict[Value, Value] = {}
    of_loop = {reuse.loop: reuse for reuse in reuses}
    reads = {node: held for reuse in reuses for node, held in reuse.reads.items()}
    wanted = set(reads.values())

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        results: Sequence[Value] | None = None
        if node in of_loop:
            results = _loop(builder, of_loop[node], operands)
        elif node in reads:
            results = builder.copy(node, (known[reads[node]], *operands[1:]))
        elif wanted.intersection(node.results):
            results = builder.copy(node, operands)
        if results is not None:
            known.update(zip(node.results, results, strict=True))
        return results

    return rebuild(graph, rewrite)


def _loop(builder: Builder, reuse: _Reuse, operands: tuple[Value, ...]) -> list[Value]:
    """Write the loop with the operand in place of the carry's first value."""
    carry, operand = reuse.carry, reuse.operand
    begin = [operands[operand] if i == carry else x for i, x in enumerate(operands)]
    del begin[operand]
    params = reuse.loop.params
    results = [
        *ops.while_(
            *begin,
            condition=_without(params["condition"], carry, operand),
            body=_without(params["body"], carry, operand),
        )
    ]
    # A place for what nobody reads behind the loop.
    results.insert(operand, results[carry - (operand < carry)])
    return results


def _without(body: Graph, carry: int, operand: int) -> Graph:
    """Return a body that finds its operand in the carry."""
    with Builder() as builder:
        inputs = {
            i: builder.input(value.type, value.node.source)
            for i, value in enumerate(body.inputs)
            if i != operand
        }
        bound = [inputs[carry if i == operand else i] for i in range(len(body.inputs))]
        outputs = builder.inline(body, bound)
        if len(outputs) > 1:  # A condition has one.
            del outputs[operand]
        return builder.finish(outputs)


def _uses(graph: Graph, value: Value) -> list[tuple[Node, int]]:
    """Return the nodes that read a value, and as which operand."""
    uses = graph.users(value.node)
    return [(user, place) for user, place, index in uses if index == value.index]


def _is_fill(value: Value) -> bool:
    return (splat_of(value) or value).node.op is ops.constant


def _affine(value: Value, index: Value) -> tuple[int, int] | None:
    """Return (a, b) where a scalar is a * index + b, or None."""
    if value is index:
        return 1, 0
    number, node = _number(value), value.node
    if number is not None:
        return 0, number
    if node.op not in (ops.add, ops.subtract, ops.multiply):
        return None
    first, second = (_affine(operand, index) for operand in node.operands)
    if first is None or second is None:
        return None
    (a, b), (c, d) = first, second
    if node.op is ops.multiply:
        return (a * d + b * c, b * d) if a == 0 or c == 0 else None
    sign = 1 if node.op is ops.add else -1
    return a + sign * c, b + sign * d


def _constant_window(
    starts: Sequence[Value], shape: tuple[int, ...], whole: Value, axis: int
) -> tuple[int, int] | None:
    """Return what a slice with constant starts has along an axis, if it is whole along others."""
    numbers = [_number(start) for start in starts]
    others = [i for i in range(len(shape)) if i != axis]
    if any(numbers[i] != 0 or shape[i] != whole.shape[i] for i in others):
        return None
    start = numbers[axis]
    if start is None or not 0 <= start <= whole.shape[axis] - shape[axis]:
        return None
    return start, start + shape[axis]


def _same_starts(some: Sequence[Value], others: Sequence[Value]) -> bool:
    return all(
        x is y or (_number(x) is not None and _number(x) == _number(y))
        for x, y in zip(some, others, strict=True)
    )


def _number(value: Value) -> int | None:
    """Return the number of an integer constant, behind barriers too."""
    while value.node.op is ops.optimization_barrier:
        value = value.node.operands[value.index]
    return integer_constant(value)


__all__ = ["reused_operands_pass"]
