"""A quarter of the cases of long lists, so that the CI keeps its 40 minutes; the next a day later.

`--part today` takes every fourth case of each test that is compiled, starts processes or needs
PyTorch and has at least `LONG` cases, and of each test of more than one case that is marked `slow`;
which ones, the day says. `--part 0` to `--part 3` are those of such a day; without the option all
cases run. Cases that are marked `sweep` are not counted: `make sweep` takes them whole.
"""

from __future__ import annotations

import collections
import datetime
import os

import pytest

LONG = PARTS = 4
_CHOSEN = "TRACER_TESTS_PART"
"""Tells the workers, which could begin after midnight."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--part", choices=("today", *map(str, range(PARTS))), help=__doc__)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the part, once for all workers."""
    part = config.getoption("--part")
    if part is not None and not hasattr(config, "workerinput"):
        today = str(datetime.date.today().toordinal() % PARTS)
        os.environ[_CHOSEN] = today if part == "today" else part


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say how to run the same again."""
    if config.getoption("--part") is None:
        return None
    return f"a quarter of the long lists of cases: --part {os.environ[_CHOSEN]}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the others."""
    if config.getoption("--part") is None:
        return
    part = int(os.environ[_CHOSEN])
    cases: dict[str, list[pytest.Item]] = collections.defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and _is_rotated(item):
            cases[item.nodeid.split("[")[0]].append(item)
    left_out = {
        item
        for found in cases.values()
        if len(found) >= LONG or any(item.get_closest_marker("slow") for item in found)
        for i, item in enumerate(found)
        if i % min(PARTS, len(found)) != part % min(PARTS, len(found))
    }
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def options() -> list[str]:
    """Return the options that take the same part in a process of its own, none where all run."""
    return ["-p", "tests.rotation", "--part", os.environ[_CHOSEN]] if _CHOSEN in os.environ else []


def _is_rotated(item: pytest.Item) -> bool:
    if item.get_closest_marker("sweep"):
        return False
    names = ("xla", "process", "torch", "slow")
    return any(item.get_closest_marker(name) is not None for name in names)
