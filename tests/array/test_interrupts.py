"""An interrupt at any call of a function leaves nothing behind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.interrupted.moments import DROPPED, at_every_call, interrupted_at
from tracer.array.recording import current_recording
from tracer.lowering.run.budget import ASKED, _array_bytes

pytestmark = [pytest.mark.xla, DROPPED]
X = np.linspace(0, 1, 50)


@tracer.compile
def double(x: Any) -> Any:
    return x + x


@pytest.mark.parametrize(
    "function",
    [
        lambda: tracer.make_graph(lambda x: tnp.where(x > 0, x, 1).sum())(X),
        lambda: tracer.eval_shape(
            tracer.grad(lambda x: tracer.fori_loop(0, 3, _twice, x).sum()), X
        ),
    ],
)
def test_no_recording_stays_open(function: Callable[[], Any]) -> None:
    function()

    def after() -> None:
        assert current_recording() is None

    assert at_every_call(function, after) > 100
    assert (tnp.ones(3) + 1).tolist() == [2, 2, 2]


def _twice(_: Any, x: Any) -> Any:
    return x + x


def test_a_budget_counts_right() -> None:
    x = tnp.asarray(X)
    double(x)
    tracer.memory_budget(_array_bytes() + 10_000)
    try:
        assert at_every_call(lambda: double(x)) > 5
        assert ASKED.budget is not None
        assert not ASKED.budget._running
        assert not ASKED.budget._waiting
        assert float(double(x)[-1]) == 2
    finally:
        tracer.memory_budget(None)


def test_no_file_stays_locked_or_half_written(tmp_path: Path) -> None:
    path = tmp_path / "out.npy"
    stored = double.into(path)
    stored(X)
    np.testing.assert_array_equal(np.load(path), X + X)

    def write() -> None:
        path.unlink(missing_ok=True)
        stored(X)

    number = 1
    while interrupted_at(number, write):
        if path.exists():
            np.testing.assert_array_equal(np.load(path), X + X)
        write()
        number += 61
    assert number > 100


def test_arrays_are_read_without_jax() -> None:
    """What jaxlib reads them with imports jax, under a lock that an interrupt may keep."""
    found: list[str] = []

    class Finder:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> None:
            found.append(name)

    x = tnp.ones(3) + 1
    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
    try:
        assert x.tolist() == [2, 2, 2]
    finally:
        sys.meta_path.remove(Finder)  # type: ignore[arg-type]
    from jaxlib import version

    assert not found or version.__version_info__ < (0, 9)
