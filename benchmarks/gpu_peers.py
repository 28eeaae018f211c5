"""Four programs on a GPU beside jax.jit and torch, in one process, in turns.

    XLA_PYTHON_CLIENT_PREALLOCATE=false python -m benchmarks.gpu_peers

Needs a GPU, jax and torch with CUDA. JAX runs with its default precision of products, which is TF32
on GPUs, and with "highest", which is that of ours and of torch as set here.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from examples.display import print_table
from tracer.units import format_bytes

_LIMIT = "256MB"
_TURNS = 5
_PLACE = "gpu:0"


@dataclass(frozen=True)
class Program:
    """One function, written for each of the three packages."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    write: Callable[[Any, Callable[..., Any]], Callable[..., Any]]


def _kernel_product(exp: Any, _: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y, v: exp(-0.5 * ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)) @ v


def _attention(_: Any, softmax: Callable[..., Any]) -> Callable[..., Any]:
    return lambda q, k, v: softmax(q @ k.swapaxes(-1, -2) / 8.0, -1) @ v


PROGRAMS = (
    Program("kernel product", ((40_000, 3), (40_000, 3), (40_000,)), _kernel_product),
    Program("attention", ((8, 8192, 64),) * 3, _attention),
)


def _loss(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arrays: (f(*arrays) ** 2).sum()


def _systems(program: Program, arrays: list[Any], gradient: bool) -> dict[str, Callable[[], Any]]:
    """Return calls that wait for their results."""
    import jax
    import torch

    torch.set_float32_matmul_precision("highest")
    ours = program.write(tnp.exp, tracer.nn.softmax)
    theirs = program.write(jax.numpy.exp, jax.nn.softmax)
    torchs = program.write(torch.exp, torch.softmax)
    if gradient:
        ours = tracer.grad(_loss(ours), argnums=(0, 2))
        theirs = jax.grad(_loss(theirs), argnums=(0, 2))
        torchs = torch.func.grad(_loss(torchs), argnums=(0, 2))
    limited = tracer.compile(ours, memory_limit=_LIMIT, device=_PLACE)
    jitted = jax.jit(theirs)
    here = [tnp.asarray(a, device=_PLACE) for a in arrays]
    there = [jax.numpy.asarray(a) for a in arrays]
    tensors = [torch.tensor(a, device="cuda") for a in arrays]

    def run() -> Any:
        return [x.block_until_ready() for x in tracer.tree.leaves(limited(*here))]

    def run_jax() -> Any:
        return jax.block_until_ready(jax.tree.leaves(jitted(*there)))

    def run_highest() -> Any:
        with jax.default_matmul_precision("highest"):
            return run_jax()

    def run_torch() -> Any:
        found = torchs(*tensors)
        torch.cuda.synchronize()
        return found

    return {"ours": run, "jax": run_jax, "jax, highest": run_highest, "torch": run_torch}


def measured(program: Program, gradient: bool) -> tuple[str, ...]:
    """Return the row of a program."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in program.shapes]
    systems = _systems(program, arrays, gradient)
    results = {name: run() for name, run in systems.items()}
    wanted = [np.asarray(x) for x in results["jax, highest"]]
    errors = [
        np.abs(np.asarray(found) - want).max() / np.abs(want).max()
        for found, want in zip(results["ours"], wanted, strict=True)
    ]
    times: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(_TURNS):
        for name, run in systems.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    name = f"{program.name}{', gradient' if gradient else ''}"
    medians = (f"{1e3 * statistics.median(found):.1f}" for found in times.values())
    return name, *medians, f"{max(errors):.1e}"


def peaks() -> str:
    """Return the most memory that each has held in this process, by its allocator."""
    import jax
    import torch

    ours = tracer.lowering.find_device(_PLACE).raw.memory_stats()["peak_bytes_in_use"]
    theirs = jax.devices()[0].memory_stats()["peak_bytes_in_use"]
    found = (ours, theirs, torch.cuda.max_memory_allocated())
    return ", ".join(map(format_bytes, found))


def main() -> None:
    """Measure all and print the table; memory is that of the process so far."""
    rows = [
        (*measured(program, gradient), peaks())
        for program in PROGRAMS
        for gradient in (False, True)
    ]
    header = ("program", "ours, ms", "jax", "jax, highest", "torch", "error", "memory: all three")
    print_table(f"On a GPU, limit {_LIMIT}", header, rows)


if __name__ == "__main__":
    main()
