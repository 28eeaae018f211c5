"""Resident memory of a fresh process that computes with a file ten times its limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

LIMIT = 20_000_000

_SCRIPT = """
import resource, sys, threading, time
import numpy as np, tracer, tracer.numpy as tnp
from pathlib import Path
kind, path, out = sys.argv[1:]
x = np.load(path, mmap_mode="r") if kind == "memmap" else tracer.open(path)
standard = tracer.compile(lambda x: (x - x.mean(0)) / x.std(0), memory_limit=20_000_000)
total = tracer.compile(lambda x: (x.T @ x, x.max(0)), memory_limit=20_000_000)
small = np.ones((30_000, 16), np.float32)
np.save(out + "small.npy", small)
call = standard.into(out) if kind == "result" else total
call.plan(x)
total(tracer.open(out + "small.npy"))  # libraries are loaded
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
before, seen, over = resident(), [0], threading.Event()
def watch():
    while not over.wait(0.001):
        seen.append(resident() - before)
watcher = threading.Thread(target=watch)
watcher.start()
results = call(x)
if kind != "result":
    tracer.block_until_ready(results)
over.set()
watcher.join()
print(max(seen))
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("storage") / "x.npy"
    made = np.lib.format.open_memmap(found, "w+", np.float32, (3_000_000, 16))
    made[:] = 0.5
    made[::3] = 2
    made.flush()
    return found


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("kind", ["opened", "memmap", "result"])
def test_only_blocks_are_resident(path: Path, tmp_path: Path, kind: str) -> None:
    command = [sys.executable, "-c", _SCRIPT, kind, str(path), str(tmp_path / "out.npy")]
    taken = []
    for _ in range(2):  # which blocks the heaps of threads keep varies: the lesser of two processes
        (tmp_path / "out.npy").unlink(missing_ok=True)
        made = subprocess.run(command, capture_output=True, text=True, check=True)
        taken.append(int(made.stdout))
        if min(taken) <= LIMIT:
            break
    # The heap of the thread that reads ahead, and the one that watches, are no part of the plan.
    assert min(taken) <= LIMIT + 4_000_000 < path.stat().st_size / 7
