"""Sorts, sums, FFTs, small matrices, scatters, convolutions and products beside peers.

    python -m benchmarks.primitives [--only sorting] [--sides numpy,jax,torch] [--device gpu:0]

Every side has its arrays where it computes and runs in this process, in turns with the others. JAX
is `jax.jit` with the precision of products that is ours ("highest"), torch runs eagerly, and as
`torch.compile` where asked for. *of the best* is the time of the fastest peer over ours,
*difference* ours to JAX (else NumPy), relative to the largest value. *of the possible* is the time
that the inputs and results take to be moved once, or the operations at the rate of a large product,
over ours and over the fastest peer's: both rates are measured first.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.primitive_programs import JAX, NAMES, NUMPY, OURS, PRIMITIVES, TORCH, Primitive
from benchmarks.race import race
from examples.display import markdown_table, print_table

_COMPILED = "torch.compile"
SIDES = (NUMPY, JAX, TORCH, _COMPILED)
_ROUNDS = 7
_SECONDS = 0.3
Run = Callable[[], Any]


def _ours(primitive: Primitive, f: Callable[..., Any], arrays: tuple[Any, ...], place: str) -> Run:
    if primitive.argnums:
        f = tracer.grad(f, argnums=primitive.argnums)
    compiled = tracer.compile(f, device=place)
    here = [tnp.asarray(a, device=place) for a in arrays]
    return lambda: tracer.block_until_ready(compiled(*here))


def _jax(primitive: Primitive, f: Callable[..., Any], arrays: tuple[Any, ...], place: str) -> Run:
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")
    if primitive.argnums:
        f = jax.grad(f, argnums=primitive.argnums)
    device = jax.devices(place.partition(":")[0])[0]
    compiled, there = jax.jit(f), [jax.device_put(a, device) for a in arrays]
    return lambda: jax.block_until_ready(compiled(*there))


def _numpy(primitive: Primitive, f: Callable[..., Any], arrays: tuple[Any, ...], place: str) -> Run:
    return lambda: f(*arrays)


def _torch(primitive: Primitive, f: Callable[..., Any], arrays: tuple[Any, ...], place: str) -> Run:
    import torch

    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    device = "cpu" if place.startswith("cpu") else "cuda"
    tensors = [torch.tensor(a, device=device) for a in arrays]
    leaves = [tensors[i].requires_grad_() for i in primitive.argnums]

    def run() -> Any:
        found = f(*tensors)
        if leaves:
            found = torch.autograd.grad(found, leaves)
        if device == "cuda":
            torch.cuda.synchronize()
        return found

    return run


def _torch_compiled(
    primitive: Primitive, f: Callable[..., Any], arrays: tuple[Any, ...], place: str
) -> Run:
    import torch

    torch._dynamo.reset()
    return _torch(primitive, torch.compile(f), arrays, place)


_MAKERS = {OURS: _ours, NUMPY: _numpy, JAX: _jax, TORCH: _torch, _COMPILED: _torch_compiled}


def _runs(
    primitive: Primitive, arrays: tuple[Any, ...], sides: list[str], place: str
) -> dict[str, Run]:
    """Return the calls that can be made; say what cannot."""
    runs = {}
    for side in (OURS, *sides):
        module = side.partition(".")[0]
        if side != OURS and module not in primitive.sides:
            continue
        if side == JAX and primitive.may_hang and place.startswith("cpu"):
            print(f"{primitive.name}: without {side}, which may wait forever on CPUs")
            continue
        try:
            run = _MAKERS[side](primitive, primitive.write(NAMES[module]()), arrays, place)
            run()
        except Exception as error:
            if side == OURS:
                raise
            print(f"{primitive.name}, {side}: {type(error).__name__}: {str(error)[:120]}")
            continue
        runs[side] = run
    return runs


def _host(value: Any) -> list[Any]:
    if hasattr(value, "detach"):
        value = value.detach().float() if "bfloat16" in str(value.dtype) else value.detach()
        return [value.cpu().numpy()]
    if isinstance(value, tuple | list):
        return [x for part in value for x in _host(part)]
    return [np.asarray(value)]


def _difference(found: Any, wanted: Any) -> float:
    """Return the largest difference of two results, relative to the largest value."""
    worst = 0.0
    for a, b in zip(_host(found), _host(wanted), strict=False):
        b = b.astype(complex if b.dtype.kind == "c" else float)
        scale = np.abs(b).max(initial=1e-30)
        worst = max(worst, float(np.abs(a.astype(b.dtype) - b).max(initial=0) / scale))
    return worst


def _bytes(arrays: tuple[Any, ...], results: Any) -> int:
    return sum(a.nbytes for a in (*arrays, *_host(results)))


def _rates(place: str) -> tuple[float, float]:
    """Return bytes and operations per second: of a copy, and of a product of float32."""
    x = tnp.asarray(np.ones((4096, 4096), np.float32), device=place)
    copy, product = (tracer.compile(f, device=place) for f in (lambda x: x + 1, lambda x: x @ x))
    times = race(
        {"copy": lambda: tracer.block_until_ready(copy(x)),
         "product": lambda: tracer.block_until_ready(product(x))}, rounds=3,
    )  # fmt: skip
    return 2 * x.nbytes / times["copy"].fastest, 2 * 4096**3 / times["product"].fastest


def row(
    primitive: Primitive, sides: list[str], place: str, rates: tuple[float, float]
) -> tuple[str, ...]:
    """Return the cells of one operation."""
    arrays = primitive.inputs(np.random.default_rng(0))
    runs = _runs(primitive, arrays, sides, place)
    start = time.perf_counter()
    results = runs[OURS]()
    calls = max(1, math.ceil(_SECONDS / _ROUNDS / (time.perf_counter() - start + 1e-9)))
    times = {
        name: found.median
        for name, found in race(runs, rounds=_ROUNDS, calls=min(calls, 200)).items()
    }
    # Ours is alone where no side that was asked for has the operation.
    best = min((name for name in times if name != OURS), key=lambda name: times[name], default=OURS)
    possible = max(_bytes(arrays, results) / rates[0], primitive.flops / rates[1])
    like = next((name for name in (JAX, NUMPY, TORCH) if name in runs), OURS)
    difference = _difference(results, runs[like]())
    cells = [f"{1e3 * times[name]:.3g}" if name in times else "" for name in (OURS, *sides)]
    return (
        primitive.name, *cells, f"{times[best] / times[OURS]:.2f} ({best})", f"{difference:.0e}",
        f"{possible / times[OURS]:.2f}, {possible / times[best]:.2f}",
    )  # fmt: skip


def _here(names: str) -> list[str]:
    """Return the sides that are installed; say which are not."""
    chosen = []
    for name in names.split(","):
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            print(f"{name} is not installed: it is left out")
        else:
            chosen.append(name)
    return chosen


def _chosen(parts: list[str]) -> list[Primitive]:
    found = [each for part in parts for each in PRIMITIVES if part in f"{each.family}: {each.name}"]
    return list(dict.fromkeys(found))


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.primitives", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--only", default="", help="parts of names, by commas, in order")
    parser.add_argument("--sides", default=",".join(SIDES), help=f"peers ({','.join(SIDES)})")
    parser.add_argument("--device", default="cpu:0", help="where (cpu:0)")
    parser.add_argument("--markdown", metavar="FILE", help="write the table to this file")
    options = parser.parse_args(arguments)
    sides, rates = _here(options.sides), _rates(options.device)
    rows = []
    for primitive in _chosen(options.only.split(",")):
        rows.append(row(primitive, sides, options.device, rates))
        print(*rows[-1], sep=" | ", flush=True)
    header = ("ms", "ours", *sides, "of the best", "difference", "of the possible")
    title = f"{options.device}: {rates[0] / 1e9:.0f} GB/s, {rates[1] / 1e9:.0f} Gflop/s"
    print_table(title, header, rows)
    if options.markdown:
        Path(options.markdown).write_text(markdown_table(header, rows))


if __name__ == "__main__":
    main()
