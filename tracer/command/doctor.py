"""`python -m tracer doctor`: what tracer finds on this machine, and whether it computes right."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Iterator

import numpy as np

import tracer.numpy as tnp
from tracer import lowering, target
from tracer.autodiff.transforms import grad
from tracer.compilation.function import compile
from tracer.errors import ExecutionError
from tracer.units import format_bytes

_LIBRARIES = ("tracer", "jaxlib", "numpy", "scipy", "ml_dtypes", "networkx", "jax", "torch")
_SIZE, _LIMIT = 3_000, "1MB"


def doctor() -> Iterator[str]:
    """Yield the lines of the report; the last say what a program with a limit came to.

    Raises
    ------
    ExecutionError
        A value is wrong on this machine.
    """
    yield f"Python     {platform.python_version()}, {sys.executable}"
    for name in _LIBRARIES:
        yield f"{name:<10} {_version(name)}"
    for device in lowering.devices():
        free = format_bytes(lowering.free_bytes(device))
        yield f"device     {device}: {device.kind}, {free} may be used now"
    yield f"cores      {target.usable_cores()} may be used"
    yield f"memory     {format_bytes(target.usable_bytes())} may be used"
    yield f"tuned heap {'on' if lowering.is_tuned() else 'off: tracer.tune_host_allocator()'}"
    yield from _self_test()


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _self_test() -> Iterator[str]:
    """Run a kernel's gradient within a limit and compare it with NumPy in float64."""
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(_SIZE, 3)), rng.normal(size=_SIZE)

    def product(x: object, v: object) -> object:
        squared = ((x[:, None] - x[None]) ** 2).sum(-1)  # type: ignore[index] # arrays
        return v @ (tnp.exp(-squared) @ v)

    compiled = compile(grad(product, 1), memory_limit=_LIMIT)
    given = x.astype("float32"), v.astype("float32")
    plan = compiled.plan(*given)
    found = np.asarray(compiled(*given))
    squared = ((x[:, None] - x[None]) ** 2).sum(-1)
    wanted = 2 * np.exp(-squared) @ v
    error = float(np.abs(found - wanted).max() / np.abs(wanted).max())
    if not error < 1e-4:
        raise ExecutionError(
            f"the self-test's gradient is off by {error:.1e} of its largest element",
            mend="report it with the lines above; XLA_FLAGS=--xla_cpu_max_isa=AVX2 may help",
        )
    taken, written = format_bytes(plan.compiled_bytes), format_bytes(plan.baseline_peak_bytes)
    yield f"self-test  right to {error:.0e}; {taken} of {_LIMIT}, as written {written}"
    for note in plan.notes:
        yield f"note       {note}"


__all__ = ["doctor"]
