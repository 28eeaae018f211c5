"""What the planner's benchmark starts in fresh processes; each returns `run` (see `measure.py`)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.framework import jax_framework, tracer_framework
from benchmarks.programs import WORKLOADS, make_inputs

Run = Callable[[], Any]
_SLOW_SECONDS = 20
"""A hand-chunked candidate that takes longer is not given a second call."""


def ours(name: str, size: str, limit: str | None = None) -> Run:
    """Return a run of the program by tracer, compiled now, its arguments on the device."""
    import tracer
    from benchmarks.warm_up import load_libraries

    workload = WORKLOADS[name]
    program = tracer.compile(workload.program(tracer_framework()), memory_limit=limit)
    inputs = tracer.tree.map(tracer.numpy.asarray, make_inputs(workload, size))
    program.plan(*inputs)
    load_libraries()

    def run() -> Any:
        results = program(*inputs)
        for leaf in tracer.tree.leaves(results):
            leaf.block_until_ready()
        return results

    return run


def unlimited_jax(name: str, size: str, cap_bytes: int) -> Run:
    """Return a run of `jax.jit` of the same text; one that needs more than the cap does not run."""
    framework = jax_framework()
    inputs = _on_jax(make_inputs(WORKLOADS[name], size))
    return _jax_run(WORKLOADS[name].program(framework), inputs, cap_bytes)


def by_hand(name: str, size: str, cap_bytes: int) -> Run:
    """Return a run of the fastest hand-chunked form."""
    jax_framework()
    from benchmarks.peers.by_hand import CANDIDATES

    inputs = _on_jax(make_inputs(WORKLOADS[name], size))
    best: tuple[float, str, Run | None] = (float("inf"), "", None)
    for label, make in CANDIDATES[name].items():
        run = _jax_run(make(), inputs, cap_bytes)
        seconds = _warm_seconds(run, enough=best[0])
        print(f"{name}, by hand, {label}: {seconds:.3f} s", file=sys.stderr)
        best = min(best, (seconds, label, run), key=lambda entry: entry[0])
    assert best[2] is not None
    return best[2]


def _warm_seconds(run: Run, *, enough: float) -> float:
    first = _seconds(run)
    # The first call includes no compilation: a candidate that is far behind stays behind.
    return first if first > min(_SLOW_SECONDS, 1.5 * enough) else min(first, _seconds(run))


def _seconds(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _on_jax(inputs: Any) -> Any:
    import jax

    return jax.tree.map(jax.numpy.asarray, inputs)


def _jax_run(program: Callable[..., Any], inputs: Any, cap_bytes: int) -> Run:
    import jax

    compiled = jax.jit(program).lower(*inputs).compile()
    counted = compiled.memory_analysis()
    needed = counted.temp_size_in_bytes + counted.output_size_in_bytes

    def run() -> Any:
        if needed > cap_bytes:
            raise MemoryError(f"XLA counts {needed} bytes, more than the cap of {cap_bytes}")
        return jax.block_until_ready(compiled(*inputs))

    return run


def check(name: str, size: str) -> dict[str, Any]:
    """Plan, run once, compare with NumPy; what the plan says, and the largest error."""
    import tracer

    workload = WORKLOADS[name]
    inputs = make_inputs(workload, size)
    limit = workload.sizes[size].limit
    program = tracer.compile(workload.program(tracer_framework()), memory_limit=limit)
    start = time.perf_counter()
    try:
        plan = program.plan(*inputs)
    except tracer.MemoryLimitError as error:
        return {"refused": str(error), "minimum_bytes": error.minimum_bytes}
    seconds = time.perf_counter() - start
    results = tracer.tree.map(np.asarray, program(*inputs))
    return {
        "limit_bytes": plan.limit_bytes,
        "as_written_bytes": plan.baseline_peak_bytes,
        "predicted_bytes": plan.peak_bytes,
        "counted_bytes": plan.compiled_bytes,
        "argument_bytes": plan.argument_bytes,
        "loops": len(plan.loops),
        "planning_seconds": seconds,
        "error": workload.check(inputs, results),
    }


if __name__ == "__main__":
    print("\n" + json.dumps(check(*sys.argv[1:])))
