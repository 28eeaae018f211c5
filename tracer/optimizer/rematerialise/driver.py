"""The pass: what is stored over the peak and can be computed again is, until the limit is kept."""

from __future__ import annotations

from tracer.ir import Graph, Node
from tracer.optimizer.passes import Pass, PassLog
from tracer.optimizer.reorder.schedule import schedule
from tracer.optimizer.reorder.ties import tie
from tracer.optimizer.rematerialise.search import Found, Search
from tracer.optimizer.speed import Machine
from tracer.units import format_bytes

REMATERIALISE_NAME = "rematerialise"


def search_of(graph: Graph, donated: frozenset[int], machine: Machine, *, order: bool) -> Search:
    """Return the search for a program, in an order with a small peak if that may be chosen."""
    if order:
        graph = schedule(graph, PassLog(), donated)
    return Search(graph, donated, machine)


def rematerialise_pass(search: Search, limit: int, *, order: bool) -> Pass:
    """Return the pass that computes values of a search's program again until a limit is kept.

    Parameters
    ----------
    search : Search
        What `search_of` gave for the graph that the pass will be given.
    limit : int
        In bytes. A program that cannot keep it is made as small as possible.
    order : bool
        XLA is made to keep the order of the program, too.
    """

    def run(graph: Graph, log: PassLog) -> Graph:
        found = search.run(limit)
        _report(search, found, limit, log)
        if not found.drops:
            return graph
        return tie(found.graph, log, search.donated) if order else found.graph

    # The same operations: a kernel that is fused otherwise may round otherwise.
    return Pass(REMATERIALISE_NAME, run, exact=False, bodies=False)


def _report(search: Search, found: Found, limit: int, log: PassLog) -> None:
    for node in found.drops:
        place = f"  ({node.source})" if node.source else ""
        log.applied.append(
            f"{_named(node)} computed again: {format_bytes(_nbytes(node))} less over the peak, "
            f"{search.flops(node):,} operations more{place}"
        )
    if found.peak_bytes > limit:
        for node, reason in search.refusals(found).items():
            log.refuse(_named(node), reason, node.source)


def _named(node: Node) -> str:
    return f"{node.types[0]} of {node.name}"


def _nbytes(node: Node) -> int:
    return sum(type.nbytes for type in node.types)


__all__ = ["REMATERIALISE_NAME", "rematerialise_pass", "search_of"]
