"""What holds without `tracer.tune_host_allocator`: the count, and a first call within the limit.

Later calls may take as much again: glibc keeps freed blocks for each thread, and a call's new ones
need not fit (docs/memory-model.md).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measure import measure
from tests.memory.within import NOISE_BYTES

PROGRAMS = Path(__file__).parent / "programs.py"
MB = 1_000_000
N, LIMIT = 5_000, 40 * MB

pytestmark = pytest.mark.process


@pytest.mark.slow
@pytest.mark.parametrize("program", ["kernel_product", "kernel_gradient"])
def test_resident_memory_without_the_switch(program: str) -> None:
    found = measure(
        f"{PROGRAMS}:{program}",
        arguments={"n": N, "limit": LIMIT},
        repeats=5,
        environment={"TRACER_TUNE_HOST_ALLOCATOR": "0"},
    )
    assert found.fits, found.reason
    assert found.first_peak_bytes is not None
    assert found.peak_bytes is not None
    assert found.first_peak_bytes + 28 * N <= LIMIT + NOISE_BYTES
    assert found.peak_bytes <= 2 * LIMIT < 4 * N * N
