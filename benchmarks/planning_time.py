"""Seconds to plan and compile under a limit, beside those without one and those of `jax.jit`.

    python -m benchmarks.planning_time [--size small|medium|full] [--only NAME ...]
                                       [--markdown FILE]

Processor time: other programs on the machine disturb it little. Each program has two processes of
its own, with and without a limit, in which another program was compiled before: XLA has started,
and nothing is known of this one. *planning* is what is left of ours beside XLA. *kernels* are the
fusions and library calls of the compiled program, ours and `jax.jit`'s: XLA takes about as long for
each. Targets (issue 23): at most twice `jax.jit`'s time in the median, four times at worst. Without
jax, its columns are empty.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.framework import Framework, jax_framework, tracer_framework
from benchmarks.programs import WORKLOADS, make_inputs
from examples.display import Progress, print_table

Row = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
HEADER = (
    "program", "limit", "planning", "XLA", "no limit", "jax.jit", "/ no limit", "/ jax.jit",
    "kernels", "of jax.jit",
)  # fmt: skip
TIMEOUT_SECONDS = 900


def _normal(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32) / 8


def _alibi(f: Framework) -> Callable[..., Any]:
    def program(q: Any, k: Any, v: Any, slopes: Any) -> Any:
        place = f.numpy.arange(q.shape[1])
        away = f.numpy.abs(place[:, None] - place[None, :])
        scores = f.numpy.einsum("hqd,hkd->hqk", q, k) / 8 - away * slopes[:, None, None]
        return f.nn.softmax(scores, axis=-1) @ v

    return program


def _mean_shift(f: Framework) -> Callable[..., Any]:
    def program(x: Any) -> Any:
        y = x
        for _ in range(3):
            near = f.numpy.exp(-((y[:, None] - x[None]) ** 2).sum(-1))
            y = near @ x / near.sum(1, keepdims=True)
        return y

    return program


def _chain(f: Framework) -> Callable[..., Any]:
    def program(x: Any) -> Any:
        for _ in range(500):
            x = f.numpy.sin(x) * 0.5
        return x

    return program


def _layers(f: Framework) -> Callable[..., Any]:
    def loss(weights: Any, x: Any) -> Any:
        for weight in weights:
            x = f.numpy.tanh(x @ weight)
        return (x**2).sum()

    return f.transforms.grad(loss)


def _attention_layers(f: Framework) -> Callable[..., Any]:
    def program(weights: Any, x: Any) -> Any:
        for weight in weights:
            q, k, v = (x @ weight[i] for i in range(3))
            x = x + f.nn.softmax(q @ k.T / 8, axis=-1) @ v
        return x

    return program


def _attention_inputs(layers: int) -> tuple[Any, ...]:
    return list(_normal(layers, 3, 64, 64)), _normal(2000, 64)


OTHERS: dict[str, tuple[Callable[[Framework], Any], Callable[[], tuple[Any, ...]], str]] = {
    "attention, ALiBi": (
        _alibi, lambda: (*_normal(3, 8, 1024, 64), np.ones(8, np.float32)), "20MB"
    ),
    "mean shift": (_mean_shift, lambda: (_normal(4000, 8),), "2MB"),
    "1,000 nodes": (_chain, lambda: (_normal(1000),), "100kB"),
    "50 layers at half the peak": (
        _layers, lambda: (list(_normal(50, 64, 64)), _normal(2000, 64)), "15MB"
    ),
    # Beside arguments and results there is room for 3 MB; a layer's matrix takes 16.
    "10 layers of attention": (_attention_layers, lambda: _attention_inputs(10), "4.5MB"),
    "50 layers of attention": (_attention_layers, lambda: _attention_inputs(50), "6.48MB"),
}  # fmt: skip
NAMES = (*WORKLOADS, *OTHERS)


def program_of(name: str, size: str) -> tuple[Callable[[Framework], Any], tuple[Any, ...], str]:
    """Return a program for any framework, its arguments and its limit."""
    if name in OTHERS:
        program, inputs, limit = OTHERS[name]
        return program, inputs(), limit
    workload = WORKLOADS[name]
    return workload.program, make_inputs(workload, size), workload.sizes[size].limit


def measured(name: str, size: str) -> Row:
    """Return the seconds of one program, in this process."""
    program, inputs, limit = program_of(name, size)
    tracer, ours = _started(program)
    row: Row = {"program": name, "limit": limit}
    with _xla_seconds() as xla:
        start = time.process_time()
        limited = tracer.compile(ours, memory_limit=limit)
        try:
            limited.plan(*inputs)
        except tracer.MemoryLimitError:
            row["refused"] = True
        row |= {"ours": time.process_time() - start, "xla": sum(xla), "programs": len(xla)}
    row["planning"] = row["ours"] - row["xla"]
    row["kernels"] = None if "refused" in row else kernels(limited.hlo(*inputs))
    row |= {"jax": None, "jax_kernels": None}
    if importlib.util.find_spec("jax") is not None:
        import jax

        jax.jit(lambda x: (x @ x).sum()).lower(np.ones((3, 3), np.float32)).compile()
        theirs = program(jax_framework())
        made: list[Any] = []
        row["jax"] = _seconds(lambda: made.append(jax.jit(theirs).lower(*inputs).compile()))
        row["jax_kernels"] = kernels(made[0].as_text())
    return row


def kernels(hlo: str) -> int:
    """Count what XLA compiles or calls one by one."""
    return hlo.count(" fusion(") + hlo.count(" custom-call(")


def measured_without_limit(name: str, size: str) -> Row:
    """Return the seconds of one program without a limit, in this process."""
    program, inputs, _ = program_of(name, size)
    tracer, ours = _started(program)
    return {"no_limit": _seconds(lambda: tracer.compile(ours).plan(*inputs))}


def _started(program: Callable[[Framework], Any]) -> tuple[Any, Callable[..., Any]]:
    """Return tracer, with another program compiled, and the program's function."""
    import tracer

    tracer.compile(lambda x: (x @ x).sum()).plan(np.ones((3, 3), np.float32))
    return tracer, program(tracer_framework())


def _seconds(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


@contextmanager
def _xla_seconds() -> Iterator[list[float]]:
    """Yield a list that takes the seconds of each of XLA's compilations, lowering included."""
    import tracer.lowering.run.compiler as compiler

    found: list[float] = []
    compile_program = compiler._compile

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        try:
            return compile_program(*args, **kwargs)
        finally:
            found.append(time.process_time() - start)

    with mock.patch.object(compiler, "_compile", timed):
        yield found


def in_own_processes(name: str, size: str) -> Row:
    """Return the seconds of one program, with and without a limit from a fresh process each."""
    return _from_process(name, size) | _from_process(name, size, "--without-limit")


def _from_process(name: str, size: str, *flags: str) -> Row:
    command = [sys.executable, "-m", "benchmarks.planning_time", "--size", size, "--one", name]
    command += flags
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, cwd=ROOT, check=True
    )
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def cells(row: Row) -> tuple[str, ...]:
    """Return a row of the table."""
    jax = row["jax"]
    return (
        row["program"],
        row["limit"] + (" (refused)" if "refused" in row else ""),
        f"{row['planning']:.2f}",
        f"{row['xla']:.2f}",
        f"{row['no_limit']:.2f}",
        "" if jax is None else f"{jax:.2f}",
        f"{row['ours'] / row['no_limit']:.1f}",
        "" if jax is None else f"{row['ours'] / jax:.1f}",
        "" if row["kernels"] is None else str(row["kernels"]),
        "" if jax is None else str(row["jax_kernels"]),
    )


def summary(rows: list[Row]) -> list[str]:
    """Return the median and the largest ratio to the other columns."""
    lines = []
    for key, name in (("no_limit", "the same without a limit"), ("jax", "jax.jit")):
        ratios = [row["ours"] / row[key] for row in rows if row[key] is not None]
        if ratios:
            median, most = statistics.median(ratios), max(ratios)
            lines.append(f"under a limit, times {name}: median {median:.1f}, most {most:.1f}")
    each = [
        (row["xla"] / row["programs"] / row["kernels"], row["jax"] / row["jax_kernels"])
        for row in rows
        if row["kernels"] and row["jax_kernels"]
    ]
    if each:
        ours, theirs = (1000 * statistics.median(column) for column in zip(*each, strict=True))
        lines.append(f"for each kernel XLA takes {ours:.0f} ms, jax.jit {theirs:.0f} ms (medians)")
    return lines


def markdown(rows: list[Row]) -> str:
    """Return the table and the summary as Markdown."""
    lines = [HEADER, ("---", *("---:",) * (len(HEADER) - 1)), *map(cells, rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\n{'; '.join(summary(rows))}.\n"


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.planning_time", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--size", choices=("small", "medium", "full"), default="small")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="part of a name; may repeat"
    )
    parser.add_argument("--markdown", metavar="FILE", help="write the table to this file")
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--without-limit", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one is not None:
        measure = measured_without_limit if options.without_limit else measured
        print("\n" + json.dumps(measure(options.one, options.size)))
        return
    wanted = options.only or [""]
    names = [name for name in NAMES if any(part in name for part in wanted)]
    if not names:
        parser.error(f"no program is called {options.only}; there are {', '.join(NAMES)}")
    progress, rows = Progress(), []
    for place, name in enumerate(names, 1):
        progress.say(f"{place}/{len(names)} {name}")
        rows.append(in_own_processes(name, options.size))
    progress.clear()
    print_table("planning time (seconds of processor time)", HEADER, list(map(cells, rows)))
    print("\n" + "\n".join(summary(rows)))
    if options.markdown is not None:
        Path(options.markdown).write_text(markdown(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
