"""Eager functions follow their arrays. `test_two_devices.py` runs this where there are two."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tracer
from tests.devices.following_calls import HOST, Call, calls
from tracer import tree
from tracer.numpy.base import ArrayBase

CALLS = dict(calls())


def run(call: Call, place: Any) -> list[Any]:
    given = SimpleNamespace(
        **{name: tracer.device_put(array, place) for name, array in HOST.items()}
    )
    return tree.leaves(call(given))


@pytest.mark.parametrize("name", CALLS)
def test_results_lie_where_the_arrays_are(name: str) -> None:
    here, there = run(CALLS[name], "cpu:0"), run(CALLS[name], "cpu:1")
    assert {str(leaf.device) for leaf in there if isinstance(leaf, ArrayBase)} == {"cpu:1"}
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
