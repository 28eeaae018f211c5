"""Rewrite a region into loops: the bodies, the carries and the new graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Builder, Chunk, Graph, Label, Node, ShapeDtype, Value, registry
from tracer.ops.helpers import convert, full
from tracer.ops.rules import is_float
from tracer.optimizer.split.levels import Loop, plan_loops
from tracer.optimizer.split.region import Pieces, Region, Subject

Resolve = Callable[[Value], Value]
Transform = Callable[[Graph, Pieces], Graph]
"""Rewrites a body; told which of its nodes put the slices together."""


@dataclass(frozen=True)
class Emitted:
    """A loop as it was written into the graph; `reads` cut the remainder's slices."""

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

    @property
    def combiners(self) -> tuple[str, ...]:
        """How each head's results are assembled: "write", or the op that accumulates them."""
        return tuple(
            self.subject.rule(head).reduced.get(label, "write")
            for head, label in self.loop.heads.items()
        )

    def emit(
        self, builder: Builder, start: Value, size: int, outer: Resolve, carries: list[Value]
    ) -> list[Value]:
        """Compute the slice [start, start + size) and fold it into the carries.

        Parameters
        ----------
        builder : Builder
            Where the nodes go.
        start : Value
            First index, a scalar int32 or int64.
        size : int
            Elements of the slice.
        outer : callable
            Gives the value, in this builder, of a value that is stored outside of the loop.
        carries : list of Value
            Accumulators and full results so far, one for each result of each head.

        Returns
        -------
        list of Value
            The new carries.
        """
        self.builder, self.start, self.size, self.outer = builder, start, size, outer
        self.reads = []
        slices: dict[tuple[Node, Label], tuple[Value, ...]] = {}
        for node, label in self.loop.nodes:
            builder.source = node.source
            slices[node, label] = self._emit_node(node, label, slices)
        return self._fold(slices, carries)

    def _emit_node(
        self, node: Node, label: Label, slices: dict[tuple[Node, Label], tuple[Value, ...]]
    ) -> tuple[Value, ...]:
        assert node.op is not None
        operands = []
        for _, value, axis in self.subject.sliced_operands(node, label):
            key = (value.node, self.subject.label_of(value, axis)) if axis is not None else None
            if axis is None:
                operands.append(self.outer(value))
            elif key in slices:
                operands.append(slices[key][value.index])
            else:
                operands.append(self._slice_stored(self.outer(value), axis))
        chunk = Chunk(
            node.op, label, self.start, self.size, node.operand_types, node.types,
            self.subject.rule(node),
        )  # fmt: skip
        results = node.op.slice(tuple(operands), chunk, **node.params)
        return results if isinstance(results, tuple) else (results,)

    def _slice_stored(self, value: Value, axis: int) -> Value:
        sizes = value.type.resized(axis, self.size).shape
        part: Value = ops.dynamic_slice(value, *self._starts(value, axis), sizes=sizes)
        self.reads.append(part.node)
        return part

    def _starts(self, value: Value, axis: int) -> list[Value]:
        zero = ops.constant(value=np.zeros((), self.start.dtype))
        return [self.start if i == axis else zero for i in range(value.type.ndim)]

    def _fold(
        self, slices: dict[tuple[Node, Label], tuple[Value, ...]], carries: list[Value]
    ) -> list[Value]:
        folded: list[Value] = []
        for head, label in self.loop.heads.items():
            rule = self.subject.rule(head)
            for index, part in enumerate(slices[head, label]):
                carry = carries[len(folded)]
                self.builder.source = head.source
                if label in rule.reduced:
                    wide = convert(part, carry.dtype)
                    folded.append(registry()[rule.reduced[label]](carry, wide))
                else:
                    starts = self._starts(carry, rule.results[index].index(label))
                    folded.append(ops.dynamic_update_slice(carry, part, *starts))
        return folded


def carry_types(subject: Subject, loop: Loop) -> list[ShapeDtype]:
    """Return the types of a loop's carries: every result of every head.

    Accumulators of 8 and 16 bit floats are float32, as they are within one reduction: a sum of
    many slices would otherwise stop to grow.
    """
    types = []
    for head, label in loop.heads.items():
        is_accumulated = label in subject.rule(head).reduced
        for type in head.types:
            narrow = is_float(type.dtype) and type.dtype.itemsize < 4
            types.append(type.with_dtype(np.float32) if is_accumulated and narrow else type)
    return types


def initial_carries(subject: Subject, loop: Loop) -> list[Value]:
    """Emit the carries' initial values: identities for accumulators, zeros for full results."""
    types = iter(carry_types(subject, loop))
    initial = []
    for head, label in loop.heads.items():
        combiner = subject.rule(head).reduced.get(label)
        for type in islice(types, len(head.types)):
            start = 0 if combiner is None else _identity(combiner, type.dtype)
            initial.append(full(start, type))
    return initial


def _identity(combiner: str, dtype: np.dtype[Any]) -> Any:
    """Return the identity of a combiner: what its reduction gives for no elements."""
    return registry()[f"reduce_{combiner}"].evaluate(np.empty((0,), dtype), axes=(0,))


def emit_loop(
    builder: Builder,
    emitter: SliceEmitter,
    chunk: int,
    outer: Resolve,
    transform: Transform,
) -> tuple[list[Value], Emitted]:
    """Write a loop over slices of `chunk` elements, and the remainder after it.

    Every element is computed exactly once, so sums see no slice twice.
    """
    loop, length = emitter.loop, emitter.region.length
    trips, remainder = divmod(length, chunk)
    builder.source = next(iter(loop.heads)).source
    carries = initial_carries(emitter.subject, loop)
    body, invariants = build_body(emitter, carries, chunk, length)
    folds = {value.node for value in body.outputs[1 : 1 + len(carries)]}
    body = transform(body, Pieces(folds))
    operands = [
        ops.constant(value=np.zeros((), body.inputs[0].dtype)),
        *carries,
        *(outer(value) for value in invariants),
    ]
    results = ops.while_(*operands, condition=_build_condition(body, trips), body=body)
    carries = list(results[1 : 1 + len(carries)])
    reads: frozenset[Node] = frozenset()
    if remainder:
        start = ops.constant(value=np.array(trips * chunk, _index_dtype(length)))
        carries = emitter.emit(builder, start, remainder, outer, carries)
        reads = frozenset(emitter.reads)
    dtypes = [type.dtype for head in loop.heads for type in head.types]
    carries = [convert(value, dtype) for value, dtype in zip(carries, dtypes, strict=True)]
    return carries, Emitted(loop, body, trips, chunk, remainder, emitter.combiners, reads)


def _index_dtype(length: int) -> type[np.signedinteger]:
    return np.int32 if length < 2**31 else np.int64


def build_body(
    emitter: SliceEmitter, carries: list[Value], chunk: int, length: int
) -> tuple[Graph, list[Value]]:
    """Build the body: (index, *carries, *invariants) -> the same."""
    invariants: dict[Value, Value] = {}
    with Builder() as body:
        body.source = carries[0].node.source
        index = body.input(ShapeDtype((), _index_dtype(length)))
        inner = [body.input(value.type, value.node.source) for value in carries]

        def outer(value: Value) -> Value:
            if value not in invariants:
                node = value.node
                if node.op is not None and not node.operands and node.types[0].ndim == 0:
                    # A scalar constant is cheaper to write again than to carry.
                    invariants[value] = body.copy(node, ())[0]
                else:
                    invariants[value] = body.input(value.type, node.source)
            return invariants[value]

        start = ops.multiply(index, ops.constant(value=np.array(chunk, index.dtype)))
        folded = emitter.emit(body, start, chunk, outer, inner)
        one = ops.constant(value=np.ones((), index.dtype))
        carried = [v for v, inside in invariants.items() if inside.node.op is None]
        graph = body.finish([ops.add(index, one), *folded, *(invariants[v] for v in carried)])
    return graph, carried


def _build_condition(body: Graph, trips: int) -> Graph:
    with Builder() as builder:
        inputs = [builder.input(type) for type in body.input_types]
        stop = ops.constant(value=np.array(trips, inputs[0].dtype))
        return builder.finish([ops.compare(inputs[0], stop, direction="LT")])


def split_region(
    subject: Subject,
    region: Region,
    chunk_of: Callable[[Loop], int],
    transform: Transform,
) -> tuple[Graph, list[Emitted], Mapping[Value, Value]]:
    """Return the graph with the region's virtual values computed in loops.

    `chunk_of` gives the slice size of each loop; `transform` may rewrite each body. The mapping
    leads from the old values that are still stored to the new ones.
    """
    loops, levels, outside = plan_loops(subject, region)
    done = levels.done
    mapping: dict[Value, Value] = {}
    emitted = []
    with Builder() as builder:
        for value in subject.graph.inputs:
            mapping[value] = builder.input(value.type, value.node.source)
        waiting = [node for node in subject.graph.nodes if node in outside]
        waiting.sort(key=lambda node: done[node])  # stable: keeps the graph's order in a level
        for loop in loops:
            waiting = _copy_ready(builder, waiting, mapping, done, loop.level)
            emitter = SliceEmitter(subject, region, loop)
            carries, record = emit_loop(
                builder, emitter, chunk_of(loop), mapping.__getitem__, transform
            )
            results = (value for head in loop.heads for value in head.results)
            mapping.update(zip(results, carries, strict=True))
            emitted.append(record)
        _copy_ready(builder, waiting, mapping, done, len(subject.graph.nodes))
    return builder.finish([mapping[value] for value in subject.graph.outputs]), emitted, mapping


def _copy_ready(
    builder: Builder,
    waiting: list[Node],
    mapping: dict[Value, Value],
    done: dict[Node, int],
    level: int,
) -> list[Node]:
    """Copy the nodes that can run at `level`; return those that cannot yet."""
    count = 0
    for node in waiting:
        if done[node] > level:
            break
        operands = tuple([mapping[value] for value in node.operands])
        mapping.update(zip(node.results, builder.copy(node, operands), strict=True))
        count += 1
    return waiting[count:]
