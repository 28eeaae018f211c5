"""The last passes: they look at one candidate, in its final form, and come after all others."""

from __future__ import annotations

from dataclasses import replace

from tracer.ir import Graph
from tracer.optimizer.candidates import Candidate
from tracer.optimizer.loops.interchange import Lanes, interchange_row, too_large
from tracer.optimizer.model.liveness import peak_bytes
from tracer.optimizer.passes import Pass, PassManager, PassRow
from tracer.optimizer.pipeline import Context, PlannerOptions, Stage, entries_in, passes_in


def legalized(graph: Graph, context: Context) -> tuple[Graph, tuple[PassRow, ...]]:
    """Return a graph in the forms that the device's compiler takes well, and what was done to it.

    Nothing that chooses may follow: to the planner a long reduction is one node, and the bytes of a
    program in its final form are not those that it takes. Only the pairs of donated arguments and
    results are found on it (`tests/optimizer/legalize/test_behind.py`).
    """
    manager = PassManager()
    graph = manager.run(graph, passes_in(Stage.TARGET, context))
    return graph, tuple(row for row in manager.rows if row.applied or row.refusals)


class FinalPasses:
    """Takes candidates through the passes that no other pass may follow."""

    def __init__(self, options: PlannerOptions) -> None:
        self.options = options
        self.context = Context(options)

    def after(self, candidate: Candidate, *passes: Pass) -> Candidate:
        """Return a candidate after further passes, with its prediction."""
        manager = PassManager()
        graph = manager.run(candidate.graph, passes)
        peak = candidate.peak_bytes
        if graph is not candidate.graph:
            peak = peak_bytes(graph, self.options.donated)
        return replace(
            candidate, graph=graph, rows=(*candidate.rows, *manager.rows), peak_bytes=peak
        )

    def ordered(self, candidate: Candidate) -> Candidate | None:
        """Return the same program in an order with a small peak that XLA must keep.

        None when it has one already, when there is nothing to gain from an order, or when the pass
        is switched off.
        """
        if candidate.is_ordered:
            return None
        found = self.after(candidate, *passes_in(Stage.ORDER, self.context))
        return None if found.graph is candidate.graph else replace(found, is_ordered=True)

    def in_lanes(self, candidate: Candidate) -> tuple[Candidate, Lanes | None]:
        """Return a program's lanes, if they pay; the candidate's table says why not."""
        options, graph = self.options, candidate.graph
        if candidate.is_ordered or not entries_in(Stage.LANES, self.context):
            return candidate, None
        if graph.calls_host or not any(node.body_graphs for node in graph.nodes):
            return candidate, None
        row, lanes = interchange_row(graph, options.machine, candidate.peak_bytes)
        if (options.limit_bytes or row.peak_bytes_after) < row.peak_bytes_after:
            row, lanes = too_large(row, row.peak_bytes_after), None
        candidate = replace(candidate, rows=(*candidate.rows, row))
        if lanes is None:
            return candidate, None
        one_core = replace(options, machine=replace(options.machine, cores=1))
        passes = passes_in(Stage.LANE, Context(one_core))
        manager = PassManager()
        legal = [legalized(manager.run(graph, passes), self.context) for graph in lanes.graphs]
        graphs = tuple(graph for graph, _ in legal)
        peak = max(candidate.peak_bytes, row.peak_bytes_after)
        final = legal[0][1]
        rows = (*candidate.rows, *manager.rows[: len(passes)], *final)
        found = replace(candidate, rows=rows, final_rows=final, peak_bytes=peak)
        return found, replace(lanes, graphs=graphs)

    def without_lanes(self, before: Candidate, candidate: Candidate, peak: int) -> Candidate:
        """Return a candidate as it was before lanes that take more than the limit, in bytes."""
        row = too_large(candidate.rows[len(before.rows)], peak)
        return replace(before, rows=(*before.rows, row))

    def with_shared_values(self, candidate: Candidate) -> Candidate:
        """Return the same program with values stored that several kernels would compute.

        All of them if that keeps nine tenths of the limit, as XLA may take more than predicted;
        else the small ones. Without a limit the peak may grow by an eighth.
        """
        limit, peak = self.options.limit_bytes, candidate.peak_bytes
        most = peak * 9 // 8 if limit is None else max(peak, limit * 9 // 10)
        for room in (0, self.options.machine.sizes.kept_bytes):
            passes = passes_in(Stage.SHARED, replace(self.context, room=room))
            found = self.after(candidate, *passes)
            if found.peak_bytes <= most:
                return found
        return candidate

    def in_small_calls(self, candidate: Candidate) -> Candidate:
        """Return the same program with loops of small kernels as one function each."""
        passes = passes_in(Stage.CALLS, self.context)
        limit = self.options.limit_bytes
        # A call may not overwrite its operands, so it takes the state of a loop once more.
        if not passes or (limit is not None and candidate.is_ordered):
            return candidate
        if not any(node.body_graphs for node in candidate.graph.nodes):
            return candidate
        found = self.after(candidate, *passes)
        if limit is not None and found.peak_bytes > min(limit, candidate.peak_bytes):
            return candidate
        return replace(found, peak_bytes=candidate.peak_bytes)

    def kept_in_place(self, candidate: Candidate) -> Candidate:
        """Return the same program, written so that XLA copies no memory that the model shares."""
        passes = passes_in(Stage.IN_PLACE, self.context)
        return replace(self.after(candidate, *passes), peak_bytes=candidate.peak_bytes)

    def legalized(self, candidate: Candidate, *, on_mesh: bool) -> tuple[Candidate, Graph]:
        """Return a candidate with rows for the passes, and the graph to compile instead of its own.

        In the candidate, which may still be reordered, all stays as it is.
        """
        context = replace(self.context, on_mesh=on_mesh)
        graph, rows = legalized(candidate.graph, context)
        kept = (row for row in candidate.rows if row not in candidate.final_rows)
        return replace(candidate, rows=(*kept, *rows), final_rows=rows), graph
