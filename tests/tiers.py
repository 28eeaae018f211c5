"""What each test needs, and that its markers say so.

Tests without a marker compile and run nothing with XLA and start no process; `make unit` runs them.
`xla` is for what is compiled or run in this process, `process` for what starts others. A test that
does more than its markers say fails. Examples in docstrings are `xla` by themselves.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tracer import errors

NEEDS = {
    "xla": "compiles or runs a program with XLA",
    "process": "starts a process",
}
"""What a test does that has the marker."""

_seen: set[str] = set()
"""What was done since the current test began."""


def pytest_configure() -> None:
    """From now on, remember what is compiled, run and started."""
    from tracer import lowering

    # Also a program that is asked for and found in the cache: another order of tests compiles it.
    for owner, name in (
        (lowering, "compile_graph"),
        (lowering.Executable, "__init__"),
        (lowering.Executable, "__call__"),
    ):
        setattr(owner, name, _remembering("xla", getattr(owner, name)))
    for owner, name in ((subprocess.Popen, "__init__"), (os, "fork")):
        setattr(owner, name, _remembering("process", getattr(owner, name)))


def _remembering(need: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def remembering(*args: Any, **keywords: Any) -> Any:
        _seen.add(need)
        return function(*args, **keywords)

    # Errors name the user's line, and this frame is between that and the package: a part of both.
    remembering.__code__ = remembering.__code__.replace(co_filename=errors.__file__)
    return remembering


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark examples in docstrings: they show what users call, and that runs programs."""
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            item.add_marker("xla")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Forget what earlier tests did; what this one's fixtures do counts."""
    _seen.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test that passed and did what none of its markers says."""
    result = yield
    missing = sorted(need for need in _seen if item.get_closest_marker(need) is None)
    if missing:
        done = " and ".join(NEEDS[need] for need in missing)
        marks = ", ".join(f"@pytest.mark.{need}" for need in missing)
        pytest.fail(f"{item.nodeid} {done}: mark it (or its module) with {marks}", pytrace=False)
    return result
