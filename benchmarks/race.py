"""Time several programs side by side: interleaved in one run, so that all meet the same machine."""

from __future__ import annotations

import dataclasses
import importlib.util
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from examples.display import print_table


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds of one call: median and extremes over the rounds."""

    median: float
    fastest: float
    slowest: float


def race(runs: Mapping[str, Callable[[], Any]], *, rounds: int, calls: int = 1) -> dict[str, Times]:
    """Time calls of every run, all of them in every round.

    Parameters
    ----------
    runs : mapping of str to callable
        Each computes everything and waits for it.
    rounds : int
        How often; the median over the rounds counts.
    calls : int
        Calls in a row within a round, for what takes microseconds.

    Returns
    -------
    dict of str to Times
        Seconds for one call.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            for _ in range(calls):
                run()
            seconds[name].append((time.perf_counter() - start) / calls)
    return {
        name: Times(statistics.median(found), min(found), max(found))
        for name, found in seconds.items()
    }


def print_race(title: str, times: Mapping[str, Times], *, ours: str) -> None:
    """Print a table of times and their ratios to ours."""
    rows = [
        (
            name,
            short_time(row.median),
            f"{short_time(row.fastest)} .. {short_time(row.slowest)}",
            f"{row.median / times[ours].median:.2f}",
        )
        for name, row in times.items()
    ]
    print_table(title, ("program", "median", "fastest .. slowest", "times ours"), rows)
    print()


def short_time(seconds: float) -> str:
    """Return a time with three digits and the unit that fits."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def has_jax(what: str) -> bool:
    """Tell whether jax is here to compare with; says so when it is not."""
    if importlib.util.find_spec("jax") is not None:
        return True
    print(f"{what}: jax is not installed, so ours runs alone (pip install 'tracer[benchmark]')\n")
    return False
