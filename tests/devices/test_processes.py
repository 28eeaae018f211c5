"""Several processes on this machine: they compute what one device computes, and none hangs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.device_processes import ROOT, free_address

pytestmark = pytest.mark.process
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
    for process, (output, _) in zip(started, said_by(started, SECONDS), strict=True):
        assert process.returncode == 0, output[-8000:]


def said_by(started: list[subprocess.Popen[str]], seconds: float) -> list[tuple[str, str]]:
    """Return output and errors of processes; none outlives this."""
    try:
        with ThreadPoolExecutor(len(started)) as readers:  # who writes to a full pipe would wait
            return list(readers.map(lambda each: each.communicate(timeout=seconds), started))
    finally:
        for process in started:
            process.kill()


_SUMS = """
import os, sys, time
import numpy as np, tracer
from tracer.lowering.run import executable
from tracer.sharding import Mesh, PartitionSpec as P
index, address, who, how = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
tracer.distributed.initialize(address, num_processes=3, process_id=index, heartbeat_timeout=60)
def total(devices):
    mesh = Mesh(devices, "x")
    lies = {"in_shardings": P("x"), "out_shardings": P()}
    return tracer.compile(lambda x: x.sum(), mesh=mesh, **lies)
f, g = total(tracer.devices()), total(tracer.devices()[:2])
print(float(f(np.ones(300))), flush=True)
if index == who and how == "dies":
    os._exit(3)
if index == who and how == "dies at work":
    meet = executable.meet
    executable.meet = lambda *given: (meet(*given), os._exit(3))
if index == who and how == "fails":
    raise ValueError("this process fails")
if index == who and how == "leaves":
    sys.exit(0)
if how == "late":
    time.sleep(8 if index == who else 0)
    sys.exit(0)
(g if index == who and how == "elsewhere" else f)(np.ones(300))
"""


def end_of_sums(who: int, how: str) -> list[tuple[int, str, str]]:
    """Return exit status, output and errors of three processes, one of which goes its own way."""
    address = free_address()
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _SUMS, str(index), address, str(who), how], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for index in range(3)
    ]  # fmt: skip
    # The time for silence is longer.
    said = said_by(started, 50)
    assert all("300.0" in output for output, _ in said), said
    ended = zip(started, said, strict=True)
    return [(process.returncode, output, errors) for process, (output, errors) in ended]


_TRAINING = """
import sys
import numpy as np, tracer, tracer.numpy as tnp
from tracer.sharding import Mesh, NamedSharding, PartitionSpec as P
index, address = int(sys.argv[1]), sys.argv[2]
tracer.distributed.initialize(address, num_processes=2, process_id=index, cpu_devices=2)
mesh = Mesh(tracer.devices(), "x")

def step(w, x, y):
    loss, slope = tracer.value_and_grad(lambda w: ((tnp.tanh(x @ w) - y) ** 2).mean())(w)
    return w - 0.5 * slope, loss

def train(f, w):
    for _ in range(5):
        w, loss = f(w, x, y)
    return w, float(loss)

rng = np.random.default_rng(0)
w, x, y = [rng.standard_normal(shape) for shape in ((16, 512), (64, 16), (64, 512))]
last, loss = train(tracer.compile(step, mesh=mesh), w)
assert not last.device.is_fully_replicated, last.device
wanted, wanted_loss = train(tracer.compile(step), w)
np.testing.assert_allclose(loss, wanted_loss)
try:
    np.asarray(last)
except tracer.errors.DeviceError as error:
    print(error)
np.testing.assert_allclose(last.to_device(NamedSharding(mesh, P())), wanted)
moved = last.to_device(NamedSharding(mesh, P(None, "x")))
found = train(tracer.compile(step, mesh=mesh), moved)[1]
np.testing.assert_allclose(found, train(tracer.compile(step), wanted)[1])
print("done")
tracer.distributed.shutdown()
"""


def test_training_takes_its_own_results() -> None:
    """Parts move between processes, which no process' host could do alone."""
    address = free_address()
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _TRAINING, str(index), address], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for index in range(2)
    ]  # fmt: skip
    for process in started:
        output, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors[-4000:]
        assert "has parts in other processes" in output
        assert "x.to_device(NamedSharding(mesh, PartitionSpec()))" in output
        assert "done" in output


@pytest.mark.parametrize(
    ("who", "how", "status", "text"),
    [
        (1, "dies", 3, "will not come: process 1 is gone"),
        pytest.param(
            1,
            "dies at work",
            3,
            "a process that works with this one is gone",
            marks=pytest.mark.slow,
        ),
        (1, "fails", 1, "will not come: process 1 failed: ValueError: this process fails"),
        pytest.param(
            0,
            "fails",
            1,
            "will not come: process 0 failed: ValueError: this process fails",
            marks=pytest.mark.slow,
        ),
        pytest.param(1, "leaves", 0, "will not come: process 1 has left", marks=pytest.mark.slow),
        # XLA's own end, or ours.
        pytest.param(0, "dies", 3, "distributed service|process 0", marks=pytest.mark.slow),
    ],
)
def test_processes_that_wait_for_another_end_at_once(
    who: int, how: str, status: int, text: str
) -> None:
    found = end_of_sums(who, how)
    assert found[who][0] == status
    others = [found[index] for index in range(3) if index != who]
    # When process 0, the coordinator, has gone, XLA may end one that has not heard yet.
    assert {ended for ended, *_ in others} <= {1, -signal.SIGABRT}
    assert any(re.search(text, errors) for _, _, errors in others), others
    assert all("DeviceError" in errors or "distributed service" in errors for *_, errors in others)


def test_processes_that_wait_for_each_other_on_two_meshes_end_at_once() -> None:
    found = end_of_sums(1, "elsewhere")
    assert {ended for ended, *_ in found} <= {1, -signal.SIGABRT}
    assert any("waits for this one, to run program" in errors for *_, errors in found[:2]), found


@pytest.mark.slow
def test_the_meeting_point_stays_for_those_that_are_late() -> None:
    """XLA's own goodbye lasts five seconds; then it would end who is still at work."""
    found = end_of_sums(1, "late")
    assert [ended for ended, *_ in found] == [0, 0, 0], found


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("'127.0.0.1:1', 2, 2", "process_id=2 is not one of 2 processes"),
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
    assert "devices are already in use" in done.stderr


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
