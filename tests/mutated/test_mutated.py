"""Inputs that were changed at random: an error of ours, or a right answer."""

from __future__ import annotations

import random

import pytest

from tests.mutated.kinds import KINDS

_QUICK = {
    "graph text": 300,
    "sizes": 600,
    "types": 300,
    "indices": 150,
    "einsum": 150,
    "StableHLO text": 100,
}


@pytest.mark.xla
@pytest.mark.parametrize("kind", _QUICK)
def test_changed_inputs(kind: str) -> None:
    for number in range(_QUICK[kind]):
        KINDS[kind](random.Random(f"{kind} test {number}"))
