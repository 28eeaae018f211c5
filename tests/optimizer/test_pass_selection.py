"""`passes=` and `TRACER_PASSES`: which passes and rules run."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import ArgumentError
from tracer.optimizer.pipeline import OPTIONAL_PASSES
from tracer.optimizer.plan import Plan
from tracer.optimizer.rewrite.rules import RULES
from tracer.optimizer.selection import NAMES, switched_off

X = tracer.ShapeDtype((3000,), "float32")


def kernel(x: tracer.Array) -> tracer.Array:
    return tnp.log(1 + tnp.exp(x[:, None] - x)) @ x


def applied(plan: Plan) -> set[str]:
    return {row.name for row in plan.passes if row.applied}


@pytest.mark.xla
def test_a_minus_leaves_out_and_nothing_else() -> None:
    assert "split" in applied(tracer.compile(kernel, memory_limit="1MB").plan(X))
    with pytest.raises(tracer.MemoryLimitError):
        tracer.compile(kernel, memory_limit="1MB", passes="-split").plan(X)
    plan = tracer.compile(kernel, passes=["-split"]).plan(X)
    assert "apply rules" in applied(plan)
    assert not plan.loops


@pytest.mark.xla
def test_names_alone_run_alone() -> None:
    plan = tracer.compile(kernel, memory_limit="1MB", passes="split").plan(X)
    assert applied(plan) == {"split"}


@pytest.mark.xla
def test_the_environment_selects_for_all_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACER_PASSES", "-apply-rules,-split")
    assert not applied(tracer.compile(kernel).plan(X)) & {"apply rules", "split"}
    monkeypatch.setenv("TRACER_PASSES", "-spilt")
    with pytest.raises(ArgumentError, match=r"'spilt'.*TRACER_PASSES") as caught:
        tracer.compile(kernel)
    assert "did you mean split?" in caught.value.mend


def test_apply_rules_stands_for_all_rules() -> None:
    names = {rule.name for rule in RULES}
    assert switched_off("-apply-rules") == names
    assert NAMES - switched_off("apply-rules") == names
    assert switched_off(()) == NAMES


def test_a_mixture_is_refused() -> None:
    with pytest.raises(ArgumentError, match="some have a minus"):
        tracer.compile(kernel, passes="-split,schedule")


@pytest.mark.xla
def test_modes_of_tracing_again_have_names() -> None:
    def steps(x: tracer.Array) -> tracer.Array:
        matrix = tnp.exp(-((x[:, None] - x) ** 2))
        return tracer.fori_loop(0, 5, lambda _, v: matrix @ v / 3000, x)

    def plan(passes: str | None) -> Plan:
        return tracer.compile(steps, memory_limit="1MB", passes=passes).plan(X)

    assert plan(None).passes[0].name == "recompute in loops"
    with pytest.raises(tracer.MemoryLimitError):
        plan("-recompute-in-loops")


def test_the_documentation_lists_every_pass() -> None:
    page = (Path(__file__).parents[2] / "docs" / "passes.md").read_text()
    assert {name for name in OPTIONAL_PASSES if f"| `{name}` |" not in page} == set()


def test_what_is_no_name_is_refused_as_such() -> None:
    with pytest.raises(ArgumentError, match="passes takes names, not 3"):
        tracer.compile(kernel, passes=3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="expand cannot be switched off"):
        tracer.compile(kernel, passes="-expand")
