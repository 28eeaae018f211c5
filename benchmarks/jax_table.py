"""Programs of JAX, limited by tracer, beside `jax.jit`: a table of every output's errors.

    python -m benchmarks.jax_table [--only PATTERN] [--write PAGE.md]

In float64. Values are those of `tracer.jax.limit(f, memory_limit="100MB")`, gradients those of
`tracer.grad(tracer.jax.from_jax(f))`. A program is right when each output by itself is within 1e-11
(gradients: 1e-9), absolute or relative; integers, bools and random bits must be the same.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jaxlib

import tracer.jax
from benchmarks.jax_comparison import compare, gradient_of
from benchmarks.jax_library_programs import library_programs
from benchmarks.jax_programs import PROGRAMS, Program
from benchmarks.output_rows import Row
from tracer.errors import TracerError, UnsupportedError

VALUES, GRADIENTS = 1e-11, 1e-9
Line = tuple[str, ...]


def judged(find: Callable[[], Sequence[Row]], tolerance: float) -> tuple[str, str, str]:
    """Return the largest errors over the outputs, and the verdict."""
    try:
        rows = find()
    except UnsupportedError as error:
        return "", "", f"refused: {error.what}"
    except (TracerError, TypeError, ValueError, AssertionError, RuntimeError, KeyError) as error:
        return "", "", f"FAILED: {type(error).__name__}: {str(error).splitlines()[0]}"
    wrong = [row for row in rows if not row.is_right(tolerance)]
    verdict = "right" if not wrong else "WRONG: " + ", ".join(row.path or "result" for row in wrong)
    absolute = max((row.absolute for row in rows), default=0.0)
    relative = max((row.relative for row in rows), default=0.0)
    return f"{absolute:.1e}", f"{relative:.1e}", f"{verdict} ({len(rows)})"


def lines_of(program: Program) -> list[Line]:
    """Return the table's lines of a program: its values, and its gradient."""
    arguments = program.arguments()

    def values() -> list[Row]:
        limited = tracer.jax.limit(program.function, memory_limit="100MB")
        return compare(limited(*arguments), jax.jit(program.function)(*arguments))

    lines = [(program.kind, program.name, "values", *judged(values, VALUES))]
    if program.has_gradient:
        found = judged(lambda: compare(*gradient_of(program, arguments)), GRADIENTS)
        lines.append((program.kind, program.name, "gradient", *found))
    return lines


def page_of(lines: Sequence[Line]) -> str:
    """Return the page."""
    head = ("kind", "program", "what", "absolute", "relative", "verdict (outputs)")
    rows = [f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines]
    versions = f"jax {jax.__version__}, jaxlib {jaxlib.__version__}, {platform.machine()}"
    command = "python -m benchmarks.jax_table --write benchmarks/results/jax-programs.md"
    text = [
        "# Programs of JAX within a limit, beside jax.jit",
        "",
        f"`{command}`, in float64, {versions}.",
        "The errors are the largest over the outputs; each output is judged by itself.",
        summary(lines),
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
        *rows,
        "",
    ]
    return "\n".join(text)


def summary(lines: Sequence[Line]) -> str:
    """Count verdicts."""
    parts = []
    for what in ("values", "gradient"):
        counts = Counter(line[5].split(" ")[0].rstrip(":") for line in lines if line[2] == what)
        parts.append(
            f"{what}: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        )
    return "; ".join(parts) + "."


def main() -> int:
    """Make the table; return 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="programs whose kind or name has this text")
    parser.add_argument("--write", type=Path, help="the page to write")
    options = parser.parse_args()
    lines: list[Line] = []
    with jax.enable_x64(True):
        for program in (*PROGRAMS, *library_programs()):
            if options.only in f"{program.kind} {program.name}":
                for line in lines_of(program):
                    print(*line, sep="  ", flush=True)
                    lines.append(line)
    print(summary(lines))
    if options.write is not None:
        options.write.write_text(page_of(lines))
    return int(any(line[5].startswith(("WRONG", "FAILED")) for line in lines))


if __name__ == "__main__":
    sys.exit(main())
