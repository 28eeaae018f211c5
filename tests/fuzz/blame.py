"""Whose fault a wrong compiled program is, where every graph on its way is right."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from tracer import lowering
from tracer.ir import Graph
from tracer.lowering.run.program_cache import ProgramCache
from tracer.lowering.settings import SETTINGS, without
from tracer.optimizer.passes import PassManager
from tracer.optimizer.rewrite.expand import EXPAND

_COMPILER = importlib.import_module("tracer.lowering.run.compiler")
Array = np.ndarray[Any, Any]


def run_graph(graph: Graph, arrays: Sequence[Array], options: dict[str, Any]) -> list[Array]:
    """Compile a graph as it is and return its results."""
    device = lowering.default_device()
    execute = lowering.compile_graph(graph, options=options)
    buffers = [lowering.to_device(np.asarray(array), device) for array in arrays]
    return [lowering.to_host(buffer) for buffer in execute(*buffers)]


@contextmanager
def xla_defaults(*kept: str) -> Iterator[None]:
    """Compile with XLA's own settings inside of the context, but for those that are kept."""
    with (
        mock.patch.object(_COMPILER, "_CACHE", ProgramCache()),
        without(*set(SETTINGS) - set(kept)),
    ):
        yield


def plain_results(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """Return what XLA computes by default of a graph as it was traced: the reference evaluation."""
    with xla_defaults():
        return run_graph(PassManager().run(graph, (EXPAND,)), arrays, {})


def lowering_culprit(
    graph: Graph, arrays: Sequence[Array], is_wrong: Callable[[Sequence[Array]], bool]
) -> str:
    """Name what makes a graph that is right by the interpreter wrong when it is compiled.

    The settings are those of `tracer.lowering.settings`, the list of what differs from XLA's
    defaults: all are switched off, then each is left on alone, then each switched off alone.
    """
    ways = ({}, lowering.memory_optimized_options("cpu"), lowering.unmoved_code_options())
    wrong = (way for way in ways if is_wrong(run_graph(graph, arrays, way)))
    options = next(wrong, None)
    if options is None:
        return "lowering, not of the final graph alone (lanes, or what runs beside it)"

    def is_wrong_with(*kept: str) -> bool:
        with xla_defaults(*kept):
            return is_wrong(run_graph(graph, arrays, options))

    if is_wrong_with():
        return "lowering or XLA itself (wrong with XLA's default settings too)"
    alone = [name for name in SETTINGS if is_wrong_with(name)]
    if alone:
        return f"lowering/XLA options: {', '.join(alone)}"
    needed = [name for name in SETTINGS if not is_wrong_with(*set(SETTINGS) - {name})]
    return f"lowering/XLA options together: {', '.join(needed)}"
