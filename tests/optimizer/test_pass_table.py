"""The one table of passes: nothing runs that is not in it, and each name switches its pass off."""

from __future__ import annotations

import ast
import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tracer
import tracer.numpy as tnp
from tracer.array.trace import trace
from tracer.optimizer.loops.split import SplitSettings
from tracer.optimizer.pipeline import (
    OPTIONAL_PASSES,
    TABLE,
    Context,
    PlannerOptions,
    Stage,
    entries_in,
    passes_in,
)
from tracer.optimizer.planner import Planner
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
RULE_NAMES = frozenset(rule.name for rule in RULES)


def disabled(option: str) -> frozenset[str]:
    return RULE_NAMES if option == "apply-rules" else frozenset({option})


def test_passes_are_named_as_their_rows_say() -> None:
    for stage in Stage:
        entries = [entry for entry in entries_in(stage, CONTEXT) if entry.make is not None]
        found = [item.option for item in passes_in(stage, CONTEXT)]
        assert found == [entry.option for entry in entries]
    assert {e for stage in Stage for e in entries_in(stage, CONTEXT)} == set(TABLE)


@pytest.mark.parametrize("option", sorted(OPTIONAL_PASSES))
def test_each_pass_is_switched_off_by_its_name(option: str) -> None:
    context = replace(CONTEXT, options=replace(OPTIONS, disabled=disabled(option)))
    left = [entry for stage in Stage for entry in entries_in(stage, context)]
    assert option not in {entry.option for entry in left}
    gone = {entry.option for entry in TABLE} - {entry.option for entry in left}
    assert gone == {option}


def kernel(x: Any) -> Any:
    return tnp.log(1 + tnp.exp(x[:, None] - x)) @ x


@pytest.mark.parametrize("option", sorted(OPTIONAL_PASSES - {"split"}))
def test_what_is_switched_off_has_no_row_in_any_candidate(option: str) -> None:
    graph = trace(kernel, (tracer.ShapeDtype((500,), "float64"),)).graph
    options = PlannerOptions(limit_bytes=1 << 18, with_rules=True, disabled=disabled(option))
    planner = Planner(graph, options)
    found = [planner.smallest(), *planner.candidates()]
    found = [planner.kept_in_place(planner.in_small_calls(each)) for each in found]
    found = [planner.legalized(each, on_mesh=False)[0] for each in found]
    names = {row.name.replace(" ", "-") for each in found for row in each.rows}
    assert option not in names
    assert names - {"expand"}


def test_only_modules_of_the_table_define_passes() -> None:
    """A pass that the table does not import cannot run: nothing else makes one."""
    package = ROOT / "tracer"
    makers = set()
    for path in package.rglob("*.py"):
        calls = (n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call))
        if any(isinstance(name, ast.Name) and name.id == "Pass" for name in calls):
            makers.add(path.relative_to(package).as_posix())
    assert makers == {
        "optimizer/alias/in_place.py",
        "optimizer/fuse/concatenations.py",
        "optimizer/fuse/duplicate.py",
        "optimizer/fuse/horizontal.py",
        "optimizer/legalize/broadcasts.py",
        "optimizer/legalize/fills.py",
        "optimizer/legalize/inner_products.py",
        "optimizer/legalize/products.py",
        "optimizer/legalize/reductions.py",
        "optimizer/loops/fuse_scans.py",
        "optimizer/loops/scalar_replacement.py",
        "optimizer/loops/small_calls.py",
        "optimizer/loops/split/as_pass.py",
        "optimizer/loops/unrolling.py",
        "optimizer/partition/driver.py",
        "optimizer/remat/driver.py",
        "optimizer/rewrite/chains/chains.py",
        "optimizer/rewrite/chains/solves.py",
        "optimizer/rewrite/expand.py",
        "optimizer/rewrite/exponentials.py",
        "optimizer/rewrite/match/__init__.py",
        "optimizer/rewrite/match/rules.py",
        "optimizer/rewrite/match/unroll.py",
        "optimizer/rewrite/simplify.py",
        "optimizer/rewrite/sink.py",
        "optimizer/rewrite/transposes.py",
        "optimizer/schedule/schedule.py",
    }


def test_the_page_is_written_from_the_table() -> None:
    spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "generate_passes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = module.PAGE.read_text()
    assert module.page(text) == text
