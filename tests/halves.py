"""Half of the cases of long lists, so that the CI keeps its 40 minutes; the other half a day later.

`--half today` takes every second case of each test that is compiled or starts processes and has at
least `LONG` cases, the even ones on even days. `--half 0` and `--half 1` are those of such a day;
without the option all cases run, and so they do in `make sweep`. Tests that a part of is marked
`sweep` are short already.
"""

from __future__ import annotations

import collections
import datetime
import os

import pytest

LONG = 4
_CHOSEN = "TRACER_TESTS_HALF"
"""Tells the workers, which could begin after midnight."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--half", choices=("today", "0", "1"), help=__doc__)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the half, once for all workers."""
    half = config.getoption("--half")
    if half is not None and not hasattr(config, "workerinput"):
        today = str(datetime.date.today().toordinal() % 2)
        os.environ[_CHOSEN] = today if half == "today" else half


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say how to run the same again."""
    half = config.getoption("--half")
    return (
        None if half is None else f"half of the long lists of cases: --half {os.environ[_CHOSEN]}"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the other half."""
    if config.getoption("--half") is None:
        return
    half = int(os.environ[_CHOSEN])
    cases: dict[str, list[pytest.Item]] = collections.defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and _is_slow(item):
            cases[item.nodeid.split("[")[0]].append(item)
    left_out = {
        item
        for found in cases.values()
        if len(found) >= LONG and not any(item.get_closest_marker("sweep") for item in found)
        for i, item in enumerate(found)
        if i % 2 != half
    }
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def _is_slow(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) is not None for name in ("xla", "process"))
