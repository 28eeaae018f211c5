"""Memory statistics against what a fresh process takes, and the model of hidden scratch.

The process has `tracer.tune_host_allocator` on, so that what is measured is the program, not what
glibc keeps of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
from benchmarks.framework import tracer_framework
from benchmarks.measure import measure
from benchmarks.programs import WORKLOADS
from tests.lowering import programs
from tests.memory.within import TUNED
from tests.sampling import one_in
from tracer import lowering, ops
from tracer.ir import ShapeDtype
from tracer.lowering import shims
from tracer.lowering.memory.scratch import hidden_memory, hidden_scratch

NOISE_BYTES = 1_500_000
TARGET = f"{Path(__file__).parent / 'programs.py'}:program"
MEGABYTE = 1_000_000


@pytest.mark.xla
@pytest.mark.process
@pytest.mark.parametrize("name", one_in(2, programs.PROGRAMS))
def test_a_fresh_process_takes_no_more_than_the_statistics_say(name: str) -> None:
    memory = programs.executable_of(name).memory
    found = measure(TARGET, arguments={"name": name}, repeats=0, environment=TUNED)
    assert found.fits, found.reason
    assert found.peak_bytes is not None
    assert found.peak_bytes <= memory.peak_bytes - memory.argument_bytes + NOISE_BYTES


@pytest.mark.xla
@pytest.mark.process
def test_hidden_memory_is_real() -> None:
    """Without the model the statistics of a stable sort would promise too little.

    From jaxlib 0.11 on it takes a buffer of what is sorted, a quarter of the bound.
    """
    memory = programs.executable_of("stable sort of pairs").memory
    found = measure(
        TARGET, arguments={"name": "stable sort of pairs"}, repeats=0, environment=TUNED
    )
    assert memory.scratch_bytes == 32 * MEGABYTE
    counted = memory.output_bytes + memory.temporary_bytes
    assert found.peak_bytes is not None
    share = 5 if shims.VERSION >= (0, 11) else 2
    assert found.peak_bytes > counted + memory.scratch_bytes // share


@pytest.mark.xla
def test_attention_is_counted_by_default() -> None:
    memory = programs.executable_of("attention").memory
    scores = 8 * 1024 * 1024 * 4
    assert memory.temporary_bytes >= scores
    assert memory.scratch_bytes < scores


@pytest.mark.xla
@pytest.mark.skipif(not programs.HAS_LIBRARY_FUSIONS, reason="no such fusions in this jaxlib")
def test_library_fusions_are_modelled_when_asked_for() -> None:
    memory = programs.executable_of("attention in one library fusion").memory
    scores = 8 * 1024 * 1024 * 4
    assert memory.temporary_bytes < scores
    assert memory.scratch_bytes >= 2 * scores


@pytest.mark.xla
def test_statistics_of_a_plain_program(graph: Any) -> None:
    vector = ((1000,), "f8")
    made = graph(lambda x, y: [ops.add(x, x)], vector, vector)
    memory = lowering.compile_graph(made).memory
    # An input without a use is dropped from the program but not from its signature.
    assert memory.argument_bytes == 16_000
    assert memory.output_bytes == 8_000
    assert memory.alias_bytes == 0
    assert memory.scratch_bytes == 0
    assert memory.peak_bytes == 24_000 + memory.temporary_bytes


@pytest.mark.xla
def test_constants_of_their_own_count_towards_the_peak(graph: Any) -> None:
    value = np.arange(100_000, dtype=np.float32).reshape(1000, 100)
    made = graph(
        lambda x: [programs.dot(x, ops.constant(value=value), lhs=1, rhs=0)], ((10, 1000), "f4")
    )
    memory = lowering.compile_graph(made).memory
    assert memory.peak_bytes >= memory.argument_bytes + memory.output_bytes + value.nbytes


HLO = """HloModule test, is_scheduled=true

%less (a: f32[], b: f32[]) -> pred[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = pred[] compare(%a, %b), direction=LT
}

%inside (p: f32[100,50], q: f32[50,80]) -> f32[100,80] {
  %p = f32[100,50]{1,0} parameter(0)
  %q = f32[50,80]{1,0} parameter(1)
  %d = f32[100,80]{1,0} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %e = f32[100,80]{1,0} exponential(%d)
  ROOT %s = f32[100,80]{1,0} add(%e, %d)
}

ENTRY %main (x: f32[100,50], y: f32[50,80]) -> (f32[100,80], s64[7]) {
  %x = f32[100,50]{1,0} parameter(0)
  %y = f32[50,80]{1,0} parameter(1)
  %f = f32[100,80]{1,0} fusion(%x, %y), kind=kCustom, calls=%inside, FUSED
  %i = s64[7]{0} iota(), iota_dimension=0
  %o = s64[7]{0} sort(%i), dimensions={0}, is_stable=STABLE, to_apply=%less
  ROOT %t = (f32[100,80]{1,0}, s64[7]{0}) tuple(%f, %o)
}
"""


def hlo(*, library: bool = False, stable: bool = False) -> str:
    kind = '"__ynn_fusion"' if library else '"loop"'
    text = HLO.replace("FUSED", 'backend_config={"fusion_config":{"kind":' + kind + "}}")
    return text.replace("STABLE", str(stable).lower())


def test_scratch_of_fusions_that_a_library_runs() -> None:
    intermediates, packed = 2 * 100 * 80 * 4, 50 * 80 * 4
    assert hidden_scratch(hlo(library=True)) == intermediates + packed


def test_scratch_of_our_own_fusions_is_none() -> None:
    assert hidden_scratch(hlo()) == 0


def test_scratch_of_stable_sorts() -> None:
    assert hidden_scratch(hlo(stable=True)) == 4 * 8


def test_blocks_are_kept_for_products_only() -> None:
    assert hidden_memory(hlo(library=True)).products == hidden_scratch(hlo(library=True))
    assert hidden_memory(hlo(stable=True)).products == 0 < hidden_scratch(hlo(stable=True))


def test_the_two_largest_needs_add_up() -> None:
    both = hidden_scratch(hlo(library=True, stable=True))
    assert both == hidden_scratch(hlo(library=True)) + hidden_scratch(hlo(stable=True))


@pytest.mark.xla
def test_a_factor_takes_the_place_of_its_matrix(graph: Any) -> None:
    """Cholesky and a solve with its factor hold one matrix: nothing is turned over or masked."""
    n = 600

    def evidence(x: Any, y: Any) -> Any:
        rows = ops.broadcast_in_dim(x, shape=(n, n), dimensions=(0,))
        columns = ops.broadcast_in_dim(x, shape=(n, n), dimensions=(1,))
        factor = ops.cholesky(ops.exponential(ops.negate(ops.abs(ops.subtract(rows, columns)))))
        return [
            ops.triangular_solve(
                factor,
                y,
                left_side=True,
                lower=True,
                unit_diagonal=False,
                transpose_a="NO_TRANSPOSE",
            )
        ]

    executable = lowering.compile_graph(graph(evidence, ((n,), "f8"), ((n, 1), "f8")))
    assert executable.memory.temporary_bytes < 1.1 * 8 * n * n


@pytest.mark.xla
def test_what_a_loop_reads_with_an_axis_of_one_element_is_not_copied() -> None:
    """Where the axis lay between others XLA copied the points on their way into the loop."""
    transport = WORKLOADS["Sinkhorn"].program(tracer_framework())
    points = ShapeDtype((1_500, 3), "float32")
    plan = tracer.compile(transport, memory_limit="6MB").plan(points, points)
    assert plan.compiled_bytes - plan.peak_bytes < points.nbytes // 2


@pytest.mark.xla
def test_small_solves_need_little() -> None:
    """OpenBLAS packs no more columns than there are."""
    matrix = ShapeDtype((4, 4), "float64")
    assert tracer.compile(tracer.numpy.linalg.inv).plan(matrix).compiled_bytes < 20_000
