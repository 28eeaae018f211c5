"""Three programs in plain NumPy style, each inside a byte limit: `make demo` runs this.

The programs are in examples/programs; nothing in them knows of a limit. Each is planned, run,
checked against NumPy in float64, and measured in a fresh process with its limit and without. The
exit status is 1 when a check fails or a limit is not kept.

    python examples/quickstart.py [problem ...]
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# Instead of this file's folder: the examples and benchmarks are no installed packages.
sys.path[0] = str(ROOT)

import tracer  # noqa: E402 - after the path
from benchmarks.measure import Measurement, measure  # noqa: E402
from examples.display import Progress, print_table  # noqa: E402
from examples.problems import PROBLEMS, Problem, on_device, types_of  # noqa: E402
from examples.references import Check  # noqa: E402
from tracer.units import format_bytes  # noqa: E402

HEADER = (
    "what", "check", "limit", "predicted\npeak", "XLA's\ncount", "measured", "seconds",
    "without a limit",
)  # fmt: skip
NOTES = """\
digits: real data, bundled with scikit-learn; generated: Gaussian points
check: largest relative error against NumPy in float64, on a subset of the rows or on the bound and
  on directional derivatives of the gradient by central differences
measured: resident memory above the baseline, which has the inputs and the compiled program in it,
  in a fresh process; it must stay below the limit together with the inputs
without a limit: the same program, unsplit: seconds and measured memory"""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one problem gave; `unlimited` is None where it was not tried, as it cannot fit."""

    problem: Problem
    check: Check
    plan: tracer.Plan
    measurement: Measurement
    unlimited: Measurement | None

    @property
    def failures(self) -> list[str]:
        """What was promised and not kept."""
        name = f"{self.problem.title}, {self.problem.data}"
        found = [] if self.check.passed else [f"{name}: {self.check}"]
        if self.measurement.peak_bytes is None:
            return [*found, f"{name}: {self.measurement.status}: {self.measurement.reason}"]
        total = self.measurement.peak_bytes + self.plan.argument_bytes
        assert self.plan.limit_bytes is not None
        if total > self.plan.limit_bytes:
            found.append(f"{name}: {format_bytes(total)} measured, over {self.problem.limit}")
        if self.unlimited is not None and self.unlimited.status == "failed":
            found.append(f"{name}, without a limit: failed: {self.unlimited.reason}")
        return found

    @property
    def row(self) -> tuple[str, ...]:
        """One row of the table."""
        problem, plan, measurement = self.problem, self.plan, self.measurement
        return (
            f"{problem.title} ({problem.data})\n{problem.size.format(n=problem.n)}",
            str(self.check).replace(", ", "\n"),
            problem.limit,
            format_bytes(plan.peak_bytes),
            format_bytes(plan.compiled_bytes),
            _bytes(measurement.peak_bytes),
            _seconds(measurement.seconds),
            self._without_limit,
        )

    @property
    def _without_limit(self) -> str:
        if self.unlimited is not None and self.unlimited.fits:
            return f"{_seconds(self.unlimited.seconds)} s\n{_bytes(self.unlimited.peak_bytes)}"
        status = "does not fit" if self.unlimited is None else self.unlimited.status
        return f"{status}:\nneeds {format_bytes(self.plan.baseline_peak_bytes)}"


def solve(name: str, problem: Problem, progress: Progress) -> Outcome:
    """Plan, run, check and measure one problem."""
    inputs = problem.inputs(problem.n)
    progress.say(f"{name}: planning and compiling for {problem.limit}")
    program = tracer.compile(problem.program, memory_limit=problem.limit)
    plan = program.plan(*types_of(inputs))
    progress.say(f"{name}: running")
    results = program(*on_device(inputs))
    progress.say(f"{name}: checking against NumPy in float64")
    check = problem.check(inputs, results)
    del results
    progress.say(f"{name}: measuring in a fresh process, inside {problem.limit}")
    measurement = _measure(name, problem.n, problem.limit)
    progress.say(f"{name}: measuring in a fresh process, without a limit")
    return Outcome(problem, check, plan, measurement, _unlimited(name, problem, plan))


def _unlimited(name: str, problem: Problem, plan: tracer.Plan) -> Measurement | None:
    free = tracer.lowering.free_bytes(tracer.default_device())
    if plan.baseline_peak_bytes > free:
        return None
    # The cap makes a prediction that was too low an error in the child, not in the machine.
    return _measure(name, problem.n, None, cap_bytes=free)


def _measure(name: str, n: int, limit: str | None, **options: Any) -> Measurement:
    arguments = {"problem": name, "n": n, "limit": limit}
    return measure("examples.problems:prepare", arguments=arguments, repeats=1, **options)


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2g}" if seconds < 10 else f"{seconds:.0f}"


def _bytes(count: int | None) -> str:
    return "-" if count is None else format_bytes(count)


def main() -> int:
    """Solve the problems and print the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", metavar="problem", help=", ".join(PROBLEMS))
    chosen = parser.parse_args().problems or list(PROBLEMS)
    unknown = [name for name in chosen if name not in PROBLEMS]
    if unknown:
        parser.error(f"no problem {unknown[0]!r}; there are {', '.join(PROBLEMS)}")
    started = time.perf_counter()
    progress = Progress()
    has_digits = importlib.util.find_spec("sklearn") is not None
    outcomes = [
        solve(name, PROBLEMS[name], progress)
        for name in chosen
        if has_digits or PROBLEMS[name].data != "digits"
    ]
    progress.clear()
    print_table("Programs inside a byte limit", HEADER, [outcome.row for outcome in outcomes])
    print(f"\n{NOTES}\n\n{time.perf_counter() - started:.0f} seconds in all")
    if not has_digits:
        print("skipped: the problems on digits, as scikit-learn is not installed")
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    print("\n".join(failures) if failures else "every check passed and every limit was kept")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
