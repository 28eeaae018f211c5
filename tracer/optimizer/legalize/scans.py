"""Running sums, products and extremes, in pairs.

XLA makes a tree of the window over the whole axis, whose elements its CPU compiler computes one by
one. Here pairs of neighbours are combined, what they leave is cumulated in the same way, and is
combined with every second element (R. Brent, H. T. Kung, "A regular layout for parallel adders",
1982). Each level is a plain loop over vectors, so it is vectorised. A piece of an array that stays
in the cache goes through all levels before the next one does: whole lines, or a part of a long one,
which begins with what the part before it left.

Errors of sums grow with the logarithm of a piece, and with the root of the pieces of a line. Floats
narrower than float32 are combined in float32. Products of a part alone may be too large or too
small where those of all before are not, in XLA's tree, too: so what has elements behind the axis is
multiplied row by row, in vectors.

Measured on 2 cores of a Xeon, float32, 10,000,000 elements (rows: a loop over whole rows of what
lies behind the axis):

| shape, along axis 1        | tree  | rows  | pairs | NumPy | torch |
|----------------------------|-------|-------|-------|-------|-------|
| 1,000 x 10,000, sums       | 63 ms |       | 21 ms | 34 ms | 19 ms |
| the same, products         | 67    |       | 21    | 35    | 25    |
| the same, maxima           | 64    |       | 21    | 60    | 85    |
| 100,000 x 100, sums        | 37    |       | 20    | 36    | 22    |
| 1 x 10,000,000, sums       | 37    |       | 28    | 34    | 34    |
| 1 x 1,000,000 x 10, sums   | 112   | 31 ms | 43    | 43    |       |
| 1 x 100,000 x 100, sums    | 127   | 122   | 25    | 48    |       |
| 1 x 10,000 x 1,000, sums   | 122   | 36    | 26    | 74    |       |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from tracer import ops
from tracer.ir import Builder, Graph, Node, Op, Value, rebuild
from tracer.ops import helpers
from tracer.ops.pairs import Pairs
from tracer.optimizer.legalize.counted_loop import INT32, State, counted_loop, places_along
from tracer.optimizer.legalize.cumulatives import COMBINED, scan_call
from tracer.optimizer.legalize.writer import stored, wide_dtype
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target
from tracer.target.record import LEAST_BARRIER_BYTES
from tracer.target.scans import SHORT_LINE, Scans

_AXIS = 1
"""Of lines: arrays are brought to lines, elements of each, and what lies behind them."""


def scans_pass(target: Target) -> Pass:
    """Return the pass that writes running reductions in pairs, products of columns by rows."""
    return Pass("cumulate in pairs", partial(_in_pairs, target.scans), exact=False)


def _in_pairs(scans: Scans | None, graph: Graph, log: PassLog) -> Graph:
    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        call = scan_call(node)
        if call is None or scans is None:
            return None
        by_rows = scans.are_by_rows(call)
        if not by_rows and not scans.are_in_pairs(call):
            return None
        assert node.op is not None
        log.applied.append(f"{node.name} of {node.types[0]} along axis {node.params['axis']}")
        reverse = node.params["reverse"]
        scan = _Scan(node.op, COMBINED[node.op], _filler(node), reverse, scans.fewest)
        # No axis of one element behind: XLA copies an array to put that in another place.
        behind = (call.behind,) if call.behind > 1 else ()
        lines = helpers.reshape(operands[0], (call.before, call.size, *behind))
        found = _by_rows(scan, lines) if by_rows else _in_pieces(scan, lines, scans.piece)
        return (helpers.reshape(found, node.types[0].shape),)

    return rebuild(graph, rewrite)


def _filler(node: Node) -> complex:
    """Return the number that leaves others as they are; for sums that is -0, not 0."""
    assert node.op is not None
    assert node.op.neutral is not None
    if node.op is not ops.cumulative_add:
        (neutral,) = node.op.neutral(node.types, **node.params)
        return neutral  # type: ignore[no-any-return]
    return complex(-0.0, -0.0) if node.types[0].dtype.kind == "c" else -0.0


@dataclass(frozen=True)
class _Scan:
    """Combines the elements of lines up to each one, or from each one on.

    Attributes
    ----------
    op, combine : Op
        The running reduction, and what it does to two elements.
    filler : complex
        What leaves others as they are.
    reverse : bool
        From each one on.
    fewest : int
        Elements that are left to XLA.
    """

    op: Op
    combine: Op
    filler: complex
    reverse: bool
    fewest: int

    def whole(self, x: Value) -> Value:
        """Cumulate pairs, and combine every second element with what lies before it."""
        size = x.shape[_AXIS]
        if x.type.size <= self.fewest:
            return self.op(x, axis=_AXIS, reverse=self.reverse)  # type: ignore[no-any-return]
        if size <= SHORT_LINE:
            return self._one_by_one(x)
        pairs = Pairs(_AXIS, self.reverse)
        first, second = pairs.halves(x)
        paired = pairs.with_second(first, second.shape[_AXIS])
        second = stored(self.whole(stored(self.combine(paired, second))))
        before = pairs.before(second, first.shape[_AXIS], self.filler)
        return pairs.interleaved(self.combine(before, first), second)

    def _one_by_one(self, x: Value) -> Value:
        rows = [helpers.slice_axis(x, _AXIS, i, i + 1) for i in range(x.shape[_AXIS])]
        order = range(len(rows))[:: -1 if self.reverse else 1]
        for before, place in pairwise(order):
            rows[place] = self.combine(rows[before], rows[place])
        return rows[0] if len(rows) == 1 else ops.concatenate(*rows, dimension=_AXIS)


def _in_pieces(scan: _Scan, x: Value, most: int) -> Value:
    """Cumulate pieces of at most so many elements one after the other."""
    if x.type.size <= most:
        wide = wide_dtype(x.dtype)
        return helpers.convert(scan.whole(helpers.convert(x, wide)), x.dtype)
    line = x.type.size // x.shape[0]
    if line <= most:
        return _by_lines(scan, x, most // line)
    return _by_parts(scan, x, -(-line // most))


def _by_lines(scan: _Scan, x: Value, most: int) -> Value:
    """Cumulate a few lines in each trip, in place."""
    lines = x.shape[0]
    trips = -(-lines // most)
    cut = _Cut(axis=0, size=lines, length=-(-lines // trips), reverse=False)
    sizes = x.type.resized(0, cut.length).shape

    def step(trip: Value, _: State, state: State) -> State:
        (x,) = state
        begin = cut.begin(trip)
        starts = places_along(x, begin, 0)
        piece = _read(x, starts, sizes)
        wide = helpers.convert(piece, wide_dtype(x.dtype))
        found = helpers.convert(scan.whole(wide), x.dtype)
        return [ops.dynamic_update_slice(x, cut.where_new(trip, begin, found, piece), *starts)]

    return counted_loop(trips, [], [x], step)[0]


def _by_parts(scan: _Scan, x: Value, parts: int) -> Value:
    """Cumulate a part of a line in each trip, in place, from what those before it left."""
    lines, size = x.shape[:2]
    part = _Part(scan, _Cut(_AXIS, size, -(-size // parts), scan.reverse))
    carried = x.type.resized(0, 1).resized(_AXIS, 1).with_dtype(wide_dtype(x.dtype))
    nothing = helpers.full(scan.filler, carried)
    return counted_loop(lines * part.cut.count, [], [x, nothing, nothing], part.step)[0]


@dataclass(frozen=True)
class _Cut:
    """Slices of equal length; where the last one has too few elements it begins earlier.

    Attributes
    ----------
    axis : int
        Which is cut.
    size, length : int
        Elements of the axis and of a slice.
    reverse : bool
        The last slice comes first.
    """

    axis: int
    size: int
    length: int
    reverse: bool

    @property
    def count(self) -> int:
        """How many slices there are."""
        return -(-self.size // self.length)

    def begin(self, number: Value) -> Value:
        """Return where a slice begins."""
        last = helpers.scalar(self.size - self.length, INT32)
        begin = ops.minimum(helpers.scale(number, self.length), last)
        return ops.subtract(last, begin) if self.reverse else begin  # type: ignore[no-any-return]

    def where_new(self, number: Value, begin: Value, x: Value, other: Value) -> Value:
        """Take another array where the slice before had the elements already."""
        if self.size % self.length == 0:
            return x
        places = ops.iota(shape=x.shape, dtype=INT32, dimension=self.axis)
        places = ops.add(places, helpers.spread(begin, x.shape))
        taken = helpers.scale(number, self.length)
        if self.reverse:
            taken = ops.subtract(helpers.scalar(self.size, INT32), taken)
        direction = "LT" if self.reverse else "GE"
        is_new = ops.compare(places, helpers.spread(taken, x.shape), direction=direction)
        return ops.select(is_new, x, other)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Part:
    """A trip of the loop over parts of lines.

    It carries what the blocks of parts before left, and the parts of this block: so errors of sums
    grow with the root of the parts (N. Higham, Accuracy and Stability of Numerical Algorithms,
    section 4.2).

    Attributes
    ----------
    scan : _Scan
        What it does.
    cut : _Cut
        Of a line.
    """

    scan: _Scan
    cut: _Cut

    def step(self, trip: Value, _: State, state: State) -> State:
        """Cumulate one part."""
        x, *carries = state
        number = ops.remainder(trip, helpers.scalar(self.cut.count, INT32))
        line = ops.divide(trip, helpers.scalar(self.cut.count, INT32))
        begin = self.cut.begin(number)
        starts = [line, begin, *places_along(x, begin, _AXIS)[2:]]
        piece = _read(x, starts, x.type.resized(0, 1).resized(_AXIS, self.cut.length).shape)
        wide = helpers.convert(piece, carries[0].dtype)
        nothing = helpers.full_like(wide, self.scan.filler)
        part = self.scan.whole(self.cut.where_new(number, begin, wide, nothing))
        is_first = ops.compare(number, helpers.scalar(0, INT32), direction="EQ")
        carries = [self._empty_if(is_first, carry) for carry in carries]
        before = ops.broadcast_in_dim(
            self.scan.combine(*carries), shape=part.shape, dimensions=tuple(range(len(part.shape)))
        )
        found = helpers.convert(self.scan.combine(before, part), x.dtype)
        found = self.cut.where_new(number, begin, found, piece)
        return [ops.dynamic_update_slice(x, found, *starts), *self._carries(number, part, *carries)]

    def _carries(self, number: Value, part: Value, blocks: Value, block: Value) -> State:
        end = 0 if self.scan.reverse else self.cut.length - 1
        block = self.scan.combine(block, helpers.slice_axis(part, _AXIS, end, end + 1))
        length = helpers.scalar(math.isqrt(self.cut.count), INT32)
        rest = ops.remainder(helpers.shift(number, 1), length)
        is_last = ops.compare(rest, helpers.scalar(0, INT32), direction="EQ")
        mask = helpers.spread(is_last, block.shape)
        blocks = ops.select(mask, self.scan.combine(blocks, block), blocks)
        return [blocks, self._empty_if(is_last, block)]

    def _empty_if(self, condition: Value, carry: Value) -> Value:
        mask = helpers.spread(condition, carry.shape)
        return ops.select(mask, helpers.full_like(carry, self.scan.filler), carry)  # type: ignore[no-any-return]


def _by_rows(scan: _Scan, x: Value) -> Value:
    """Multiply one row of all lines in each trip.

    It writes rows over those that it reads, if a row is as large as a barrier in a loop has to be:
    otherwise XLA reads it again after that, and copies the array.
    """
    row = x.type.resized(_AXIS, 1).with_dtype(wide_dtype(x.dtype))
    is_in_place = row.nbytes >= LEAST_BARRIER_BYTES
    kept, start = ([], x) if is_in_place else ([x], helpers.zeros_like(x))

    def step(trip: Value, kept: State, state: State) -> State:
        out, so_far = state
        if scan.reverse:
            trip = ops.subtract(helpers.scalar(x.shape[_AXIS] - 1, INT32), trip)
        starts = places_along(x, trip, _AXIS)
        factor = _read(kept[0] if kept else out, starts, row.shape)
        so_far = scan.combine(so_far, helpers.convert(factor, row.dtype))
        written = ops.dynamic_update_slice(out, helpers.convert(so_far, x.dtype), *starts)
        return [written, so_far]

    return counted_loop(x.shape[_AXIS], kept, [start, helpers.full(scan.filler, row)], step)[0]


def _read(x: Value, starts: State, sizes: tuple[int, ...]) -> Value:
    """Read a piece once: XLA copies an array that it reads after it is written over."""
    return stored(ops.dynamic_slice(x, *starts, sizes=sizes))


__all__ = ["scans_pass"]
