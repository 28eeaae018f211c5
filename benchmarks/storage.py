"""Programs of an array in a file, larger than their limit, beside NumPy in blocks by hand.

    python -m benchmarks.storage [--gigabytes 4] [--limit 200MB] [--folder DIR] [--only NAME]
                                 [--markdown FILE]

The file is made by it, of float32 points with 32 features, and removed. Each run is a process of
its own: one call to load what libraries need, then the file is dropped from the page cache, then a
call that is measured. *memory* is the highest resident memory of that call, less that before it.
*reading* is the file read alone, in blocks of 8 MB, as cold, times as often as the plan reads it.
NumPy reads a `np.memmap` block by block, with copies; blocks of 20,000 rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from examples.display import Progress, print_table

FEATURES, BLOCK, QUERIES, CENTRES, NEAREST = 32, 20_000, 100, 16, 10
HEADER = ("program", "passes", "reading", "tracer", "memory", "NumPy", "memory", "tracer/NumPy")
Program = Callable[..., Any]


def _k_means(x: Any, centres: Any) -> Any:
    def step(_: Any, c: Any) -> Any:
        nearest = ((x[:, None] - c) ** 2).sum(-1).argmin(1)
        chosen = tnp.asarray(nearest[:, None] == tnp.arange(CENTRES), "float32")
        return (chosen.T @ x) / tnp.maximum(chosen.sum(0), 1)[:, None]

    return tracer.fori_loop(0, 3, step, centres)


def _loss(w: Any, x: Any) -> Any:
    z = x @ w
    return tnp.mean(tnp.logaddexp(0, z) - (x[:, 0] > 0) * z)


OURS: dict[str, Program] = {
    "column statistics": lambda x, _: (x.mean(0), x.std(0), x.min(0), x.max(0)),
    "Gram matrix": lambda x, _: x.T @ x,
    "10 nearest of 100": lambda x, q: tracer.lax.top_k(
        -((q[:, None] - x[None]) ** 2).sum(-1), NEAREST
    ),
    "k-means, 3 steps": lambda x, q: _k_means(x, q[:CENTRES]),
    "logistic gradient": lambda x, q: tracer.value_and_grad(_loss)(q[0], x),
    "normalised, stored": lambda x, _: (x - x.mean(0)) / x.std(0),
}


def _blocks(x: Any) -> Iterator[Any]:
    for start in range(0, len(x), BLOCK):
        yield np.array(x[start : start + BLOCK])


def _statistics(x: Any) -> tuple[Any, ...]:
    total = sum(block.sum(0, dtype=np.float64) for block in _blocks(x)) / len(x)
    squares = sum(((block - total) ** 2).sum(0) for block in _blocks(x)) / len(x)
    least = np.min([block.min(0) for block in _blocks(x)], 0)
    return total, np.sqrt(squares), least, np.max([block.max(0) for block in _blocks(x)], 0)


def _nearest(x: Any, q: Any) -> Any:
    found, places, start = np.zeros((len(q), 0)), np.zeros((len(q), 0), int), 0
    for block in _blocks(x):
        away = (q**2).sum(1)[:, None] - 2 * q @ block.T + (block**2).sum(1)
        own = np.argpartition(away, NEAREST, 1)[:, :NEAREST]
        found = np.hstack([found, np.take_along_axis(away, own, 1)])
        places = np.hstack([places, own + start])
        best = np.argsort(found, 1)[:, :NEAREST]
        found, places = (np.take_along_axis(a, best, 1) for a in (found, places))
        start += len(block)
    return found, places


def _lloyd(x: Any, q: Any) -> Any:
    centres = q[:CENTRES]
    for _ in range(3):
        sums, counts = np.zeros_like(centres), np.zeros(CENTRES, np.float32)
        for block in _blocks(x):
            away = (centres**2).sum(1) - 2 * block @ centres.T
            chosen = (away.argmin(1)[:, None] == np.arange(CENTRES)).astype(np.float32)
            sums += chosen.T @ block
            counts += chosen.sum(0)
        centres = sums / np.maximum(counts, 1)[:, None]
    return centres


def _logistic(x: Any, q: Any) -> Any:
    loss, gradient = 0.0, np.zeros(FEATURES)
    for block in _blocks(x):
        z, target = block @ q[0], block[:, 0] > 0
        loss += (np.logaddexp(0, z) - target * z).sum()
        gradient += (1 / (1 + np.exp(-z)) - target) @ block
    return loss / len(x), gradient / len(x)


def _normalised(x: Any, _: Any) -> Any:
    mean, deviation, *_ = _statistics(x)
    out = np.lib.format.open_memmap("out.numpy.npy", "w+", np.float32, x.shape)
    for i, block in enumerate(_blocks(x)):
        out[i * BLOCK : (i + 1) * BLOCK] = (block - mean) / deviation
    out.flush()


NUMPY: dict[str, Program] = {
    "column statistics": lambda x, _: _statistics(x),
    "Gram matrix": lambda x, _: sum(block.T @ block for block in _blocks(x)),
    "10 nearest of 100": _nearest,
    "k-means, 3 steps": _lloyd,
    "logistic gradient": _logistic,
    "normalised, stored": _normalised,
}


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _measured(call: Callable[[], Any], path: Path) -> tuple[float, int]:
    """Return the seconds and the highest resident bytes of a call that finds a cold file."""
    highest, over = [before := _resident()], threading.Event()

    def watch() -> None:
        while not over.wait(0.002):
            highest.append(_resident())

    _drop(path)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start = time.perf_counter()
    tracer.block_until_ready(call())
    seconds = time.perf_counter() - start
    over.set()
    watcher.join()
    return seconds, max(highest) - before


def _drop(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def _read(path: Path) -> None:
    block = bytearray(8 << 20)
    with path.open("rb", buffering=0) as file:
        while file.readinto(block):
            pass


def run(name: str, side: str, path: Path, limit: str) -> dict[str, Any]:
    """Return what one program takes, in this process."""
    q = np.random.default_rng(1).standard_normal((QUERIES, FEATURES), dtype=np.float32)
    mapped = np.load(path, mmap_mode="r")
    if side == "reading":
        seconds, _ = _measured(lambda: _read(path), path)
        return {"seconds": seconds}
    if side == "NumPy":
        NUMPY[name](mapped[: 3 * BLOCK], q)
        seconds, nbytes = _measured(lambda: NUMPY[name](mapped, q), path)
        return {"seconds": seconds, "bytes": nbytes}
    x, compiled = tracer.open(path), tracer.compile(OURS[name], memory_limit=limit)
    out = Path("out.tracer.npy")
    called: Any = compiled.into(out) if name.endswith("stored") else compiled
    called(x, q)
    out.unlink(missing_ok=True)
    notes = [note for note in called.plan(x, q).notes if note.startswith("reads argument 0")]
    passes = float(notes[0].split("], ")[1].split(" times")[0])
    seconds, nbytes = _measured(lambda: called(x, q), path)
    out.unlink(missing_ok=True)
    return {"seconds": seconds, "bytes": nbytes, "passes": passes}


def _apart(name: str, side: str, path: Path, limit: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.storage", "--run", name, side, str(path)]
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    made = subprocess.run(
        [*command, "--limit", limit],
        capture_output=True,
        text=True,
        check=True,
        cwd=path.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    row: dict[str, Any] = json.loads(made.stdout.splitlines()[-1])
    return row


def _make(path: Path, gigabytes: float) -> None:
    rows = int(gigabytes * 1e9) // (4 * FEATURES)
    out = np.lib.format.open_memmap(path, "w+", np.float32, (rows, FEATURES))
    rng = np.random.default_rng(0)
    for start in range(0, rows, BLOCK):
        part = out[start : start + BLOCK]
        part[:] = rng.standard_normal(part.shape, dtype=np.float32)
    out.flush()


def _row(name: str, path: Path, limit: str) -> tuple[str, ...]:
    alone, ours, numpy = (
        _apart(name, side, path, limit) for side in ("reading", "tracer", "NumPy")
    )
    reading = alone["seconds"] * ours["passes"]
    return (
        name, f"{ours['passes']:.3g}", f"{reading:.1f}", f"{ours['seconds']:.1f}",
        f"{ours['bytes'] / 1e6:.0f} MB", f"{numpy['seconds']:.1f}",
        f"{numpy['bytes'] / 1e6:.0f} MB", f"{ours['seconds'] / numpy['seconds']:.2f}",
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storage", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=4, help="of the file (4)")
    parser.add_argument("--limit", default="200MB", help="memory_limit of the programs (200MB)")
    parser.add_argument("--folder", help="where the file is made (a new folder in the system's)")
    parser.add_argument("--only", help="the programs with this in their name")
    parser.add_argument("--markdown", metavar="FILE", help="write the table to this file")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        name, side, path = options.run
        print(json.dumps(run(name, side, Path(path), options.limit)))
        return
    progress, rows = Progress(), []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "points.npy"
        progress.say("making the file")
        _make(path, options.gigabytes)
        for name in OURS:
            if options.only is None or options.only in name:
                progress.say(name)
                rows.append(_row(name, path, options.limit))
    progress.clear()
    print_table(f"{options.gigabytes:g} GB in a file, limit {options.limit}", HEADER, rows)
    if options.markdown:
        lines = ["| " + " | ".join(row) + " |" for row in (HEADER, ("---",) * len(HEADER), *rows)]
        Path(options.markdown).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
