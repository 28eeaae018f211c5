"""The recipes: right at their small size, and on their pages as they are in their scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import generate_recipes as recipes
import numpy as np
import pytest

import tracer

PAGES = sorted(recipes.PAGES.glob("*.md"))
OUTPUT = {"plan:", "measured:", "check:"}


@pytest.fixture
def recipe(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the `RECIPE` of a script, which finds what is beside it as one that is run does."""
    monkeypatch.syspath_prepend(recipes.SCRIPTS)
    monkeypatch.delitem(sys.modules, "recipe", raising=False)
    code = (recipes.SCRIPTS / f"{request.param}.py").read_text()
    names: dict[str, Any] = {"__name__": request.param}
    exec(compile(code, f"{request.param}.py", "exec"), names)
    return names["RECIPE"]


@pytest.mark.xla
@pytest.mark.parametrize("recipe", recipes.names(), indirect=True)
def test_small_size_is_right_within_its_limit(recipe: Any) -> None:
    limit, *sizes = recipe.small
    inputs = recipe.data(*sizes)
    f = tracer.compile(recipe.program, memory_limit=limit)
    plan = f.plan(*inputs)
    assert plan.limit_bytes is not None
    assert plan.compiled_bytes <= plan.limit_bytes < plan.baseline_peak_bytes
    results = tracer.tree.map(np.asarray, f(*inputs))
    _, error = recipe.check(inputs, results)
    assert error <= recipe.tolerance
    _, error = recipe.check(inputs, tracer.tree.map(lambda array: array * 1.01 + 0.01, results))
    assert error > recipe.tolerance, "a wrong result passes"


@pytest.mark.process
def test_a_script_runs_by_itself() -> None:
    script = recipes.SCRIPTS / "kernel_regression.py"
    done = subprocess.run(
        [sys.executable, str(script), "--size", "small"],
        env={**os.environ, "PYTHONPATH": str(recipes.ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert OUTPUT <= set(done.stdout.split())


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_pages_show_their_scripts(path: Path) -> None:
    text = path.read_text()
    assert recipes.page(text) == text, "run docs/generate_recipes.py with the recipe's name"


def test_each_recipe_is_on_a_page_and_measured() -> None:
    texts = "\n".join(path.read_text() for path in PAGES)
    shown, measured = recipes.PROGRAM.findall(texts), recipes.MEASURED.findall(texts)
    assert sorted(shown) == sorted(measured) == recipes.names()
    for block in recipes.MEASURED.finditer(texts):
        assert f"examples/recipes/{block[1]}.py" in block[0]
        assert OUTPUT <= set(block[0].split())


def test_each_page_is_in_the_index_and_has_a_small_picture() -> None:
    index = (recipes.PAGES / "README.md").read_text()
    for path in PAGES:
        assert path.name == "README.md" or f"]({path.name})" in index
    for picture in recipes.PAGES.glob("*.png"):
        assert picture.stat().st_size < 60_000, picture.name


def test_another_program_is_written_anew() -> None:
    text = (recipes.PAGES / "kernel-regression.md").read_text()
    assert recipes.page(text.replace("100MB", "200MB", 1)) == text
