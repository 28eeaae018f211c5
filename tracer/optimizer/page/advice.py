"""What would take the peak of a planned program lower."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracer.optimizer.page.live_ranges import LiveRanges
from tracer.units import format_bytes

if TYPE_CHECKING:
    from tracer.optimizer.plan import Plan

_MOST_VALUES = 3
_WIDE = ("float64", "complex128")


def advice(plan: Plan, planned: LiveRanges) -> Iterator[str]:
    """Yield one phrase each; nothing is compiled for it.

    Parameters
    ----------
    plan : Plan
    planned : LiveRanges
        What the planned program stores.
    """
    yield from _limit(plan)
    peak = _peak_step(planned)
    alive = [row for row in planned.ranges if row.first <= peak <= row.last]
    for row in [row for row in alive if row.kind != "argument"][:_MOST_VALUES]:
        place = f"  ({row.source})" if row.source else ""
        yield f"alive at the peak: {row.name}, {format_bytes(row.nbytes)}{place}"
    wide = sum(row.nbytes for row in alive if row.name.startswith(_WIDE))
    if wide:
        yield f"half as wide numbers: {format_bytes(wide)} at the peak have 64 bits a part"
    for possible in plan.aliases.possible:
        nbytes = format_bytes(possible.nbytes)
        yield f"donate {possible.argument}, if it is needed no more: results take over {nbytes}"


def _limit(plan: Plan) -> Iterator[str]:
    low, high = plan.minimum_bytes_bounds
    if plan.limit_bytes is None:
        yield f"ask for less: memory_limit={plan.compiled_bytes // 2}, for half of it"
    elif low < high:
        yield "a smaller limit: plan.minimum_bytes searches for the smallest"


def _peak_step(found: LiveRanges) -> int:
    live = found.live_bytes
    return max(range(len(live)), key=live.__getitem__, default=0)


__all__ = ["advice"]
