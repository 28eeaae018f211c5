"""The Cartpole benchmark: its programs compute the same, its table has every row."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from benchmarks import cartpole
from benchmarks.cartpole_programs import PASSES, error
from benchmarks.turns import Contender


@pytest.mark.xla
@pytest.mark.parametrize("strategy", ["naive", "naive, all passes", "without concatenate, by hand"])
def test_values_are_those_of_numpy(strategy: str) -> None:
    assert error("ours", strategy) < cartpole.TOLERANCE


def test_the_table_has_every_strategy_and_its_ratio(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {}

    def turns(orders: Any, **_: Any) -> Any:
        asked.update(orders)
        return {
            name: Contender("ok", "", [2.0, 2.0] if name.startswith("jax") else [1.0, 1.0])
            for name in orders
        }

    monkeypatch.setattr(cartpole, "take_turns", turns)
    rows = cartpole.table("small", {"ours": sys.executable, "jax.jit": sys.executable})
    assert {row.strategy for row in rows if row.system == "ours"} == set(PASSES)
    assert all(row.ratio == (2.0 if row.system == "ours" else 1.0) for row in rows)
    assert len(asked) == len(rows)
    cartpole.print_rows(rows, "title")
    assert capsys.readouterr().out.count("jax.jit") == len(cartpole.STRATEGIES["jax.jit"]) + 1


def test_systems_that_are_not_here_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cartpole.interpreters() == {"ours": sys.executable}
    assert "no jax.jit" in capsys.readouterr().out
    assert cartpole.interpreters(jax="python-with-jax")["jax.jit"] == "python-with-jax"
