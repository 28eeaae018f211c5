"""Kernel products and their gradients: an n x n matrix that does not fit is never there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.memory.within import runs_within

PROGRAMS = Path(__file__).parent / "programs.py"
MB = 1_000_000
N = 5_000

pytestmark = pytest.mark.process


@pytest.mark.parametrize("program", ["kernel_product", "kernel_gradient"])
def test_stays_within_the_limit(program: str) -> None:
    runs_within(
        f"{PROGRAMS}:{program}",
        arguments={"n": N, "limit": 40 * MB},
        limit_bytes=40 * MB,
        argument_bytes=28 * N,
        must_be_split_bytes=4 * N * N,
        repeats=3,
    )


def test_the_same_program_without_a_limit_would_not() -> None:
    with pytest.raises(AssertionError, match="the limit was 40000000"):
        runs_within(
            f"{PROGRAMS}:kernel_product",
            arguments={"n": N, "limit": None},
            limit_bytes=40 * MB,
            argument_bytes=28 * N,
        )
