"""What a reduction of an argument stores besides its result is cut, as stored values are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer

# Beside the argument and the results: a quarter of the partial results of one reduction, by
# columns and of all.
_ROOM = 100_000
_ROOM_OF_ALL = 9_000

_PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "mean and maximum": lambda x: (x.mean(0), x.max(0)),
    "variance": lambda x: x.var(0),
    "extremes and their places": lambda x: (x.min(0), x.argmax(0)),
    "all of a matrix": lambda x: (x.mean(), x.std(), x.min(), x.max()),
    "of a transposed matrix": lambda x: (x.T.mean(1), x.T.max(1)),
    "of a part, and of all": lambda x: (x[:, :3].sum(0), x.max(0)),
}


@pytest.mark.xla
@pytest.mark.parametrize("name", list(_PROGRAMS))
def test_partial_results_of_arguments_are_cut(name: str) -> None:
    program = _PROGRAMS[name]
    x = np.random.default_rng(0).standard_normal((70_001, 32), np.float32)
    room = _ROOM_OF_ALL if name == "all of a matrix" else _ROOM
    limited = tracer.compile(program, memory_limit=x.nbytes + room)
    plan = limited.plan(x)
    assert plan.loops
    assert plan.compiled_bytes <= x.nbytes + room
    expected = program(x.astype(np.float64))
    for ours, theirs in zip(_all(limited(x)), _all(expected), strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.xla
def test_a_large_limit_cuts_nothing() -> None:
    x = np.zeros((70_001, 32), np.float32)
    assert not tracer.compile(lambda x: (x.mean(0), x.max(0)), memory_limit="1GB").plan(x).loops


def _all(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)
