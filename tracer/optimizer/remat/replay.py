"""Write a program in which some values are recomputed just before they are read again.

The program is replayed task by task (a task writes one stored value, with what XLA fuses into it).
A value that is *dropped* at a task is read as before up to that task. A copy precedes the first
later reader; all later readers share it, other copies included. Operands of a copy that were not
dropped stay stored until then.

A copy reads one of its operands behind an optimization barrier, together with a result of the task
before its reader. So XLA can neither merge the copy with the original (common subexpression
elimination undoes a recomputation that it can see) nor start it early. `jax.checkpoint` uses the
same barrier (`prevent_cse=True`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.remat.lineage import Lineage
from tracer.target.record import LEAST_BARRIER_BYTES

Drops = Mapping[Node, int]
"""Stored nodes whose results are dropped, each with the last task that reads the first ones."""


@dataclass(frozen=True)
class Replay:
    """A program with values that are computed twice, and the origin of its nodes.

    Attributes
    ----------
    graph : Graph
        The program.
    times : dict of Node to int
        For each node the task it was written for.
    origin : dict of Value to Value
        For each name of a first computation the stored value of the old program.
    copied : dict of Node to int
        For each node of the old program that is computed again the task before which it is.
    meets_itself : bool
        A value is compared for equality with a result of another computation of it, so the
        program must not be used.
    """

    graph: Graph
    times: dict[Node, int]
    origin: dict[Value, Value]
    copied: dict[Node, int]
    meets_itself: bool


def replay(live: Liveness, drops: Drops) -> Replay:
    """Write the program of `live` with the values that are dropped computed again."""
    return _Writer(live, drops).run()


class _Writer:
    def __init__(self, live: Liveness, drops: Drops) -> None:
        self.live = live
        self.drops = drops
        self.builder = Builder()
        self.names: dict[Value, Value] = {}
        """Inputs and stored values of the old program, and what they are called now."""
        self.origin: dict[Value, Value] = {}
        self.again: dict[Value, Value] = {}
        """The same for second computations."""
        self.written: dict[tuple[Node, tuple[Value, ...]], tuple[Value, ...]] = {}
        """Nodes that exist already: a node on the same operands is written once."""
        self.times: dict[Node, int] = {}
        self.copied: dict[Node, int] = {}
        self.time = 0
        self.before: Node | None = None
        """The task before the one that is written."""
        self.lineage = Lineage(live.graph)
        self.meets_itself = False

    def run(self) -> Replay:
        live = self.live
        with self.builder as builder:
            for value in live.graph.inputs:
                self._call(value, builder.input(value.type, value.node.source))
            for self.time, node in enumerate(live.schedule):
                self._write_copies(live.buffers_read(node))
                results = self._write(node, {}, is_copy=False)
                for value, name in zip(node.results, results, strict=True):
                    self._call(value, name)
                self.before = node
            self.time = len(live.schedule)
            outputs = [self._output(value) for value in live.graph.outputs]
        graph = builder.finish(outputs)
        return Replay(graph, self.times, self.origin, self.copied, self.meets_itself)

    def _call(self, value: Value, name: Value) -> None:
        self.names[value] = name
        self.origin[name] = value

    def _output(self, value: Value) -> Value:
        if self.live.is_stored(value):
            return self.names[value]
        return self._write(value.node, {}, is_copy=False)[value.index]

    def _is_dropped(self, value: Value) -> bool:
        return self.time > self.drops.get(value.node, self.time)

    def _name(self, value: Value) -> Value:
        return self.again[value] if self._is_dropped(value) else self.names[value]

    def _write(
        self, node: Node, behind: Mapping[Value, Value], *, is_copy: bool
    ) -> tuple[Value, ...]:
        """Write a task; `behind` has the values that it reads under another name."""
        local = dict(behind)
        for inner in self.live.kernels(node):
            operands = tuple([local.get(value) or self._name(value) for value in inner.operands])
            local.update(
                zip(inner.results, self._write_node(inner, operands, is_copy), strict=True)
            )
        return tuple([local[value] for value in node.results])

    def _write_node(
        self, node: Node, operands: tuple[Value, ...], is_copy: bool
    ) -> tuple[Value, ...]:
        key = (node, operands)
        if key not in self.written:
            results = self.written[key] = self.builder.copy(node, operands)
            self._enter(node, results[0].node, is_copy)
        return self.written[key]

    def _enter(self, old: Node, new: Node, is_copy: bool) -> None:
        self.times[new] = self.time
        self.meets_itself |= self.lineage.add(old, new, is_copy=is_copy)

    def _write_copies(self, values: Mapping[Value, bool]) -> None:
        """Recompute the dropped ones of these values, and dropped values that they depend on."""
        wanted: set[Node] = set()
        stack = list(values)
        while stack:
            value = stack.pop()
            if self._is_dropped(value) and value not in self.again and value.node not in wanted:
                wanted.add(value.node)
                stack += self.live.buffers_read(value.node)
        for node in sorted(wanted, key=self.live.position.__getitem__):
            self.copied[node] = self.time
            results = self._write(node, self._behind_barrier(node), is_copy=True)
            self.again.update(zip(node.results, results, strict=True))

    def _behind_barrier(self, node: Node) -> dict[Value, Value]:
        """Put an operand of a copy behind a barrier, unless it reads another copy."""
        leaves = list(self.live.buffers_read(node))
        if not leaves or any(map(self._is_dropped, leaves)):
            return {}
        fit = [value for value in leaves if value.type.nbytes >= LEAST_BARRIER_BYTES]
        leaf = min(fit or leaves, key=lambda value: value.type.nbytes)
        gate = self._gate(leaf)
        values = [leaf] if gate is None else [leaf, gate]
        self.builder.source = node.source
        results = ops.optimization_barrier(*[self.names[value] for value in values])
        self.builder.source = None
        self._enter(results[0].node, results[0].node, is_copy=False)
        if gate is not None:
            # One name at a time, so that a kernel may still write over it.
            self._call(gate, results[1])
        return {leaf: results[0]}

    def _gate(self, leaf: Value) -> Value | None:
        """Return the smallest result of the task before that is read or handed out."""
        if self.before is None:
            return None
        live = self.live
        used = [v for v in self.before.results if v in live.users or v in live.outputs]
        return min(
            (value for value in used if value is not leaf),
            key=lambda value: value.type.nbytes,
            default=None,
        )


__all__ = ["Drops", "Replay", "replay"]
