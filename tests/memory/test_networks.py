"""Gradients of a convolutional network whose activations do not fit: the batch is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.memory.within import runs_within

PROGRAMS = Path(__file__).parent / "programs.py"
MB = 1_000_000
BATCH = 1_000

pytestmark = pytest.mark.process


def test_stays_within_the_limit() -> None:
    runs_within(
        f"{PROGRAMS}:network_gradient",
        arguments={"batch": BATCH, "limit": 40 * MB},
        limit_bytes=40 * MB,
        argument_bytes=4 * 32 * 32 * 3 * BATCH,
        must_be_split_bytes=4 * 32 * 32 * 16 * BATCH,
        repeats=3,
    )
