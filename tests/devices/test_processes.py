"""Several processes on this machine: they compute what one device computes, and none hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.device_processes import ROOT, free_address, run_processes

pytestmark = pytest.mark.xla
SECONDS = 180


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_on_several_processes(count: int) -> None:
    address = free_address()
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider",
        "tests/devices/on_several_processes.py",
    ]  # fmt: skip
    started = [
        subprocess.Popen(
            command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "TRACER_TEST_PROCESS": f"{address} {count} {index}"},
        )
        for index in range(count)
    ]  # fmt: skip
    with ThreadPoolExecutor(count) as readers:  # a pipe that is full would stop its process
        found = list(readers.map(lambda process: process.communicate(timeout=SECONDS)[0], started))
    for process, output in zip(started, found, strict=True):
        assert process.returncode == 0, output[-8000:]


@pytest.mark.slow
@pytest.mark.parametrize(("dying", "how"), [(1, "dies"), (0, "dies"), (1, "fails")])
def test_the_others_end_with_a_message(dying: int, how: str) -> None:
    found = run_processes("training step", 2, seconds=90, how=how, only=dying)
    ended = found[dying]
    assert ended[0] == (3 if how == "dies" else 1)
    assert ("this process fails" in ended[2]) == (how == "fails")
    status, _, errors = found[1 - dying]
    assert status not in (None, 0), "it hangs, or does not notice"
    assert "another task died" in errors or "is gone" in errors


_SUMS = """
import os, sys
import numpy as np, tracer
from tracer.sharding import Mesh, PartitionSpec as P
index, address, how = int(sys.argv[1]), *sys.argv[2:]
tracer.distributed.initialize(address, num_processes=3, process_id=index, heartbeat_timeout=60)
mesh = Mesh(tracer.devices(), "x")
f = tracer.compile(lambda x: x.sum(), mesh=mesh, in_shardings=P("x"), out_shardings=P())
print(float(f(np.ones(300))), flush=True)
if index == 1 and how == "dies":
    os._exit(3)
if index == 1:
    raise ValueError("this process fails")
f(np.ones(300))
"""


@pytest.mark.parametrize("how", ["dies", "fails"])
def test_processes_that_wait_for_data_of_another_end_at_once(how: str) -> None:
    """They hear of its closed connections; the time for silence is longer than that of the test.

    Process 0, the meeting point, ends with our error and not by a signal. When it has gone, XLA
    may end one that has not heard yet.
    """
    address = free_address()
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _SUMS, str(index), address, how], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for index in range(3)
    ]  # fmt: skip
    found = [process.communicate(timeout=50) for process in started]
    assert all("300.0" in output for output, _ in found)
    assert [process.returncode for process in started[:2]] == [1, 3 if how == "dies" else 1]
    assert (
        f"process 1 {'is gone' if how == 'dies' else 'failed: ValueError: this process fails'}"
        in found[0][1]
    )
    assert started[2].returncode in (1, -signal.SIGABRT)
    assert "is gone" in found[2][1] or "distributed service" in found[2][1], found[2][1][-2000:]


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("'127.0.0.1:1', 2, 2", "process_id=2 is none of 2 processes"),
        ("'127.0.0.1', 2, 0", "has no port"),
        (f"'{free_address()}', 2, 1, initialization_timeout=1", "could not join the others"),
    ],
    # Each of xdist's workers finds a free port of its own.
    ids=["no such process", "no port", "nobody listens"],
)
def test_bad_input(arguments: str, text: str) -> None:
    done = run(f"import tracer; tracer.distributed.initialize({arguments})")
    assert done.returncode
    assert text in done.stderr


def test_processes_join_before_anything_runs() -> None:
    done = run(
        "import tracer; tracer.numpy.zeros(3)\n"
        f"tracer.distributed.initialize('{free_address()}', 1, 0)"
    )
    assert "devices are in use already" in done.stderr


def test_one_process_alone() -> None:
    done = run(
        "import tracer, numpy as np\n"
        "from tracer.sharding import *\n"
        f"tracer.distributed.initialize('{free_address()}', 1, 0, cpu_devices=4)\n"
        "assert tracer.distributed.process_count() == 1 + tracer.distributed.process_index()\n"
        "mesh = Mesh(tracer.devices(), 'x')\n"
        "x = tracer.device_put(np.arange(8.0), NamedSharding(mesh, PartitionSpec('x')))\n"
        "print(float(x.sum()), len(local_parts(x)))"
    )
    assert "28.0 4" in done.stdout, done.stderr
