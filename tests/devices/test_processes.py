"""Several processes on this machine: they compute what one device computes, and none hangs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from benchmarks.device_processes import CASES, ROOT, free_address, run_processes

pytestmark = pytest.mark.xla
SECONDS = 180


def results_of(name: str, count: int) -> list[dict[str, Any]]:
    """Run a case in some processes; all must end well."""
    found = []
    for status, output, errors in run_processes(name, count, seconds=SECONDS):
        assert status == 0, errors[-4000:]
        found.append(json.loads(output.splitlines()[-1]))
    return found


def check(name: str, count: int) -> None:
    results = results_of(name, count)
    assert all(result == results[0] for result in results)
    (first, *_) = results
    assert first["difference"] < 1e-9
    assert first["collectives"]
    assert first["limit_bytes"] is None or first["counted_bytes"] <= first["limit_bytes"]


@pytest.mark.parametrize("name", ["SGPR bound", "training step"])
def test_two_processes(name: str) -> None:
    check(name, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_four_processes(name: str) -> None:
    check(name, 4)


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
    assert "DeviceError: a process that works with this one is gone" in found[0][1]
    assert started[2].returncode in (1, -signal.SIGABRT)
    assert "is gone" in found[2][1] or "distributed service" in found[2][1], found[2][1][-2000:]


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
        assert "lies in other processes" in output
        assert "x.to_device(NamedSharding(mesh, PartitionSpec()))" in output
        assert "done" in output


def test_different_programs_are_refused_by_all() -> None:
    found = run_processes("training step", 2, seconds=90, how="differs")
    assert all(status not in (None, 0) for status, _, _ in found)
    # The one that ends last may be told of the other's end before it can say this itself.
    assert any("2 processes have 2 different programs" in errors for _, _, errors in found)


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
