"""Ways in which services run a library: pools of threads and processes, preforking, event loops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.xla]
ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import numpy as np, tracer, tracer.numpy as tnp

def far(x):
    return tnp.exp(-abs(x[:, None] - x)).sum(1)

compiled = tracer.compile(far, memory_limit="1MB")
arguments = [np.linspace(0, n, 50 * n) for n in (1, 2, 3, 4)]
wanted = [np.exp(-abs(x[:, None] - x)).sum(1) for x in arguments]

def check(found):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    print("right", flush=True)
"""


def ran(folder: Path, script: str) -> list[str]:
    """Return what a script prints that imports `program`, line by line."""
    (folder / "program.py").write_text(PROGRAM)
    (folder / "script.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "script.py"],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


JOBLIB = """
from program import *
import joblib

if __name__ == "__main__":
    run = joblib.Parallel(n_jobs=2, backend=BACKEND)
    check(run(joblib.delayed(FUNCTION)(x) for x in arguments))
"""
FUTURES = """
from program import *
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
import multiprocessing

def fails(x):
    return compiled(x) @ tnp.ones(3)

if __name__ == "__main__":
    SPAWN = multiprocessing.get_context("spawn")
    with POOL as pool:
        check(pool.map(compiled, arguments))
        error = pool.submit(fails, arguments[0]).exception()
        print(type(error).__name__, isinstance(error, tracer.TracerError), bool(error.mend))
        tight = pool.submit(tracer.compile(far, memory_limit="1kB"), arguments[3]).exception()
        print(type(tight).__name__, tight.limit_bytes, tight.minimum_bytes > 1000)
        check(pool.map(compiled, arguments))
"""
FAILED = ["right", "ShapeError True True", "MemoryLimitError 1000 True", "right"]
SERVER = """
import os, signal, socket
from program import *

BEFORE
listening = socket.create_server(("127.0.0.1", 0))
workers = []
for _ in range(2):
    if (child := os.fork()) == 0:
        while True:
            connection, _ = listening.accept()
            with connection:
                which = int(connection.recv(10))
                try:
                    np.testing.assert_allclose(compiled(arguments[which]), wanted[which])
                    connection.sendall(b"right")
                except tracer.errors.DeviceError as error:
                    connection.sendall(error.what[:23].encode())
    workers.append(child)
for which in (0, 1, 2, 3, 3, 2):
    with socket.create_connection(listening.getsockname()) as asking:
        asking.sendall(b"%d" % which)
        print(asking.recv(100).decode())
for child in workers:
    os.kill(child, signal.SIGTERM)
    os.waitpid(child, 0)
"""
EVENT_LOOP = """
from program import *
import asyncio

slow = tracer.compile(lambda x: tracer.fori_loop(0, 3000, lambda i, c: tnp.sin(c) + 1e-9 * i, x))
x = tnp.ones(20_000)
slow(x).block_until_ready()

async def main():
    check(await asyncio.gather(*(asyncio.to_thread(compiled, x) for x in arguments)))
    loop = asyncio.get_running_loop()
    start, ticks = loop.time(), 0
    call = asyncio.create_task(asyncio.to_thread(lambda: slow(x).block_until_ready()))
    while not call.done():
        await asyncio.sleep((loop.time() - start) / 100 + 1e-4)
        ticks += 1
    print(ticks > 10)

asyncio.run(main())
"""
IMPORTED_ANEW = """
import sys
from program import *

old = compiled
check([old(x) for x in arguments])
for name in [name for name in sys.modules if name.split(".")[0] in ("tracer", "program")]:
    del sys.modules[name]
import program
assert program.tracer is not tracer
check([program.compiled(x) for x in arguments])
check([old(x) for x in arguments])
print(np.asarray(program.compiled(np.asarray(old(arguments[0])))).shape)
"""
ANY = "lambda x: compiled(x)"
WAYS = {
    # What scikit-learn runs its jobs with; "multiprocessing" forks, before the first array here.
    "joblib, loky": (JOBLIB.replace("BACKEND", "'loky'").replace("FUNCTION", ANY), ["right"]),
    "joblib, threads": (
        JOBLIB.replace("BACKEND", "'threading'").replace("FUNCTION", ANY),
        ["right"],
    ),
    "joblib, forks": (
        JOBLIB.replace("BACKEND", "'multiprocessing'").replace("FUNCTION", "compiled"),
        ["right"],
    ),
    "threads": (FUTURES.replace("POOL", "ThreadPoolExecutor(4)"), FAILED),
    "processes": (FUTURES.replace("POOL", "ProcessPoolExecutor(2, SPAWN)"), FAILED),
    # As gunicorn does with `preload_app`.
    "a server that imports and forks": (SERVER.replace("BEFORE", ""), ["right"] * 6),
    # Its workers neither hang nor die.
    "a server that computes and forks": (
        SERVER.replace("BEFORE", "compiled(arguments[0])"),
        ["this process was forked"] * 6,
    ),
    # Calls leave Python's lock to others while they compute.
    "beside an event loop": (EVENT_LOOP, ["right", "True"]),
    # As notebooks do after an upgrade, without a restart: the old and the new compute.
    "imported anew": (IMPORTED_ANEW, ["right", "right", "right", "(50,)"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_values_and_errors(way: str, tmp_path: Path) -> None:
    script, wanted = WAYS[way]
    assert ran(tmp_path, script) == wanted
