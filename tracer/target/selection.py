"""How the k largest of rows are found: in stages, in rounds or by the library's kernel.

The two ways are described where they are written (`optimizer/legalize/selections.py`).
Which is fastest, and what it takes, is the device's to say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from tracer.ir.library_calls import SelectionCall

_PACKED_BYTES = 8
"""Of the integer that holds an element's order and its place: the lower half is the place."""
_LAST_PLACE = 2**31 - 1
_PLACE_BYTES = 4
_PLACES = 9
"""Arrays like the indices that the stages hold besides: values and places, sorted, gathered by."""


@dataclass(frozen=True)
class Stages:
    """A row of `size` elements as `count` blocks of `block` elements, and a `rest`."""

    size: int
    k: int
    block: int

    @property
    def count(self) -> int:
        """Blocks, whose maxima the first stage leaves."""
        return self.size // self.block

    @property
    def rest(self) -> int:
        """Elements behind the last whole block."""
        return self.size % self.block

    @property
    def candidates(self) -> int:
        """Elements of a row that the second stage sees: the chosen blocks and the rest."""
        return self.k * self.block + self.rest


@dataclass(frozen=True)
class Work:
    """What rows take.

    Attributes
    ----------
    flops, steps : int
        Operations, and steps that one core takes one after the other.
    alive_bytes : int
        The most hidden bytes that are held at a time.
    moved_bytes : int
        Read and written besides operand and results.
    """

    flops: int
    steps: int = 0
    alive_bytes: int = 0
    moved_bytes: int = 0


@dataclass(frozen=True)
class Selection:
    """What the ways cost. Measured with jaxlib 0.10.2 on 2 cores of an AMD EPYC.

    Attributes
    ----------
    block : int
        Blocks of the first stage are multiples of this, the width of the widest vectors in float32.
    gain : int
        The stages behind the first must see at most this part of the row.
    compare_flops, across_flops : int
        What the first stage costs, in operations: of each element, and of each block, which ends
        with one across a vector. Nanoseconds an element: 0.2 for blocks of 16, 0.1 for 48.
    most_rounds : int
        With more rounds the kernel is as fast, or faster: 200 of 400 elements take 26 ms by either,
        200 of 1,000 take 70 and 46.
    round_flops, round_steps, start_steps : int, float, int
        What an element of a round costs, in operations; in steps of one core, and what a round
        costs.
    shift_steps, order_steps : int
        Steps of a comparison of the library's kernel that moves something: to put an element in,
        and to take the best one out.
    """

    block: int = 16
    gain: int = 4
    compare_flops: int = 3
    across_flops: int = 80
    most_rounds: int = 128
    round_flops: int = 10
    round_steps: float = 0.5
    start_steps: int = 1_500
    shift_steps: int = 35
    order_steps: int = 9

    def stages(self, size: int, k: int) -> Stages | None:
        """Return the stages for rows of `size` elements, if they are worth it.

        A maximum and a candidate cost about the same, so the sum of their numbers counts; it is
        smallest for blocks of sqrt(size / k).
        """
        if k == 0:
            return None
        block = max(self.block, round(math.sqrt(size / k) / self.block) * self.block)
        stages = Stages(size, k, block)
        if stages.count < k or self.gain * (stages.count + stages.candidates) > size:
            return None
        return stages

    def are_rounds_faster(self, call: SelectionCall) -> bool:
        """Tell whether rounds take less time than the kernel, if there were but one core."""
        fits = 2 * call.itemsize <= _PACKED_BYTES and call.size <= _LAST_PLACE
        if not 0 < call.k <= self.most_rounds or not fits:
            return False
        by_rounds = call.k * (call.rows * call.size * self.round_steps + self.start_steps)
        return by_rounds < call.rows * self._kernel_steps(call)

    def work(self, call: SelectionCall) -> Work:
        """Return what rows take in the fastest way."""
        found, stages = _work(self, call), self.stages(call.size, call.k)
        if stages is None:
            return found
        places = _PLACES * _PLACE_BYTES * call.rows * call.k
        seen = call.rows * (stages.count + stages.candidates)
        return replace(
            found,
            alive_bytes=found.alive_bytes + places,
            moved_bytes=2 * seen * call.itemsize,
        )

    def _at_once(self, call: SelectionCall) -> Work:
        """Return what rows take by rounds or by the library's kernel."""
        rows, size, k = call.rows, call.size, call.k
        if self.are_rounds_faster(call):
            flops = self.round_flops * rows * size * k
            # The last of each row besides, twice: it is a row and a column.
            return Work(flops, k * self.start_steps, _PACKED_BYTES * rows * (size + k + 2))
        return Work(call.comparisons, rows * self._kernel_steps(call))

    def _kernel_steps(self, call: SelectionCall) -> int:
        """Return the steps of the library's kernel for one row.

        Of elements in random order k ln(n / k) get into a heap of the k best, each past log2(k)
        others (Knuth, *The Art of Computer Programming*, volume 3, 5.2.3). Microseconds measured,
        and by this count at 0.43 ns a step: k = 10: n = 80 1.05, 1.2; 1,260 3.4, 3.3; 6,000 6.1,
        5.8; k = 100: n = 172 8.1, 8.1; 1,260 24, 28; 6,000 39, 46. Other dtypes: 15 ns a comparison
        of a sort.
        """
        size, k = call.size, call.k
        if not call.is_float32:
            return int(self.shift_steps * size * math.log2(max(size, 2)))
        if not k:
            return size
        put_in = math.log(max(size, 1) / k)
        moves = self.shift_steps * put_in + self.order_steps
        return int(size + k * math.log2(max(k, 2)) * moves)


@lru_cache(maxsize=4096)
def _work(prices: Selection, call: SelectionCall) -> Work:
    """Return the stages' work, and the most bytes that they hold at a time.

    The kernel takes a copy of the maxima, for NaN; candidates are gathered in that form.
    """
    stages = prices.stages(call.size, call.k)
    if stages is None:
        return prices._at_once(call)
    rows, k, itemsize = call.rows, call.k, call.itemsize
    blocks, candidates = (
        _work(prices, replace(call, size=size)) for size in (stages.count, stages.candidates)
    )
    order = prices._at_once(SelectionCall(rows, k, k, _PLACE_BYTES))
    gathered = rows * k * stages.block * itemsize if stages.rest else 0
    maxima, chosen = (rows * count * itemsize for count in (stages.count, stages.candidates))
    first = prices.compare_flops * stages.size + prices.across_flops * stages.count
    return Work(
        rows * first + blocks.flops + order.flops + candidates.flops,
        blocks.steps + order.steps + candidates.steps,
        max(
            maxima + (blocks.alive_bytes or maxima),
            chosen + max(gathered, candidates.alive_bytes),
        ),
    )


__all__ = ["Selection", "Stages", "Work"]
