"""The planner's benchmark can tell right values from wrong ones, for every program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tracer
from benchmarks.framework import tracer_framework
from benchmarks.programs import WORKLOADS, Workload
from tracer import tree

pytestmark = pytest.mark.xla

TINY: Mapping[str, int] = {"n": 120, "d": 12, "queries": 40, "length": 48, "m": 12, "k": 9}


def _tiny(name: str, workload: Workload) -> tuple[Any, ...]:
    shape = {axis: TINY.get(axis, 30) for axis in workload.sizes["small"].shape}
    if "convolution" in name:
        shape["n"] = 6
    return workload.inputs(np.random.default_rng(0), **shape)


def _spoiled(results: Any) -> Any:
    """Return results with the first half of each a tenth larger."""

    def spoil(array: Any) -> Any:
        if array.dtype.kind != "f":
            return array
        factors = np.where(np.arange(array.size) <= array.size // 2, 1.1, 1.0)
        return array * factors.reshape(array.shape)

    return tree.map(spoil, results)


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name not in {"kernel, d = 1"}])
def test_values_are_checked(name: str) -> None:
    workload = WORKLOADS[name]
    inputs = _tiny(name, workload)
    # Unsplit and in small: what is tested is the check, not the planner.
    program = tracer.compile(workload.program(tracer_framework()), split="never")
    results = tree.map(np.asarray, program(*inputs))
    assert workload.check(inputs, results) <= 50 * workload.tolerance
    assert workload.check(inputs, _spoiled(results)) > 5 * workload.tolerance


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_size_grows(name: str) -> None:
    sizes = WORKLOADS[name].sizes
    assert list(sizes) == ["small", "medium", "full"]
    products = [np.prod(list(size.shape.values())) for size in sizes.values()]
    assert products[0] < products[1] <= products[2]


def test_every_program_is_split_by_hand() -> None:
    pytest.importorskip("jax")
    from benchmarks.peers.by_hand import CANDIDATES

    assert set(WORKLOADS) - set(CANDIDATES) == {"exact GP"}
