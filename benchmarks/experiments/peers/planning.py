"""Plans of graphs of any size: perceptrons over points, layer after layer, with their gradient."""

from __future__ import annotations

import itertools
import time
from typing import Any

import tracer
import tracer.numpy as tnp
from benchmarks.experiments.runs import Run
from tracer.array.trace import trace
from tracer.compilation.collection import rare_collection
from tracer.ir import Graph, ShapeDtype
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.pipeline import PlannerOptions
from tracer.optimizer.planner import Planner

ROWS, WIDTH = 4_096, 32


def graph_of(nodes: int) -> Graph:
    """Return a traced gradient of about so many nodes: different widths, so that none repeats."""
    few = _traced(4)
    many = _traced(8)
    each = (len(many.nodes) - len(few.nodes)) / 4
    return _traced(max(1, round(4 + (nodes - len(few.nodes)) / each)))


def _traced(layers: int) -> Graph:
    widths = [WIDTH + layer % 7 for layer in range(layers + 1)]
    weights = [
        ShapeDtype((rows, columns), "float32") for rows, columns in itertools.pairwise(widths)
    ]

    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = tnp.tanh(x @ w) * 0.5
        return (x * x).mean()

    x = ShapeDtype((ROWS, widths[0]), "float32")
    return trace(tracer.grad(loss), (weights, x)).graph


def plan(nodes: int, share: float | None, device: str, cap_bytes: int) -> Run:
    """Plan such a graph, under a limit that is a share of its peak as written."""
    graph = graph_of(nodes)
    written = Liveness(graph).peak_bytes
    limit = None if share is None else int(share * written)
    # Loads what the first plan of a process loads.
    next(Planner(graph_of(100), PlannerOptions(limit_bytes=1_000_000)).candidates(), None)
    found: dict[str, Any] = {"traced_nodes": len(graph.nodes), "as_written_bytes": written}

    def call() -> Any:
        begun = time.perf_counter()
        with rare_collection():
            planner = Planner(graph, PlannerOptions(limit_bytes=limit))
            candidate = next(planner.candidates(), None)
        found["each"] = 1e6 * (time.perf_counter() - begun) / len(graph.nodes)
        if candidate is None:
            raise MemoryError(f"no program is predicted to keep {limit} bytes")
        found["predicted_bytes"] = candidate.peak_bytes
        return candidate

    return Run(call, lambda _: [], about=lambda: found)
