"""The checker of this folder can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.memory.within import runs_within

PROGRAMS = Path(__file__).parent.parent / "benchmarks" / "programs.py"
MB = 1_000_000


@pytest.mark.process
def test_passes_what_stays_within() -> None:
    measurement = runs_within(
        f"{PROGRAMS}:spike",
        arguments={"megabytes": 100},
        limit_bytes=130 * MB,
        argument_bytes=20 * MB,
    )
    assert measurement.peak_bytes == pytest.approx(100 * MB, rel=0.05)


@pytest.mark.process
@pytest.mark.parametrize(
    ("megabytes", "argument_bytes", "said"),
    [(100, 0, "the limit was 80000000"), (50, 50 * MB, "50000000 of them arguments")],
)
def test_refuses_what_does_not(megabytes: int, argument_bytes: int, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        runs_within(
            f"{PROGRAMS}:spike",
            arguments={"megabytes": megabytes},
            limit_bytes=80 * MB,
            argument_bytes=argument_bytes,
        )


@pytest.mark.process
def test_refuses_a_program_that_fails() -> None:
    with pytest.raises(AssertionError, match="failed: exit status 1: RuntimeError: a bug"):
        runs_within(
            f"{PROGRAMS}:raises",
            arguments={"message": "a bug"},
            limit_bytes=80 * MB,
            argument_bytes=0,
        )


def test_refuses_a_test_that_cannot_fail() -> None:
    with pytest.raises(AssertionError, match="noise"):
        runs_within(f"{PROGRAMS}:sleep", limit_bytes=9 * MB, argument_bytes=0)
    with pytest.raises(AssertionError, match="fits unsplit"):
        runs_within(
            f"{PROGRAMS}:sleep", limit_bytes=90 * MB, argument_bytes=0, must_be_split_bytes=80 * MB
        )
