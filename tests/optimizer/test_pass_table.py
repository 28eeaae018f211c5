"""The one table of passes: nothing runs that is not in it, and each name switches its pass off."""

from __future__ import annotations

import ast
import importlib
from dataclasses import replace
from pathlib import Path

import generate_passes
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.acting_programs import ACTING
from tests.source_trees import nodes_of
from tracer import ShapeDtype, lowering
from tracer.array.trace import trace
from tracer.optimizer.loops.split import SplitSettings
from tracer.optimizer.passes import PassManager
from tracer.optimizer.pipeline import (
    OPTIONAL_PASSES,
    TABLE,
    Context,
    PlannerOptions,
    Stage,
    entries_in,
    passes_in,
)
from tracer.optimizer.remat import Rematerialiser
from tracer.optimizer.rewrite.rules import RULES
from tracer.target import DEFAULT_TARGET

ROOT = Path(__file__).parents[2]
OPTIONS = PlannerOptions(limit_bytes=1 << 20, with_rules=True, sink_bytes=1)
CONTEXT = Context(
    OPTIONS,
    SplitSettings(1 << 16, 1 << 16, 1 << 16),
    devices=2,
    rematerialiser=Rematerialiser(DEFAULT_TARGET),
    room=1 << 20,
)
CONTEXTS = (CONTEXT, replace(CONTEXT, on_mesh=True))
"""For one device, and for a mesh."""
RULE_NAMES = frozenset(rule.name for rule in RULES)


def disabled(option: str) -> frozenset[str]:
    return RULE_NAMES if option == "apply-rules" else frozenset({option})


def test_passes_are_named_as_their_rows_say() -> None:
    for stage in Stage:
        entries = [entry for entry in entries_in(stage, CONTEXT) if entry.make is not None]
        found = [item.option for item in passes_in(stage, CONTEXT)]
        assert found == [entry.option for entry in entries]
    rows = {e for context in CONTEXTS for stage in Stage for e in entries_in(stage, context)}
    assert rows == set(TABLE)


@pytest.mark.parametrize("option", sorted(OPTIONAL_PASSES))
def test_each_pass_is_switched_off_by_its_name(option: str) -> None:
    options = replace(OPTIONS, disabled=disabled(option))
    contexts = [replace(context, options=options) for context in CONTEXTS]
    left = [e for context in contexts for stage in Stage for e in entries_in(stage, context)]
    assert option not in {entry.option for entry in left}
    gone = {entry.option for entry in TABLE} - {entry.option for entry in left}
    assert gone == {option}


NO_OTHER_WAY = {
    "count-for-sort",
    "recompute-in-loops",
    "segment-scans",
    "separate-barriers",
    "separate-extremes",
    "split",
    "rematerialise",
}
"""Those without which the program cannot keep its limit."""


def test_every_pass_has_a_program_on_which_it_acts() -> None:
    assert set(ACTING) == OPTIONAL_PASSES - {"shard"}


@pytest.mark.xla
@pytest.mark.parametrize("option", sorted(ACTING))
def test_what_acts_has_no_row_when_it_is_switched_off(option: str) -> None:
    if option == "loop-interchange" and lowering.target_of().cores < 2:
        pytest.skip("there is one core")
    program = ACTING[option]
    assert program.applied(None)[option]
    if option in NO_OTHER_WAY:
        with pytest.raises(tracer.MemoryLimitError):
            program.applied(f"-{option}")
    else:
        assert option not in program.applied(f"-{option}")


def test_shard_acts_on_several_devices_unless_it_is_switched_off() -> None:
    graph = trace(lambda x: tnp.exp(x[:, None] - x) @ x, [ShapeDtype((500,), "float64")]).graph
    rows = {}
    for name, options in (("on", OPTIONS), ("off", replace(OPTIONS, disabled=disabled("shard")))):
        manager = PassManager()
        manager.run(graph, passes_in(Stage.DEVICES, replace(CONTEXT, options=options)))
        rows[name] = {row.name for row in manager.rows if row.applied}
    assert "shard" in rows["on"]
    assert rows["off"] == set()


def test_every_pass_that_is_made_is_a_row() -> None:
    """A pass of another name could not be switched off, and nobody would read of it."""
    made = set()
    for path in sorted((ROOT / "tracer").rglob("*.py")):
        calls = [n for n in nodes_of(path) if isinstance(n, ast.Call)]
        for call in calls:
            if isinstance(call.func, ast.Name) and call.func.id == "Pass":
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                module = importlib.import_module(name.removesuffix(".__init__"))
                made.add(eval(ast.unparse(call.args[0]), vars(module)).replace(" ", "-"))
    assert made == {entry.option for entry in TABLE if entry.make is not None}


def test_the_page_is_written_from_the_table() -> None:
    text = generate_passes.PAGE.read_text()
    assert generate_passes.page(text) == text
