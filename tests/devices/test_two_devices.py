"""Runs `on_two_devices.py` in a process whose CPU client makes two devices."""

from __future__ import annotations

import pytest

from tests.devices.test_eight_devices import run, run_tests


@pytest.mark.process
@pytest.mark.parametrize("chosen", ["not sweep", pytest.param("sweep", marks=pytest.mark.sweep)])
def test_on_two_devices(chosen: str) -> None:
    run_tests("on_two_devices.py", devices=2, seconds=1200, chosen=chosen)


@pytest.mark.process
def test_a_number_that_is_empty_is_not_set() -> None:
    done = run("import tracer; print(len(tracer.devices('cpu')))", TRACER_CPU_DEVICES="")
    assert done.stdout.split() == ["1"], done.stderr
