"""Gradients beside JAX's: operations by XLA's count, and seconds to trace and lower.

Targets: at most 1.1 times JAX's operations, and no more seconds. XLA counts the body of a loop
once, for both alike, and transcendental functions apart. The sorted loss is above the target: its
sort without a gradient works on integers of the same order (8 operations per element that XLA
counts), which takes a quarter of the time of the comparison of floats.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[0] = str(ROOT)

import tracer  # noqa: E402 - after the path
from benchmarks.framework import (  # noqa: E402
    Framework,
    Program,
    jax_framework,
    tracer_framework,
)
from benchmarks.gradient_programs import PROGRAMS  # noqa: E402
from benchmarks.race import race, short_time  # noqa: E402
from examples.display import print_table  # noqa: E402
from tracer import lowering  # noqa: E402
from tracer.array.trace import trace  # noqa: E402

HEADER = (
    "gradient of",
    "flops",
    "JAX",
    "ratio",
    "transcendentals",
    "JAX",
    "temporaries",
    "JAX",
    "trace, lower",
    "JAX",
    "ratio",
)


class _Ours:
    def __init__(self, program: Program, arguments: tuple[Any, ...]) -> None:
        self.program, self.arguments = program, arguments
        self.framework = tracer_framework()

    def lower(self) -> Any:
        """Trace and lower, from nothing."""
        derivative = self.program.derivative_of(self.framework)
        return lowering.stablehlo(trace(derivative, self.arguments).graph)

    def counts(self) -> tuple[int, int, int]:
        """Return flops, transcendentals and bytes of temporaries."""
        compiled = tracer.compile(self.program.derivative_of(self.framework))
        graph = compiled.graph(*self.arguments)
        execute = lowering.compile_graph(graph)
        return *_counts(execute.raw.cost_analysis()), execute.memory.temporary_bytes


class _Theirs:
    def __init__(self, program: Program, arguments: tuple[Any, ...], framework: Framework) -> None:
        self.program, self.arguments, self.framework = program, arguments, framework

    def lower(self) -> Any:
        """Trace and lower, from nothing: a new function is not in JAX's caches."""
        derivative = self.program.derivative_of(self.framework)
        return self.framework.transforms.jit(derivative).lower(*self.arguments)

    def counts(self) -> tuple[int, int, int]:
        """Return flops, transcendentals and bytes of temporaries."""
        compiled = self.lower().compile()
        temporary = compiled.memory_analysis().temp_size_in_bytes
        return *_counts(compiled.cost_analysis()), temporary


def _counts(analysis: Any) -> tuple[int, int]:
    found = analysis[0] if isinstance(analysis, list) else analysis
    return int(found.get("flops", 0)), int(found.get("transcendentals", 0))


def _row(name: str, program: Program, framework: Framework, rounds: int) -> tuple[str, ...]:
    arguments = program.inputs(np.random.default_rng(0), program.size)
    ours, theirs = _Ours(program, arguments), _Theirs(program, arguments, framework)
    mine, other = ours.counts(), theirs.counts()
    runs: dict[str, Callable[[], Any]] = {"ours": ours.lower, "theirs": theirs.lower}
    times = race(runs, rounds=rounds)
    seconds = times["ours"].median, times["theirs"].median
    return (
        name,
        f"{mine[0]:,}",
        f"{other[0]:,}",
        f"{mine[0] / other[0]:.2f}",
        f"{mine[1]:,}",
        f"{other[1]:,}",
        f"{mine[2]:,}",
        f"{other[2]:,}",
        *map(short_time, seconds),
        f"{seconds[0] / seconds[1]:.2f}",
    )


def main(*, rounds: int = 5) -> None:
    """Print one row for each program; without JAX, say so and print nothing."""
    try:
        framework = jax_framework()
    except ImportError:
        print("gradients: jax is not installed, and there is nothing to compare with\n")
        return
    rows = []
    for name, program in PROGRAMS.items():
        start = time.perf_counter()
        rows.append(_row(name, program, framework, rounds))
        print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
    print_table("gradients", HEADER, rows)
    print()


if __name__ == "__main__":
    main()
