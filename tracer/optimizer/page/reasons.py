"""What became of the large values of a program, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracer.errors import Source
from tracer.optimizer.page.live_ranges import LiveRange, LiveRanges

if TYPE_CHECKING:
    from tracer.optimizer.plan import Plan

_MOST = 30
# Smaller values decide nothing.
_SHARE = 0.01


@dataclass(frozen=True)
class Reason:
    """A large value and what became of it."""

    name: str
    nbytes: int
    reason: str
    source: Source | None


def reasons(plan: Plan, written: LiveRanges, planned: LiveRanges) -> tuple[Reason, ...]:
    """Return the values that a program stores as written or as planned, the largest first.

    Parameters
    ----------
    plan : Plan
    written, planned : LiveRanges
        What the program stores as written, and as planned.
    """
    found: dict[tuple[str, Source | None], Reason] = {}
    for reasons_of in ([*_planned(plan, planned)], [*_written(plan, written)]):
        least = _SHARE * max((reason.nbytes for reason in reasons_of), default=0)
        for reason in reasons_of:
            if reason.nbytes >= least:
                found.setdefault((reason.name, reason.source), reason)
    return tuple(sorted(found.values(), key=lambda row: -row.nbytes)[:_MOST])


def _planned(plan: Plan, planned: LiveRanges) -> Iterator[Reason]:
    """Yield what is stored in the end: whole, or a slice of it."""
    refused = {refusal.source: refusal.reason for row in plan.passes for refusal in row.refusals}
    for row in planned.ranges:
        if row.kind == "in the loop":
            yield _reason(row, "stored in each trip of a loop")
        elif row.kind != "temporary":
            yield _reason(row, f"stored: {row.kind}s are whole")
        else:
            why = None if row.source is None else refused.get(row.source)
            yield _reason(row, "stored whole" if why is None else f"stored whole: {why}")


def _written(plan: Plan, written: LiveRanges) -> Iterator[Reason]:
    """Yield what is not stored any more, as far as `_planned` has not named it."""
    loops = {
        _type(name): f"not stored: loop {number} goes over it, {loop.chunk} at a time"
        for number, loop in reversed([*enumerate(plan.loops)])
        for name, _ in loop.tensors
    }
    gone = "not stored: computed where it is read, or rewritten"
    for row in written.ranges:
        if row.kind == "temporary":
            yield _reason(row, loops.get(_type(row.name), gone))


def _type(name: str) -> str:
    return name.partition(" of ")[0]


def _reason(row: LiveRange, text: str) -> Reason:
    return Reason(row.name, row.nbytes, text, row.source)


__all__ = ["Reason", "reasons"]
