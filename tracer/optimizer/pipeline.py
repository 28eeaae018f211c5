"""The order of the passes, with a reason for each place.

1. *fuse scans* before loops are written out: a scan over what another one stacks, as in forward
   mode, joins it, and nothing is stacked. Then *expand* writes ops that only matter to
   differentiation (checkpoint, custom_vjp) with the ops they stand for, so that no later pass
   needs to know them. *loop unrolling* right after: what counters hang on is numbers for 2.
2. *common subexpressions* and *constant folding* first: the patterns below see one node for one
   value, and numbers where the user wrote numbers. *reassociate solves* right after: it reads sums
   of products, which the matches below take into larger products.
3. *apply rules* (`tracer.optimizer.rewrite.rules`, handed in) while the program is still as it
   was written. Then *unroll short reductions* before *match contractions*: with few features the
   direct form of a distance is nearly as fast as norms and a product, and loses no digits. What is
   left, among it the gradients of distances, becomes products; *unroll short reductions* again
   after them, for more terms, takes what has no form as a product.
4. *reorder chains* after the matches, which make products; it takes each tree of them in its best
   order, and under a limit that the fastest would break the bytes between them decide.
   Then *sink transposes*: chains have taken theirs, and what reductions are left read their
   operands as they lie in memory.
5. *scalar replacement* once loops are `while` and starts are constants, and after *unroll short
   reductions*, which takes sums over a state's few parts apart. Then
   *common subexpressions* again: the rewrites make alike pieces (norms, centres).
6. *reduce through concatenate* after *scalar replacement*, which looks for stacks in loops. Then
   *horizontal fusion*, as alike pieces are one node each by now, and before *split*, which sees
   the packed arrays: they are small ones.
7. *split*: it wants the smallest program. *rematerialise* beside it and before *schedule*: for a
   program that is above the limit, whole or split, whichever the time model finds faster.
   *fusion merger* for the whole program only: slices stay in the cache, and the barriers that keep
   its copies apart end the regions that *split* follows.
8. *schedule* last, and only for a program that is above the limit in its own or in XLA's order: the
   barriers that keep the order are in the way of every other pass.
9. *loop interchange* makes several programs of the one that is compiled, so no pass that looks at
   the whole can follow; *small calls* in each, as every other pass reads loops as they are.
10. *keep in place* for the program that is compiled, after everything that moves values: it needs
   the order and the buffers of the model as they stay, and its barriers would be in the way too.
11. *expand exponentials* on CPUs, at the very end: to all others an exponential is one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracer.ir import Graph
from tracer.optimizer.alias.in_place import IN_PLACE_NAME
from tracer.optimizer.fuse.concatenations import REDUCE_THROUGH_CONCATENATE
from tracer.optimizer.fuse.duplicate import FUSION_MERGER
from tracer.optimizer.fuse.horizontal import horizontal_pass
from tracer.optimizer.loops.fuse_scans import FUSE_SCANS
from tracer.optimizer.loops.interchange import INTERCHANGE_NAME
from tracer.optimizer.loops.scalar_replacement import scalar_replacement_pass
from tracer.optimizer.loops.small_calls import SMALL_CALLS_NAME
from tracer.optimizer.loops.split import Alike, LoopRow, SplitSettings, split_graph
from tracer.optimizer.loops.unrolling import unrolling_pass
from tracer.optimizer.passes import Pass, PassLog
from tracer.optimizer.remat import REMATERIALISE_NAME
from tracer.optimizer.rewrite.chains import SOLVES, chains_pass
from tracer.optimizer.rewrite.expand import EXPAND
from tracer.optimizer.rewrite.exponentials import EXPAND_EXPONENTIALS
from tracer.optimizer.rewrite.match import (
    CONTRACTIONS,
    INNER_PRODUCTS,
    UNROLL,
    unroll_without_product_pass,
)
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS, CONSTANT_FOLDING
from tracer.optimizer.rewrite.sink import sink_pass
from tracer.optimizer.rewrite.transposes import TRANSPOSES
from tracer.optimizer.schedule.schedule import SCHEDULE
from tracer.target import DEFAULT_TARGET, Target


@dataclass(frozen=True)
class PlannerOptions:
    """What the user asked of the planner, in bytes.

    `threshold_bytes` and `split_bytes` are the two options of the paper. `machine` is what the
    device can do; `split` is False when nothing is to be computed in slices. Values of more than
    `sink_bytes` that loops and branches do not change are computed inside of these; None: they
    are handed in. `match` are the algebraic rewrites that are switched on; passes whose names (with
    hyphens) are in `disabled` are left out.
    """

    limit_bytes: int | None = None
    threshold_bytes: int | None = None
    split_bytes: int | None = None
    machine: Target = DEFAULT_TARGET
    split: bool = True
    match: tuple[Pass, ...] = (INNER_PRODUCTS, UNROLL, CONTRACTIONS)
    disabled: frozenset[str] = frozenset()
    donated: frozenset[int] = frozenset()
    sink_bytes: int | None = None


def standard_passes(
    match: Sequence[Pass] = (INNER_PRODUCTS, UNROLL, CONTRACTIONS),
    limit_bytes: int | None = None,
    machine: Target = DEFAULT_TARGET,
) -> tuple[Pass, ...]:
    """Return the passes with these algebraic rewrites among them, for a limit and a machine."""
    return (
        FUSE_SCANS,
        EXPAND,
        unrolling_pass(machine),
        COMMON_SUBEXPRESSIONS,
        CONSTANT_FOLDING,
        SOLVES,
        *match,
        unroll_without_product_pass(limit_bytes),
        chains_pass(limit_bytes),
        TRANSPOSES,
        scalar_replacement_pass(limit_bytes),
        COMMON_SUBEXPRESSIONS,
        REDUCE_THROUGH_CONCATENATE,
        horizontal_pass(limit_bytes),
    )


STANDARD_PASSES = standard_passes()
SPLIT_NAME = "split"
SHARD_NAME = "shard"
"""Of programs on several devices (`tracer.compilation.spmd`): before *split*."""
RECOMPUTE_IN_LOOPS, SEGMENT_SCANS = "recompute-in-loops", "segment-scans"
"""Names of the ways to trace again (`tracer.compilation.retracing`), to switch them off by."""
OPTIONAL_PASSES = frozenset(
    item.option
    for item in (*STANDARD_PASSES, FUSION_MERGER, SCHEDULE, EXPAND_EXPONENTIALS)
    if item is not EXPAND
) | {
    SPLIT_NAME,
    SHARD_NAME,
    IN_PLACE_NAME,
    SMALL_CALLS_NAME,
    INTERCHANGE_NAME,
    REMATERIALISE_NAME,
    RECOMPUTE_IN_LOOPS,
    SEGMENT_SCANS,
}
"""Names by which passes can be switched off; the ops that *expand* writes out have no lowering."""


def passes_of(options: PlannerOptions) -> Sequence[Pass]:
    """Return the passes that run before a program is split, in their order."""
    passes = tuple(
        item
        for item in standard_passes(options.match, options.limit_bytes, options.machine)
        if item.option not in options.disabled
    )
    if options.sink_bytes is None:
        return passes
    place = passes.index(EXPAND) + 1
    return (*passes[:place], sink_pass(options.sink_bytes), *passes[place:])


def split_passes(
    settings: SplitSettings, loops: list[LoopRow], alike: Alike | None = None
) -> tuple[Pass, ...]:
    """Return the passes that write a program's loops; what they are is added to `loops`."""

    def run(graph: Graph, log: PassLog) -> Graph:
        result, rows = split_graph(graph, settings, log, alike)
        loops.extend(rows)
        return result

    return Pass(SPLIT_NAME, run, exact=False, bodies=False), COMMON_SUBEXPRESSIONS
