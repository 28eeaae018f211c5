"""In a process whose address space is capped the whole program dies, and the sliced one finishes.

The cap is the kernel's (RLIMIT_AS, as `ulimit -v` sets it), above what is mapped after set-up.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measure import measure
from tests.memory.within import TUNED

PROGRAMS = Path(__file__).parent / "capped.py"
MB = 1_000_000
N = 10_000
CAP = 300 * MB
"""Less than one matrix of N x N numbers; threads and malloc map more than they touch."""

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    "program",
    [
        "kernel_product",
        pytest.param("kernel_gradient", marks=pytest.mark.slow),
        pytest.param("correlation_maxima", marks=pytest.mark.slow),
    ],
)
def test_only_the_sliced_program_finishes(program: str) -> None:
    target = f"{PROGRAMS}:{program}"
    sliced, whole = (
        measure(
            target,
            arguments={"n": N, "limit": limit},
            repeats=1,
            cap_bytes=CAP,
            # A heap for each of XLA's threads would reserve 64 MiB of addresses.
            environment=TUNED,
        )
        for limit in (50 * MB, None)
    )
    assert sliced.fits, f"{sliced.status}: {sliced.reason}"
    assert whole.status == "does not fit", f"{whole.status}: {whole.reason}"
