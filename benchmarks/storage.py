"""Programs of an array in a file, larger than their limit, beside NumPy in blocks by hand.

    python -m benchmarks.storage [--gigabytes 4] [--limit 200MB] [--folder DIR] [--only NAME ...]
                                 [--queries 100] [--features 32] [--direct] [--buffers 1]
                                 [--sides NumPy,JAX,dask,cubed] [--markdown FILE]

The file is made by it, of float32 points, and removed. Each run is a process of
its own: one call on a few rows to load what libraries need, then the file is dropped from the page
cache, then a call that is measured. *memory* is the highest resident memory of that call, less that
before it, and of it what is not a page of a file.
*reading* is the file read alone by what ours reads with, in blocks of 8 MB, as cold, times as often
as the plan reads it; into one memory, that stays in the caches, or with `--buffers` into several in
turns, as a program needs. Both are past the page cache with `--direct`, and where the file has more
bytes than memory is free. A result in a file is written alone, too, and that is added.
*handed over* is the file read in blocks of 4 MB into two memories, each of which another thread
copies once: the least that a program does which looks at what it reads.
*computing* is our program with the points in memory, under a limit that has room for them too; it
is left out where they take more than half of the machine's memory. *at once* is that program while
a thread reads the file as often as ours does, neither waiting for the other: what these cores and
their memory can do.
NumPy and JAX read a `np.memmap` block by block, with copies; blocks of 20,000 rows, and dask and
cubed have chunks of as many (a task of cubed's may take 500 MB). Each of dask's threads calls a
BLAS of one thread, as its documentation advises. Which programs they have, and who has none, is in
benchmarks/storage_programs.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import scipy.optimize  # noqa: F401 - before anything is measured

import tracer
import tracer.numpy as tnp
from benchmarks.storage_programs import (
    BLOCK,
    COMPARED,
    OPTIMISED,
    OURS,
    SIDES,
    minimised,
)
from examples.display import Progress, markdown_table, print_table
from tracer.storage import Sink
from tracer.storage.ahead import SPARE, space
from tracer.units import parse_bytes

HEADER = (
    "program", "passes", "reading", "handed over", "computing", "at once", "tracer", "memory",
    *(column for side in SIDES for column in (side, "memory")),
)  # fmt: skip


STORED = "normalised, stored"
"""The program whose result goes to storage."""
SETTINGS = {"dask": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}}
"""Variables of a side's processes."""
OTHERS = [name for name in SIDES if name != "NumPy"]


def _resident() -> Any:
    """Return resident bytes of this process, and those of them that are not pages of a file."""
    _, resident, of_files, *_ = map(int, Path("/proc/self/statm").read_text().split())
    return np.array([resident, resident - of_files]) * os.sysconf("SC_PAGE_SIZE")


def _measured(call: Callable[[], Any], path: Path) -> dict[str, Any]:
    """Return the seconds and the highest resident bytes of a call that finds a cold file."""
    over = threading.Event()
    highest = before = _resident()

    def watch() -> None:
        nonlocal highest
        while not over.wait(0.002):
            highest = np.maximum(highest, _resident())

    _drop(path)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start = time.perf_counter()
    tracer.block_until_ready(call())
    seconds = time.perf_counter() - start
    over.set()
    watcher.join()
    total, anonymous = (int(nbytes) for nbytes in highest - before)
    return {"seconds": seconds, "total": total, "anonymous": anonymous}


def _drop(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def _read(x: tracer.StoredArray, buffers: int) -> None:
    """Read a file as ours does, one block of 8 MB after the other, into the same memory."""
    source, features = x._source, x.shape[1]
    rows = (8 << 20) // (4 * features)
    memory = [space(((8 << 20) + SPARE,), np.dtype(np.uint8)) for _ in range(buffers)]
    for start, into in zip(range(0, len(x), rows), itertools.cycle(memory)):
        source.fill_within(into, (start, 0), (min(rows, len(x) - start), features))


def _hand_over(x: tracer.StoredArray) -> None:
    """Read a file on one thread, and copy each block on another."""
    source, features, nbytes = x._source, x.shape[1], 4 << 20
    rows = nbytes // (4 * features)
    copy = np.empty((rows, features), x.dtype)
    free, full = queue.SimpleQueue[Any](), queue.SimpleQueue[Any]()
    for _ in range(2):
        free.put(space((nbytes + SPARE,), np.dtype(np.uint8)))

    def read() -> None:
        for start in range(0, len(x), rows):
            memory = free.get()
            shape = min(rows, len(x) - start), features
            full.put((memory, source.fill_within(memory, (start, 0), shape)))
        full.put(None)

    threading.Thread(target=read, daemon=True).start()
    while (found := full.get()) is not None:
        memory, block = found
        np.copyto(copy[: len(block)], block)
        free.put(memory)


def _write(x: tracer.StoredArray) -> None:
    """Write a file of the shape of another, as results are."""
    sink, rows = Sink(Path("out.written.npy"), x.type), (4 << 20) // (4 * x.shape[1])
    block = np.ones((rows, x.shape[1]), x.dtype)
    for start in range(0, len(x), rows):
        sink.write((start, 0), block[: len(x) - start])
    sink.finish()


def _written(x: tracer.StoredArray, path: Path) -> dict[str, Any]:
    found = _measured(lambda: _write(x), path)
    Path("out.written.npy").unlink()
    return found


def run(name: str, side: str, path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return what one program takes, in this process."""
    x, limit = tracer.open(path, direct=options.direct or None), options.limit
    q = np.random.default_rng(1).standard_normal((options.queries, x.shape[1]), dtype=np.float32)
    if side == "reading":
        return _measured(lambda: _read(x, options.buffers), path)
    if side == "handed over":
        return _measured(lambda: _hand_over(x), path)
    if side == "writing":
        return _written(x, path)
    if side == "computing":
        return _computing(name, path, q, limit)
    if side == "at once":
        return _computing(name, path, q, limit, lambda: _read_again(x, options))
    if side == "tracer":
        return _ours(name, path, x, q, limit)
    mapped, program = np.load(path, mmap_mode="r"), SIDES[side][name]
    few = mapped[: 3 * BLOCK]
    _compare(name, program(few, q), few, q)
    return _measured(lambda: program(mapped, q), path)


def _compare(name: str, found: Any, few: Any, q: Any) -> None:
    """Check that a program of another computes what ours does."""
    if name == OPTIMISED or name == STORED:
        return
    pick = COMPARED.get(name, lambda result: result)
    wanted = pick(tracer.compile(OURS[name], memory_limit="1GB")(np.array(few), q))
    for one, other in zip(tracer.tree.leaves(pick(found)), tracer.tree.leaves(wanted), strict=True):
        scale = np.abs(np.asarray(other)).max()
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * scale, err_msg=name)


def _read_again(x: tracer.StoredArray, options: argparse.Namespace) -> None:
    for _ in range(max(1, round(options.passes))):
        _read(x, options.buffers)


def _computing(
    name: str, path: Path, q: Any, limit: str, beside: Callable[[], Any] = lambda: None
) -> dict[str, Any]:
    """Return what our program takes with the points in memory, and its result too.

    Reductions of an array in memory store partial results, up to a twentieth of it.

    `beside` runs in a thread of its own, and ends within what is measured.
    """
    x = tnp.asarray(np.load(path))
    results = 2 if name == STORED else 1
    compiled = tracer.compile(
        _program(name), memory_limit=parse_bytes(limit) + int((results + 0.05) * x.nbytes)
    )
    tracer.block_until_ready(compiled(x, q))

    def both() -> Any:
        other = threading.Thread(target=beside)
        other.start()
        found = tracer.block_until_ready(_called(name, lambda q: compiled(x, q), q))
        other.join()
        return found

    return _measured(both, path)


def _program(name: str) -> Any:
    return OURS["logistic gradient" if name == OPTIMISED else name]


def _called(name: str, compiled: Callable[[Any], Any], q: Any) -> Any:
    """Return the result of one call; for the optimiser, of all that it makes."""
    if name != OPTIMISED:
        return compiled(q)
    return minimised(lambda w: compiled(np.concatenate([w[None], q[1:]])), q)


def _ours(name: str, path: Path, x: Any, q: Any, limit: str) -> dict[str, Any]:
    out = Path("out.tracer.npy")
    compiled = tracer.compile(_program(name), memory_limit=limit)
    called: Any = compiled.into(out) if name == STORED else compiled
    calls = 0

    if name.endswith("both stored"):
        np.save("queries.npy", q)
        q = tracer.open("queries.npy")

    def counted(q: Any) -> Any:
        nonlocal calls
        calls += 1
        return called(x, q)

    called(np.array(np.load(path, mmap_mode="r")[: 3 * BLOCK]), q)
    out.unlink(missing_ok=True)
    notes = [note for note in called.plan(x, q).notes if note.startswith("reads argument 0")]
    passes = float(notes[0].split("], ")[1].split(" times")[0])
    found = _measured(lambda: _called(name, counted, q), path)
    out.unlink(missing_ok=True)
    return {**found, "passes": calls * passes}


def _apart(name: str, side: str, path: Path, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.storage", "--run", name, side, str(path)]
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    made = subprocess.run(
        [*command, "--limit", options.limit, "--queries", str(options.queries)]
        + ["--buffers", str(options.buffers), "--passes", str(options.passes)]
        + ["--direct"] * options.direct,
        capture_output=True,
        text=True,
        check=False,
        cwd=path.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **SETTINGS.get(side, {})},
    )
    if made.returncode:
        raise RuntimeError(f"{name}, {side}: ended with {made.returncode}\n{made.stderr}")
    row: dict[str, Any] = json.loads(made.stdout.splitlines()[-1])
    return row


def _beside(name: str, side: str, path: Path, options: argparse.Namespace) -> dict[str, Any] | None:
    """Return what another's program takes, or None where it ends with an error, which is shown."""
    try:
        return _apart(name, side, path, options)
    except RuntimeError as error:
        print(error)
        return None


def _make(path: Path, gigabytes: float, features: int) -> None:
    rows = int(gigabytes * 1e9) // (4 * features)
    out = np.lib.format.open_memmap(path, "w+", np.float32, (rows, features))
    beginning, block = out.offset, (64 << 20) // (4 * features)
    with path.open("r+b") as file, ThreadPoolExecutor(os.cpu_count()) as workers:

        def write(start: int) -> None:
            shape = min(block, rows - start), features
            part = np.random.default_rng([0, start]).standard_normal(shape, dtype=np.float32)
            os.pwrite(file.fileno(), part, beginning + start * features * part.itemsize)

        list(workers.map(write, range(0, rows, block)))


def _row(
    name: str, path: Path, options: argparse.Namespace, sides: Sequence[str]
) -> tuple[str, ...]:
    sides_alone = ("reading", "handed over", *["writing"] * (name == STORED))
    alone, handed, *written = (_apart(name, side, path, options)["seconds"] for side in sides_alone)
    writing, ours = sum(written), _apart(name, "tracer", path, options)
    fits = path.stat().st_size < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2
    options.passes = ours["passes"]
    in_memory = [_apart(name, side, path, options) for side in ("computing", "at once") if fits]
    found = {
        side: _beside(name, side, path, options)
        for side, programs in SIDES.items()
        if side in sides and name in programs
    }
    others = (_shown(found, side) for side in SIDES)
    return (
        name, f"{ours['passes']:.3g}",
        *(f"{seconds * ours['passes'] + writing:.2f}" for seconds in (alone, handed)),
        *([f"{found['seconds']:.2f}" for found in in_memory] or ["", ""]),
        f"{ours['seconds']:.2f}", _megabytes(ours), *itertools.chain(*others),
    )  # fmt: skip


def _shown(found: dict[str, dict[str, Any] | None], side: str) -> tuple[str, str]:
    """Return the seconds and the memory of another's program, where there is one."""
    if side not in found:
        return "", ""
    row = found[side]
    return ("fails", "") if row is None else (f"{row['seconds']:.1f}", _megabytes(row))


def _megabytes(row: dict[str, Any]) -> str:
    total, anonymous = (f"{row[key] / 1e6:,.0f}" for key in ("total", "anonymous"))
    return f"{total} MB, {anonymous}"


def _sides(names: str) -> list[str]:
    """Return the sides that can be run here; say which cannot."""
    chosen = [name for name in names.split(",") if name]
    for name in OTHERS:
        module = name.lower()
        if name in chosen and importlib.util.find_spec(module) is None:
            print(f"{module} is not installed: {name} is left out")
            chosen.remove(name)
    return chosen


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storage", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=4, help="of the file (4)")
    parser.add_argument("--limit", default="200MB", help="memory_limit of the programs (200MB)")
    parser.add_argument("--queries", type=int, default=100, help="points to compare with (100)")
    parser.add_argument("--features", type=int, default=32, help="of each point (32)")
    parser.add_argument(
        "--buffers", type=int, default=1, help="memories that reading alone takes in turns (1)"
    )
    parser.add_argument(
        "--direct", action="store_true", help="read past the page cache, however small the file"
    )
    parser.add_argument("--folder", help="where the file is made (a new folder in the system's)")
    parser.add_argument("--only", action="append", help="the programs with this in their name")
    parser.add_argument("--sides", default=",".join(SIDES), help=f"beside ours ({','.join(SIDES)})")
    parser.add_argument("--markdown", metavar="FILE", help="write the table to this file")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--passes", type=float, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        name, side, path = options.run
        print(json.dumps(run(name, side, Path(path), options)))
        return
    progress, rows, sides = Progress(), [], _sides(options.sides)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "points.npy"
        progress.say("making the file")
        _make(path, options.gigabytes, options.features)
        for name in (*OURS, OPTIMISED):
            if options.only and not any(part in name for part in options.only):
                continue
            if name == STORED and shutil.disk_usage(folder).free < 1.1 * path.stat().st_size:
                print(f"{name} is left out: the disk has no room for the result")
                continue
            progress.say(name)
            rows.append(_row(name, path, options, sides))
    progress.clear()
    print_table(f"{options.gigabytes:g} GB in a file, limit {options.limit}", HEADER, rows)
    if options.markdown:
        Path(options.markdown).write_text(markdown_table(HEADER, rows))


if __name__ == "__main__":
    main()
