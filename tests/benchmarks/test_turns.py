"""benchmarks/turns.py times programs that take turns in processes of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.turns import Contender, ratio, take_turns

pytestmark = pytest.mark.process

PROGRAMS = "tests.benchmarks.programs"


def turns(**orders: tuple[str, Mapping[str, Any]]) -> dict[str, Contender]:
    named = {key: (f"{PROGRAMS}:{name}", keys) for key, (name, keys) in orders.items()}
    return take_turns(named, turns=3, enough_seconds=60, cap_bytes=200_000_000, timeout=30)


def test_ratio_of_two_sleeps() -> None:
    found = turns(short=("sleep", {"seconds": 0.05}), long=("sleep", {"seconds": 0.2}))
    assert [len(one.seconds) for one in found.values()] == [3, 3]
    assert found["long"].median is not None
    assert found["long"].median >= 0.2
    times = ratio(found["long"], found["short"])
    assert times is not None
    # Other work on the machine may delay the short sleep, but hardly tenfold in every turn.
    assert 0.4 < times < 40


@pytest.mark.parametrize(
    ("name", "keys", "status", "reason"),
    [
        ("allocate", {"megabytes": 400}, "does not fit", ""),
        ("raises", {"message": "a bug"}, "failed", "a bug"),
        ("crash", {}, "does not fit", "SIGSEGV"),
    ],
)
def test_one_that_dies_leaves_the_other_running(
    name: str, keys: dict[str, Any], status: str, reason: str
) -> None:
    found = turns(dies=(name, keys), lives=("sleep", {"seconds": 0.01}))
    assert found["dies"].status == status
    assert reason in found["dies"].reason
    assert found["dies"].median is None
    assert len(found["lives"].seconds) == 3
    assert ratio(found["dies"], found["lives"]) is None
