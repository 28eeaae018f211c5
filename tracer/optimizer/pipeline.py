"""The order of the passes, with a reason for each place.

1. *fuse scans* before loops are written out: a scan over what another one stacks, as in forward
   mode, joins it, and nothing is stacked. Then *expand* writes ops that only matter to
   differentiation (checkpoint, custom_vjp) with the ops they stand for, so that no later pass
   needs to know them.
2. *common subexpressions* and *constant folding* first: the patterns below see one node for one
   value, and numbers where the user wrote numbers.
3. *unroll short reductions* before *match contractions*: with few features the direct form of a
   distance is nearly as fast as norms and a product, and loses no digits. What is left, among it
   the gradients of distances, becomes products.
4. *common subexpressions* again: the rewrites make alike pieces (norms, centres).
5. *split* last: it wants the smallest program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.optimizer.fuse_scans import FUSE_SCANS
from tracer.optimizer.liveness import Liveness, LiveTensor, graph_flops
from tracer.optimizer.match import CONTRACTIONS, UNROLL
from tracer.optimizer.passes import Pass, PassLog, PassManager, PassRow
from tracer.optimizer.simplify import COMMON_SUBEXPRESSIONS, CONSTANT_FOLDING
from tracer.optimizer.split import LoopRow, SplitSettings, split_graph


@dataclass(frozen=True)
class Candidate:
    """One program that computes what the user asked for, and what it is predicted to take."""

    graph: Graph
    rows: tuple[PassRow, ...]
    loops: tuple[LoopRow, ...]
    peak_bytes: int


@dataclass(frozen=True)
class PlannerOptions:
    """What the user asked of the planner, in bytes.

    `cache_bytes` is the last-level cache of the device, `threshold_bytes` and `split_bytes` are
    the two options of the paper.
    """

    limit_bytes: int | None = None
    threshold_bytes: int | None = None
    split_bytes: int | None = None
    cache_bytes: int = 32 << 20
    donated: frozenset[int] = frozenset()


def expand_calls(graph: Graph, log: PassLog) -> Graph:
    """Write ops that have an expansion with other ops, until none is left."""
    while True:

        def rewrite(
            builder: Builder, node: Node, operands: tuple[Value, ...]
        ) -> Sequence[Value] | None:
            if node.op is None or node.op.expand is None:
                return None
            log.applied.append(f"{node.name} {node.types[0]}")
            return node.op.expand(*operands, **node.params)

        result = rebuild(graph, rewrite)
        if result is graph:
            return graph
        graph = result


EXPAND = Pass("expand", expand_calls)
STANDARD_PASSES = (
    FUSE_SCANS,
    EXPAND,
    COMMON_SUBEXPRESSIONS,
    CONSTANT_FOLDING,
    UNROLL,
    CONTRACTIONS,
    COMMON_SUBEXPRESSIONS,
)


# A split that repeats at most this share of the operations pays for itself.
_FEW_AGAIN = 1.05
# Tried when no setting that is derived from the limit fits; the same for every limit, so that the
# smallest limit that can be met does not hang on the one that was asked for.
_TIGHT_SETTINGS = tuple(
    SplitSettings(threshold, working_set, working_set, trust_fusion=False)
    for working_set in (1 << 22, 1 << 20, 1 << 18)
    for threshold in (1 << 22, 1 << 18, 1 << 14)
    if threshold <= working_set
)
_SMALLEST_SETTINGS = tuple(
    SplitSettings(threshold, 1, 1, trust_fusion=False) for threshold in (1 << 12, 1 << 16, 1 << 20)
)


class Planner:
    """Finds programs for a graph under a byte limit, the fastest first.

    Parameters
    ----------
    graph : Graph
        The traced program.
    options : PlannerOptions
        The limit and the user's thresholds.
    """

    def __init__(self, graph: Graph, options: PlannerOptions) -> None:
        self.options = options
        self.traced = graph
        manager = PassManager()
        self.graph = manager.run(graph, STANDARD_PASSES)
        self.rows = tuple(manager.rows)
        self.baseline_peak_bytes = Liveness(graph, options.donated).peak_bytes

    @property
    def fixed_bytes(self) -> int:
        """Bytes of arguments and results: no plan takes less."""
        graph = self.graph
        inputs = sum(type.nbytes for type in graph.input_types)
        return inputs + sum(type.nbytes for type in graph.output_types)

    def candidates(self) -> Iterator[Candidate]:
        """Yield programs that are predicted to keep the limit, the fastest first."""
        limit = self.options.limit_bytes
        if self.options.threshold_bytes is not None:
            yield self._split(self._user_settings(self.options.threshold_bytes))
        else:
            unsplit = self._candidate(self.graph, self.rows, ())
            if limit is None:
                yield unsplit
            elif unsplit.peak_bytes <= limit:
                yield from self._faster_than(unsplit, limit)
                yield unsplit
        if limit is None:
            return
        for settings in (*self._limit_settings(limit), *_TIGHT_SETTINGS):
            candidate = self._split(settings)
            if candidate.peak_bytes <= limit:
                yield candidate

    def _faster_than(self, unsplit: Candidate, limit: int) -> Iterator[Candidate]:
        """Yield a split program, although the whole one fits, when it is faster by the model.

        Values that fit no cache travel to memory and back; computed in slices they stay in the
        cache: measured 13 times faster for a kernel product (`python -m benchmarks kernel`).
        Recomputing would cost some of that again.
        """
        cache = self.options.cache_bytes
        room = max(1, limit - self.fixed_bytes)
        settings = SplitSettings(cache, max(1, min(cache // 4, room)), room)
        candidate = self._split(settings)
        few_again = graph_flops(candidate.graph) <= _FEW_AGAIN * graph_flops(unsplit.graph)
        if candidate.loops and few_again and candidate.peak_bytes <= limit:
            yield candidate

    def smallest(self) -> Candidate:
        """Return the program with the smallest predicted peak, whatever its speed.

        The limit plays no part, so that the answer is the same for every limit.
        """
        found = [self._candidate(self.graph, self.rows, ())]
        found.extend(map(self._split, (*_TIGHT_SETTINGS, *_SMALLEST_SETTINGS)))
        return min(found, key=lambda candidate: candidate.peak_bytes)

    def why_not_split(self, tensor: LiveTensor) -> str | None:
        """Return the reason why a tensor of the smallest program could not be cut, if known."""
        rows = self._split(_TIGHT_SETTINGS[-1]).rows
        refusals = [refusal for row in rows for refusal in row.refusals]
        same_value = [refusal for refusal in refusals if refusal.subject == str(tensor)]
        same_line = [refusal for refusal in refusals if refusal.source == tensor.source]
        found = next(iter(same_value or same_line), None)
        return None if found is None else f"{found.subject}: {found.reason}"

    def _limit_settings(self, limit: int) -> Iterator[SplitSettings]:
        """Yield settings from the fastest to the tightest: the share of the room a trip takes."""
        room = max(1, limit - self.fixed_bytes)
        for trust_fusion in (True, False):
            for share in (4, 16, 64):
                budget = max(1, room // 2 if share == 4 else room // 4)
                yield SplitSettings(
                    threshold_bytes=max(1 << 12, room // share),
                    working_set_bytes=max(1, min(self.options.cache_bytes // 4, budget)),
                    budget_bytes=budget,
                    split_bytes=self.options.split_bytes,
                    trust_fusion=trust_fusion,
                )

    def _user_settings(self, threshold: int) -> SplitSettings:
        split = self.options.split_bytes or threshold
        return SplitSettings(
            threshold, min(split, max(1, self.options.cache_bytes // 4)), split, split
        )

    def _split(self, settings: SplitSettings) -> Candidate:
        loops: list[LoopRow] = []

        def run(graph: Graph, log: PassLog) -> Graph:
            result, rows = split_graph(graph, settings, log)
            loops.extend(rows)
            return result

        manager = PassManager()
        split = Pass("split", run, exact=False, bodies=False)
        graph = manager.run(self.graph, (split, COMMON_SUBEXPRESSIONS))
        return self._candidate(graph, (*self.rows, *manager.rows), tuple(loops))

    def _candidate(
        self, graph: Graph, rows: tuple[PassRow, ...], loops: tuple[LoopRow, ...]
    ) -> Candidate:
        peak = Liveness(graph, self.options.donated).peak_bytes
        return Candidate(graph, rows, loops, peak)
