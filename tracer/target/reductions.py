"""How long reductions are written for XLA:CPU: in stages, as data that a pass writes out.

XLA:CPU rewrites a long reduction into windows of 32 (the pass `tree_reduction_rewriter`), which it
cannot fuse with what computes the operand: `exp(-d2).sum(1)` then stores the whole matrix. Without
the pass the sum is fused, but one over leading axes strides through memory, up to forty times
slower, and long sums of float32 lose a digit. So the pass is off (`xla_options.disabled_passes`)
and reductions are cut into blocks: the first stage fuses with the operand, and a barrier keeps XLA
from fusing the stages again. Measurements: docs/memory-model.md.

No running sum of floats is long: an error grows with the number of terms. What no block cuts, as an
axis is long and has no good divisor, is summed in twice the bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tracer.ir.library_calls import ReductionCall

Places = tuple[int, ...]
TWICE_AS_WIDE: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float32): np.dtype(np.float64),
    np.dtype(np.complex64): np.dtype(np.complex128),
}


@dataclass(frozen=True)
class Blocks:
    """Which sizes a block may have, which is best, and from which size of axis on."""

    smallest: int
    best: int
    largest: int
    worthwhile: int

    def size(self, axis_size: int) -> int | None:
        """Return the divisor of an axis to cut it by, if there is a good one."""
        if axis_size < self.worthwhile:
            return None
        divisors = [n for n in range(self.smallest, self.largest + 1) if axis_size % n == 0]
        return min(divisors, key=lambda n: abs(math.log(n / self.best)), default=None)


@dataclass(frozen=True)
class Lanes:
    """How rows are reduced that are shorter than the compiler makes vectors of.

    LLVM writes loops of so few elements out before it looks for vectors: the largest of each row of
    64 float32 took 1.03 ns an element, and 0.08 as the largest of eight lanes first. Rows are
    lengthened to whole lanes. Loops that compute much for each element stay loops, and are vectors.

    Attributes
    ----------
    shortest, longest : int
        The rows that this is for.
    shortest_wide : int
        The shortest for elements of 8 bytes and more.
    share : float
        Of an element's operations, so many are as much as one row's step: a row of n elements of
        k operations is no longer written out above n * (1 + share * k) = `longest`.
    few, many : int
        The lanes of rows shorter than `long`, and of others.
    long : int
        From which length on there are many.
    least_elements : int
        Of the operand: below, a second kernel takes longer.
    least_itemsize : int
        Rows of smaller elements are not folded: whether any of 2,000,000 x 16 is true takes 3.8 ms
        in lanes, and 5.7 folded.
    folded_flops : int
        Sums of elements of so many operations are folded instead, and extremes of none.
    stored_bytes : int
        Where the lanes take more, or have elements of 8 bytes. Sums of rows, float32: 1,000,000 x
        40 take 6.7 ms in lanes and 4.9 folded, 50,000 x 64 take 0.16 and 0.3.
    """

    shortest: int = 10
    longest: int = 96
    shortest_wide: int = 16
    share: float = 0.3
    few: int = 4
    many: int = 8
    long: int = 32
    least_elements: int = 1 << 15
    least_itemsize: int = 4
    folded_flops: int = 16
    stored_bytes: int = 1 << 22

    def count(self, call: ReductionCall) -> int:
        """Return in how many lanes a reduction is done first; 0 where it is not."""
        shape, last = call.shape, len(call.shape) - 1
        if tuple(call.axes) != (last,):
            return 0
        shortest = self.shortest if call.itemsize < 8 else self.shortest_wide
        longest = self.longest / (1 + self.share * call.row_flops)
        if not shortest <= shape[last] <= longest or math.prod(shape) < self.least_elements:
            return 0
        whole = shape[last] + -shape[last] % self.few
        return self.few if whole < self.long else self.many

    def are_folded(self, call: ReductionCall) -> bool:
        """Tell whether the lanes are slices that are combined in the same kernel.

        2,000,000 x 16 float64: the sums of rows took 28 ms in lanes that are stored, and 8 folded.
        """
        if not call.is_elementwise:
            return False  # the compiler may store what is read in slices
        if call.itemsize < self.least_itemsize:
            return False
        is_large = call.itemsize >= 8 or self.bytes(call) > self.stored_bytes
        return is_large and call.row_flops <= (1 if call.is_extreme else self.folded_flops)

    def bytes(self, call: ReductionCall) -> int:
        """Return the bytes of lanes that are stored."""
        return call.itemsize * self.count(call) * math.prod(call.shape[:-1])


@dataclass(frozen=True)
class Pad:
    """Lengthen axes by what changes no result, and look again."""

    high: tuple[int, ...]


@dataclass(frozen=True)
class Split:
    """Reduce the first `stop` places of an axis, and the rest, each for itself; then both.

    To lengthen such an axis instead takes ten times as long: rows are no longer read as vectors.
    """

    axis: int
    stop: int

    def ranges(self, shape: Sequence[int]) -> tuple[tuple[Places, Places], tuple[Places, Places]]:
        """Return where the two parts start and stop."""
        middle = tuple(self.stop if axis == self.axis else 0 for axis in range(len(shape)))
        ends = tuple(self.stop if axis == self.axis else n for axis, n in enumerate(shape))
        return ((0,) * len(shape), ends), (middle, tuple(shape))


@dataclass(frozen=True)
class Widen:
    """Sum in twice the bits."""


@dataclass(frozen=True)
class Cut:
    """Reduce in two stages or more.

    Attributes
    ----------
    shape : tuple of int
        The operand's new shape.
    first_axes : tuple of int
        What the first stage reduces of it.
    partial : tuple of int
        The shape that it leaves.
    second_axes : tuple of int
        What is left to reduce of that.
    """

    shape: tuple[int, ...]
    first_axes: tuple[int, ...]
    partial: tuple[int, ...]
    second_axes: tuple[int, ...]


@dataclass(frozen=True)
class Fold:
    """Combine so many slices of the last axis, element by element, and reduce what they leave.

    Nothing is stored, and no element waits for the one before it. The last slice may reach into the
    one before it.
    """

    slices: int


Step = Pad | Split | Widen | Cut | Fold


@dataclass(frozen=True)
class Reductions:
    """Which sizes the stages have. The defaults are measured (docs/memory-model.md).

    Attributes
    ----------
    leading, last : Blocks
        A block of a leading axis keeps one cache line alive for each of its rows, and rows whose
        distance is a power of two share a few places in the cache. One of the last axis is read in
        order: it only has to be long enough to be worth a partial result.
    least_terms, most_terms : int
        One axis is summed in vectors; of several axes one element may be added after the other.
    longest_row : int
        Rows of a sum over a whole matrix stay whole up to this length: there are partial results
        enough.
    longest_chain : int
        Elements that are combined one after the other; a row is read as vectors.
    pad_to : int
        Axes are lengthened to a multiple of this.
    cheap_flops : int
        Operations for each element, in what is fused into a reduction, that padding may slow down.
    lanes : Lanes
        How short rows are reduced.
    few_elements, few_results : int
        Up to so many of the operand and of the result, extremes along leading axes are found in one
        stage, which is as fast here: there is nothing to round, and a stage takes time to compile.
    """

    leading: Blocks = Blocks(smallest=8, best=24, largest=64, worthwhile=65)
    last: Blocks = Blocks(smallest=64, best=256, largest=1024, worthwhile=2048)
    least_terms: int = 32
    most_terms: int = 512
    longest_row: int = 1 << 14
    longest_chain: int = 1 << 10
    pad_to: int = 32
    cheap_flops: int = 8
    lanes: Lanes = Lanes()
    few_elements: int = 1 << 15
    few_results: int = 4

    def step(
        self,
        call: ReductionCall,
        *,
        may_pad: bool,
        may_widen: bool,
    ) -> Step | None:
        """Return what to do first; None where one stage is best.

        Parameters
        ----------
        call : ReductionCall
            What is reduced. An extreme is the same in any order.
        may_pad : bool
            Whether its elements take little to compute: padded ones are computed under a condition,
            element by element.
        may_widen : bool
            Whether it is a sum that there are twice the bits for.
        """
        shape, axes = call.shape, call.axes
        if 0 in shape or (call.is_extreme and self._are_few(shape, axes)):
            return None
        lanes = self.lanes.count(call)
        if lanes and self.lanes.are_folded(call):
            return Fold(_slices(shape[-1], lanes))
        if lanes and (may_pad or shape[-1] % lanes == 0):
            return _in_lanes(shape, lanes)
        padding = self._padding(shape, axes) if may_pad else None
        if padding is not None:
            return padding
        blocks = self.blocks(shape, axes)
        long = self._uncut_axis(shape, axes, blocks) if may_pad else None
        if long is not None:
            return Split(long, shape[long] - shape[long] % self.last.best)
        if may_widen and self._chain(shape, axes, blocks) > self.longest_chain:
            return Widen()
        return _cut(shape, axes, blocks) if blocks else None

    def _are_few(self, shape: Sequence[int], axes: Sequence[int]) -> bool:
        are_leading = all(_is_leading(shape, axes, axis) for axis in axes)
        results = math.prod(size for axis, size in enumerate(shape) if axis not in axes)
        is_small = math.prod(shape) <= self.few_elements and results <= self.few_results
        return are_leading and is_small

    def terms(self, *, is_leading: bool) -> tuple[int, int]:
        """Return from how many terms on further axes stay whole, and how many these may make."""
        if is_leading:
            return self.leading.smallest, self.leading.largest
        return self.least_terms, self.most_terms

    def blocks(self, shape: Sequence[int], axes: Sequence[int]) -> dict[int, int]:
        """Return the size of the blocks for each reduced axis that is cut.

        A block of one element leaves an axis to the second stage: a sum over a whole matrix is one
        of its rows first, since a single chain of so many terms would lose digits.
        """
        blocks: dict[int, int] = {}
        terms, longest = 1, self._longest_row(shape, axes)
        for axis in sorted(axes, reverse=True):
            size: int | None = None
            is_leading = _is_leading(shape, axes, axis)
            least, most = self.terms(is_leading=is_leading)
            if terms >= least:
                size = 1 if terms * shape[axis] > most and shape[axis] > 1 else None
            elif is_leading or shape[axis] > longest:
                size = (self.leading if is_leading else self.last).size(shape[axis])
            if size is not None:
                blocks[axis] = size
            terms *= blocks.get(axis, shape[axis])
        return blocks

    def partial_bytes(self, call: ReductionCall) -> int:
        """Estimate what the first of the stages leaves, in bytes; 0 where there is one stage."""
        if self.lanes.count(call):
            return 0 if self.lanes.are_folded(call) else self.lanes.bytes(call)
        return call.itemsize * _partial_results(self, call.shape, call.axes)

    def _padding(self, shape: Sequence[int], axes: Sequence[int]) -> Pad | None:
        """Lengthen leading axes that have no good divisor."""
        high = [0] * len(shape)
        for axis in axes:
            is_long = shape[axis] >= self.leading.worthwhile and _is_leading(shape, axes, axis)
            if is_long and self.leading.size(shape[axis]) is None:
                high[axis] = -shape[axis] % self.pad_to
        return Pad(tuple(high)) if any(high) else None

    def _chain(self, shape: Sequence[int], axes: Sequence[int], blocks: Mapping[int, int]) -> int:
        """Return how many elements the first stage combines one after the other.

        Sixteen and more at a time where it is one axis that is read in order.
        """
        sizes = {axis: blocks.get(axis, shape[axis]) for axis in axes}
        long = [axis for axis, size in sizes.items() if size > 1]
        terms = math.prod(sizes.values())
        is_row = len(long) == 1 and not _is_leading(shape, axes, long[0])
        return terms // (self.longest_row // self.longest_chain) if is_row else terms

    def _uncut_axis(
        self, shape: Sequence[int], axes: Sequence[int], blocks: Mapping[int, int]
    ) -> int | None:
        """Return a reduced axis, read in order, that is long and that no divisor cuts well."""
        longest = max(self._longest_row(shape, axes), self.last.worthwhile - 1)
        uncut = [a for a in axes if a not in blocks and not _is_leading(shape, axes, a)]
        long = (a for a in uncut if shape[a] > longest and self.last.size(shape[a]) is None)
        return next(long, None)

    def _longest_row(self, shape: Sequence[int], axes: Sequence[int]) -> int:
        """Return up to which length the last reduced axis is summed at once."""
        is_row = any(shape[axis] >= self.last.smallest for axis in axes if axis != max(axes))
        return self.longest_row if is_row else 0


@lru_cache(maxsize=4096)
def _partial_results(rules: Reductions, shape: Places, axes: Places) -> int:
    """Estimate how many elements the first stage leaves, as if every long axis had good divisors.

    An axis without them is padded or goes in two parts, which leaves about as much.
    """
    if 0 in shape:
        return 0
    terms, is_cut = 1, False
    is_row = any(shape[axis] >= rules.last.smallest for axis in axes if axis != max(axes))
    for axis in sorted(axes, reverse=True):
        size, is_leading = shape[axis], _is_leading(shape, axes, axis)
        blocks = rules.leading if is_leading else rules.last
        least, most = rules.terms(is_leading=is_leading)
        long = rules.longest_row + 1 if is_row and not is_leading else blocks.worthwhile
        block, cuts = blocks.best, size >= long
        if terms >= least:
            block, cuts = 1, size > 1 and terms * size > most
        is_cut |= cuts
        terms *= block if cuts else size
    return math.prod(shape) // terms if is_cut else 0


def _slices(length: int, lanes: int) -> int:
    """Return about as many slices as lanes, so many that nothing is left if possible."""
    near = [n for n in range(lanes // 2, lanes * 3 // 2 + 1) if length % n == 0]
    return min(near, key=lambda n: abs(n - lanes), default=lanes)


def _in_lanes(shape: Sequence[int], lanes: int) -> Pad | Cut:
    """Return the stages of a sum over short rows, each of whole lanes, or lengthen them."""
    *rows, length = shape
    if length % lanes:
        return Pad((*(0 for _ in rows), -length % lanes))
    last = len(rows)
    return Cut((*rows, length // lanes, lanes), (last,), (*rows, lanes), (last,))


def _cut(shape: Sequence[int], axes: Sequence[int], blocks: Mapping[int, int]) -> Cut:
    new: list[int] = []
    first_axes: list[int] = []
    partial: list[int] = []
    second_axes: list[int] = []
    for axis, size in enumerate(shape):
        if axis in blocks:
            second_axes.append(len(partial))
            new.append(size // blocks[axis])
            partial.append(size // blocks[axis])
            size = blocks[axis]
            if size == 1:
                continue
        if axis in axes:
            first_axes.append(len(new))
        else:
            partial.append(size)
        new.append(size)
    return Cut(tuple(new), tuple(first_axes), tuple(partial), tuple(second_axes))


def _is_leading(shape: Sequence[int], axes: Sequence[int], axis: int) -> bool:
    """Tell whether an axis that is kept lies behind a reduced one."""
    return any(other not in axes and shape[other] > 1 for other in range(axis + 1, len(shape)))


__all__ = [
    "TWICE_AS_WIDE",
    "Blocks",
    "Cut",
    "Fold",
    "Lanes",
    "Pad",
    "Reductions",
    "Split",
    "Step",
    "Widen",
]
