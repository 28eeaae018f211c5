"""One of several processes that run a program together, over XLA's distributed runtime and gloo.

`run_processes` starts them on this machine; each checks its result against a run on one device and
prints what it found as JSON. From the command line, in each of two terminals (last: 0 and 1):
`python -m benchmarks.device_processes "SGPR gradient" 127.0.0.1:9876 2 0`.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.device_programs import PROGRAMS, ROOT, inputs_of
from benchmarks.peak_programs import matern, network_loss, sparse_process_loss
from tracer.sharding import Mesh, PartitionSpec

SECONDS = 120
_HEARTBEAT_SECONDS = 10


def _rng() -> np.random.Generator:
    return np.random.default_rng(7)


def _regression(n: int = 4096, m: int = 32) -> tuple[Any, ...]:
    rng = _rng()
    x = rng.uniform(-3, 3, (n, 2))
    return x, np.sin(x).sum(1), rng.uniform(-3, 3, (m, 2)), np.array(-1.0)


def _points() -> tuple[Any, ...]:
    rng = _rng()
    shapes = (2048, 3), (2048, 3), (2048, 2), (3,)
    return tuple(rng.uniform(0.5, 2.0, shape) for shape in shapes)


def _bound(x: Any, y: Any, z: Any, log_noise: Any) -> Any:
    return sparse_process_loss(x, y, z, log_noise)


def training_step(layers: Any, x: Any, y: Any) -> Any:
    """Return the parameters after one step of gradient descent, and the loss."""
    loss, slopes = tracer.value_and_grad(network_loss)(layers, x, y)
    return tracer.tree.map(lambda w, g: w - 0.1 * g, layers, slopes), loss


def _batch() -> tuple[Any, ...]:
    rng = _rng()
    sizes = (16, 64, 64, 4)
    layers = [(rng.standard_normal((a, b)) / a**0.5, np.zeros(b)) for a, b in pairwise(sizes)]
    return layers, rng.standard_normal((512, 16)), rng.standard_normal((512, 4))


_BATCH = (None, PartitionSpec("data"), PartitionSpec("data"))
CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]], Any, str | None]] = {
    "kernel product": (matern, _points, None, "3MB"),
    "SGPR bound": (_bound, _regression, None, "4MB"),
    "SGPR gradient": (tracer.grad(_bound, argnums=(2, 3)), _regression, None, "6MB"),
    "training step": (training_step, _batch, _BATCH, None),
}
"""In float64: function, inputs, how they lie (None: the planner's choice), limit of each device."""


def run_case(name: str, mesh: Mesh) -> dict[str, Any]:
    """Run a case on a mesh and on one device; what was counted, and the largest difference."""
    function, make, lies, limit = CASES[name]
    inputs = make()
    whole = PartitionSpec()
    compiled = tracer.compile(
        function, mesh=mesh, in_shardings=lies, out_shardings=whole, memory_limit=limit
    )
    results = compiled(*inputs)
    plan = compiled.plan(*inputs)
    alone = tracer.compile(function)(*inputs)
    pairs = zip(tracer.tree.leaves(results), tracer.tree.leaves(alone), strict=True)
    difference = max(
        float(np.max(np.abs(np.asarray(a) - np.asarray(b)) / (1e-9 + np.abs(b).max())))
        for a, b in pairs
    )
    return {
        "predicted_bytes": plan.peak_bytes,
        "counted_bytes": plan.compiled_bytes,
        "limit_bytes": plan.limit_bytes,
        "loops": len(plan.loops),
        "difference": difference,
        "collectives": collectives(compiled.hlo(*inputs)),
    }


def collectives(hlo: str) -> list[str]:
    """Return the kinds of collectives in optimised HLO."""
    kinds = r" (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\("
    return sorted(set(re.findall(kinds, hlo)))


def count_on_mesh(name: str, mesh: Mesh) -> dict[str, Any]:
    """Compile one of `PROGRAMS` for a mesh with half of its limit, and run it where that can be."""
    program = PROGRAMS[name]
    limit = f"{int(program.limit.removesuffix('MB')) // 2}MB"
    compiled = tracer.compile(program.function, mesh=mesh, memory_limit=limit)
    plan = compiled.plan(*program.types)
    if mesh.is_present:
        for leaf in tracer.tree.leaves(compiled(*inputs_of(name))):
            leaf.block_until_ready()
    return {
        "limit_bytes": plan.limit_bytes,
        "predicted_bytes": plan.peak_bytes,
        "counted_bytes": plan.compiled_bytes,
        "loops": len(plan.loops),
        "collectives": collectives(compiled.hlo(*program.types)),
    }


def free_address() -> str:
    """Return an address on this machine that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


def run_processes(
    name: str,
    count: int,
    *,
    seconds: float = SECONDS,
    how: str = "",
) -> list[tuple[int | None, str, str]]:
    """Start the processes of one case; return exit status, output and errors of each.

    The status is None where a process had not ended in time. `how` is "of the table" for one of
    `PROGRAMS`.
    """
    address = free_address()
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.device_processes", name, address, str(count), str(i),
             *([how] if how else [])],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for i in range(count)
    ]  # fmt: skip
    end = time.monotonic() + seconds
    found: list[tuple[int | None, str, str]] = []
    for process in started:
        try:
            output, errors = process.communicate(timeout=max(1.0, end - time.monotonic()))
            found.append((process.returncode, output, errors))
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            found.append((None, output, errors))
    return found


def main(name: str, address: str, count: str, index: str, *how: str) -> None:
    """Be one of the processes."""
    tracer.distributed.initialize(
        address, int(count), int(index), heartbeat_timeout=_HEARTBEAT_SECONDS, cpu_devices=2
    )
    mesh = Mesh(tracer.devices("cpu"), "data")
    tnp.zeros(1).block_until_ready()
    found = (count_on_mesh if "of the table" in how else run_case)(name, mesh)
    tracer.distributed.shutdown()
    print(json.dumps(found))


def on_mesh(spec: str, name: str) -> dict[str, Any]:
    """Return `count_on_mesh` for the devices of a platform or machine, such as "cpu"."""
    return count_on_mesh(name, Mesh(np.array(tracer.devices(spec), dtype=object), "data"))


if __name__ == "__main__":
    if sys.argv[1] == "--mesh":
        print(json.dumps(on_mesh(*sys.argv[2:])))
    else:
        main(*sys.argv[1:])
