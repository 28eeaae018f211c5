"""Write one loop of a region: its body, its carries and the remainder.

A remainder is a second program of the whole body, as long to compile. So where trips only write
their results, the last one begins early instead, and writes what overlaps a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from tracer import ops
from tracer.ir import Builder, Chunk, Graph, Label, Node, ShapeDtype, Value
from tracer.ops.rules import as_tuple
from tracer.optimizer.loops.split.carry import (
    Resolve,
    fold_parts,
    initial_carries,
    multiple,
    slice_starts,
    state_types,
)
from tracer.optimizer.loops.split.generated import generated_nodes, nodes_read_again
from tracer.optimizer.loops.split.grouping import Loop
from tracer.optimizer.loops.split.region import Region, Subject, merge_of
from tracer.optimizer.loops.split.rescale import reference_value, rescaled
from tracer.optimizer.loops.split.streaming import references_of

# The last trip computes at most this part of the axis again.
_MOST_AGAIN = 32

Transform = Callable[[Graph, Loop], Graph]
"""Rewrites the body of a loop."""


@dataclass(frozen=True)
class Emitted:
    """A loop as it was written into the graph.

    `reads` cut the remainder's slices, or give the carries their initial values. The `remainder` is
    negative where the last trip begins early, by so many steps.
    """

    loop: Loop
    body: Graph
    trips: int
    chunk: int
    remainder: int
    combiners: tuple[str, ...]
    reads: frozenset[Node]


class SliceEmitter:
    """Writes the computation of one slice of a loop into the current builder."""

    def __init__(self, subject: Subject, region: Region, loop: Loop) -> None:
        self.subject = subject
        self.region = region
        self.loop = loop
        self.reads: list[Node] = []
        self.references = references_of(loop.streams.values())
        self.counts = [len(state_types(subject, head, label)) for head, label in loop.heads.items()]

    @property
    def combiners(self) -> tuple[str, ...]:
        """How each head's results are assembled: "write", or the op that accumulates them."""
        return tuple(
            self.subject.rule(head).reduced.get(label, "write")
            + (", rescaled" if head in self.loop.streams else "")
            for head, label in self.loop.heads.items()
        )

    def states(self, carries: Sequence[Value]) -> dict[Node, tuple[Value, ...]]:
        """Cut a loop's carries into the states of its heads."""
        left = iter(carries)
        return {
            head: tuple(islice(left, count))
            for head, count in zip(self.loop.heads, self.counts, strict=True)
        }

    def emit(
        self, builder: Builder, start: Value, size: int, outer: Resolve, carries: list[Value]
    ) -> list[Value]:
        """Compute the slice [start, start + size) and fold it into the carries.

        Parameters
        ----------
        builder : Builder
            Where the nodes go.
        start : Value
            First step, a scalar int32 or int64.
        size : int
            Steps of the slice.
        outer : callable
            Gives the value, in this builder, of a value that is stored outside of the loop.
        carries : list of Value
            The states of the heads so far.

        Returns
        -------
        list of Value
            The new carries.
        """
        self.builder, self.start, self.size, self.outer = builder, start, size, outer
        self.reads = []
        self.generated: set[Node] = set()
        self.starts: dict[int, Value] = {1: start}
        self.slices: dict[tuple[Node, Label], tuple[Value, ...]] = {}
        self.before = self.states(carries)
        self.after: dict[Node, tuple[Value, ...]] = {}
        for node, label in self.loop.nodes:
            builder.source = node.source
            if self.loop.heads.get(node) == label:
                self.after[node] = self._fold(node, label)
            else:
                self._emit_slice(node, self._chunk(node, label))
        return [value for head in self.loop.heads for value in self.after[head]]

    def _chunk(self, node: Node, label: Label) -> Chunk:
        assert node.op is not None
        rule = self.subject.rule(node)
        start, size = self._share(self.subject.steps(node, label))
        return Chunk(node.op, label, start, size, node.operand_types, node.types, rule)

    def _share(self, length: int) -> tuple[Value, int]:
        """Return the start and length of the slice on an axis of this length."""
        block = length // self.region.length
        if block not in self.starts:
            self.starts[block] = multiple(self.start, block)
        return self.starts[block], block * self.size

    def _fold(self, head: Node, label: Label) -> tuple[Value, ...]:
        """Add a slice's part to the state of a head."""
        chunk, state = self._chunk(head, label), self.before[head]
        merge = merge_of(self.subject, head, label)
        if merge is not None:
            operands = self._operands(head, label, merge.replaced)
            return merge.fold(state, operands, chunk, **head.params)
        parts = self._emit_slice(head, chunk)
        stream = self.loop.streams.get(head)
        if stream is not None:
            state = (rescaled(state[0], stream.factors, self._running_before, self._running),)
        return fold_parts(self.subject, head, chunk, state, parts)

    def _running_before(self, value: Value) -> Value:
        return self.before[value.node][value.index]

    def _running(self, value: Value) -> Value:
        return self.after[value.node][value.index]

    def _emit_slice(self, node: Node, chunk: Chunk) -> tuple[Value, ...]:
        results = chunk.op.slice(self._operands(node, chunk.label), chunk, **node.params)
        self.slices[node, chunk.label] = as_tuple(results)
        return self.slices[node, chunk.label]

    def _operands(
        self, node: Node, label: Label, replaced: tuple[int, ...] = ()
    ) -> tuple[Value | None, ...]:
        operands: list[Value | None] = []
        for position, value, axis in self.subject.sliced_operands(node, label):
            key = (value.node, self.subject.label_of(value, axis)) if axis is not None else None
            if position in replaced:
                operands.append(None)
            elif value in self.references and axis is None:
                operands.append(reference_value(self.references[value], self._running))
            elif axis is None:
                operands.append(self.outer(value))
            elif key in self.slices:
                operands.append(self.slices[key][value.index])
            else:
                operands.append(self._slice_of(value, axis))
        return tuple(operands)

    def _slice_of(self, value: Value, axis: int) -> Value:
        """Return the slice of a value that is stored outside of the loop, or generated.

        Of what is generated from small values that are read, such as labels, the slice alone is:
        XLA would compute the whole in front of the loop, as it is the same in each trip, and keep
        it. What is generated from nothing, such as a causal mask, serves other loops too: kept
        whole, a transformer's gradient took 0.65 of the time.
        """
        node, made = value.node, set(generated_nodes(value, self.region))
        reads = any(operand.node not in made for inner in made for operand in inner.operands)
        if reads or node in self.generated:
            self.generated |= made
            label = self.subject.rule(node).results[value.index][axis]
            if self.subject.can_cut(node, label, self.region.length):
                return self._emit_slice(node, self._chunk(node, label))[value.index]
        return self._slice_stored(self.outer(value), axis)

    def _slice_stored(self, value: Value, axis: int) -> Value:
        start, size = self._share(value.shape[axis])
        sizes = value.type.resized(axis, size).shape
        starts = slice_starts(start, value, axis)
        part: Value = ops.dynamic_slice(value, *starts, sizes=sizes)
        self.reads.append(part.node)
        return part


def emit_loop(
    builder: Builder,
    emitter: SliceEmitter,
    chunk: int,
    outer: Resolve,
    transform: Transform,
) -> tuple[list[Value], Emitted]:
    """Write a loop over slices of `chunk` steps, and the remainder after it.

    Every element that is summed or merged is computed exactly once.

    Returns
    -------
    list of Value
        The final states of the heads.
    Emitted
    """
    loop, length = emitter.loop, emitter.region.length
    trips, remainder = divmod(length, chunk)
    overlap = overlapping(emitter.subject, loop, length, chunk)
    if overlap:
        trips, remainder = trips + 1, -overlap
    before = len(builder.nodes)
    carries = initial_carries(builder, emitter.subject, loop, outer)
    reads = set(builder.nodes[before:])
    builder.source = next(iter(loop.heads)).source
    body, invariants = build_body(emitter, carries, chunk, length)
    body = transform(body, loop)
    operands = [
        ops.constant(value=np.zeros((), body.inputs[0].dtype)),
        *carries,
        *(outer(value) for value in invariants),
    ]
    results = ops.while_(*operands, condition=_build_condition(body, trips), body=body)
    carries = list(results[1 : 1 + len(carries)])
    if remainder > 0:
        first = 0 if loop.is_backward else trips * chunk
        start = ops.constant(value=np.array(first, _index_dtype(emitter.region.extent)))
        start, carries = behind(start, carries)
        again = _reading_again(builder, emitter.region, outer)
        carries = emitter.emit(builder, start, remainder, again, carries)
        reads.update(emitter.reads)
    combiners, pieces = emitter.combiners, frozenset(reads)
    return carries, Emitted(loop, body, trips, chunk, remainder, combiners, pieces)


def overlapping(subject: Subject, loop: Loop, length: int, chunk: int) -> int:
    """Return how many steps early the last trip begins, so that no remainder follows.

    0 where one follows or is not needed: where results are added up or merged, and where that is
    much to compute again.
    """
    overlap = -length % chunk
    return overlap if only_writes(subject, loop) and overlap * _MOST_AGAIN <= length else 0


def only_writes(subject: Subject, loop: Loop) -> bool:
    """Tell whether all trips of a loop do is to write slices of its results."""
    heads = loop.heads.items()
    return not loop.streams and all(
        label not in subject.rule(head).reduced for head, label in heads
    )


def evened(subject: Subject, loop: Loop, length: int, chunk: int, aligned: int) -> int:
    """Return a smaller slice size, if trips of it overlap little and those of `chunk` do not.

    It is at least three quarters of `chunk`. A remainder takes as long to compile as the trips.

    Parameters
    ----------
    subject : Subject
    loop : Loop
    length : int
        Steps of all trips.
    chunk : int
        The slice size that was chosen.
    aligned : int
        Sizes that divide by it are not given up: others took 1.4 times as long in a search for
        neighbours (84 rows a trip for 96).
    """
    step = 1 if chunk % aligned else aligned
    least, most = -(-length // chunk), -(-4 * length // (3 * chunk))
    for trips in range(least, most + 1):
        even = -(-length // trips)
        size = min(chunk, even + -even % step)
        if 4 * size < 3 * chunk:
            break
        if length % size == 0 or overlapping(subject, loop, length, size):
            return size
    return chunk


def behind(start: Value, carries: Sequence[Value]) -> tuple[Value, list[Value]]:
    """Return where the remainder begins, known only when the loop has ended, and its results.

    XLA would be free to compute the remainder first, and to keep what it stores while the loop
    runs. (It knows the last value of the loop's index, so that ties nothing.)
    """
    least = min(range(len(carries)), key=lambda i: carries[i].type.nbytes)
    start, tied = ops.optimization_barrier(start, carries[least])
    return start, [*carries[:least], tied, *carries[least + 1 :]]


def _index_dtype(length: int) -> type[np.signedinteger]:
    return np.int32 if length < 2**31 else np.int64


def build_body(
    emitter: SliceEmitter, carries: list[Value], chunk: int, length: int
) -> tuple[Graph, list[Value]]:
    """Build the body: (index, *carries, *invariants) -> the same."""
    invariants: dict[Value, Value] = {}
    with Builder() as body:
        body.source = carries[0].node.source
        index = body.input(ShapeDtype((), _index_dtype(emitter.region.extent)))
        inner = [body.input(value.type, value.node.source) for value in carries]

        def outer(value: Value) -> Value:
            if value not in invariants:
                node = value.node
                if node.op is not None and not node.operands and node.types[0].ndim == 0:
                    # A scalar constant is cheaper to write again than to carry.
                    invariants[value] = body.copy(node, ())[0]
                elif nodes := generated_nodes(value, emitter.region):
                    _copy_generated(body, nodes, invariants, outer)
                else:
                    invariants[value] = body.input(value.type, node.source)
            return invariants[value]

        start = ops.multiply(index, ops.constant(value=np.array(chunk, index.dtype)))
        last = ops.constant(value=np.array(length - chunk, index.dtype))
        if overlapping(emitter.subject, emitter.loop, length, chunk):
            start = ops.minimum(start, last)
        if emitter.loop.is_backward:
            start = ops.subtract(last, start)
        folded = emitter.emit(body, start, chunk, outer, inner)
        one = ops.constant(value=np.ones((), index.dtype))
        carried = [v for v, inside in invariants.items() if inside.node.op is None]
        graph = body.finish([ops.add(index, one), *folded, *(invariants[v] for v in carried)])
    return graph, carried


def _copy_generated(
    body: Builder, nodes: Sequence[Node], known: dict[Value, Value], outer: Resolve
) -> None:
    """Compute in a body what makes a large value; `known` gets the results."""
    for node in nodes:
        if node.results[0] not in known:
            results = body.copy(node, tuple(map(outer, node.operands)))
            known.update(zip(node.results, results, strict=True))


def _reading_again(builder: Builder, region: Region, outer: Resolve) -> Resolve:
    """Return what gives values to the remainder: those that bodies read again are nowhere else."""
    known: dict[Value, Value] = {}

    def found(value: Value) -> Value:
        if value in known:
            return known[value]
        nodes = nodes_read_again(value, region)
        if not nodes:
            return outer(value)
        _copy_generated(builder, nodes, known, found)
        return known[value]

    return found


def _build_condition(body: Graph, trips: int) -> Graph:
    with Builder() as builder:
        inputs = [builder.input(type) for type in body.input_types]
        stop = ops.constant(value=np.array(trips, inputs[0].dtype))
        return builder.finish([ops.compare(inputs[0], stop, direction="LT")])
