"""Programs on a GPU beside jax.jit, torch and KeOps, in one process, in turns.

    XLA_PYTHON_CLIENT_PREALLOCATE=false python -m benchmarks.gpu_peers

Needs a GPU, jax and torch with CUDA; KeOps where it is installed. JAX runs with its default
precision of products, which is TF32 on GPUs, and with "highest", which is that of ours and of torch
as set here. The memory of ours and of jax is XLA's count of the program, arguments included; that
of torch is its allocator's peak.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from examples.display import print_table
from tracer.units import format_bytes

_LIMIT = "1GB"
_TURNS = 7
_PLACE = "gpu:0"
Function = Callable[..., Any]


@dataclass(frozen=True)
class Program:
    """One function, written for each of the packages, with the arguments to differentiate."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    write: Callable[[Any], Function]
    argnums: tuple[int, ...] | None = None


def _kernel_product(xp: Any) -> Function:
    return lambda x, y, v: xp.exp(-0.5 * ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)) @ v


def _attention(xp: Any) -> Function:
    return lambda q, k, v: xp.softmax(q @ k.swapaxes(-1, -2) / 8.0, -1) @ v


def _distances(x: Any, y: Any) -> Any:
    return (x * x).sum(-1)[:, None] + (y * y).sum(-1)[None] - 2 * (x @ y.T)


def _kernel_by_product(xp: Any) -> Function:
    return lambda x, y, v: xp.exp(-0.5 * _distances(x, y)) @ v


def _neighbours(xp: Any) -> Function:
    return lambda x, y: xp.top_k(-_distances(x, y), 10)[0]


def _chamfer(xp: Any) -> Function:
    def f(x: Any, y: Any) -> Any:
        d = _distances(x, y)
        return xp.amin(d, 0).mean() + xp.amin(d, 1).mean()

    return f


def _log_sum(xp: Any) -> Function:
    return lambda x, w: xp.logsumexp(x @ w, -1).sum()


def _loss(f: Function) -> Function:
    return lambda *arrays: (f(*arrays) ** 2).sum()


_POINTS = ((40_000, 3), (40_000, 3), (40_000,))
_WIDE = ((20_000, 64), (40_000, 64), (40_000,))
_HEADS = ((8, 8192, 64),) * 3
PROGRAMS = (
    Program("kernel product, d = 3", _POINTS, _kernel_product),
    Program("kernel product, d = 3, gradient", _POINTS, _kernel_product, argnums=(0, 2)),
    Program("kernel product, d = 64", _WIDE, _kernel_by_product),
    Program("kernel product, d = 64, gradient", _WIDE, _kernel_by_product, argnums=(0, 2)),
    Program("attention", _HEADS, _attention),
    Program("attention, gradient", _HEADS, _attention, argnums=(0, 1, 2)),
    Program("10 nearest of 10,000", ((10_000, 128), (100_000, 128)), _neighbours),
    Program("Chamfer gradient", ((30_000, 3), (40_000, 3)), _chamfer, argnums=(0, 1)),
    Program("log-sum-exp gradient", ((8192, 512), (512, 50_000)), _log_sum, argnums=(0, 1)),
)


def _names(package: str) -> Any:
    """Return the functions that have other names in each package."""
    if package == "ours":
        from tracer import lax

        return SimpleNamespace(
            exp=tnp.exp, softmax=tracer.nn.softmax, top_k=lax.top_k, amin=tnp.min,
            logsumexp=tracer.nn.logsumexp,
        )  # fmt: skip
    if package == "jax":
        import jax

        return SimpleNamespace(
            exp=jax.numpy.exp, softmax=jax.nn.softmax, top_k=jax.lax.top_k, amin=jax.numpy.min,
            logsumexp=jax.nn.logsumexp,
        )  # fmt: skip
    import torch

    return SimpleNamespace(
        exp=torch.exp, softmax=torch.softmax, top_k=torch.topk, amin=torch.amin,
        logsumexp=torch.logsumexp,
    )  # fmt: skip


def _differentiated(program: Program, f: Function, grad: Callable[..., Any]) -> Function:
    if program.argnums is None:
        return f
    return grad(f if program.write in (_chamfer, _log_sum) else _loss(f), argnums=program.argnums)


def _ours(program: Program, arrays: list[Any]) -> tuple[Function, Any]:
    f = _differentiated(program, program.write(_names("ours")), tracer.grad)
    compiled = tracer.compile(f, memory_limit=_LIMIT, device=_PLACE)
    here = [tnp.asarray(a, device=_PLACE) for a in arrays]

    def run() -> Any:
        return [x.block_until_ready() for x in tracer.tree.leaves(compiled(*here))]

    return run, compiled.plan(*here).compiled_bytes


def _jax(program: Program, arrays: list[Any], precision: str | None) -> tuple[Function, Any]:
    import jax

    there = [jax.numpy.asarray(a) for a in arrays]
    with jax.default_matmul_precision(precision):
        f = _differentiated(program, program.write(_names("jax")), jax.grad)
        made = jax.jit(f).lower(*there).compile()
    found = made.memory_analysis()
    count = sum(getattr(found, f"{kind}_size_in_bytes") for kind in ("argument", "output", "temp"))
    return lambda: jax.block_until_ready(jax.tree.leaves(made(*there))), count


def _torch(program: Program, arrays: list[Any]) -> tuple[Function, Any]:
    import torch

    torch.set_float32_matmul_precision("highest")
    f = _differentiated(program, program.write(_names("torch")), torch.func.grad)
    tensors = [torch.tensor(a, device="cuda") for a in arrays]

    def run() -> Any:
        found = f(*tensors)
        torch.cuda.synchronize()
        return found

    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    arguments = sum(a.nbytes for a in arrays)
    count = torch.cuda.max_memory_allocated() - before + arguments
    torch.cuda.empty_cache()
    return run, count


def _keops(program: Program, arrays: list[Any]) -> tuple[Function, Any]:
    """Kernel products only: KeOps has formulas of its own."""
    import torch
    from pykeops.torch import LazyTensor

    if program.write not in (_kernel_product, _kernel_by_product):
        raise NotImplementedError("no formula here")
    tensors = [torch.tensor(a, device="cuda") for a in arrays]

    def product(x: Any, y: Any, v: Any) -> Any:
        i, j = LazyTensor(x[:, None, :]), LazyTensor(y[None, :, :])
        return ((-0.5 * ((i - j) ** 2).sum(-1)).exp() @ v[:, None])[:, 0]

    def run() -> Any:
        if program.argnums is None:
            found = product(*tensors)
        else:
            leaves = [t.clone().requires_grad_(i in program.argnums) for i, t in enumerate(tensors)]
            wanted = [leaves[i] for i in program.argnums]
            found = torch.autograd.grad((product(*leaves) ** 2).sum(), wanted)
        torch.cuda.synchronize()
        return found

    return run, None


_SYSTEMS: dict[str, Callable[[Program, list[Any]], tuple[Function, Any]]] = {
    "ours": _ours,
    "jax": lambda program, arrays: _jax(program, arrays, None),
    "jax, highest": lambda program, arrays: _jax(program, arrays, "highest"),
    "torch": _torch,
    "KeOps": _keops,
}


_COUNTED = ("ours", "jax, highest", "torch")


def _arrays(program: Program) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype("float32") for shape in program.shapes]


def _error(found: Any, wanted: Any) -> float:
    pairs = zip(tracer.tree.leaves(found), tracer.tree.leaves(wanted), strict=True)
    return max(
        float(np.abs(np.asarray(a) - np.asarray(b)).max() / np.abs(np.asarray(b)).max())
        for a, b in pairs
    )


def measured(program: Program) -> tuple[str, ...]:
    """Return the row of a program: what does not run says why in a line before the table."""
    arrays, runs, counts = _arrays(program), {}, {}
    for name, system in _SYSTEMS.items():
        try:
            runs[name], counts[name] = system(program, arrays)
            runs[name]()
        except Exception as error:
            runs.pop(name, None)
            print(f"{program.name}, {name}: {type(error).__name__}: {str(error)[:160]}", flush=True)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(_TURNS):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    medians = {name: 1e3 * statistics.median(found) for name, found in times.items()}
    error = _error(runs["ours"](), runs["jax, highest"]()) if "jax, highest" in runs else None
    return (
        program.name,
        *(f"{medians[name]:.1f}" if name in medians else "" for name in _SYSTEMS),
        "" if error is None else f"{error:.0e}",
        ", ".join(format_bytes(counts[name]) if counts.get(name) else "-" for name in _COUNTED),
    )


def main() -> None:
    """Measure all, or those whose names have `--only` in them, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of a program's name")
    chosen = [program for program in PROGRAMS if parser.parse_args().only in program.name]
    rows = []
    for program in chosen:
        rows.append(measured(program))
        print(*rows[-1], sep=" | ", flush=True)
    header = ("program, ms", *_SYSTEMS, "error", "memory: ours, jax, torch")
    print_table(f"On a GPU, limit {_LIMIT}", header, rows)


if __name__ == "__main__":
    main()
