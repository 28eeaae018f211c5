"""The last passes: they look at one candidate, in its final form, and come after all others."""

from __future__ import annotations

from dataclasses import replace

from tracer.ir import Graph
from tracer.optimizer.alias.in_place import in_place_pass
from tracer.optimizer.candidates import Candidate
from tracer.optimizer.loops.interchange import INTERCHANGE_NAME, Lanes, interchange_row
from tracer.optimizer.loops.small_calls import small_calls_pass
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.passes import Pass, PassLog, PassManager, PassRow
from tracer.optimizer.pipeline import PlannerOptions
from tracer.optimizer.rewrite.chains import force_order
from tracer.optimizer.rewrite.exponentials import EXPAND_EXPONENTIALS, has_exponentials
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS
from tracer.optimizer.schedule.schedule import SCHEDULE


class Finisher:
    """Takes candidates through the passes that no other pass may follow."""

    def __init__(self, options: PlannerOptions) -> None:
        self.options = options

    def after(self, candidate: Candidate, *passes: Pass) -> Candidate:
        """Return a candidate with further passes run, and what it is predicted to take then."""
        manager = PassManager()
        graph = manager.run(candidate.graph, passes)
        peak = candidate.peak_bytes
        if graph is not candidate.graph:
            peak = Liveness(graph, self.options.donated).peak_bytes
        return replace(
            candidate, graph=graph, rows=(*candidate.rows, *manager.rows), peak_bytes=peak
        )

    def ordered(self, candidate: Candidate) -> Candidate | None:
        """Return the same program in an order with a small peak that XLA has to keep.

        None when it has one already, when there is nothing to gain from an order, or when the pass
        is switched off.
        """
        if candidate.is_ordered or SCHEDULE.option in self.options.disabled:
            return None

        def run(graph: Graph, log: PassLog) -> Graph:
            return force_order(graph, log, self.options.donated)

        found = self.after(candidate, replace(SCHEDULE, run=run))
        return None if found.graph is candidate.graph else replace(found, is_ordered=True)

    def in_lanes(self, candidate: Candidate) -> tuple[Candidate, Lanes | None]:
        """Return a program's lanes, if that pays; the candidate has a line that says why not."""
        options, graph = self.options, candidate.graph
        if INTERCHANGE_NAME in options.disabled or options.donated or candidate.is_ordered:
            return candidate, None
        if not any(node.body_graphs for node in graph.nodes):
            return candidate, None
        row, lanes = interchange_row(graph, options.machine, candidate.peak_bytes)
        candidate = replace(candidate, rows=(*candidate.rows, row))
        if lanes is None or (options.limit_bytes or row.peak_bytes_after) < row.peak_bytes_after:
            return candidate, None
        calls = small_calls_pass(replace(options.machine, cores=1))
        items = (COMMON_SUBEXPRESSIONS, calls)
        finishing = [item for item in items if item.option not in options.disabled]
        manager = PassManager()
        expanded = [self._expanded(manager.run(graph, finishing)) for graph in lanes.graphs]
        graphs = tuple(graph for graph, _ in expanded)
        peak = max(candidate.peak_bytes, row.peak_bytes_after)
        rows = (*candidate.rows, *manager.rows[: len(finishing)], *expanded[0][1])
        return replace(candidate, rows=rows, peak_bytes=peak), replace(lanes, graphs=graphs)

    def in_small_calls(self, candidate: Candidate) -> Candidate:
        """Return the same program with loops of small kernels as one function each."""
        item = small_calls_pass(self.options.machine, self.options.donated)
        limit = self.options.limit_bytes
        # What a call is given it may not write over: that takes the state of a loop once more.
        if item.option in self.options.disabled or (limit is not None and candidate.is_ordered):
            return candidate
        if not any(node.body_graphs for node in candidate.graph.nodes):
            return candidate
        found = self.after(candidate, item)
        if limit is not None and found.peak_bytes > min(limit, candidate.peak_bytes):
            return candidate
        return replace(found, peak_bytes=candidate.peak_bytes)

    def kept_in_place(self, candidate: Candidate) -> Candidate:
        """Return the same program where XLA copies no memory that the model shares."""
        keep = in_place_pass(self.options.donated)
        if keep.option in self.options.disabled:
            return candidate
        return replace(self.after(candidate, keep), peak_bytes=candidate.peak_bytes)

    def with_exponentials_expanded(self, candidate: Candidate) -> tuple[Candidate, Graph]:
        """Return a candidate with a row for the pass, and the graph to compile instead of its own.

        To the candidate, which may be put in order yet, exponentials stay as they are.
        """
        graph, row = self._expanded(candidate.graph)
        rows = (item for item in candidate.rows if item.name != EXPAND_EXPONENTIALS.name)
        return replace(candidate, rows=(*rows, *row)), graph

    def _expanded(self, graph: Graph) -> tuple[Graph, tuple[PassRow, ...]]:
        item = EXPAND_EXPONENTIALS
        if item.option in self.options.disabled or not has_exponentials(graph):
            return graph, ()
        manager = PassManager()
        return manager.run(graph, (item,)), tuple(manager.rows)
