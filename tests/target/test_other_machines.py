"""Plans stay within their limits when the record is of another machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tracer
from benchmarks.framework import tracer_framework
from benchmarks.programs import WORKLOADS, make_inputs
from tracer import lowering, tree
from tracer.array.trace import trace
from tracer.optimizer.pipeline import PlannerOptions
from tracer.optimizer.planner import Planner
from tracer.target import Packing, Target, planned_for
from tracer.units import parse_bytes

HERE = lowering.target_of("cpu")
OTHERS = {
    "caches halved": replace(HERE, cache_bytes=HERE.cache_bytes // 2),
    "one core": replace(HERE, cores=1, packing=Packing(threads=1)),
    "16 cores": replace(HERE, cores=16, packing=Packing(threads=16)),
}
TRACED_ANEW = {"Sinkhorn", "Sinkhorn gradient"}
"""On every machine their limits take another way to trace, which the planner does not know."""
PACKED_BY_EACH = {"sparse GP gradient"}
"""Each of 16 threads packs a triangular matrix for itself: that alone is above the limit."""
PLANNED = [name for name in WORKLOADS if name not in TRACED_ANEW | PACKED_BY_EACH]


def case(name: str) -> tuple[Any, list[Any], int]:
    """Return a benchmark's program, the types of its small inputs, and its limit in bytes."""
    workload = WORKLOADS[name]
    arrays = tree.map(np.asarray, make_inputs(workload, "small"))
    types = tree.map(lambda x: tracer.ShapeDtype(x.shape, x.dtype), arrays)
    limit = workload.sizes["small"].limit
    return workload.program(tracer_framework()), types, int(parse_bytes(limit))


@pytest.fixture(params=OTHERS)
def other(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Target:
    """Pretend that the device is another machine."""
    target = OTHERS[request.param]
    monkeypatch.setattr(lowering, "target_of", lambda device=None: target)
    return target


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANNED)
def test_a_program_is_predicted_within_its_limit(name: str, other: Target) -> None:
    function, types, limit = case(name)
    with planned_for(other):
        graph = trace(function, types).graph
        planner = Planner(graph, PlannerOptions(limit_bytes=limit, machine=other))
        assert next(planner.candidates()).peak_bytes <= limit


@pytest.mark.xla
@pytest.mark.parametrize("name", PLANNED[:3])
def test_xla_s_count_keeps_the_limit(name: str, other: Target) -> None:
    function, types, limit = case(name)
    plan = tracer.compile(function, memory_limit=limit).plan(*types)
    assert plan.compiled_bytes <= limit
    assert plan.peak_bytes <= limit


def test_packing_follows_the_threads_of_the_target() -> None:
    """A record of more threads predicts more packing, of the same graph."""
    x, y = tracer.ShapeDtype((64, 8192), "float32"), tracer.ShapeDtype((8192, 4096), "float32")
    graph = trace(lambda x, y: x @ y, (x, y)).graph
    peaks = []
    for threads in (1, 16):
        with planned_for(Target(packing=Packing(threads=threads))):
            planner = Planner(graph, PlannerOptions())
            peaks.append(planner.baseline_peak_bytes)
    assert peaks[1] - peaks[0] == 15 * 32 * 8192 * 4
