"""The examples in the docstrings of tracer.jax, which only a machine with JAX can run."""

from __future__ import annotations

import doctest
import runpy
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

import jax

from tracer.jax import imported, limited


@pytest.mark.parametrize("module", [imported, limited], ids=lambda module: module.__name__)
def test_examples(module) -> None:
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 3
    assert found.failed == 0


EXAMPLE = Path(__file__).parents[2] / "examples" / "jax_training.py"


def test_the_example_trains_within_its_limit(capsys) -> None:
    names = runpy.run_path(str(EXAMPLE))
    losses = [float(line.split()[1]) for line in capsys.readouterr().out.splitlines()]
    assert losses == sorted(losses, reverse=True)
    arguments = names["params"], names["x"], names["y"]
    plan = names["gradient"].plan(*arguments)
    assert plan.compiled_bytes < 30e6 < 4000 * 4000 * 4
    wanted = jax.jit(jax.value_and_grad(names["loss"]))(*arguments)
    found = names["gradient"](*arguments)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-5)


def test_the_example_is_short_and_marks_the_line() -> None:
    lines = EXAMPLE.read_text().splitlines()
    assert len(lines) < 25
    assert [line for line in lines if "# was:" in line] == [
        line for line in lines if "tracer.jax." in line
    ]
