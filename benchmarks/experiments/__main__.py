"""The published experiments, beside the peers.

    python -m benchmarks.experiments [NAME ...] --size small --venvs /opt/venvs
    python -m benchmarks.experiments --size full --data DIR --venvs DIR \
        --json FILE --markdown FILE --plots DIR

Each system runs each size in a fresh process, under a cap, for its memory; then those that ran take
turns for the time. With --resume cases that are in --json FILE are kept and not run again, so that
a long run may be made in pieces. docs/experiments.md says more.

Ends with 1 when ours fails, is over its limit, or wrong.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.experiments import (
    attention,
    environments,
    imported,
    kernel,
    neighbours,
    passes,
    plots,
    report,
    scaling,
    sgpr,
    transformer,
)
from benchmarks.experiments.harness import elapsed, run_case
from benchmarks.experiments.records import OURS, Case, Cases, Settings
from examples.display import Progress
from tracer.units import parse_bytes

EXPERIMENTS: dict[str, Cases] = {
    "kernel": kernel.cases,
    "neighbours": neighbours.cases,
    "sgpr": sgpr.gradient_cases,
    "sgpr-training": sgpr.training_cases,
    "transformer": transformer.forward_cases,
    "transformer-training": transformer.training_cases,
    "attention": attention.cases,
    "scaling": scaling.cases,
    "imported": imported.cases,
}
TEXTS = {"passes": passes.texts}
CAPS = {"small": "2GB", "full": "8GB"}
SECONDS = {"small": 10.0, "full": 60.0}
TIMEOUTS = {"small": 300.0, "full": 3600.0}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.experiments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = (*EXPERIMENTS, *TEXTS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--size", choices=tuple(CAPS), default="small")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose title has it")
    parser.add_argument(
        "--systems", action="append", metavar="TEXT", help="beside ours, those whose name has it"
    )
    parser.add_argument("--data", metavar="DIR", help="the folder of data sets")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--venvs", metavar="DIR", help="a folder of environments with peers")
    parser.add_argument("--cap", metavar="BYTES", help="what a process may add: 2GB, full 8GB")
    parser.add_argument("--seconds", type=float, help="for the turns of a case: 10, full 60")
    parser.add_argument("--timeout", type=float, help="of one process: 300 s, full 3600 s")
    parser.add_argument("--json", metavar="FILE", help="write everything to this file")
    parser.add_argument("--resume", action="store_true", help="go on with what --json FILE has")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables to this file")
    parser.add_argument("--plots", metavar="DIR", help="draw into this folder")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no experiment {unknown[0]!r}; there are {', '.join(known)}")
    if options.resume and options.json is None:
        parser.error("--resume goes on with a file: name it with --json FILE")
    return options


def settings_of(options: argparse.Namespace) -> Settings:
    """Return the settings: what was not said depends on the size."""
    return Settings(
        options.size,
        None if options.data is None else str(Path(options.data).resolve()),
        options.device,
        parse_bytes(options.cap or CAPS[options.size]),
        options.seconds or SECONDS[options.size],
        options.timeout or TIMEOUTS[options.size],
    )


def chosen(case: Case, texts: list[str] | None) -> Case:
    """Return a case with ours and the peers whose names have one of the texts; None: all."""
    if texts is None:
        return case
    wanted = (OURS, *texts)
    return replace(case, systems=[s for s in case.systems if any(t in s.name for t in wanted)])


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Run the command line; returns all that was found."""
    given = sys.argv[1:] if arguments is None else arguments
    options = parse(given)
    settings = settings_of(options)
    if options.device == "gpu":
        # Processes that take turns share the device: none may take most of it at its start.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        missing = environments.without_gpu()
        if missing:
            print(f"skipped: {missing}")
            return {"rows": []}
    found = environments.find(options.venvs)
    record = {"size": options.size, "device": options.device, "runs": [], "rows": [], "texts": {}}
    if options.resume and Path(options.json).exists():
        record = report.read_json(Path(options.json), size=options.size, device=options.device)
    run = {
        "command": shlex.join(["python", "-m", "benchmarks.experiments", *given]),
        "date": time.strftime("%Y-%m-%d"),
        "cap_bytes": settings.cap_bytes,
        "machine": environments.machine(),
        "versions": found.all_versions(),
    }
    record["runs"].append(run)
    for _ in _steps(options, settings, found, record):
        # After each case: a long run that is stopped has written what it found.
        _write(options, record)
    print("\n".join(report.summary(record["rows"])))
    return record


def _steps(
    options: argparse.Namespace,
    settings: Settings,
    found: environments.Environments,
    record: dict[str, Any],
) -> Iterator[None]:
    """Run case by case, and put what is found into the record."""
    progress, start = Progress(), time.monotonic()
    run = len(record["runs"]) - 1
    known = {(row["experiment"], row["case"]) for row in record["rows"]}

    def say(text: str) -> None:
        progress.say(f"[{elapsed(start)}] {text}")

    for name in options.names or [*EXPERIMENTS, *TEXTS]:
        if name in TEXTS:
            for title, text in TEXTS[name](settings, found, say, record["texts"]):
                record["texts"][title] = {"run": run, "text": text}
                yield
            continue
        for case in EXPERIMENTS[name](settings):
            if options.only in case.title and (case.experiment, case.title) not in known:
                rows = run_case(chosen(case, options.systems), settings, found, say)
                progress.clear()
                report.show(rows)
                record["rows"] += [{**row, "run": run} for row in rows]
                yield


def _write(options: argparse.Namespace, record: dict[str, Any]) -> None:
    if options.json is not None:
        report.write_json(Path(options.json), record)
    pictures = [] if options.plots is None else plots.draw(Path(options.plots), record["rows"])
    if options.markdown is not None:
        report.write_markdown(Path(options.markdown), record, pictures)


if __name__ == "__main__":
    sys.exit("\n".join(report.broken(main()["rows"])) or 0)
