"""Batching: turn a graph into one that processes many inputs at once, along a new axis.

A batch is one more parallel axis in front of every value that depends on a batched input. Other
values and their nodes stay as they are. An op needs no batching rule if its axis rule says enough:
the op is emitted with unchanged parameters, and comparing the axis rules before and after shows
that the new axis is parallel and nothing else moved. Other records say in `Op.batch` how their
parameters change. Source: `jax.vmap`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer.errors import VerifyError
from tracer.ir import Batching, Builder, Graph, Label, Node, Op, ShapeDtype, Value
from tracer.ops.batch import all_with_axis, with_axis
from tracer.ops.helpers import full

Flags = tuple[bool, ...]


def batch_graph(
    graph: Graph, batched: Sequence[bool], size: int, wanted: Sequence[bool] | None = None
) -> tuple[Graph, Flags]:
    """Give some inputs of a graph one more axis, in front.

    Parameters
    ----------
    graph : Graph
        What is computed for each element of the batch.
    batched : sequence of bool
        For each input whether it differs from element to element.
    size : int
        Number of elements.
    wanted : sequence of bool, optional
        Outputs that must have the axis even if they do not depend on a batched input.

    Returns
    -------
    Graph
        Batched inputs and outputs have a leading axis of `size`, the others their old types.
    tuple of bool
        For each output whether it has the axis.

    Examples
    --------
    >>> from tracer import ops
    >>> from tracer.autodiff.batching import batch_graph
    >>> from tracer.ir import Builder, ShapeDtype
    >>> with Builder() as builder:
    ...     x, y = (builder.input(ShapeDtype((3,), "float32")) for _ in range(2))
    ...     graph = builder.finish([ops.add(x, y), ops.negate(y)])
    >>> result, flags = batch_graph(graph, [True, False], 5)
    >>> [str(type) for type in result.output_types], flags
    (['float32[5,3]', 'float32[3]'], (True, False))
    """
    with Builder() as builder:
        walk = _Walk(builder, size)
        for value, flag in zip(graph.inputs, batched, strict=True):
            type = _with_axis(value.type, size) if flag else value.type
            walk.enter(value, builder.input(type, value.node.source))
        for node in graph.nodes:
            walk.visit(node)
        builder.source = None
        flags = tuple(walk.is_batched(value) for value in graph.outputs)
        outputs = [walk.values[value] for value in graph.outputs]
        if wanted is not None:
            pairs = zip(outputs, flags, wanted, strict=True)
            outputs = [with_axis(x, has or not wants, size) for x, has, wants in pairs]
            flags = tuple(has or wants for has, wants in zip(flags, wanted, strict=True))
        return builder.finish(outputs), flags


class _Walk:
    """Copies nodes into a builder; those with a batched operand get the axis."""

    def __init__(self, builder: Builder, size: int) -> None:
        self.builder = builder
        self.size = size
        self.values: dict[Value, Value] = {}

    def enter(self, old: Value, new: Value) -> None:
        """Let `new` replace `old`."""
        self.values[old] = new

    def is_batched(self, old: Value) -> bool:
        """Tell whether the value that replaces `old` has the axis."""
        return len(self.values[old].shape) > len(old.shape)

    def visit(self, node: Node) -> None:
        """Emit one node."""
        assert node.op is not None
        operands = tuple([self.values[value] for value in node.operands])
        batched = tuple([self.is_batched(value) for value in node.operands])
        self.builder.source = node.source
        if not any(batched):
            results = self.builder.copy(node, operands)
        elif self.size == 0:
            # Nothing to compute, and no window of a gather would fit into an empty axis.
            results = tuple([full(0, _with_axis(type, 0)) for type in node.types])
        else:
            results = self._batch(node, node.op, operands, batched)
        for old, new in zip(node.results, results, strict=True):
            self.enter(old, new)

    def _batch(
        self, node: Node, op: Op, operands: tuple[Value, ...], batched: Flags
    ) -> tuple[Value, ...]:
        batching = Batching(op, self.size, batched, batch_graph)
        if op.batch is None:
            found = op(*all_with_axis(operands, batching), **node.params)
        else:
            found = op.batch(operands, batching, **node.params)
        results = found if isinstance(found, tuple) else (found,)
        types = [value.type for value in results]
        allowed = [(_with_axis(type, self.size), type) for type in node.types]
        fits = len(types) == len(allowed) and all(
            type in pair for type, pair in zip(types, allowed, strict=True)
        )
        if not fits or (op.batch is None and not _is_one_more_axis(node, results[0].node)):
            raise VerifyError(
                f"{op.name} on operands with one more axis gives {[*map(str, types)]} where "
                f"{[str(pair[0]) for pair in allowed]} belong",
                mend="state in the op's `batch` how its parameters change with a leading axis",
                where=node.source,
            )
        return results


def _with_axis(type: ShapeDtype, size: int) -> ShapeDtype:
    return type.with_shape((size, *type.shape))


def _is_one_more_axis(old: Node, new: Node) -> bool:
    """Tell whether the axis rules differ by one parallel axis in front of everything."""
    before, after = old.axes, new.axes
    rows = [*before.operands, *before.results]
    longer = [*after.operands, *after.results]
    front: set[Label] = {row[0] for row in longer}
    if len(front) != 1 or not all(map(after.is_parallel, front)):
        return False
    names: dict[Label, Label] = {}
    for row, (_, *rest) in zip(rows, longer, strict=True):
        for label, other in zip(row, rest, strict=True):
            if names.setdefault(label, other) != other:
                return False
    return len(set(names.values()) | front) == len(names) + 1 and all(
        before.reduced.get(label) == after.reduced.get(other)
        and (label in before.whole) == (other in after.whole)
        for label, other in names.items()
    )


__all__ = ["batch_graph"]
