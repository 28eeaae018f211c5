"""Measure cases: each system in fresh processes, for its memory alone, then in turns for time."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.experiments.environments import Environments
from benchmarks.experiments.records import Case, Row, Settings, System, relative_error
from benchmarks.measure import Measurement, measure
from benchmarks.turns import Contender, ratio, take_turns

REPEATS = 3
TURNS = {"small": 5, "full": 7}
SHARE_OF_MEMORY = 0.6
"""Processes that take turns are all alive: together they may hold this much of the machine."""
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
Say = Callable[[str], None]


def run_case(case: Case, settings: Settings, environments: Environments, say: Say) -> list[Row]:
    """Return one row for each system; what is missing or fails is a status."""
    rows: dict[str, Row] = {}
    pythons: dict[str, str] = {}
    for system in case.systems:
        row: Row = {"system": system.name, "experiment": case.experiment, "case": case.title}
        rows[system.name] = row | dict(case.shape) | {"work": case.work}
        python = environments.python_for(system.needs)
        if python is None or settings.device not in system.devices:
            reason = environments.missing(system.needs)
            if settings.device not in system.devices:
                reason = f"runs on {' and '.join(system.devices)} only"
            rows[system.name] |= {"status": "skipped", "reason": reason}
            continue
        pythons[system.name] = python
        say(f"{case.experiment}: {case.title}: {system.name}")
        rows[system.name] |= _alone(case, system, settings, python)
    check(case, rows)
    _compare(case, rows, settings, pythons, say)
    return list(rows.values())


def _arguments(case: Case, system: System, settings: Settings) -> dict[str, Any]:
    return {
        **case.shape,
        **system.arguments,
        "device": settings.device,
        "cap_bytes": settings.cap_bytes,
    }


def _address_space(settings: Settings) -> int:
    # A GPU's driver maps the device's memory and more; the device itself is the cap there.
    return settings.cap_bytes if settings.device == "cpu" else 2**46


def _alone(case: Case, system: System, settings: Settings, python: str) -> Row:
    found = measure(
        system.path,
        arguments=_arguments(case, system, settings),
        repeats=REPEATS,
        enough_seconds=settings.seconds / 4,
        cap_bytes=_address_space(settings),
        timeout=settings.timeout,
        environment=_QUIET,
        python=python,
    )
    return _row(found) | dict(system.arguments)


def _row(found: Measurement) -> Row:
    keys = ("status", "reason", "seconds", "fastest", "slowest", "first_seconds", "peak_bytes")
    row: Row = {key: getattr(found, key) for key in (*keys, "baseline_bytes", "method")}
    report: Mapping[str, Any] = found.report or {}
    row |= report
    if "limit_bytes" in row:
        row |= _beside_limit(found, row["limit_bytes"], row["argument_bytes"])
    return row


def _beside_limit(found: Measurement, limit: int, arguments: int) -> Row:
    """Return what the first call and all calls took, arguments included, and whether they keep it.

    Only the first call is promised (docs/memory-model.md): the C library keeps freed blocks, which
    add to what later calls take.
    """
    if found.peak_bytes is None or found.first_peak_bytes is None:
        return {}
    first, measured = found.first_peak_bytes + arguments, found.peak_bytes + arguments
    return {
        "first_bytes": first,
        "measured_bytes": measured,
        "within_first": first <= limit,
        "within": measured <= limit,
    }


def check(case: Case, rows: Mapping[str, Row]) -> None:
    """Take the values out of the rows of those that ran, and put their errors in."""
    ran = [row for row in rows.values() if row["status"] == "ok"]
    values_of = [row.pop("values") for row in ran]
    expected = case.expected() if case.expected is not None and ran else None
    if case.beside_peers and len(ran) > 1:
        expected = values_of[1]
    for row, values in zip(ran, values_of, strict=True):
        if expected is not None:
            error = expected(values) if callable(expected) else relative_error(values, expected)
            row["error"] = error
            row["right"] = row["error"] <= case.tolerance
            row["error"] = min(row["error"], 1e300)  # JSON has no infinity


def _compare(
    case: Case, rows: Mapping[str, Row], settings: Settings, pythons: Mapping[str, str], say: Say
) -> None:
    """Put ratios to the first system into the rows."""
    ran = {name: row for name, row in rows.items() if row["status"] == "ok"}
    first = case.systems[0].name
    if first not in ran or len(ran) < 2:
        return
    base = ran[first]["seconds"]
    for row in ran.values():
        row |= {"ratio": row["seconds"] / base if base else math.nan, "interleaved": False}
    racing = _those_in_turns(ran, first, settings)
    if len(racing) < 2:
        return
    say(f"{case.experiment}: {case.title}: {len(racing)} systems in turns")
    systems = {system.name: system for system in case.systems}
    found = take_turns(
        {name: (systems[name].path, _arguments(case, systems[name], settings)) for name in racing},
        turns=TURNS[settings.size],
        enough_seconds=settings.seconds,
        cap_bytes=_address_space(settings),
        timeout=settings.timeout,
        pythons=pythons,
    )
    for name, contender in found.items():
        _take_times(ran[name], contender, found[first])


def _take_times(row: Row, contender: Contender, first: Contender) -> None:
    times = ratio(contender, first)
    if times is None:
        row["turns_reason"] = f"{contender.status}: {contender.reason}"
        return
    row |= {
        "seconds": contender.median,
        "fastest": min(contender.seconds),
        "slowest": max(contender.seconds),
        "ratio": times,
        "interleaved": True,
    }


def _those_in_turns(ran: Mapping[str, Row], first: str, settings: Settings) -> list[str]:
    """Return the first system and the fastest others, as many as time and memory allow."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    seconds = held = 0.0
    chosen = []
    for name in sorted(ran, key=lambda name: (name != first, ran[name]["seconds"])):
        # Three calls of each at least: one warms up.
        seconds += 3 * ran[name]["seconds"]
        held += ran[name]["baseline_bytes"] + ran[name]["peak_bytes"]
        if seconds > settings.seconds or held > SHARE_OF_MEMORY * memory:
            break
        chosen.append(name)
    return chosen


def elapsed(start: float) -> str:
    """Return the time since the start as minutes and seconds."""
    seconds = int(time.monotonic() - start)
    return f"{seconds // 60}:{seconds % 60:02d}"
