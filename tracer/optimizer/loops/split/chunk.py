"""How many steps along the axis one trip of a loop computes: elements, or blocks of them.

The fastest slice is not the largest that fits. Slices whose working set stays in the last-level
cache beat both tiny ones (kernel starts, operands packed in each trip) and large ones (memory
traffic); docs/planner.md has the rates that were measured. So the time model
(`optimizer/model/speed.py`) prices sizes around a working set, capped by the byte budget.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tracer import ops
from tracer.ir import storage
from tracer.optimizer.loops.split.alike import SplitCache, Trips
from tracer.optimizer.loops.split.grouping import Loop
from tracer.optimizer.loops.split.region import Region, Subject
from tracer.target import DEFAULT_TARGET, Target


@dataclass(frozen=True)
class SplitSettings:
    """What a split aims for, in bytes.

    Attributes
    ----------
    threshold_bytes : int
        Values above this are computed in slices.
    working_set_bytes : int
        Bytes that the slices of one trip should take: a share of the last-level cache.
    budget_bytes : int
        Bytes that the slices of one trip may take at most.
    split_bytes : int or None
        The most that a slice of any one tensor may take (the option `tensor_split_size`).
    trust_fusion : bool
        Cut only what the peak model says is stored; else every value above the threshold, as if
        XLA fused nothing.
    machine : Target
        What decides between slice sizes.
    by_time : bool
        Cut an axis that is clearly faster, and square tiles instead of thin slices; else the axis
        that computes least again.
    is_tile : bool
        The graph is a slice that is to be cut along the other axis.
    cut_scratch : bool
        Cut what is stored besides results too, as the partial results of a long reduction.
    cut_loops : bool
        Cut loops over steps too, along axes that all steps leave alone.
    in_steps : bool
        Trips compute one step each, whatever they take, and are not cut again.
    """

    threshold_bytes: int
    working_set_bytes: int
    budget_bytes: int
    split_bytes: int | None = None
    trust_fusion: bool = True
    machine: Target = DEFAULT_TARGET
    by_time: bool = True
    is_tile: bool = False
    cut_scratch: bool = False
    cut_loops: bool = False
    in_steps: bool = False


# What a trip takes does not quite grow with its slice: so often it is corrected.
_CORRECTIONS = 2
# Working sets that are tried, beside the one that is aimed for.
_SHARES = (0.25, 0.5, 1.0, 2.0)
# And the whole budget, for trips of many kernels each of which is small whatever the caches hold of
# all. It has to take so much less time, and to leave nothing above the threshold: a second cut.
_CLEARLY = 0.9
# What each element takes is asked for again where it is so many times the estimate.
_STEP = 2
# Trips that leave no remainder, which is compiled as long as they, may take so much longer by the
# model. Of six programs with such trips it says 1.00 to 1.13; they took 0.8 to 1.04 times as long.
_AS_FAST = 1.15
# The least share of a trip's bytes that a block in storage has where it is rounded up to pages.
_READ_SHARE = 1 / 8


def slice_bytes(
    region: Region, nbytes: Callable[[int], int], machine: Target
) -> tuple[float, float]:
    """Return the bytes that each element of the axis adds to a trip, and those of a trip of none.

    The latter are what a trip holds whatever its slice: small squares, scratch of libraries.
    """
    small = min(region.length, machine.sizes.product_rows)
    large = min(region.length, 2 * small)
    at_small, at_large = (nbytes(size) for size in (small, large))
    if large == small:
        return max(1.0, at_small / small), 0.0
    each = max(1.0, (at_large - at_small) / (large - small))
    return each, max(0.0, at_small - each * small)


def choose_chunk(
    subject: Subject, region: Region, loop: Loop, settings: SplitSettings, alike: SplitCache
) -> int:
    """Return the slice size for a loop that is fastest by the time model, under the settings.

    Above the budget where less than a page of an array in storage would be read at once. Whole
    large pages of it are read, if they are no fewer bytes and within the budget.
    """
    rows = 1 if settings.in_steps else _within_budget(subject, region, loop, settings, alike)
    reads = stored_bytes(loop)
    if not reads:
        return rows
    page = -(-storage.PAGE * region.length // reads)
    if rows < page:
        return max(rows, min(page, region.length // 2))
    pages = -(-rows * reads // (region.length * storage.LARGE_PAGE))
    more = pages * storage.LARGE_PAGE * region.length // reads
    trips = alike.trips(subject, region, loop, settings.machine)
    # In a trip that takes much more than its block, reading is little of the time: a bound of a
    # sparse Gaussian process took 1.5 times as long in trips of 27 MB as in the 19 chosen.
    is_read = rows * reads >= _READ_SHARE * trips.nbytes(rows) * region.length
    fits = is_read and rows < more <= min(2 * rows, region.length // 2)
    return more if fits and trips.nbytes(more) <= settings.budget_bytes else rows


def stored_bytes(loop: Loop) -> int:
    """Return the bytes of the largest value that a loop reads out of storage."""
    return max((n.types[0].nbytes for n, _ in loop.nodes if n.op is ops.read_stored), default=0)


def reads_large_pages(region: Region, loop: Loop, rows: int) -> bool:
    """Tell whether a trip of so many steps reads a block of at least one large page.

    Memory for it is in large pages as far as whole ones go: blocks of 3.2 MB are read at 2.7 GB/s
    here, and those of 4.2 MB at 4.0.
    """
    return rows * stored_bytes(loop) >= region.length * storage.LARGE_PAGE


def _within_budget(
    subject: Subject, region: Region, loop: Loop, settings: SplitSettings, alike: SplitCache
) -> int:
    """Return the slice size that is fastest by the time model, under the settings."""
    trips = alike.trips(subject, region, loop, settings.machine)
    budget = settings.budget_bytes
    line = slice_bytes(region, trips.nbytes, settings.machine)
    chosen = rows = _fastest(region, trips, settings, line)
    steeper = _steeper(region, trips, line, rows) if trips.nbytes(rows) > budget else None
    if steeper is not None:
        chosen = rows = _fastest(region, trips, settings, steeper)
    # Above the budget a trip is cut again, which computes things again: better a smaller one, but
    # only if that is within the budget.
    for _ in range(_CORRECTIONS + 1):
        taken = trips.nbytes(rows)
        if taken <= budget:
            return rows
        rows = balanced(region.length, max(1, rows * budget // taken), settings.machine)
        if rows < chosen // 4:
            break
    return chosen


def _steeper(
    region: Region, trips: Trips, line: tuple[float, float], rows: int
) -> tuple[float, float] | None:
    """Return the bytes of each element where a trip of so many takes much more than estimated.

    A sum over few rows has no partial results, one over many has. None where there is no such step.
    """
    each, always = line
    found = (trips.nbytes(rows) - always) / rows
    return (found, always) if found > _STEP * each else None


def _fastest(
    region: Region, trips: Trips, settings: SplitSettings, line: tuple[float, float]
) -> int:
    each, always = line
    budget = settings.budget_bytes
    room = replace(settings, budget_bytes=budget - int(always) if always < budget / 2 else budget)

    def seconds(rows: int) -> float:
        return trips.seconds(rows) * region.length / rows

    shares = (share * settings.working_set_bytes for share in _SHARES)
    sizes = sorted({_rows(region, each, share, room) for share in shares}, reverse=True)
    chosen = min(sizes, key=seconds) if len(sizes) > 1 else sizes[0]
    uncut = min(settings.threshold_bytes, settings.split_bytes or settings.threshold_bytes)
    largest = _rows(region, each, room.budget_bytes, replace(room, split_bytes=uncut))
    if largest > chosen and seconds(largest) < _CLEARLY * seconds(chosen):
        return largest
    return chosen


def _rows(region: Region, each: float, working_set: float, settings: SplitSettings) -> int:
    """Return the slice size for a working set in bytes; one element more takes `each` of them."""
    rows = int(min(working_set, settings.budget_bytes) / each)
    least = max(1, settings.machine.sizes.product_rows * region.length // region.extent)
    if rows < least:
        rows = min(least, int(settings.budget_bytes / each))
    # At least two trips: one would store the whole values again.
    most = min(int(settings.budget_bytes / each), region.length // 2)
    if settings.split_bytes is not None:
        largest = max(type.nbytes for node in region.virtual for type in node.types)
        most = min(most, settings.split_bytes * region.length // max(1, largest))
    return balanced(region.length, max(1, min(rows, most)), settings.machine, most)


def dividing(length: int, rows: int, seconds: Callable[[int], float]) -> int:
    """Return a slice size of half of `rows` and more that divides `length`, if one is as fast.

    Otherwise `rows`. `seconds` of a trip are by the time model.
    """
    sizes = (size for size in range(rows, max(1, -(-rows // 2) - 1), -1) if length % size == 0)
    size = next(sizes, rows)
    return size if seconds(size) / size <= _AS_FAST * seconds(rows) / rows else rows


def balanced(length: int, rows: int, machine: Target, most: int = 0) -> int:
    """Return a slice size near `rows` that divides `length`, or else is aligned to vectors.

    It is above `rows` by an eighth at most, and not above `most`. Lengths are often powers of two,
    and so is what the caches hold, less a little: attention over 16,384 places takes 1.06 s in
    slices of 120, the last of which begins early, and 0.96 of 128.
    """
    above = max(rows, min(most, rows * 9 // 8))
    for size in range(above, max(1, rows * 2 // 3), -1):
        if length % size == 0:
            return size
    aligned = machine.sizes.vector_rows
    return rows - rows % aligned if rows >= 2 * aligned else rows
