"""The benchmark of the settings runs, and says what did not."""

from __future__ import annotations

import pytest

from benchmarks import settings
from tracer.lowering.settings import SETTINGS


@pytest.mark.xla
def test_a_program_is_taken_apart() -> None:
    rows = settings.ablate("3 best of 12", "small", turns=2)
    assert rows[""]["ratio"] == 1
    assert {"fused reductions", settings.ALL_OFF} <= set(rows) <= {"", settings.ALL_OFF, *SETTINGS}
    assert not settings.wrong({"3 best of 12": rows})


def test_programs_that_do_not_run_are_named() -> None:
    results = {"one": {"": {"failed": "no memory"}}, "other": {"": {"ratio": 1.0}}}
    assert settings.not_run(results) == ["one: no memory"]
