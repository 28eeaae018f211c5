"""Square tiles instead of thin slices, where the budget or the caches allow only few rows.

A kernel over 10 rows of 200,000 elements may run along the short side, libraries pack the long
operand again for every 10 rows, and sums over the rows are read and written as often. Each slice
may have to read an array in storage. A slice of more rows exceeds the budget, so it is cut again
along the other axis. Longer slices, cut the same way, also help an axis along which results are
merged in every trip, such as the k largest: they merge less often. Source: loop tiling, Wolf & Lam,
"A data locality optimizing algorithm" (PLDI 1991).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tracer.ir import Graph, registry
from tracer.optimizer.loops.split.alike import SplitCache
from tracer.optimizer.loops.split.chunk import SplitSettings, balanced
from tracer.optimizer.loops.split.generated import nodes_read_again
from tracer.optimizer.loops.split.grouping import Loop
from tracer.optimizer.loops.split.region import Region, Subject, is_merged
from tracer.optimizer.model.liveness import body_extra_bytes
from tracer.optimizer.model.speed import trip_seconds
from tracer.target import Target

# Bodies of more nodes take long to split on trial.
_MOST_NODES = 100
# A square tile, and smaller ones where it is over the budget.
_PARTS = (1, 2, 4, 8)
# Thin slices are slower than the time model knows, which sees the traffic only.
_ABOUT = 1.1
# Longer slices have to be faster where they only merge less often.
_FASTER = 0.95


def tile_rows(
    subject: Subject,
    region: Region,
    loop: Loop,
    rows: int,
    settings: SplitSettings,
    alike: SplitCache,
    cut_again: Callable[[Graph], tuple[Graph, list[int]]],
) -> int:
    """Return the slice size for square tiles instead of `rows`, where that helps.

    Parameters
    ----------
    subject : Subject
    region : Region
    loop : Loop
    rows : int
        The slice size that keeps the budget.
    settings : SplitSettings
    alike : SplitCache
    cut_again : callable
        Splits the body of a loop; returns also the lengths of the axes that were cut.
    """
    again, merges = _reads_again(subject, region, loop), is_merged(subject, loop.heads)
    if loop.streams or len(loop.nodes) > _MOST_NODES or not (settings.by_time or again):
        return rows
    largest, slower = _aim(subject, region, loop, rows, settings.machine, again, merges)
    if largest <= rows:
        return rows
    trips = alike.trips(subject, region, loop, settings.machine)
    if trips.nbytes(rows) > settings.budget_bytes and not again:
        return rows  # It is cut again as it is.
    most = slower * trips.seconds(rows) / rows
    for part in _PARTS:
        wide = balanced(region.length, largest // part, settings.machine)
        if wide <= rows:
            break
        tiled, lengths = cut_again(trips.body(wide))
        # Loops after the first may cut the remainder of the other axis, for which thin slices are
        # short; one of the same length cuts this axis again.
        if not lengths or lengths[0] == wide or (lengths[0] < wide and not (merges or again)):
            break
        fits = body_extra_bytes(tiled) <= settings.budget_bytes
        if fits and trip_seconds(tiled, settings.machine) / wide <= most:
            return wide
    return rows


def _aim(
    subject: Subject,
    region: Region,
    loop: Loop,
    rows: int,
    machine: Target,
    again: bool,
    merges: bool,
) -> tuple[int, float]:
    """Return the slice size to try first, and how many times as long it may take for an element.

    `rows` where there is nothing to try.
    """
    beside = _beside(region, loop)
    square = min(math.isqrt(rows * beside), region.length // 2)
    if again:
        return square, math.inf
    if merges:
        return longest_slice(region, loop, rows, machine), _FASTER
    if _is_thin(region, rows, beside, machine) and _adds_only(subject, loop):
        return square, _ABOUT
    return rows, _ABOUT


def _reads_again(subject: Subject, region: Region, loop: Loop) -> bool:
    """Tell whether each trip reads all of an array in storage: few of them are to do so."""
    return any(
        axis is None and nodes_read_again(value, region)
        for node, label in loop.nodes
        for _, value, axis in subject.sliced_operands(node, label)
    )


def longest_slice(region: Region, loop: Loop, rows: int, machine: Target) -> int:
    """Return the longest slice to be cut into tiles, instead of `rows`, so as to merge seldom.

    The largest tiles have twice as many elements as the slices.
    """
    beside = _beside(region, loop)
    longest = 2 * rows * beside // max(1, balanced(beside, machine.sizes.merged_rows, machine))
    return max(rows, min(longest, region.length // 2))


def _beside(region: Region, loop: Loop) -> int:
    """Return the number of elements in one step of the axis, for the largest value."""
    sizes = [t.size for node, _ in loop.nodes if node in region.virtual for t in node.types]
    return max(sizes, default=0) // region.extent


def _is_thin(region: Region, rows: int, beside: int, machine: Target) -> bool:
    """Tell whether rows are few beside the elements that lie in one step of the axis."""
    sizes = machine.sizes
    if region.extent < sizes.long_share * sizes.thin_rows:
        return False  # A few batches are no thin slices.
    is_few = rows * region.extent < sizes.thin_rows * region.length
    return beside >= (sizes.long_share if is_few else sizes.very_long_share) * rows


def _adds_only(subject: Subject, loop: Loop) -> bool:
    """Tell whether results would be written or added up in tiles.

    The k largest, which are sorted again in every trip, would be so in every tile.
    """
    rules = (subject.rule(node) for node, _ in loop.nodes)
    return all(registry()[name].merge is None for rule in rules for name in rule.reduced.values())
