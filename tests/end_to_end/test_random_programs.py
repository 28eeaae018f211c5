"""Random programs through the whole way: planned, lowered, compiled by XLA, run.

The oracle is the NumPy interpreter on the traced graph. XLA's float64 functions differ from NumPy's
by a few roundings, which a dozen bounded steps may multiply: 1e-6 relative to values of size 1.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as run_settings

from tests.optimizer.random_programs import Program, programs, settings
from tracer import lowering
from tracer.ir import Graph, interpret
from tracer.optimizer.loops.split import SplitSettings, split_graph
from tracer.optimizer.passes import PassLog
from tracer.optimizer.pipeline import PlannerOptions
from tracer.optimizer.planner import Planner

pytestmark = pytest.mark.xla


def assert_compiled_is_interpreted(program: Program, graph: Graph, tolerance: float) -> None:
    device = lowering.default_device()
    execute = lowering.compile_graph(graph, device=device)
    buffers = [lowering.to_device(array, device) for array in program.arrays]
    found = [lowering.to_host(buffer) for buffer in execute(*buffers)]
    for got, want in zip(found, interpret(program.graph, program.arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("kind", "tolerance"), [("integer", 0), ("float", 1e-6)])
def test_planned_and_compiled(kind: str, tolerance: float) -> None:
    @run_settings(max_examples=40)
    @given(programs(kind))
    def check(program: Program) -> None:
        planner = Planner(program.graph, PlannerOptions())
        for candidate in planner.candidates():
            assert_compiled_is_interpreted(program, candidate.graph, tolerance)

    check()


@pytest.mark.parametrize(("kind", "tolerance"), [("integer", 0), ("float", 1e-6)])
def test_split_and_compiled(kind: str, tolerance: float) -> None:
    @run_settings(max_examples=40)
    @given(programs(kind, maximum_steps=8), settings())
    def check(program: Program, chosen: SplitSettings) -> None:
        graph, _ = split_graph(program.graph, chosen, PassLog())
        assert_compiled_is_interpreted(program, graph, tolerance)

    check()
