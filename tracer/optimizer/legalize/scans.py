"""Running sums, products and extremes, in pairs.

XLA makes a tree of the window over the whole axis, whose elements its CPU compiler computes one by
one. Here pairs of neighbours are combined, what they leave is cumulated in the same way, and is
combined with every second element (R. Brent, H. T. Kung, "A regular layout for parallel adders",
1982). Each level is a plain loop over vectors, so it is vectorised. A piece of an array that stays
in the cache goes through all levels before the next one does: whole lines, or a part of a long one,
which begins with what the part before it left.

Errors of sums grow with the logarithm of a piece, and with the number of pieces of a line. Floats
narrower than float32 are combined in float32.

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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tracer import ops
from tracer.ir import Builder, Graph, Node, Op, Value, rebuild
from tracer.ops import helpers
from tracer.optimizer.legalize.counted_loop import INT32, State, counted_loop, places_along
from tracer.optimizer.legalize.cumulatives import COMBINED, scan_call
from tracer.optimizer.legalize.writer import stored, wide_dtype
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target
from tracer.target.scans import SHORT_LINE, Scans

_AXIS = 1
"""Of lines: arrays are brought to lines, elements of each, and what lies behind them."""


def scans_pass(target: Target) -> Pass:
    """Return the pass that writes running reductions along lines in pairs."""
    return Pass("cumulate in pairs", partial(_in_pairs, target.scans), exact=False)


def _in_pairs(scans: Scans | None, graph: Graph, log: PassLog) -> Graph:
    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        call = scan_call(node)
        if call is None or scans is None or not scans.are_in_pairs(call):
            return None
        assert node.op is not None
        log.applied.append(f"{node.name} of {node.types[0]} along axis {node.params['axis']}")
        reverse = node.params["reverse"]
        scan = _Scan(node.op, COMBINED[node.op], _filler(node), reverse, scans.fewest)
        # No axis of one element behind: XLA copies an array to put that in another place.
        behind = (call.behind,) if call.behind > 1 else ()
        lines = helpers.reshape(operands[0], (call.before, call.size, *behind))
        return (helpers.reshape(_in_pieces(scan, lines, scans.piece), node.types[0].shape),)

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
        first, second = self._halves(x)
        more = first.shape[_AXIS] - second.shape[_AXIS]
        begin = more if self.reverse else 0
        paired = helpers.slice_axis(first, _AXIS, begin, begin + second.shape[_AXIS])
        pairs = stored(self.whole(stored(self.combine(paired, second))))
        return self._interleaved(self.combine(self._before(pairs, more), first), pairs, size)

    def _one_by_one(self, x: Value) -> Value:
        rows = [helpers.slice_axis(x, _AXIS, i, i + 1) for i in range(x.shape[_AXIS])]
        rows = rows[::-1] if self.reverse else rows
        for i in range(1, len(rows)):
            rows[i] = self.combine(rows[i - 1], rows[i])
        return _joined(rows[::-1] if self.reverse else rows)

    def _halves(self, x: Value) -> tuple[Value, Value]:
        """Return the first and the second elements of all pairs; one more may be a first one."""
        size = x.shape[_AXIS]
        odd = 1 if self.reverse and size % 2 == 0 else 0
        return _every_second(x, odd), _every_second(x, 1 - odd)

    def _before(self, pairs: Value, more: int) -> Value:
        """Return what lies before each first element: all pairs before its own."""
        size = pairs.shape[_AXIS]
        nothing = helpers.full(self.filler, pairs.type.resized(_AXIS, 1))
        if self.reverse:
            return _joined([helpers.slice_axis(pairs, _AXIS, 1 - more, size), nothing])
        return _joined([nothing, helpers.slice_axis(pairs, _AXIS, 0, size - 1 + more)])

    def _interleaved(self, first: Value, pairs: Value, size: int) -> Value:
        lines, half, *behind = first.shape
        if pairs.shape[_AXIS] < half:
            unread = helpers.full(self.filler, pairs.type.resized(_AXIS, 1))
            pairs = _joined([pairs, unread])
        both = (pairs, first) if self.reverse and size % 2 == 0 else (first, pairs)
        apart = [helpers.reshape(x, (lines, half, 1, *behind)) for x in both]
        found = helpers.reshape(ops.concatenate(*apart, dimension=2), (lines, 2 * half, *behind))
        return helpers.slice_axis(found, _AXIS, 0, size)


def _joined(parts: Sequence[Value]) -> Value:
    parts = [part for part in parts if part.shape[_AXIS]]
    return parts[0] if len(parts) == 1 else ops.concatenate(*parts, dimension=_AXIS)


def _every_second(x: Value, begin: int) -> Value:
    behind = len(x.shape) - 2
    start, strides = (0, begin, *[0] * behind), (1, 2, *[1] * behind)
    return ops.slice(x, start=start, limit=x.shape, strides=strides)  # type: ignore[no-any-return]


def _in_pieces(scan: _Scan, x: Value, most: int) -> Value:
    """Cumulate pieces of at most so many elements one after the other."""
    if x.type.size <= most:
        wide = wide_dtype(x.dtype)
        return helpers.convert(scan.whole(helpers.convert(x, wide)), x.dtype)
    line = x.type.size // x.shape[0]
    return (
        _by_lines(scan, x, most // line) if line <= most else _by_parts(scan, x, -(-line // most))
    )


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
    """Cumulate a part of a line in each trip, in place, from what the one before it left."""
    lines, size = x.shape[:2]
    length = -(-size // parts)
    # Of few elements of the axis fewer parts may be enough.
    parts = -(-size // length)
    part = _Part(scan, _Cut(_AXIS, size, length, scan.reverse), parts)
    carried = x.type.resized(0, 1).resized(_AXIS, 1).with_dtype(wide_dtype(x.dtype))
    start = [x, helpers.full(scan.filler, carried)]
    return counted_loop(lines * parts, [], start, part.step)[0]


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

    Attributes
    ----------
    scan : _Scan
        What it does.
    cut : _Cut
        Of a line.
    parts : int
        Of each line.
    """

    scan: _Scan
    cut: _Cut
    parts: int

    def step(self, trip: Value, _: State, state: State) -> State:
        """Cumulate one part; the carry is what all before it left."""
        x, carry = state
        number = ops.remainder(trip, helpers.scalar(self.parts, INT32))
        line = ops.divide(trip, helpers.scalar(self.parts, INT32))
        begin = self.cut.begin(number)
        starts = [line, begin, *places_along(x, begin, _AXIS)[2:]]
        sizes = x.type.resized(0, 1).resized(_AXIS, self.cut.length).shape
        piece = _read(x, starts, sizes)
        found = self._cumulated(number, begin, helpers.convert(piece, carry.dtype), carry)
        end = 0 if self.scan.reverse else self.cut.length - 1
        carry = helpers.slice_axis(found, _AXIS, end, end + 1)
        found = self.cut.where_new(number, begin, helpers.convert(found, x.dtype), piece)
        return [ops.dynamic_update_slice(x, found, *starts), carry]

    def _cumulated(self, number: Value, begin: Value, piece: Value, carry: Value) -> Value:
        filler = self.scan.filler
        piece = self.cut.where_new(number, begin, piece, helpers.full_like(piece, filler))
        is_first = ops.compare(number, helpers.scalar(0, INT32), direction="EQ")
        is_first = helpers.spread(is_first, carry.shape)
        carry = ops.select(is_first, helpers.full_like(carry, filler), carry)
        carry = ops.broadcast_in_dim(
            carry, shape=piece.shape, dimensions=tuple(range(len(piece.shape)))
        )
        return self.scan.combine(carry, self.scan.whole(piece))  # type: ignore[no-any-return]


def _read(x: Value, starts: State, sizes: tuple[int, ...]) -> Value:
    """Read a piece once: XLA copies an array that it reads after it is written over."""
    return stored(ops.dynamic_slice(x, *starts, sizes=sizes))


__all__ = ["scans_pass"]
