"""Write what one device computes of a program whose loops run on parts of a batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracer import ops
from tracer.ir import Builder, Chunk, Graph, Label, Node, Value
from tracer.ops.rules import as_tuple
from tracer.optimizer.loops.split.carry import identity, multiple, slice_starts
from tracer.optimizer.partition.flow import Cut, Flow, Lie, Partial, steps_of

Resolve = Callable[[Value, int | None], Value]


class PartEmitter:
    """Writes what one device computes into a builder: nodes on its parts.

    Parameters
    ----------
    flow : Flow
        How the values of the graph are spread.
    builder : Builder
    number : Value
        The device's number, a scalar.
    outer : callable, optional
        Gives a value of outside, whole or its part along an axis; None inside of a loop, which is
        given all it reads in `made`.
    is_rest : bool
        Whether it is the steps that the devices do not divide.
    """

    def __init__(
        self,
        flow: Flow,
        builder: Builder,
        number: Value,
        outer: Resolve | None = None,
        *,
        is_rest: bool = False,
    ) -> None:
        self.flow, self.builder, self.number, self.outer = flow, builder, number, outer
        self.is_rest = is_rest
        self.made: dict[tuple[Value, Lie], Value] = {}
        self._written = set[Node]()

    def emit(self, node: Node) -> None:
        """Write a node as it is spread."""
        self.builder.source = node.source
        self._written.add(node)
        lies = [self.flow.lies[value] for value in node.results]
        if node in self.flow.loops:
            results = self._loop(node)
        elif node in self.flow.labels:
            results = self._sliced(node, self.flow.labels[node])
        else:
            # Whole, or terms that are joined: as it is, on operands spread as the results are.
            results = self.builder.copy(node, tuple(self.read(v, lies[0]) for v in node.operands))
        for value, lie, made in zip(node.results, lies, results, strict=True):
            self.made[value, lie] = made

    def read(self, value: Value, lie: Lie) -> Value:
        """Return a value spread as asked; a whole one may be cut, or be the first one's term."""
        key = value, lie
        if key not in self.made:
            self.made[key] = self._other(value, lie)
        return self.made[key]

    def _other(self, value: Value, lie: Lie) -> Value:
        node = value.node
        if isinstance(lie, Partial):
            whole = self.read(value, None)
            first = ops.compare(
                self.number, ops.constant(value=np.zeros((), self.number.dtype)), direction="EQ"
            )
            chosen = ops.broadcast_in_dim(first, shape=whole.shape, dimensions=())
            return ops.select(chosen, whole, identity(lie.combiner, whole.type))  # type: ignore[no-any-return]
        if lie is None:
            assert self.outer is not None, "a loop is given all that it reads"
            return self.outer(value, None)
        generated = node.op is not None and all(not type.ndim for type in node.operand_types)
        if generated and node.axes.is_parallel(label := node.axes.results[value.index][lie.axis]):
            # Never stored whole.
            return self._sliced(node, label)[value.index]
        is_cut_outside = node not in self._written and not self.flow.division.remainder
        if self.outer is not None and is_cut_outside:
            return self.outer(value, lie.axis)
        start, size = self._share(value.type.shape[lie.axis])
        starts = slice_starts(start, value, lie.axis)
        sizes = value.type.resized(lie.axis, size).shape
        return ops.dynamic_slice(self.read(value, None), *starts, sizes=sizes)  # type: ignore[no-any-return]

    def _share(self, size: int) -> tuple[Value, int]:
        """Return where the device's slice of an axis of this size begins, and how long it is."""
        return multiple(self.number, self.flow.division.part(size)), self._size(size)

    def _size(self, size: int) -> int:
        division = self.flow.division
        return division.rest(size) if self.is_rest else division.part(size)

    def _sliced(self, node: Node, label: Label) -> tuple[Value, ...]:
        """Write an op on this device's slice along a label."""
        assert node.op is not None
        rule = node.axes
        start, size = self._share(steps_of(node, rule, label))
        chunk = Chunk(node.op, label, start, size, node.operand_types, node.types, rule)
        operands = tuple(
            self.read(value, Cut(names.index(label)) if label in names else None)
            for value, names in zip(node.operands, rule.operands, strict=True)
        )
        return as_tuple(node.op.slice(operands, chunk, **node.params))

    def _loop(self, node: Node) -> tuple[Value, ...]:
        """Write a loop that carries parts, and the device's number."""
        condition, body = self.flow.loops[node]
        lies = [self.flow.lies[value] for value in node.results]
        operands = [self.read(v, lie) for v, lie in zip(node.operands, lies, strict=True)]
        results = ops.while_(
            self.number,
            *operands,
            condition=self._carried(condition, lies, [None], keeps_number=False),
            body=self._carried(body, lies, lies, keeps_number=True),
        )
        return tuple(results[1:])

    def _carried(
        self, flow: Flow, lies: list[Lie], outputs: list[Lie], *, keeps_number: bool
    ) -> Graph:
        """Return a loop's condition or body for parts; its first input is the device's number."""
        with Builder() as builder:
            number = builder.input(self.number.type)
            emitter = PartEmitter(flow, builder, number, is_rest=self.is_rest)
            for value, lie in zip(flow.graph.inputs, lies, strict=True):
                type = value.type
                if isinstance(lie, Cut):
                    type = type.resized(lie.axis, self._size(type.shape[lie.axis]))
                emitter.made[value, lie] = builder.input(type, value.node.source)
            for node in flow.graph.nodes:
                emitter.emit(node)
            found = [
                emitter.read(v, lie) for v, lie in zip(flow.graph.outputs, outputs, strict=True)
            ]
            return builder.finish([*([number] if keeps_number else []), *found])
