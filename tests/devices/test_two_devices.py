"""Runs `on_two_devices.py` in a process whose CPU client makes two devices."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.devices.test_eight_devices import ROOT, run


@pytest.mark.xla
def test_on_two_devices() -> None:
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider",
        "tests/devices/on_two_devices.py",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "TRACER_CPU_DEVICES": "2"},
        capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_a_number_that_is_empty_is_not_set() -> None:
    done = run("import tracer; print(len(tracer.devices('cpu')))", TRACER_CPU_DEVICES="")
    assert done.stdout.split() == ["1"], done.stderr
