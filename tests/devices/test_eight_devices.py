"""Runs the files for eight devices in processes whose CPU client makes eight."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import rotation

ROOT = Path(__file__).parent.parent.parent


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **environment},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def run_tests(file: str, *, devices: int, seconds: float, chosen: str = "not sweep") -> None:
    """Run tests of a file, chosen by their marks, in a process whose CPU client makes devices."""
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider",
        *rotation.options(), "-m", chosen, f"tests/devices/{file}",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "TRACER_CPU_DEVICES": str(devices)},
        capture_output=True, text=True, timeout=seconds,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


@pytest.mark.process
@pytest.mark.parametrize(
    "kind", ["", "training_", "moving_", "predictions_", "uneven_", "awkward_", "stored_"]
)
def test_on_eight_devices(kind: str) -> None:
    run_tests(f"{kind}on_eight_devices.py", devices=8, seconds=600)


@pytest.mark.process
@pytest.mark.sweep
def test_all_on_eight_devices() -> None:
    run_tests("uneven_on_eight_devices.py", devices=8, seconds=600, chosen="sweep")


@pytest.mark.process
def test_xlas_own_flag_makes_devices_too() -> None:
    flags = "--xla_force_host_platform_device_count=3"
    done = run("import tracer; print(len(tracer.devices()))", XLA_FLAGS=flags)
    assert done.stdout.split() == ["3"], done.stderr


@pytest.mark.process
def test_a_number_that_is_none_is_refused() -> None:
    for count in ("many", "99999999999999999999"):
        done = run("import tracer; tracer.devices()", TRACER_CPU_DEVICES=count)
        assert f"TRACER_CPU_DEVICES='{count}' is no number of devices" in done.stderr
