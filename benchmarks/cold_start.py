"""Seconds of a script's first and second start, with a folder for compiled programs.

Each start is a process of its own, and imports jaxlib's and tracer's files from the machine's page
cache. A start is compared with the least it could take: the imports, and the calls once more in the
same process, when everything is compiled.

    python -m benchmarks.cold_start [program] [starts]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[0] = str(ROOT)

from examples.display import print_table  # noqa: E402 - after the path

_STARTS = 3
_COMMON = """
import time
start = time.perf_counter(), time.process_time()
import json
import tracer, tracer.numpy as tnp, tracer.random as random
imported = time.perf_counter(), time.process_time()
PROGRAM
script()
first = time.perf_counter(), time.process_time()
script()
second = time.perf_counter(), time.process_time()
times = start, imported, first, second
print(json.dumps([[b[i] - a[i] for a, b in zip(times, times[1:])] for i in (0, 1)]))
"""
PROGRAMS = {
    "kernel product": """
def product(x, y, v):
    return tnp.exp(-0.5 * ((x[:, None] - y) ** 2).sum(-1)) @ v
compiled = tracer.compile(product, memory_limit="32MB")
def script():
    x, y = (random.normal(random.key(i), (8000, 3), "float32") for i in range(2))
    for _ in range(3):
        float(compiled(x, y, tnp.ones(8000, "float32")).sum())
""",
    "kernel gradient": """
def loss(x, y, v):
    return (tnp.exp(-0.5 * ((x[:, None] - y) ** 2).sum(-1)) @ v).sum()
compiled = tracer.compile(tracer.grad(loss), memory_limit="32MB")
def script():
    x, y = (random.normal(random.key(i), (8000, 3), "float32") for i in range(2))
    for _ in range(3):
        float(compiled(x, y, tnp.ones(8000, "float32")).sum())
""",
    "attention": """
def attention(q, k, v):
    return tracer.nn.softmax(q @ k.swapaxes(-1, -2) / 8, axis=-1) @ v
compiled = tracer.compile(tracer.grad(lambda *x: attention(*x).sum()), memory_limit="64MB")
def script():
    q, k, v = (random.normal(random.key(i), (4, 2000, 64), "float32") for i in range(3))
    for _ in range(3):
        float(compiled(q, k, v).sum())
""",
    "perceptron": """
def loss(weights, x, y):
    for w in weights[:-1]:
        x = tnp.tanh(x @ w)
    return ((x @ weights[-1] - y) ** 2).mean()
@tracer.compile
def step(weights, x, y):
    gradients = tracer.grad(loss)(weights, x, y)
    return [w - 0.1 * g for w, g in zip(weights, gradients)]
def script():
    keys = [random.key(i) for i in range(8)]
    weights = [random.normal(k, (256, 256), "float32") * 0.06 for k in keys]
    x = random.normal(keys[0], (4000, 256), "float32")
    for _ in range(20):
        weights = step(weights, x, x)
    float(loss(weights, x, x))
""",
}


def seconds(program: str, folder: str | None) -> tuple[list[float], list[float]]:
    """Start a program: seconds of imports, of its calls, and of its calls again.

    By the clock, and of the processor.
    """
    environment = {name: text for name, text in os.environ.items() if name != "TRACER_CACHE_DIR"}
    if folder is not None:
        environment["TRACER_CACHE_DIR"] = folder
    text = _COMMON.replace("PROGRAM", PROGRAMS[program])
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True,
        cwd=ROOT,
    )  # fmt: skip
    clock, processor = json.loads(done.stdout)
    return clock, processor


def row(program: str, starts: int) -> list[Any]:
    """Return a line of the table: medians of several starts."""
    without, first, second = [], [], []
    for _ in range(starts):
        without.append(seconds(program, None))
        with tempfile.TemporaryDirectory() as folder:
            first.append(seconds(program, folder))
            second.append(seconds(program, folder))
            nbytes = sum(file.stat().st_size for file in Path(folder).iterdir())

    def total(runs: list[tuple[list[float], list[float]]], kind: int) -> float:
        return statistics.median(sum(run[kind][:2]) for run in runs)

    def least(runs: list[tuple[list[float], list[float]]], kind: int) -> float:
        return statistics.median(run[kind][0] + run[kind][2] for run in runs)

    clock = [total(runs, 0) for runs in (without, first, second)]
    ratios = [total(second, kind) / least(second, kind) for kind in (0, 1)]
    cells = [f"{value:.2f}" for value in (*clock, least(second, 0), *ratios)]
    return [program, *cells, f"{nbytes / 1e3:.0f} kB"]


HEADER = (
    "program", "without", "first start", "second start", "imports and calls",
    "second / these", "of the processor", "files",
)  # fmt: skip


def main(arguments: list[str]) -> None:
    """Print the table."""
    chosen = arguments[:1] if arguments and arguments[0] in PROGRAMS else [*PROGRAMS]
    starts = int(arguments[-1]) if arguments and arguments[-1].isdigit() else _STARTS
    title = f"seconds of a start, median of {starts}"
    print_table(title, HEADER, [row(program, starts) for program in chosen])


if __name__ == "__main__":
    main(sys.argv[1:])
