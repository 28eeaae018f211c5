"""What became of each test in each leg of .ci/run, and which tests no leg ran.

A test that is skipped everywhere checks nothing, and nobody sees it. As a plugin
(`-p tests.outcomes --outcomes FILE`) this writes the outcome of every test; as a program
(`python -m tests.outcomes FOLDER`) it joins the files of a folder and fails when a test was skipped
in each leg that had it, unless the reason of the skip is one of `ACCEPTED`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ACCEPTED = {
    "needs a GPU": "no machine of the CI has one; benchmarks/devices.py runs them where there is",
    "no compiler for ": "the TPU's and the GPU's compilers come with the extras tpu and cuda13, "
    "of which each takes a gigabyte",
    "the fault is in jaxlib 0.10, on machines with AVX-512": "it runs on "
    "those machines of the CI that are such; on all, test_wrong_values_switch_wide_vectors_off is",
    "could not import 'nnsmith'": "it brings z3 and hydra; the judging of models is tested without",
    "the file system of the tests has no direct reads": "some have none; ext4 and xfs do",
    "the system has no large pages": "a setting of the machine's; blocks are then in small ones",
    "no mounts may be made here": "containers forbid it; the test takes folders away",
    "only root becomes another user": "the CI's user may be no root",
    "another user may not read this folder": "so it is in a user's home",
    "no browser": "Chromium brings a third of a gigabyte; the page's text is tested without it",
}
"""Beginnings of reasons for which a test may be skipped in every leg, and why it may."""

Outcomes = dict[str, str]
SKIPPED = "skipped: "


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file."""
    parser.addoption("--outcomes", help="write what became of each test into this file")


def pytest_configure(config: pytest.Config) -> None:
    """Collect outcomes in the process that sees all reports, not in its workers."""
    path = config.getoption("--outcomes")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(path)), "tests.outcomes.recorder")


class Recorder:
    """Writes the outcome of each test when the run ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: Outcomes = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what a test came to: a skip, with its reason, or that it ran."""
        if report.skipped and not hasattr(report, "wasxfail"):
            self.outcomes[report.nodeid] = SKIPPED + _reason(report)
        elif report.when == "call" or report.failed:
            self.outcomes[report.nodeid] = "ran"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep modules that are skipped whole."""
        if report.skipped:
            self.outcomes[report.nodeid] = SKIPPED + _reason(report)

    def pytest_sessionfinish(self) -> None:
        """Write the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.outcomes, indent=0, sort_keys=True))


def _reason(report: Any) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(text).removeprefix("Skipped: ")


def never_ran(legs: Mapping[str, Outcomes]) -> Outcomes:
    """Return the tests and modules that every leg skipped, with the reason of the last one."""
    skipped: Outcomes = {}
    ran: set[str] = set()
    for outcomes in legs.values():
        for name, outcome in outcomes.items():
            if outcome.startswith(SKIPPED):
                skipped[name] = outcome.removeprefix(SKIPPED)
            else:
                ran |= {name, name.split("::")[0]}
    return {name: reason for name, reason in skipped.items() if name not in ran}


def main(folder: str) -> int:
    """Print what no leg ran, and return 1 when there is something without an accepted reason."""
    legs = {path.stem: json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))}
    if not legs:
        print(f"no outcomes in {folder}")
        return 1
    for leg, outcomes in legs.items():
        skips = sum(outcome.startswith(SKIPPED) for outcome in outcomes.values())
        print(f"{leg}: {len(outcomes) - skips} tests ran, {skips} were skipped")
    found = never_ran(legs)
    accepted = {name for name, text in found.items() if text.startswith(tuple(ACCEPTED))}
    print(f"skipped in every leg: {len(found)}, of which {len(accepted)} for an accepted reason")
    for name, reason in sorted(found.items()):
        if name not in accepted:
            print(f"  {name}: {reason}")
    return int(len(found) > len(accepted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
