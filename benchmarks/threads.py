"""Programs that several threads trace, plan, compile and call at once, beside JAX.

    python -m benchmarks.threads [--programs 16] [--calls 2000] [--threads 1,2,4,8] [--rounds 3]

Each side and number of threads is a process of its own, in turns. *compile* is the wall time until
all programs, no two alike, have run once, divided among the threads, *cores* how many were busy
meanwhile, and *as processes* the ratio where as many processes do it, which share no lock: what the
machine allows. *calls* is the wall time of calls of one of them, as many from each thread, given
NumPy arrays and read; *on device* the same for arrays that are on the device and stay there. The
ratios are to one thread in the same round: how much a side gains from more threads, or loses to
locks.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

import numpy as np

from benchmarks.framework import Framework, jax_framework, tracer_framework
from examples.display import Progress, print_table

ROOT = Path(__file__).resolve().parent.parent
SIDES = ("tracer", "tracer, 2 MB", "jax")
OF = "of 1 thread"
HEADER = (
    *("side", "threads", "compile", OF, "as processes", "cores"),
    *("calls", OF, "on device", OF),
)


def program(f: Framework, number: int) -> Callable[..., Any]:
    """Return a program that is like no other: a kernel's product, and its gradient."""

    def loss(x: Any, v: Any) -> Any:
        squared = ((x[:, None] - x[None]) ** 2).sum(-1)
        return (f.numpy.exp(-squared / (2.0 + number)) @ v).sum()

    return f.transforms.grad(loss)


def measured(side: str, threads: int, programs: int, calls: int) -> dict[str, float]:
    """Return the seconds of one side, in this process, and how many cores were busy."""
    f = jax_framework() if side == "jax" else tracer_framework()
    x, v = np.random.default_rng(0).random((400, 3), np.float32), np.ones(400, np.float32)

    def made(number: int) -> Callable[..., Any]:
        if side == "jax":
            compiled = f.transforms.jit(program(f, number))
        else:
            import tracer

            limit = "2MB" if side.endswith("MB") else None
            compiled = tracer.compile(program(f, number), memory_limit=limit)
        np.asarray(compiled(x, v))
        return compiled

    first, given = made(-1), (x[:8], v[:8])
    placed = tuple(f.numpy.asarray(array) for array in given)

    def call(_: int) -> None:
        for _ in range(calls):
            np.asarray(first(*given))

    def call_on_device(_: int) -> None:
        for _ in range(calls):
            first(*placed)

    found = {}
    print("ready", flush=True)
    sys.stdin.readline()  # Those that are measured together begin together.
    with ThreadPoolExecutor(threads) as pool:
        found["compile"], found["cores"] = _timed(pool, made, programs)
        for name, function in (("calls", call), ("on device", call_on_device)):
            function(0)  # Compiled before it is measured, and warm.
            found[name] = _timed(pool, function, threads)[0]
    return found


def _timed(pool: ThreadPoolExecutor, work: Callable[[int], Any], count: int) -> tuple[float, float]:
    """Return the wall time of so much work, and how many cores were busy meanwhile."""
    start, before = time.perf_counter(), time.process_time()
    for done in [pool.submit(work, number) for number in range(count)]:
        done.result()
    seconds = time.perf_counter() - start
    return seconds, (time.process_time() - before) / seconds


def _apart(
    side: str, threads: int, options: argparse.Namespace, processes: int = 1
) -> dict[str, float]:
    """Return what the slowest of some processes measures, each with its part of the programs."""
    command = [
        sys.executable, "-m", "benchmarks.threads", "--one", side, str(threads),
        "--programs", str(options.programs // processes), "--calls", str(options.calls),
    ]  # fmt: skip
    started = [
        Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True, cwd=ROOT)
        for _ in range(processes)
    ]
    for process in started:
        process.stdout.readline()  # type: ignore[union-attr] # there is one
    for process in started:
        process.stdin.write("begin\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
    found: list[dict[str, float]] = []
    for process in started:
        answer = process.communicate()[0]
        found.append(json.loads(answer.splitlines()[-1]))
    return max(found, key=lambda each: each["compile"])


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.threads", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--programs", type=int, default=16, help="that are compiled (16)")
    parser.add_argument("--calls", type=int, default=2000, help="of each thread (2000)")
    parser.add_argument("--threads", default="1,2,4,8", help="how many, by commas (1,2,4,8)")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts (3)")
    parser.add_argument("--one", nargs=2, metavar=("SIDE", "THREADS"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one is not None:
        side, threads = options.one
        print(json.dumps(measured(side, int(threads), options.programs, options.calls)))
        return
    counts = [int(count) for count in options.threads.split(",")]
    sides = SIDES if importlib.util.find_spec("jax") is not None else SIDES[:-1]
    progress, found = Progress(), dict[tuple[str, int], list[dict[str, float]]]()
    for turn in range(options.rounds):
        for side in sides:
            for count in counts:
                progress.say(f"{turn + 1}/{options.rounds} {side}, {count} threads")
                measure = _apart(side, count, options)
                apart = _apart(side, 1, options, count) if count > 1 else measure
                measure["as processes"] = apart["compile"]
                found.setdefault((side, count), []).append(measure)
    progress.clear()
    rows = [
        (side, str(count), *_cells(found, side, count, counts[0]))
        for side in sides
        for count in counts
    ]
    print_table("threads (wall time; ratios for the same work)", HEADER, rows)


def _cells(
    found: dict[tuple[str, int], list[dict[str, float]]], side: str, count: int, first: int
) -> list[str]:
    """Return the medians of one side and number of threads, and their ratios to the first one."""
    measured, ones = found[side, count], found[side, first]

    def ratio(key: str, of: str, work: float = 1) -> str:
        pairs = zip(measured, ones, strict=True)
        return f"{statistics.median(own[key] / one[of] for own, one in pairs) / work:.2f}"

    def median(key: str) -> float:
        return statistics.median(each[key] for each in measured)

    return [
        f"{median('compile'):.2f} s",
        ratio("compile", "compile"),
        ratio("as processes", "compile"),
        f"{median('cores'):.2f}",
        f"{median('calls'):.2f} s",
        ratio("calls", "calls", count / first),
        f"{median('on device'):.2f} s",
        ratio("on device", "on device", count / first),
    ]


if __name__ == "__main__":
    main()
