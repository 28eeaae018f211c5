"""The targets that run with tracer, each under a limit for the whole program, or without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.experiments import inputs
from benchmarks.experiments.runs import Run, some
from benchmarks.warm_up import load_libraries
from examples.programs.kernel_product import kernel_product
from tracer.units import parse_bytes


def place_on(device: str) -> None:
    """Have everything run on the CPU or on the first GPU."""
    tracer.set_default_device(f"{device}:0")


def prepared(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    limit: str | int | None,
    values: Callable[[Any], Any],
    device: str,
    **about: Any,
) -> Run:
    """Return a run of a function, compiled now, with its arguments on the device."""
    program = tracer.compile(function, memory_limit=limit)
    arrays = tracer.tree.map(tnp.asarray, arguments)
    plan = program.plan(*arrays)
    if limit is None:  # Under a limit compilation has used the libraries.
        load_libraries()

    def call() -> Any:
        results = program(*arrays)
        for leaf in tracer.tree.leaves(results):
            leaf.block_until_ready()
        return results

    return Run(
        call,
        values,
        about=lambda: {**plan_figures(plan), **about},
        device_bytes=device_bytes if device != "cpu" else None,
    )


def plan_figures(plan: Any) -> dict[str, Any]:
    """Return what a plan says about memory."""
    figures = {
        "as_written_bytes": plan.baseline_peak_bytes,
        "predicted_bytes": plan.peak_bytes,
        "counted_bytes": plan.compiled_bytes,
        "argument_bytes": plan.argument_bytes,
        "loops": len(plan.loops),
    }
    return figures if plan.limit_bytes is None else {**figures, "limit_bytes": plan.limit_bytes}


def device_bytes() -> tuple[int, int]:
    """Return the bytes in use on the default device, and the highest so far."""
    stats = tracer.default_device().raw.memory_stats()
    return int(stats["bytes_in_use"]), int(stats["peak_bytes_in_use"])


def kernel(n: int, limit: str | None, device: str, cap_bytes: int) -> Run:
    """Compute exp(-|x_i - x_j|^2 / 2) @ v, from the three lines of the examples."""
    place_on(device)
    x, v = inputs.kernel(n)

    def program(x: Any, v: Any) -> Any:
        return kernel_product(x, x, v)  # type: ignore[no-untyped-call]

    return prepared(program, (x, v), limit, lambda found: np.asarray(found)[some(n, 64)], device)


def neighbours(above: str, device: str, cap_bytes: int, **search: Any) -> Run:
    """Find the k nearest points of each query; the limit is so much above the arguments."""
    place_on(device)
    asked = inputs.Search(**search)
    queries, points = asked.arrays
    limit = queries.nbytes + points.nbytes + parse_bytes(above)

    def program(queries: Any, points: Any) -> Any:
        return tnp.top_k(-inputs.distances(asked.metric, tnp, queries, points), asked.k)[1]

    return prepared(program, (queries, points), limit, asked.checked, device)
