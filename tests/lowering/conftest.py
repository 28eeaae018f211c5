"""Tiny graphs that every test of the room uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tracer import lowering
from tracer.ir import Builder, Graph, ShapeDtype, Value

Run = Callable[..., list[np.ndarray[Any, Any]]]


def make_graph(build: Callable[..., Sequence[Value]], *types: tuple[Any, Any]) -> Graph:
    """Build a graph from a function of Values."""
    with Builder() as builder:
        values = [builder.input(ShapeDtype(shape, dtype)) for shape, dtype in types]
        return builder.finish(build(*values))


@pytest.fixture
def graph() -> Callable[..., Graph]:
    """Make a graph: `graph(build, (shape, dtype), ...)`."""
    return make_graph


@pytest.fixture
def run() -> Run:
    """Compile and run: `run(build, *arrays) -> arrays`."""

    def run_arrays(build: Callable[..., Sequence[Value]], *arrays: np.ndarray[Any, Any]) -> Any:
        made = make_graph(build, *[(a.shape, a.dtype) for a in arrays])
        executable = lowering.compile_graph(made)
        return [lowering.to_host(b) for b in executable(*map(lowering.to_device, arrays))]

    return run_arrays
