"""The columns of a matrix that are stored one by one become the rows of one array.

A sum over few features that is written out (`rewrite/match/unroll.py`) reads each feature of all
points as a run of memory. XLA:CPU copies each run with a kernel of its own, reads the slices of
each with another one in every trip of a loop, and takes milliseconds to compile a kernel, however
small (benchmarks/results/planning-time.md). Transposed the matrix is one kernel, and its slice in a
loop is another; the kernel that computes with them reads the rows. (An array of structures becomes
a structure of arrays.)

The transposed matrix takes the bytes of its columns. They are only taken together where all are
read by loops, and where what reads them there is fused with the slice of a row: a product would
have the row copied in each trip. Elsewhere XLA would take the transposition for a matter of layout
and read the columns of the matrix itself: only what a loop is given has the layout that is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.ops import helpers
from tracer.ops.generator import Generator
from tracer.optimizer.legalize.writer import stored
from tracer.optimizer.passes import Pass, PassLog

T = TypeVar("T")


def stored_columns_pass() -> Pass:
    """Return the pass that stores columns as the rows of one array."""
    return Pass("transpose columns", _with_rows, bodies=False, writes_out_cost=True)


def _with_rows(graph: Graph, log: PassLog) -> Graph:
    columns = _Columns(graph).stored_together()
    for matrix in dict.fromkeys(column.matrix for column in columns.values()):
        log.applied.append(f"{matrix.shape[1]} columns of {matrix.type}")
    return rebuild(graph, _Writer(columns).rewrite)


@dataclass(frozen=True)
class _Column:
    """One column of a matrix, whatever axes of one it has besides."""

    matrix: Value
    index: int


class _Columns:
    """The columns that a graph takes of its matrices."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._columns: dict[Value, _Column] = {}
        for node in graph.nodes:
            self._follow(node)

    def _follow(self, node: Node) -> None:
        """Note which results of a node are columns."""
        column = _column_of(node)
        if column is not None:
            self._columns[node.results[0]] = column
        elif _hands_on(node):
            _follow(self._columns, node)

    def stored_together(self) -> dict[Value, _Column]:
        """Return the columns of all matrices each of whose columns only loops read."""
        found: dict[Value, set[int]] = defaultdict(set)
        unfit: set[Value] = set()
        for value, column in self._columns.items():
            found[column.matrix].add(column.index)
            if not self._may_be_a_row(value):
                unfit.add(column.matrix)
        fit = {x for x, places in found.items() if len(places) == x.shape[1]} - unfit
        return {value: column for value, column in self._columns.items() if column.matrix in fit}

    def _may_be_a_row(self, value: Value) -> bool:
        return value not in self._graph.outputs and all(
            self._takes_a_row(node, place) for node, place in _readers(self._graph, value)
        )

    def _takes_a_row(self, node: Node, place: int) -> bool:
        """Tell whether a reader of a column may as well read a row."""
        if _hands_on(node):
            return all(x in self._columns for x in node.operands)
        return node.op is ops.while_ and _is_fused_in_loop(node, place)


def _readers(graph: Graph, value: Value) -> Iterator[tuple[Node, int]]:
    """Yield the nodes that read a value, with the place among their operands."""
    for node, place, index in graph.users(value.node):
        if index == value.index:
            yield node, place


def _column_of(node: Node) -> _Column | None:
    """Return which column of a matrix of several a node takes."""
    if node.op is not ops.slice:
        return None
    (matrix,) = node.operands
    if len(matrix.shape) != 2 or min(matrix.shape) < 2:
        return None
    is_column = node.types[0].shape == (matrix.shape[0], 1)
    return _Column(matrix, node.params["start"][1]) if is_column else None


def _hands_on(node: Node) -> bool:
    """Tell whether a node stores its operands, or only adds and drops axes of one."""
    if node.op is ops.optimization_barrier:
        return True
    return node.op is ops.reshape and _long(node.types[0].shape) == _long(node.operands[0].shape)


def _follow(known: dict[Value, T], node: Node) -> None:
    """Note for the results of a node what is known of its operands."""
    for result, operand in zip(node.results, node.operands, strict=True):
        if operand in known:
            known[result] = known[operand]


def _long(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size > 1]


def _is_fused_in_loop(node: Node, place: int) -> bool:
    """Tell whether a loop leaves an operand as it is, and fuses it with all that reads it."""
    assert node.op is not None
    assert node.op.invariants is not None
    if place not in node.op.invariants(len(node.operands), **node.params):
        return False
    body, condition = node.params["body"], node.params["condition"]
    stack = [body.inputs[place]]
    while stack:
        for reader, _ in _readers(body, stack.pop()):
            assert reader.op is not None
            if _hands_on(reader):
                stack += reader.results
            elif reader.op.fusion == "opaque":
                return False
    return not any(_readers(condition, condition.inputs[place]))


class _Writer:
    """Writes a graph whose columns are rows."""

    def __init__(self, columns: Mapping[Value, _Column]) -> None:
        self._columns = columns
        self._rows: dict[Value, Value] = {}

    def rewrite(
        self, builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        """Return new results of a node; None where it stays."""
        if node.results[0] in self._columns:
            if node.op is ops.slice and node.operands[0] not in self._rows:
                rows = stored(ops.transpose(operands[0], permutation=(1, 0)))
                self._rows[node.operands[0]] = rows
            return [self._view(x) for x in node.results]
        if node.op is not ops.while_ or self._columns.keys().isdisjoint(node.operands):
            return None
        return self._loop(builder, node, operands)

    def _view(self, value: Value) -> Value:
        column = self._columns[value]
        return _row(self._rows[column.matrix], column.index, value.shape)

    def _loop(self, builder: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value]:
        """Return a loop that is given the rows, and takes its columns of them in each trip."""
        assert node.op is not None
        assert node.op.sink is not None
        sunk = {i: operands[i] for i, x in enumerate(node.operands) if x in self._columns}
        matrices = (self._columns[node.operands[i]].matrix for i in sunk)
        leaves = tuple(dict.fromkeys(self._rows[matrix] for matrix in matrices))
        nodes = dict.fromkeys(view for x in sunk.values() for view in _views(x, leaves))
        generator = Generator(sunk, tuple(nodes), leaves, {})
        found: Sequence[Value] = node.op.sink(operands, leaves, generator, **node.params)
        loop = next(x.node for i, x in enumerate(found) if i not in sunk)
        body = _with_joined_slices(loop.params["body"], len(leaves))
        copies = dict(zip(loop.results, builder.copy(loop, loop.operands, body=body), strict=True))
        return [copies.get(x, x) for x in found]


def _row(rows: Value, index: int, shape: Sequence[int]) -> Value:
    return helpers.reshape(helpers.slice_axis(rows, 0, index, index + 1), tuple(shape))


def _views(value: Value, leaves: Sequence[Value]) -> list[Node]:
    """Return the nodes that make a view of a leaf, in order."""
    nodes = []
    while value not in leaves:
        nodes.append(value.node)
        (value,) = value.node.operands
    return nodes[::-1]


def _with_joined_slices(body: Graph, count: int) -> Graph:
    """Slice all rows of an array at once, and store none alone; the last inputs are the arrays."""
    return rebuild(body, _Joiner(body, body.inputs[-count:]).rewrite)


@dataclass(frozen=True)
class _Place:
    """Where slices of an array's rows begin, and how long they are."""

    array: Value
    start: Value
    size: int


class _Joiner:
    """Reads slices of all rows at one place together."""

    def __init__(self, body: Graph, arrays: Sequence[Value]) -> None:
        self._rows: dict[Value, tuple[Value, int]] = {}
        self._slices: dict[Value, tuple[_Place, int]] = {}
        self._joined: dict[_Place, Value] = {}
        for node in body.nodes:
            self._follow(node, arrays)
        found: dict[_Place, set[int]] = defaultdict(set)
        for place, index in self._slices.values():
            found[place].add(index)
        whole = {place for place, rows in found.items() if len(rows) == place.array.shape[0]}
        self._slices = {x: found for x, found in self._slices.items() if found[0] in whole}

    def _follow(self, node: Node, arrays: Sequence[Value]) -> None:
        """Note which results of a node are rows of the arrays, and which are slices of rows."""
        if node.op is ops.slice and node.operands[0] in arrays:
            self._rows[node.results[0]] = node.operands[0], node.params["start"][0]
        elif node.op is ops.dynamic_slice and node.operands[0] in self._rows:
            array, index = self._rows[node.operands[0]]
            start, size = _place_in_row(node, node.operands)
            self._slices[node.results[0]] = _Place(array, start, size), index
        elif _hands_on(node):
            _follow(self._rows, node)
            _follow(self._slices, node)

    def rewrite(
        self, _: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        """Return new results of a node; None where it stays."""
        if node.op is ops.optimization_barrier:
            are_views = all(x in self._rows or x in self._slices for x in node.operands)
            return operands if are_views else None
        if node.op is not ops.dynamic_slice or node.results[0] not in self._slices:
            return None
        place, index = self._slices[node.results[0]]
        if place not in self._joined:
            rows = _rows_behind(operands[0])
            start, size = _place_in_row(node, operands)
            first = helpers.scalar(0, start.dtype)
            found = ops.dynamic_slice(rows, first, start, sizes=(rows.shape[0], size))
            self._joined[place] = stored(found)
        return [_row(self._joined[place], index, node.types[0].shape)]


def _place_in_row(node: Node, operands: Sequence[Value]) -> tuple[Value, int]:
    """Return where a slice of a row begins, and how long it is."""
    row, *starts = operands
    (axis,) = (i for i, size in enumerate(row.shape) if size > 1)
    return starts[axis], node.types[0].shape[axis]


def _rows_behind(view: Value) -> Value:
    """Return the array of whose rows a value is a view."""
    while view.node.op is not ops.slice:
        (view,) = view.node.operands
    return view.node.operands[0]


__all__ = ["stored_columns_pass"]
