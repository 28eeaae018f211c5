"""Seconds from a Python function to a compiled program: our part beside XLA's.

Target: tracing, planning and lowering together take less time than XLA's compilation.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[0] = str(ROOT)

import tracer  # noqa: E402 - after the path
import tracer.compilation.signature  # noqa: E402
import tracer.lowering.run.compiler  # noqa: E402
from benchmarks.race import short_time  # noqa: E402
from examples.display import print_table  # noqa: E402
from examples.problems import PROBLEMS, Problem, types_of  # noqa: E402

HEADER = ("program", "limit", "tracing", "planning", "lowering", "XLA", "ours / XLA", "compiled")


@dataclasses.dataclass
class Stages:
    """Seconds of the stages of one compilation, and how many programs XLA compiled for it."""

    tracing: float = 0.0
    lowering: float = 0.0
    building: float = 0.0
    total: float = 0.0
    programs: int = 0

    @property
    def xla(self) -> float:
        """What is left of making an executable when the lowering is done."""
        return self.building - self.lowering

    @property
    def planning(self) -> float:
        """Passes, splitting, the memory model, reading XLA's count: all that is not named."""
        return self.total - self.tracing - self.building

    @property
    def ours(self) -> float:
        """All that is not XLA."""
        return self.total - self.xla


def compilation(program: Callable[..., Any], types: Any, limit: str | None) -> Stages:
    """Compile a program, from nothing, and take the time of its stages."""
    tracer.lowering.run.compiler.clear_cache()
    stages = Stages()
    with (
        _timed(stages, "tracing", tracer.compilation.signature, "trace"),
        _timed(stages, "lowering", tracer.lowering.run.compiler, "lower_graph"),
        _timed(stages, "building", tracer.lowering.run.compiler, "_compile"),
    ):
        start = time.perf_counter()
        tracer.compile(program, memory_limit=limit).plan(*types)
        stages.total = time.perf_counter() - start
    return stages


@contextlib.contextmanager
def _timed(stages: Stages, stage: str, module: Any, name: str) -> Iterator[None]:
    function = getattr(module, name)

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = function(*args, **kwargs)
        setattr(stages, stage, getattr(stages, stage) + time.perf_counter() - start)
        stages.programs += stage == "building"
        return result

    with mock.patch.object(module, name, timed):
        yield


def _row(title: str, limit: str | None, stages: Stages) -> tuple[str, ...]:
    return (
        title,
        limit or "none",
        *map(short_time, (stages.tracing, stages.planning, stages.lowering, stages.xla)),
        f"{stages.ours / stages.xla:.2f}",
        str(stages.programs),
    )


def _best(problem: Problem, limit: str | None, repeats: int) -> Stages:
    types = types_of(problem.inputs(problem.n))
    found = [compilation(problem.program, types, limit) for _ in range(repeats)]
    return min(found, key=lambda stages: stages.total)


def main(*, repeats: int = 3) -> None:
    """Print one row for each example program, with its limit and without."""
    problems = [problem for problem in PROBLEMS.values() if problem.data == "generated"]
    _best(problems[0], None, 1)  # XLA starts its compiler
    rows = [
        _row(problem.title, limit, _best(problem, limit, repeats))
        for problem in problems
        for limit in (None, problem.limit)
    ]
    print_table("compile time", HEADER, rows)
    print()


if __name__ == "__main__":
    main()
