"""Weeks of calls in an hour: 50 functions, shapes that change, errors and interrupts among them.

    python -m benchmarks.soak [--calls 10000000] [--windows 20] [--sides tracer,jax]
                              [--interrupts 2] [--compile-every 20000] [--seed 0]
                              [--markdown FILE]

Each side is a process of its own; they take turns, a twentieth of the calls each. Of the calls

* one in 200 has arguments that do not fit together, or of a wrong dtype: an error of the library,
* one in 500 is compared with the value of that function for those arguments before the soak: it is
  the same to the bit,
* one in `--compile-every` has a number of rows that the function never had before, and one is of a
  function that was never compiled before and is dropped at once: both compile,
* `--interrupts` a second, a signal comes at any moment (KeyboardInterrupt in the middle of a call).

Of every other function of ours the memory limit is 300 kB, so that its larger calls run in slices.
A row is a window of the calls: microseconds of a call at the middle, 99 and 99.9 of 100 of those
that compile nothing and fail nowhere; resident memory, open files and threads at the end of it.
"""

from __future__ import annotations

import argparse
import array
import gc
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.soak_programs import Side, functions, jax_side, points, tracer_side
from examples.display import Progress, markdown_table, print_table

FEW, MANY = (1, 2, 3, 5, 8, 13), (60, 128)
ROWS = (*FEW, *MANY)
OFTEN = 0.01
"""The share of the calls that have many rows."""
BAD, CHECKED = 200, 500
SIDES = {"tracer": tracer_side, "jax": jax_side}
HEADER = ("calls", "side", "p50", "p99", "p99.9", "resident", "files", "threads", "errors",
          "checked", "interrupts")  # fmt: skip


class Soak:
    """The calls of one side."""

    def __init__(self, side: Side, seed: int, interrupts: float, rare: int) -> None:
        self.side, self.random, self.interrupts = side, random.Random(seed), interrupts
        self.new = 1 / rare if rare else 0.0
        self.in_call = False
        self.plain = functions(side)
        self.compiled = {
            name: side.compile(f, memory_limit=300_000 if i % 2 else None)
            for i, (name, f) in enumerate(self.plain.items())
        }
        self.names = list(self.plain)
        self.arguments = {rows: tuple(map(side.np.asarray, points(rows, 0))) for rows in ROWS}
        self.fresh = Counter(dict.fromkeys(self.names, max(FEW)))
        self.seen: Counter[str] = Counter()
        self.wanted = {
            (name, rows): self._values(self.compiled[name], self.arguments[rows])
            for name in self.names
            for rows in ROWS
        }

    def _values(self, function: Callable[..., Any], arguments: Any) -> list[Any]:
        return [np.array(leaf) for leaf in _leaves(function(*arguments))]

    def window(self, calls: int) -> dict[str, Any]:
        """Make so many calls; return what they took."""
        seconds = array.array("f")
        with self._interrupted():
            for _ in range(calls):
                try:
                    self.in_call = True
                    taken = self._call()
                    self.in_call = False
                except KeyboardInterrupt:
                    self.in_call = False
                    self.seen["interrupts"] += 1
                    continue
                if taken is not None:
                    seconds.append(taken)
        middle, high, highest = np.percentile(seconds, [50, 99, 99.9]) * 1e6
        gc.collect()
        found = {"p50": middle, "p99": high, "p99.9": highest, **_process(), **self.seen}
        self.seen.clear()
        return {key: float(value) for key, value in found.items()}

    @contextmanager
    def _interrupted(self) -> Iterator[None]:
        """Let a signal come so many times a second, at moments that nobody knows, in calls only."""
        if not self.interrupts:
            yield
            return

        def interrupt(*_: object) -> None:
            signal.setitimer(signal.ITIMER_REAL, 1e-3 + self.random.expovariate(self.interrupts))
            if self.in_call:
                raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 1e-3)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _rows(self) -> int:
        return self.random.choice(MANY if self.random.random() < OFTEN else FEW)

    def _call(self) -> float | None:
        """Make one call; return its seconds unless it fails or compiles."""
        dice = self.random.random()
        name, rows = self.random.choice(self.names), self._rows()
        if dice < 1 / BAD:
            return self._fail(name, rows)
        dice -= 1 / BAD
        if dice < 1 / CHECKED:
            return self._check(name, rows)
        dice -= 1 / CHECKED
        if dice < self.new:
            self.fresh[name] += 1
            _wait(self.compiled[name](*map(self.side.np.asarray, points(self.fresh[name], 0))))
            return None
        dice -= self.new
        if dice < self.new:
            plain = self.plain[name]
            _wait(self.side.compile(lambda x, y: plain(x, y))(*self.arguments[rows]))
            return None
        function, arguments = self.compiled[name], self.arguments[rows]
        start = time.perf_counter()
        _wait(function(*arguments))
        return time.perf_counter() - start

    def _fail(self, name: str, rows: int) -> None:
        """Make a call that cannot be: another number of columns, or words."""
        x, _ = self.arguments[rows]
        wrong = self.random.choice([x[0, :3], np.array(["a", "b"]), object()])
        try:
            self.side.compile(lambda x, y: x @ y)(x, wrong)
        except self.side.errors:
            self.seen["errors"] += 1
        else:
            raise SystemExit(f"{name}: a wrong argument gave a result")

    def _check(self, name: str, rows: int) -> None:
        found = self._values(self.compiled[name], self.arguments[rows])
        for one, other in zip(found, self.wanted[name, rows], strict=True):
            if one.dtype != other.dtype or not np.array_equal(one, other, equal_nan=True):
                raise SystemExit(f"{name}, {rows} rows: {one} was {other} before")
        self.seen["checked"] += 1


def _leaves(result: Any) -> list[Any]:
    if isinstance(result, dict):
        return [leaf for part in result.values() for leaf in _leaves(part)]
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in _leaves(part)]
    return [result]


def _wait(result: Any) -> None:
    for leaf in _leaves(result):
        leaf.block_until_ready()


def _process() -> dict[str, int]:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "resident": int(status["VmRSS"].split()[0]) << 10,
        "files": len(os.listdir("/proc/self/fd")),
        "threads": int(status["Threads"]),
    }


def _serve(name: str, options: argparse.Namespace) -> None:
    """Answer each number of calls on standard input with what they took."""
    soak = Soak(SIDES[name](), options.seed, options.interrupts, options.compile_every)
    print("{}", flush=True)
    for line in sys.stdin:
        print(json.dumps(soak.window(int(line))), flush=True)


def _started(side: str, options: argparse.Namespace) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.soak", "--serve", side]
    command += ["--seed", str(options.seed), "--interrupts", str(options.interrupts)]
    command += ["--compile-every", str(options.compile_every)]
    environment = {**os.environ, "JAX_ENABLE_X64": "1"}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def _answer(process: subprocess.Popen[str]) -> dict[str, float]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"a side ended with status {process.wait()}")
    answer: dict[str, float] = json.loads(line)
    return answer


def soaked(sides: list[str], options: argparse.Namespace) -> list[tuple[str, ...]]:
    """Return the rows of the table."""
    progress, rows = Progress(), []
    processes = {side: _started(side, options) for side in sides}
    for process in processes.values():
        _answer(process)
    each = options.calls // options.windows
    for window in range(1, options.windows + 1):
        for side, process in processes.items():
            progress.say(f"{side}: window {window} of {options.windows}")
            assert process.stdin is not None
            process.stdin.write(f"{each}\n")
            process.stdin.flush()
            rows.append(_row(window * each, side, _answer(process)))
    for process in processes.values():
        process.communicate()
    progress.clear()
    return rows


def _row(calls: int, side: str, found: dict[str, float]) -> tuple[str, ...]:
    times = (f"{found[key]:,.1f} us" for key in ("p50", "p99", "p99.9"))
    counts = (f"{found.get(key, 0):,.0f}" for key in HEADER[6:])
    return (f"{calls:,}", side, *times, f"{found['resident'] / 1e6:,.1f} MB", *counts)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000_000, help="of each side (10000000)")
    parser.add_argument("--windows", type=int, default=20, help="rows of the table (20)")
    parser.add_argument("--sides", default="tracer,jax", help="tracer,jax")
    parser.add_argument("--interrupts", type=float, default=2, help="a second (2)")
    parser.add_argument("--compile-every", type=int, default=20_000, help="calls; 0: never (20000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", metavar="FILE", help="write the table to this file")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        _serve(options.serve, options)
        return
    rows = soaked(options.sides.split(","), options)
    print_table(f"{options.calls:,} calls of each side", HEADER, rows)
    if options.markdown:
        Path(options.markdown).write_text(markdown_table(HEADER, rows))


if __name__ == "__main__":
    main()
