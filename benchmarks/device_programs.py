"""The programs that are compiled for every device, one in a process of its own.

A compiler of another device may take very long, or end the process: `compiled` has a time limit.
From the command line: `python -m benchmarks.device_programs "kernel product" tpu:v5e`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.peak_programs import (
    attention,
    convolution_loss,
    cross_entropy,
    info_nce,
    matern,
    matern_loss,
    nearest_by_differences,
    normalised,
    recurrent_loss,
    sparse_process_loss,
)

ROOT = Path(__file__).parent.parent
COMPILE_SECONDS = 240


@dataclass(frozen=True)
class DeviceProgram:
    """A program in float32, the types of its inputs, and the limit it is planned for."""

    function: Callable[..., Any]
    types: tuple[Any, ...]
    limit: str


def _type(*shape: int, dtype: str = "float32") -> tracer.ShapeDtype:
    return tracer.ShapeDtype(shape, dtype)


def _sparse_process(x: Any, y: Any, z: Any, log_noise: Any) -> Any:
    return sparse_process_loss(x, y, z, log_noise)


_POINTS = (_type(8192, 3), _type(8192, 3), _type(8192, 2), _type(3))
_REGRESSION = (_type(40_000, 3), _type(40_000), _type(128, 3), _type())
_HEADS = (_type(4, 2048, 64),) * 3

PROGRAMS: dict[str, DeviceProgram] = {
    "kernel product": DeviceProgram(matern, _POINTS, "16MB"),
    "kernel gradient": DeviceProgram(tracer.grad(matern_loss, argnums=(0, 3)), _POINTS, "32MB"),
    "nearest neighbours": DeviceProgram(
        nearest_by_differences, (_type(1000, 8), _type(20_000, 8)), "16MB"
    ),
    "SGPR bound": DeviceProgram(_sparse_process, _REGRESSION, "16MB"),
    "SGPR gradient": DeviceProgram(
        tracer.grad(_sparse_process, argnums=(2, 3)), _REGRESSION, "24MB"
    ),
    "attention": DeviceProgram(attention, _HEADS, "24MB"),
    "attention gradient": DeviceProgram(
        tracer.grad(lambda q, k, v: tnp.sum(attention(q, k, v) ** 2), argnums=(0, 1, 2)),
        _HEADS,
        "48MB",
    ),
    "cross-entropy gradient": DeviceProgram(
        tracer.grad(cross_entropy, argnums=(0, 1)),
        (_type(4096, 64), _type(64, 8000), _type(4096, dtype="int32")),
        "32MB",
    ),
    "InfoNCE gradient": DeviceProgram(
        tracer.grad(info_nce, argnums=(0, 1)), (_type(4096, 64), _type(4096, 64)), "96MB"
    ),
    "convolution gradient": DeviceProgram(
        tracer.grad(convolution_loss),
        ([_type(3, 3, 3, 16), _type(3, 3, 16, 32)], _type(256, 32, 32, 3)),
        "32MB",
    ),
    "recurrent gradient": DeviceProgram(
        tracer.grad(recurrent_loss), (_type(128, 128), _type(1000, 32, 128)), "64MB"
    ),
    "normalisation": DeviceProgram(normalised, (_type(20_000, 64), _type(64)), "16MB"),
}


def count(name: str, device: str, limit: str | None = None) -> dict[str, Any]:
    """Compile a program for a device, and run it on one that is here; what was counted."""
    program = PROGRAMS[name]
    limit = program.limit if limit is None else limit
    made = tracer.compile(program.function, memory_limit=limit, device=device)
    plan = made.plan(*program.types)
    if tracer.lowering.find_device(device).is_present:
        for leaf in tracer.tree.leaves(made(*inputs_of(name))):
            leaf.block_until_ready()
    return {
        "limit_bytes": plan.limit_bytes,
        "as_written_bytes": plan.baseline_peak_bytes,
        "predicted_bytes": plan.peak_bytes,
        "counted_bytes": plan.compiled_bytes,
        "loops": len(plan.loops),
    }


def compiled(
    name: str, device: str, *, python: str = sys.executable, seconds: float = COMPILE_SECONDS
) -> dict[str, Any]:
    """Do `count` in a new process; a failure, or no end in time, is said under "failed"."""
    command = [python, "-m", "benchmarks.device_programs", name, device]
    return last_line_of(command, seconds)


def last_line_of(
    command: Sequence[str], seconds: float, environment: dict[str, str] | None = None
) -> dict[str, Any]:
    """Run a command and read its last line as JSON; see `compiled`."""
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, env=environment
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"did not end within {seconds:.0f} s"}
    if done.returncode:
        return {"failed": reason(done.returncode, done.stderr)}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def reason(status: int | None, errors: str) -> str:
    """Return the error of ours that a process ended with, or else its last lines."""
    ours = re.search(r"^tracer\.errors\.\w+: (.*)", errors, re.MULTILINE)
    if ours is not None:
        return ours[1]
    lines = [line for line in errors.strip().splitlines() if line]
    return f"exit status {status}: {' | '.join(lines[-4:])}"


def inputs_of(name: str, seed: int = 0) -> tuple[Any, ...]:
    """Return NumPy arrays of a program's types."""
    rng = np.random.default_rng(seed)

    def make(type: tracer.ShapeDtype) -> Any:
        if type.dtype.kind == "i":
            return rng.integers(0, 8000, type.shape).astype(type.dtype)
        return np.asarray(rng.standard_normal(type.shape), type.dtype)

    made: tuple[Any, ...] = tracer.tree.map(make, PROGRAMS[name].types)
    return made


if __name__ == "__main__":
    print(json.dumps(count(*sys.argv[1:])))
