"""Many training steps in one program: one dispatch, the state updated where it is."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
from benchmarks.framework import tracer_framework
from benchmarks.programs.adam import TRAINING, adam_step, make, many_steps
from tracer import lowering

pytestmark = pytest.mark.xla
ROOT = Path(__file__).resolve().parents[2]
STEPS = 6


def compiled(name: str, **options: Any) -> tuple[Any, Any, Any]:
    f, loss = tracer_framework(), TRAINING[name].loss
    whole = tracer.compile(many_steps(f, loss, STEPS), donate_argnums=0, **options)
    single = tracer.compile(adam_step(f, loss), donate_argnums=0, **options)
    return whole, single, make(name, "small", 2)


def copied_shapes(hlo: str) -> Iterator[str]:
    """Yield the shapes that XLA copies for its own sake: an op's transposition has its name."""
    for line in hlo.splitlines():
        found = re.search(r"(\[[\d,]*\])\S* copy\(", line)
        if found and "metadata=" not in line:
            yield found[1]


@pytest.mark.parametrize("name", TRAINING)
def test_the_loop_is_one_program_that_copies_no_state(name: str) -> None:
    whole, single, arrays = compiled(name)
    report = whole.plan(*arrays).aliases
    state = tracer.tree.leaves(arrays[0])
    assert sum(row.nbytes for row in report.aliases) == sum(leaf.nbytes for leaf in state)
    assert report.copied_bytes == 0
    hlo = whole.hlo(*arrays)
    assert hlo.count("\nENTRY ") == 1
    assert len(re.findall(r" while\(", hlo)) == 1
    assert not re.search(r"infeed|outfeed|custom_call_target=.*callback", hlo)
    shapes = {f"[{','.join(map(str, leaf.shape))}]" for leaf in state if leaf.nbytes >= 4096}
    assert not shapes & set(copied_shapes(hlo))
    state, inputs, targets = arrays
    assert single.plan(state, inputs[0], targets[0]).aliases.copied_bytes == 0


@pytest.mark.parametrize("name", TRAINING)
def test_without_the_pass_the_carry_is_copied_in_each_trip(name: str) -> None:
    whole, _, arrays = compiled(name, passes="-keep-in-place")
    report = whole.plan(*arrays).aliases
    assert report.copied_bytes > 0
    assert all(row.times == STEPS for row in report.copies)
    assert list(copied_shapes(whole.hlo(*arrays)))


def test_the_loop_computes_what_single_calls_compute_in_one_dispatch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, single, (state, inputs, targets) = compiled("perceptron")
    expected, errors = state, []
    for step in range(STEPS):
        expected, error = single(expected, inputs[step % 2], targets[step % 2])
        errors.append(float(error))
    assert errors[-1] < errors[0]
    whole.plan(state, inputs, targets)
    calls: list[Any] = []
    plain = lowering.Executable.__call__

    def counted(self: Any, *buffers: Any) -> Any:
        calls.append(self)
        return plain(self, *buffers)

    monkeypatch.setattr(lowering.Executable, "__call__", counted)
    found, error = whole(state, inputs, targets)
    assert len(calls) == 1
    np.testing.assert_allclose(error, errors[-1], rtol=1e-4)
    pairs = zip(tracer.tree.leaves(found), tracer.tree.leaves(expected), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.process
def test_the_example_runs() -> None:
    script = str(ROOT / "examples" / "training_loop.py")
    done = subprocess.run(
        [sys.executable, script, "--steps", "40"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "bytes that the loop copies: 0" in done.stdout
