"""Time and memory against n at one limit, and planning against the size of the graph."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.experiments import kernel
from benchmarks.experiments.neighbours import Problem, reference
from benchmarks.experiments.records import OURS, Case, Settings, System

LIMIT = "100MB"
POINTS = {
    "small": (1_000, 3_000, 10_000),
    "full": (1_000, 3_000, 10_000, 30_000, 100_000, 300_000),
}
NODES = {"small": (300, 1_000), "full": (300, 1_000, 3_000, 10_000, 20_000)}
QUERIES, FEATURES, K = 1_000, 10, 10


def cases(settings: Settings) -> Iterator[Case]:
    """Yield kernel products, nearest neighbours, and plans of growing graphs."""
    for n in POINTS[settings.size]:
        yield Case(
            "scaling: kernel product",
            f"n = {n:,}",
            {"n": n},
            (System(f"{OURS}, {LIMIT}", "ours:kernel", (), {"limit": LIMIT}),),
            lambda n=n: kernel.reference(n),  # type: ignore[misc]
            1e-10,
        )
    for n in POINTS[settings.size]:
        problem = Problem("random", 10 * n, FEATURES, "L2")
        yield Case(
            "scaling: nearest neighbours",
            f"n = {10 * n:,}",
            {**vars(problem), "m": QUERIES, "k": K},
            (System(f"{OURS}, {LIMIT}", "ours:neighbours", (), {"above": LIMIT}),),
            lambda problem=problem: reference(problem, QUERIES, None),  # type: ignore[misc]
            1e-4,
            work=QUERIES,
        )
    for nodes in NODES[settings.size]:
        yield Case(
            "scaling: planning",
            f"{nodes:,} nodes",
            {"nodes": nodes},
            (
                System(f"{OURS}, no limit", "planning:plan", (), {"share": None}),
                System(f"{OURS}, limit a third of the peak", "planning:plan", (), {"share": 1 / 3}),
            ),
        )
