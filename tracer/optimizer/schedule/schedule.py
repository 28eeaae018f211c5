"""Schedule: run the nodes of a graph in an order that keeps fewer bytes at its peak.

Only the order changes, never a value. The pass prices what the search proposes with the peak model
and keeps the graph's own order unless another one has a smaller peak. XLA has its own order; where
that matters `tracer/optimizer/schedule/control_dependences.py` makes it keep ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tracer.ir import Graph, map_bodies
from tracer.optimizer.model.liveness import Liveness, body_extra_bytes, peak_bytes
from tracer.optimizer.passes import Pass, PassLog
from tracer.optimizer.schedule.search import NEGLIGIBLE_SHARE, candidate_orders
from tracer.optimizer.schedule.tasks import TaskGraph
from tracer.units import format_bytes

# Orders that are priced with the peak model, the most promising ones by the search's own count.
_MOST_PRICED = 3


def schedule(
    graph: Graph,
    log: PassLog,
    donated: Iterable[int] = (),
    *,
    is_body: bool = False,
    bodies: bool = True,
) -> Graph:
    """Return the graph in the order with the smallest predicted peak that was found.

    Parameters
    ----------
    graph : Graph
        The program.
    log : PassLog
        Told of every graph or body whose peak falls.
    donated : iterable of int
        Inputs whose memory may be overwritten.
    is_body : bool
        The graph is the body of a loop or a branch.
    bodies : bool
        The bodies of loops and branches are ordered too, where they need more than a small part of
        the program's peak.

    Returns
    -------
    Graph
        `graph` itself when no order with a smaller peak was found.
    """
    may_free = frozenset(donated)
    if bodies:
        graph = map_large_bodies(graph, lambda body: _scheduled_body(body, log), may_free)
    live = Liveness(graph, may_free, is_body=is_body)
    tasks = TaskGraph(live)
    orders = candidate_orders(tasks)
    own = list(range(len(tasks)))
    best, least = graph, live.peak_bytes
    for order in orders[:_MOST_PRICED]:
        if order == own:
            continue
        found = tasks.reordered(order)
        peak = Liveness(found, may_free, is_body=is_body).peak_bytes
        if peak < least:
            best, least = found, peak
    if best is not graph:
        what = "body" if is_body else "program"
        log.applied.append(
            f"{what} of {len(tasks)} stored values: {format_bytes(live.peak_bytes)} -> "
            f"{format_bytes(least)}"
        )
    return best


def _scheduled_body(body: Graph, log: PassLog) -> Graph:
    return schedule(body, log, range(len(body.inputs)), is_body=True, bodies=False)


def map_large_bodies(
    graph: Graph, function: Callable[[Graph], Graph], donated: frozenset[int]
) -> Graph:
    """Map the bodies of loops and branches, inner ones first, that need much of the peak."""
    least_bytes = peak_bytes(graph, donated) // NEGLIGIBLE_SHARE

    def mapped(body: Graph) -> Graph:
        if body_extra_bytes(body) <= least_bytes:
            return body
        return function(map_bodies(body, mapped))

    return map_bodies(graph, mapped)


SCHEDULE = Pass("schedule", schedule, bodies=False)

__all__ = ["SCHEDULE", "map_large_bodies", "schedule"]
