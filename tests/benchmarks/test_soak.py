"""benchmarks/soak.py sees what it is there to see."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks import soak
from benchmarks.soak_programs import functions, jax_side, points, tracer_side

pytestmark = pytest.mark.xla
FEW = ("sum of two", "scan", "distances")
NAMES = list(functions(tracer_side()))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> soak.Soak:
    """Return a soak of three functions and three sizes, in which rare calls are frequent."""

    def some(side: Any) -> dict[str, Callable[..., Any]]:
        return {name: functions(side)[name] for name in FEW}

    monkeypatch.setattr(soak, "functions", some)
    for name, value in {"FEW": (1, 3), "MANY": (40,), "ROWS": (1, 3, 40)}.items():
        monkeypatch.setattr(soak, name, value)
    for name, value in {"BAD": 20, "CHECKED": 10}.items():
        monkeypatch.setattr(soak, name, value)
    return soak.Soak(tracer_side(), 0, interrupts=0, rare=60)


def test_calls_errors_and_checks_are_counted(short: soak.Soak) -> None:
    found = short.window(600)
    assert 0 < found["p50"] <= found["p99"] <= found["p99.9"]
    assert found["errors"] > 10
    assert found["checked"] > 20
    assert found["resident"] > 1e7
    assert found["threads"] > 1


def test_interrupts_come_in_calls_only(short: soak.Soak) -> None:
    short.interrupts = 1000
    with short._interrupted():
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            pass
        with pytest.raises(KeyboardInterrupt):
            _call_of_ten_seconds(short)
        short.in_call = False


def _call_of_ten_seconds(short: soak.Soak) -> None:
    short.in_call = True
    time.sleep(10)


def test_another_value_ends_it(short: soak.Soak) -> None:
    wanted = short.wanted["scan", 3]
    short.wanted["scan", 3] = [wanted[0], wanted[1] + 1e-9]
    with pytest.raises(SystemExit, match="scan, 3 rows"):
        short.window(3000)


def test_a_wrong_argument_that_gives_a_result_ends_it(
    short: soak.Soak, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = short.side
    monkeypatch.setattr(short, "side", side.__class__(**{**vars(side), "compile": _deaf}))
    with pytest.raises(SystemExit, match="a wrong argument gave a result"):
        short._fail("scan", 3)


def _deaf(function: Any, **_: Any) -> Callable[..., Any]:
    return lambda *arguments: None


def test_there_are_fifty_functions() -> None:
    assert len(NAMES) == 50


@pytest.mark.parametrize("name", NAMES)
def test_jax_computes_what_we_do(name: str) -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        found, wanted = (
            soak._leaves(functions(side)[name](*map(side.np.asarray, points(5, 0))))
            for side in (tracer_side(), jax_side())
        )
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
