"""benchmarks/measure.py measures what a program of known appetite takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure import Measurement, measure
from benchmarks.watches import DeviceCounter, HighWater, Sampler, resident_bytes

MB = 1_000_000
PROGRAMS = Path(__file__).parent / "programs.py"


def run(name: str, **options: Any) -> Measurement:
    keys = ("repeats", "cap_bytes", "timeout", "environment", "trimmed")
    settings = {key: options.pop(key) for key in keys if key in options}
    return measure(f"{PROGRAMS}:{name}", arguments=options, **{"repeats": 1, **settings})


def peak_of(measurement: Measurement) -> int:
    assert measurement.status == "ok", measurement.reason
    assert measurement.peak_bytes is not None
    return measurement.peak_bytes


@pytest.mark.process
@pytest.mark.parametrize("program", ["allocate", "spike", "keep_in_pieces"])
def test_200_megabytes_are_measured_within_5_percent(program: str) -> None:
    assert peak_of(run(program, megabytes=200)) == pytest.approx(200 * MB, rel=0.05)


@pytest.mark.process
def test_what_set_up_frees_does_not_hide_the_run() -> None:
    assert peak_of(run("allocate", megabytes=200, before=300)) == pytest.approx(200 * MB, rel=0.05)


@pytest.mark.process
def test_what_set_up_freed_is_used_again_if_it_stays() -> None:
    assert peak_of(run("use_again", megabytes=50)) > 40 * MB
    assert peak_of(run("use_again", megabytes=50, trimmed=False)) < 5 * MB


@pytest.mark.process
def test_what_a_run_leaves_behind_counts_in_the_next() -> None:
    measurement = run("leak", megabytes=50, repeats=3)
    assert measurement.first_peak_bytes == pytest.approx(50 * MB, rel=0.05)
    assert peak_of(measurement) == pytest.approx(200 * MB, rel=0.05)


@pytest.mark.process
def test_seconds() -> None:
    measurement = run("sleep", seconds=0.05, repeats=3)
    assert measurement.seconds is not None
    assert measurement.fastest is not None
    assert measurement.slowest is not None
    # No upper bound: other work on the machine may delay a sleep.
    assert 0.05 <= measurement.fastest <= measurement.seconds <= measurement.slowest
    assert peak_of(measurement) < 5 * MB


@pytest.mark.process
def test_cap() -> None:
    assert run("allocate", megabytes=200, cap_bytes=400 * MB).fits
    measurement = run("allocate", megabytes=200, cap_bytes=100 * MB)
    assert measurement.status == "does not fit"
    assert "MemoryError" in measurement.reason
    assert measurement.peak_bytes is None


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "options", "status", "reason"),
    [
        ("kill", {}, "does not fit", "SIGKILL"),
        ("crash", {}, "failed", "SIGSEGV"),
        ("crash", {"cap_bytes": 10**9}, "does not fit", "SIGSEGV"),
        ("raises", {"message": "RESOURCE_EXHAUSTED: 5 GB"}, "does not fit", "RESOURCE_EXHAUSTED"),
        ("raises", {"message": "a bug"}, "failed", "RuntimeError: a bug"),
        ("sleep", {"seconds": 60, "timeout": 1}, "timed out", "more than 1 s"),
        ("not_there", {}, "failed", "not_there"),
    ],
)
def test_what_goes_wrong_is_a_status(
    name: str, options: dict[str, Any], status: str, reason: str
) -> None:
    measurement = run(name, **options)
    assert measurement.status == status
    assert reason in measurement.reason
    assert not measurement.fits


@pytest.mark.process
def test_prints_of_the_program_do_not_mix_with_the_answer() -> None:
    assert run("talkative").fits


@pytest.mark.process
def test_command_line() -> None:
    command = [sys.executable, "-m", "benchmarks.measure", f"{PROGRAMS}:allocate", "--repeats", "1"]
    done = subprocess.run(
        [*command, "--argument", "megabytes=100"], capture_output=True, text=True, check=True
    )
    answer = json.loads(done.stdout)
    assert answer["status"] == "ok"
    assert answer["peak_bytes"] == pytest.approx(100 * MB, rel=0.05)


@pytest.mark.process
def test_module_as_target() -> None:
    assert measure("tests.benchmarks.programs:sleep", arguments={"seconds": 0}, repeats=0).fits


def test_sampler_sees_what_stays() -> None:
    sampler = Sampler()
    before = resident_bytes()
    sampler.start()
    held = bytearray(b"x") * (100 * MB)
    peak = sampler.peak()
    sampler.stop()
    assert len(held) == 100 * MB
    assert peak - before == pytest.approx(100 * MB, rel=0.05)


def test_sampler_is_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: HighWater) -> None:
        raise PermissionError("clear_refs")

    monkeypatch.setattr(HighWater, "start", refuse)
    assert not HighWater.works()


@pytest.mark.process
def test_a_report_is_handed_on() -> None:
    assert run("reports", value=[1, 2]).report == [1, 2]


@pytest.mark.process
def test_no_run_begins_after_enough_seconds() -> None:
    found = measure(
        f"{PROGRAMS}:counted", arguments={"seconds": 0.2}, repeats=50, enough_seconds=0.5
    )
    assert found.report in (1, 2, 3)


@pytest.mark.process
def test_set_up_that_does_not_fit() -> None:
    found = run("too_large_in_set_up", cap_bytes=100 * MB)
    assert found.status == "does not fit"
    assert "MemoryError" in found.reason


@pytest.mark.process
def test_a_devices_own_counter() -> None:
    found = run("on_a_device", in_use=5, highest=12)
    assert (found.baseline_bytes, found.peak_bytes) == (5, 7)
    assert found.method == DeviceCounter.method
