"""Elements at known places of a sorted array are found by counting.

`quantile` and `median` sort an axis and read two places of it. Sorted it has to be stored whole,
which a limit, or an array in storage, does not allow. `nth_elements.py` finds the elements at these
places in several passes, which split cuts as it cuts every sum. Of a large array that has room,
`nth_in_memory.py` finds a few in less time than a sort takes.

Values do not change, but for the sign of a zero and the bits of a NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, ShapeDtype, Value, copy_nodes
from tracer.ops.batch import move_axis
from tracer.ops.helpers import convert, full, in_order, reshape, slice_axis, splat_of
from tracer.ops.rules import is_float
from tracer.ops.sink_guard import dependent
from tracer.ops.storage import READS
from tracer.optimizer.model.in_order import is_elementwise
from tracer.optimizer.model.trip_counts import fixed_bytes
from tracer.optimizer.passes import Pass, PassLog
from tracer.optimizer.rewrite.nth_elements import nth_elements
from tracer.optimizer.rewrite.nth_in_memory import nth_elements_in_memory
from tracer.optimizer.schedule.tasks import unplaced_ancestors
from tracer.target import Kernels

Places: TypeAlias = Value | np.ndarray[Any, Any]

_FEW_ROWS = 4
"""Where so many rows, and they sorted, have room, split cuts the sort between rows."""
_MOST_DERIVED = 64
_MOST_PLACES = 16
"""Of so many places at most an array is read; each is looked for by itself."""


def count_for_sort_pass(limit: int | None) -> Pass:
    """Return the pass that counts where there is no room for a sorted axis."""
    return Pass("count for sort", partial(_counted, limit))


def count_in_memory_pass(kernels: Kernels) -> Pass:
    """Return the pass that counts where that takes less time than a sort."""
    return Pass("count in memory", partial(_counted_in_memory, kernels))


def _counted(limit: int | None, graph: Graph, log: PassLog) -> Graph:
    if limit is None:
        return graph
    room = limit - fixed_bytes(graph)
    refused = []
    for node in graph.nodes:
        if node.op is not ops.sort or not _has_no_room(node, room):
            continue
        found = _Selection.of(graph, node)
        if not isinstance(found, str):
            log.applied.append(f"{len(found.readers)} reads of {node.types[0]}")
            return _counted(limit, _rewritten(graph, found, in_memory=False), log)
        refused.append((f"sort of {node.types[0]}", found, node.source))
    for refusal in refused:
        log.refuse(*refusal)
    return graph


def _counted_in_memory(kernels: Kernels, graph: Graph, log: PassLog) -> Graph:
    for node in graph.nodes:
        if node.op is not ops.sort or node.types[0].size < kernels.counted_elements:
            continue
        found = _Selection.of(graph, node)
        if not isinstance(found, str) and found.steps <= kernels.counted_steps:
            log.applied.append(f"{len(found.readers)} reads of {node.types[0]}")
            return _counted_in_memory(kernels, _rewritten(graph, found, in_memory=True), log)
    return graph


def _has_no_room(sort: Node, room: float) -> bool:
    """Tell whether neither the array can be sorted, nor a few of its rows at a time."""
    type, axis = sort.types[0], sort.params["dimension"]
    if not type.size or 2 * type.nbytes <= room:
        return False
    row = type.shape[axis] * type.dtype.itemsize
    return 2 * _FEW_ROWS * row > room or _is_cut_in_storage(sort.operands[0], axis)


def _is_cut_in_storage(value: Value, axis: int) -> bool:
    """Tell whether an axis is the first of an array in storage: blocks are read along it only."""
    seen: set[tuple[Value, int]] = set()
    stack = [(value, axis)]
    while stack:
        value, axis = found = stack.pop()
        node = value.node
        if node.op is None or found in seen:
            continue
        if node.op in READS:
            if axis == 0:
                return True
            continue
        seen.add(found)
        rule = node.axes
        label = rule.results[value.index][axis]
        of_operands = zip(node.operands, rule.operands, strict=True)
        stack += [(v, labels.index(label)) for v, labels in of_operands if label in labels]
    return False


@dataclass(frozen=True)
class _Selection:
    """A sort, what is computed of its elements one by one, and who reads places of these.

    Attributes
    ----------
    sort : Node
    derived : set of Node
        Of the sorted array, element by element.
    readers : dict of Node to Value or ndarray
        The places that a node reads, with an axis for each that is not sorted where they vary.
    """

    sort: Node
    derived: set[Node]
    readers: dict[Node, Places]

    @staticmethod
    def of(graph: Graph, sort: Node) -> _Selection | str:
        """Return what is to be counted, or why it cannot be."""
        type = sort.types[0]
        # Of floats of 8 bits some have their NaN elsewhere (`sort_keys`).
        is_real = type.dtype.kind in "iu" or (is_float(type.dtype) and type.dtype.itemsize > 1)
        if len(sort.types) != 1 or not is_real:
            return "it sorts other arrays too, or no real numbers of 16 bits and more"
        derived, readers = {sort}, dict[Node, Places]()
        for node in graph.nodes:
            if derived.isdisjoint(value.node for value in node.operands):
                continue
            places = _places(node, sort, derived)
            if places is not None:
                readers[node] = places
            elif is_elementwise(node) and all(
                value.node in derived or _is_number(value) for value in node.operands
            ):
                derived.add(node)
            else:
                return f"{node.name} reads all of it"
        found = _Selection(sort, derived, readers)
        return found._refusal(graph) or found

    def _refusal(self, graph: Graph) -> str | None:
        if any(value.node in self.derived for value in graph.outputs):
            return "it is a result"
        if self.places > _MOST_PLACES:
            return f"more than {_MOST_PLACES} of its places are read"
        if len(self.derived) > _MOST_DERIVED:
            return "a long computation follows it"
        hanging = dependent(graph.nodes, [node.results[0] for node in self.readers])
        if not hanging.isdisjoint(value for node in self.needed for value in node.results):
            return "places that are read hang on others"
        if any(node.has_effect for node in self.needed):
            return "what it needs acts on the world"
        return None

    @property
    def places(self) -> float:
        """Return how many places of a row are read."""
        return self._of_a_row(self.readers)

    @property
    def inner(self) -> dict[Node, Places]:
        """Return the readers of other places than the last alone, which is the largest element."""
        last = self.sort.types[0].shape[self.sort.params["dimension"]] - 1
        return {
            node: places
            for node, places in self.readers.items()
            if isinstance(places, Value) or places.tolist() != [last]
        }

    @property
    def steps(self) -> float:
        """Return how many words are compared of an element, for each step of a sort."""
        type = self.sort.types[0]
        words: int = 8 * type.dtype.itemsize * max(1, type.dtype.itemsize // 4)
        steps = math.log2(type.shape[self.sort.params["dimension"]])
        return words * self._of_a_row(self.inner) / max(1, steps)

    def _of_a_row(self, readers: Iterable[Node]) -> float:
        type = self.sort.types[0]
        rows = type.size // type.shape[self.sort.params["dimension"]]
        return float(sum(node.types[0].size for node in readers) / rows)

    @cached_property
    def needed(self) -> set[Node]:
        """The nodes behind the array that is sorted, and behind all places."""
        found: set[Node] = set()
        for value in (self.sort.operands[0], *self.readers.values()):
            if isinstance(value, Value):
                unplaced_ancestors(value.node, found)
        return found


def _places(node: Node, sort: Node, derived: set[Node]) -> Places | None:
    """Return the places along the sorted axis that a node reads of all rows, None for others."""
    if node.operands[0].node not in derived or any(v.node in derived for v in node.operands[1:]):
        return None
    axis, shape = sort.params["dimension"], sort.types[0].shape
    if node.op is ops.slice:
        sizes = node.types[0].shape
        if any(size != shape[i] for i, size in enumerate(sizes) if i != axis):
            return None
        cut = (node.params[key][axis] for key in ("start", "limit", "strides"))
        return np.arange(*cut)
    if node.op is not ops.gather:
        return None
    others = tuple(i for i in range(len(shape)) if i != axis)
    rows = others if _is_along(node) else tuple(range(len(others)))
    taken = {
        "offset_dims": (),
        "collapsed_slice_dims": (axis,),
        "start_index_map": (axis,),
        "index_vector_dim": node.operands[1].type.ndim - 1,
        "slice_sizes": (1,) * len(shape),
        "operand_batching_dims": others,
        "start_indices_batching_dims": rows,
    }
    return node.operands[1] if all(node.params[key] == x for key, x in taken.items()) else None


def _is_along(reader: Node) -> bool:
    """Tell whether places lie in the axis, as in `take_along_axis`; otherwise behind the rows."""
    return reader.op is ops.slice or reader.types[0].ndim == reader.operand_types[0].ndim


def _is_number(value: Value) -> bool:
    splat = splat_of(value)
    return splat is not None and splat.node.op is ops.constant


def _rewritten(graph: Graph, found: _Selection, *, in_memory: bool) -> Graph:
    """Copy a graph; what the first reader needs, all places among it, is copied before it."""
    mapping: dict[Value, Value] = {}
    with Builder() as builder:
        for value in graph.inputs:
            mapping[value] = builder.input(value.type, value.node.source)
        copy_nodes(builder, (node for node in graph.nodes if node in found.needed), mapping)
        builder.source = found.sort.source
        _write_reads(found, mapping, in_memory=in_memory)
        there = {*found.needed, *found.derived, *found.readers}
        copy_nodes(builder, (node for node in graph.nodes if node not in there), mapping)
    return builder.finish([mapping[value] for value in graph.outputs])


def _write_reads(found: _Selection, mapping: dict[Value, Value], *, in_memory: bool) -> None:
    """Emit what readers read, and what was computed of it."""
    axis, shape = found.sort.params["dimension"], found.sort.types[0].shape
    rows = tuple(size for i, size in enumerate(shape) if i != axis)
    readers = found.inner if in_memory else found.readers
    for reader in (reader for reader in found.readers if reader not in readers):
        largest = ops.reduce_maximum(mapping[found.sort.operands[0]], axes=(axis,))
        _write_read(found, reader, reshape(largest, (*rows, 1)), mapping)
    if not readers:
        return
    places = [_of_rows(r, axis, p, mapping, (*rows, shape[axis])) for r, p in readers.items()]
    all_places = ops.concatenate(*places, dimension=len(rows)) if len(places) > 1 else places[0]
    nth = nth_elements_in_memory if in_memory else nth_elements
    picked, start = _picked(found.sort, all_places, mapping, nth), 0
    for reader, own in zip(readers, places, strict=True):
        part = slice_axis(picked, len(rows), start, start + own.shape[-1])
        _write_read(found, reader, part, mapping)
        start += own.shape[-1]


def _write_read(found: _Selection, reader: Node, part: Value, mapping: dict[Value, Value]) -> None:
    """Emit what one reader reads, of places that were picked, rows first."""
    part = _as_read(part, reader, found.sort.params["dimension"])
    mapping[reader.results[0]] = _computed(reader.operands[0], found, part, {})


def _picked(
    sort: Node, places: Value, mapping: dict[Value, Value], nth: Callable[..., Value]
) -> Value:
    """Emit elements, rows and places; of a transposed array as it lies in memory."""
    axis, x = sort.params["dimension"], sort.operands[0]
    order = tuple(range(x.type.ndim))
    if x.node.op is ops.transpose:
        order, x = x.node.params["permutation"], x.node.operands[0]
    rows = [place for i, place in enumerate(order) if i != axis]
    inwards = (len(rows), *(rows.index(place) for place in sorted(rows)))
    found = nth(mapping[x], order[axis], in_order(places, inwards))
    return in_order(found, tuple(inwards.index(i) for i in range(len(inwards))))


def _of_rows(
    reader: Node,
    axis: int,
    places: Places,
    mapping: dict[Value, Value],
    shape: tuple[int, ...],
) -> Value:
    """Return places inside of the axis, as an array of rows, as `shape` has them, and places."""
    *rows, length = shape
    dtype = np.dtype(np.int32 if length < 2**31 else np.int64)
    if isinstance(places, np.ndarray):
        value = ops.constant(value=places.astype(dtype))
        return ops.broadcast_in_dim(value, shape=(*rows, places.size), dimensions=(len(rows),))  # type: ignore[no-any-return]
    given = mapping[places]
    last = full(min(length - 1, np.iinfo(given.dtype).max), given.type)
    given = ops.minimum(given if given.dtype.kind == "u" else _not_negative(given), last)
    given = reshape(given, given.shape[:-1])
    if _is_along(reader):
        given = move_axis(given, axis, given.type.ndim - 1)
    return convert(reshape(given, (*rows, math.prod(given.shape[len(rows) :]))), dtype)


def _not_negative(places: Value) -> Value:
    return ops.maximum(places, full(0, places.type))  # type: ignore[no-any-return]


def _as_read(part: Value, reader: Node, axis: int) -> Value:
    """Return places that were picked, rows first, in the shape in which they are read."""
    if _is_along(reader):
        return move_axis(part, part.type.ndim - 1, axis)
    return reshape(part, reader.types[0].shape)


def _computed(value: Value, found: _Selection, part: Value, known: dict[Value, Value]) -> Value:
    """Emit for what was picked what the program computed of the sorted array."""
    if value.node is found.sort:
        return part
    if value not in known:
        operands = [
            _computed(operand, found, part, known)
            if operand.node in found.derived
            else _number(operand, part.shape)
            for operand in value.node.operands
        ]
        assert value.node.op is not None
        known[value] = value.node.op(*operands, **value.node.params)
    return known[value]


def _number(value: Value, shape: tuple[int, ...]) -> Value:
    splat = splat_of(value)
    assert splat is not None
    number = splat.node.params["value"]
    return full(number.reshape(-1)[0], ShapeDtype(shape, value.dtype))


__all__ = ["count_for_sort_pass", "count_in_memory_pass"]
