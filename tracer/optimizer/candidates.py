"""Candidates of the planner, and the settings with which programs are split."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tracer.ir import Graph
from tracer.optimizer.loops.split import LoopRow, SplitCache, SplitSettings
from tracer.optimizer.passes import PassRow
from tracer.optimizer.remat import Rematerialiser
from tracer.target import Target


@dataclass(frozen=True)
class Candidate:
    """One program that computes what the user asked for, and what it is predicted to take."""

    graph: Graph
    rows: tuple[PassRow, ...]
    loops: tuple[LoopRow, ...]
    peak_bytes: int
    is_ordered: bool = False
    """XLA is made to keep the graph's order."""
    settings: SplitSettings | None = None
    """With which it was split."""
    room: int | None = None
    """The bytes for which values are computed again."""
    final_rows: tuple[PassRow, ...] = ()
    """Those of `rows` that the last stage added, which runs again for another order."""


@dataclass(frozen=True)
class CandidateRow:
    """A program that was compiled to see what it takes.

    Attributes
    ----------
    what : str
        How it differs from the whole program.
    peak_bytes : int
        Predicted.
    compiled_bytes : int
        XLA's count and the modelled scratch.
    """

    what: str
    peak_bytes: int
    compiled_bytes: int


@dataclass(frozen=True)
class Way:
    """How a candidate was made of the whole program; the same can be done for other shapes.

    Attributes
    ----------
    place : int or None
        That of the settings with which it was split, among those that the planner tries.
    room : int or None
        The bytes for which values were computed again.
    is_ordered : bool
        XLA was made to keep the graph's order.
    """

    place: int | None
    room: int | None
    is_ordered: bool


def candidate_row(candidate: Candidate, compiled_bytes: int) -> CandidateRow:
    """Return the row of a compiled candidate."""
    loops = len(candidate.loops)
    whole = f"{loops} loop{'s' if loops > 1 else ''}" if loops else "whole"
    what = f"{whole}, in our order" if candidate.is_ordered else whole
    return CandidateRow(what, candidate.peak_bytes, compiled_bytes)


Split = tuple[tuple[PassRow, ...], Candidate]


@dataclass
class PlanningCache:
    """Results of planners of the same call for other limits, which this one need not find again.

    Attributes
    ----------
    splits : dict
        Split programs, by the fingerprint of the graph and the settings.
    alike : SplitCache
        What the split pass found for equal loops.
    rematerialiser : Rematerialiser or None
        What computes values again; it knows the programs it has looked at.
    seconds : dict
        Times by the time model, by the graph's fingerprint.
    compiled : list of CandidateRow
        The programs that were compiled, in their order.
    cuts : dict
        The programs of a search over cuts, by the fingerprint of the graph.
    prefixes : dict
        Programs after the passes that depend on no limit, with the passes' rows.
    """

    splits: dict[tuple[str, SplitSettings], Split] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    prefixes: dict[tuple[str, int | None], tuple[Graph, tuple[PassRow, ...]]] = field(
        default_factory=dict
    )
    cuts: dict[str, list[Candidate]] = field(default_factory=dict)
    compiled: list[CandidateRow] = field(default_factory=list)
    alike: SplitCache = field(default_factory=SplitCache)
    rematerialiser: Rematerialiser | None = None


# The same for every limit, so that the smallest limit that can be met does not hang on the one that
# was asked for. Small slices of everything make few loops that compute little again.
# Bytes of a trip and of what is cut, whatever the limit and the machine: memory to fall back on.
_TIGHT = tuple(
    (threshold, working_set)
    for working_set in (1 << 22, 1 << 20, 1 << 18)
    for threshold in (1 << 22, 1 << 18, 1 << 14)
    if threshold <= working_set
)
# A value of one part in so many of what a program takes is not worth a cut.
_LITTLE = 16
# No trip is above this budget, in bytes.
_ANY = 1 << 60
_SMALLEST = ((1 << 12, 1), (1 << 16, 1), (1 << 20, 1))


def tight_settings(machine: Target) -> tuple[SplitSettings, ...]:
    """Return settings for little memory, from the largest trips to the smallest."""
    return tuple(_settings_for_memory(sizes, machine) for sizes in _TIGHT)


def smallest_settings(machine: Target) -> tuple[SplitSettings, ...]:
    """Return settings for the least memory: trips of one step."""
    return tuple(_settings_for_memory(sizes, machine) for sizes in _SMALLEST)


def step_settings(sizes: Iterable[int], machine: Target) -> tuple[SplitSettings, ...]:
    """Return settings for trips of one step that cut values of so many bytes, and larger ones."""
    return tuple(_settings_for_memory((max(1, size - 1), 1), machine) for size in sizes)


def cut_settings(least: int, machine: Target) -> SplitSettings:
    """Return the settings of a search over cuts, in trips of one step.

    Values far below what the smallest known program takes, in bytes, are left alone: they are not
    what a smaller one would save.
    """
    return SplitSettings(
        threshold_bytes=least // _LITTLE,
        working_set_bytes=1,
        budget_bytes=_ANY,
        trust_fusion=False,
        machine=machine,
        by_time=False,
        in_steps=True,
    )


def _settings_for_memory(sizes: tuple[int, int], machine: Target) -> SplitSettings:
    threshold, trip = sizes
    return SplitSettings(
        threshold,
        trip,
        trip,
        trust_fusion=False,
        machine=machine,
        by_time=False,
        cut_scratch=True,
        cut_loops=True,
    )


def limit_settings(
    room: int, machine: Target, split_bytes: int | None = None, live: Iterable[int] = ()
) -> Iterator[SplitSettings]:
    """Yield settings from the fastest to the tightest: the share of the room a trip takes.

    What is below the threshold stays stored. A share of the room would do for a few large values;
    deep networks keep hundreds of small ones, so those alive at the peak may take half of it.

    Parameters
    ----------
    room : int
        The bytes of the limit that arguments and results leave.
    machine : Target
        What decides between slice sizes.
    split_bytes : int, optional
        The most that a slice of one tensor may take.
    live : iterable of int
        The bytes of each value that is alive at the peak.
    """
    sizes = sorted(live)
    sums = zip(sizes, itertools.accumulate(sizes), strict=True)
    most = next((size - 1 for size, total in sums if total > room // 2), room)
    for trust_fusion in (True, False):
        for share, part in ((4, 0.875), (4, 0.5), (16, 0.5), (16, 0.25), (64, 0.25)):
            budget = max(1, int(part * room))
            yield SplitSettings(
                threshold_bytes=max(1 << 12, min(most, room // share)),
                working_set_bytes=max(1, min(machine.trip_bytes, budget)),
                budget_bytes=budget,
                split_bytes=split_bytes,
                trust_fusion=trust_fusion,
                machine=machine,
                cut_scratch=True,
                cut_loops=True,
            )


def user_settings(threshold: int, split_bytes: int | None, machine: Target) -> SplitSettings:
    """Return the settings for the paper's two options."""
    split = split_bytes or threshold
    working_set = min(split, machine.trip_bytes)
    return SplitSettings(threshold, working_set, split, split, machine=machine)


__all__ = [
    "Candidate",
    "CandidateRow",
    "PlanningCache",
    "candidate_row",
    "cut_settings",
    "limit_settings",
    "smallest_settings",
    "tight_settings",
    "user_settings",
]
