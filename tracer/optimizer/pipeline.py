"""The one table of passes: what runs, in what order, on what condition, and why there.

`TABLE` is all of it. The planner, the search for a compiled program and programs on several devices
ask it for the passes of a stage (`passes_in`); docs/passes.md is written from it
(`python docs/generate_passes.py`), and the names by which passes are switched off are its names.
"""

from __future__ import annotations

import math

from tracer.optimizer.alias.in_place import in_place_pass
from tracer.optimizer.alias.loop_fills import separate_fills_pass
from tracer.optimizer.alias.loop_operands import reused_operands_pass
from tracer.optimizer.fuse.concatenations import REDUCE_THROUGH_CONCATENATE
from tracer.optimizer.fuse.duplicate import duplicate_pass
from tracer.optimizer.fuse.horizontal import horizontal_pass
from tracer.optimizer.fuse.shared import shared_values_pass
from tracer.optimizer.legalize.broadcasts import stored_broadcasts_pass
from tracer.optimizer.legalize.columns import stored_columns_pass
from tracer.optimizer.legalize.convolutions import convolution_layouts_pass
from tracer.optimizer.legalize.cumulatives import numpy_cumulatives_pass
from tracer.optimizer.legalize.depthwise import depthwise_sums_pass
from tracer.optimizer.legalize.extremes import packed_extremes_pass
from tracer.optimizer.legalize.fills import stored_fills_pass
from tracer.optimizer.legalize.inner_products import summed_products_pass
from tracer.optimizer.legalize.nan import kept_nan_pass
from tracer.optimizer.legalize.operation_order import operation_order_pass
from tracer.optimizer.legalize.pairwise import pairwise_reductions_pass
from tracer.optimizer.legalize.products import product_forms_pass
from tracer.optimizer.legalize.reductions import staged_reductions_pass
from tracer.optimizer.legalize.rounded_products import rounded_products_pass
from tracer.optimizer.legalize.scans import scans_pass
from tracer.optimizer.legalize.selections import staged_selections_pass
from tracer.optimizer.legalize.small_matrices import small_matrices_pass
from tracer.optimizer.legalize.solves import block_solves_pass
from tracer.optimizer.legalize.sorts import integer_sorts_pass, numpy_sorts_pass
from tracer.optimizer.legalize.spectra import numpy_spectra_pass
from tracer.optimizer.legalize.transforms import scipy_transforms_pass
from tracer.optimizer.legalize.updates import stored_updates_pass
from tracer.optimizer.loops.extremes import separate_extremes_pass
from tracer.optimizer.loops.fuse_scans import FUSE_SCANS
from tracer.optimizer.loops.scalar_replacement import scalar_replacement_pass
from tracer.optimizer.loops.separate_barriers import separate_barriers_pass
from tracer.optimizer.loops.small_calls import small_calls_pass
from tracer.optimizer.loops.split import split_pass
from tracer.optimizer.loops.unrolling import unrolling_pass
from tracer.optimizer.partition import shard_pass
from tracer.optimizer.pass_entry import Context, PassEntry, PlannerOptions, Stage
from tracer.optimizer.passes import Pass
from tracer.optimizer.rewrite import rules
from tracer.optimizer.rewrite.chains import SOLVES, chains_pass
from tracer.optimizer.rewrite.diagonals import GATHER_FOR_DIAGONAL
from tracer.optimizer.rewrite.expand import EXPAND
from tracer.optimizer.rewrite.exponentials import EXPAND_EXPONENTIALS
from tracer.optimizer.rewrite.match import (
    CONTRACTIONS,
    INNER_PRODUCTS,
    UNROLL,
    unroll_without_product_pass,
)
from tracer.optimizer.rewrite.scatters import SELECT_FOR_SCATTER
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS, CONSTANT_FOLDING
from tracer.optimizer.rewrite.sink import sink_pass
from tracer.optimizer.rewrite.sorts import count_for_sort_pass, count_in_memory_pass
from tracer.optimizer.rewrite.stored_parts import READ_STORED_PARTS
from tracer.optimizer.rewrite.transposes import TRANSPOSES
from tracer.optimizer.schedule.control_dependences import schedule_pass


def _sink(context: Context) -> Pass:
    assert context.options.sink_bytes is not None
    return sink_pass(context.options.sink_bytes)


def _separate_barriers(context: Context) -> Pass:
    assert context.settings is not None
    return separate_barriers_pass(context.settings)


def _separate_extremes(context: Context) -> Pass:
    assert context.settings is not None
    return separate_extremes_pass(context.settings)


def _split(context: Context) -> Pass:
    assert context.settings is not None
    return split_pass(context.settings, context.loops, context.alike)


def _shard(context: Context) -> Pass:
    assert context.settings is not None
    return shard_pass(context.devices, context.settings)


def _rematerialise(context: Context) -> Pass:
    assert context.rematerialiser is not None
    return context.rematerialiser.as_pass(context.room, context.options.donated)


def _has_rules(context: Context) -> bool:
    return context.options.with_rules and bool(rules.enabled(context.options.disabled))


def _sorts_by_numpy(context: Context) -> bool:
    """Tell whether a program calls NumPy to sort: no device of a mesh waits for an interpreter."""
    is_on = "sort-by-numpy" not in context.options.disabled
    return is_on and _is_called(context, context.options.machine.kernels.numpy_sorts)


def _is_called(context: Context, least: float) -> bool:
    """Tell whether programs call a library through Python, for arrays of so many elements."""
    return least < math.inf and not context.on_mesh


def _has_scans(context: Context) -> bool:
    """Tell whether running sums have forms of their own."""
    return context.options.machine.scans is not None


def _is_spread(context: Context) -> bool:
    return context.devices > 1 and SHARD_NAME not in context.options.disabled


SPLIT_NAME = "split"
SHARD_NAME = "shard"
RECOMPUTE_IN_LOOPS, SEGMENT_SCANS = "recompute-in-loops", "segment-scans"
"""Names of the ways to trace again (`tracer.compilation.retracing`)."""

TABLE: tuple[PassEntry, ...] = (
    PassEntry(
        option="recompute-in-loops",
        stage=Stage.TRACE_AGAIN,
        what=(
            "traces again: loops compute large values that they only read, and residuals, "
            "themselves"
        ),
        why_here="only when nothing else keeps the limit: it computes more",
        exact="no: a value computed inside a loop may be fused differently",
        make=None,
        when="under a limit, for programs with loops or branches",
    ),
    PassEntry(
        option="segment-scans",
        stage=Stage.TRACE_AGAIN,
        what=("traces again: scans are differentiated in segments, every step is computed twice"),
        why_here="the same",
        exact="yes",
        make=None,
        when="under a limit, for programs with loops or branches",
    ),
    PassEntry(
        option="fuse-scans",
        stage=Stage.AS_TRACED,
        what="a scan over what another one stacks joins it",
        why_here="before loops are written out",
        exact="yes",
        make=lambda _: FUSE_SCANS,
    ),
    PassEntry(
        option="expand",
        stage=Stage.AS_TRACED,
        what="writes out ops that only matter to differentiation",
        why_here="no later pass needs to know them",
        exact="yes",
        make=lambda _: EXPAND,
        is_optional=False,
    ),
    PassEntry(
        option="sink",
        stage=Stage.AS_TRACED,
        what=(
            "loops and branches compute large values that they only read themselves, in every trip"
        ),
        why_here="split then cuts these values where they are used",
        exact="no: a value computed in a loop may be fused differently",
        make=_sink,
        when="in programs that *recompute-in-loops* traced",
        condition=lambda c: c.options.sink_bytes is not None,
        is_optional=False,
    ),
    PassEntry(
        option="loop-unrolling",
        stage=Stage.AS_TRACED,
        what=(
            "loops of no or one trip, and of up to four in other loops, are written out "
            "([fusion.md](fusion.md))"
        ),
        why_here="counters become numbers before constants are folded",
        exact="yes",
        make=lambda c: unrolling_pass(c.options.machine),
    ),
    PassEntry(
        option="common-subexpressions",
        stage=Stage.AS_TRACED,
        what="one node for one value",
        why_here="the patterns below see one node for one value",
        exact="yes",
        make=lambda _: COMMON_SUBEXPRESSIONS,
    ),
    PassEntry(
        option="constant-folding",
        stage=Stage.AS_TRACED,
        what="computes what hangs on constants only; what is multiplied by one is itself",
        why_here="patterns see numbers where the user wrote numbers",
        exact="yes",
        make=lambda _: CONSTANT_FOLDING,
    ),
    PassEntry(
        option="select-for-scatter",
        stage=Stage.AS_TRACED,
        what=(
            "one element for each row, scattered into zeros, is a choice by the index: the "
            "gradient of `take_along_axis` with one index"
        ),
        why_here="zeros and indices are as they were written; before all that reads sums",
        exact="yes, but for the sign of zeros",
        make=lambda _: SELECT_FOR_SCATTER,
    ),
    PassEntry(
        option="reassociate-solves",
        stage=Stage.AS_TRACED,
        what=(
            "`solve(L, S @ A)` of a wide A is `solve(L, S) @ A`, and sums over the wide "
            "axis come of Gram matrices of A ([linear-algebra.md](linear-algebra.md))"
        ),
        why_here="sums of products are as they were written",
        exact="no: order of products",
        make=lambda _: SOLVES,
    ),
    PassEntry(
        option="apply-rules",
        stage=Stage.AS_TRACED,
        what="the rewrite rules, each with a name of its own ([rules.md](rules.md))",
        why_here="while the program is as it was written",
        exact="by rule",
        make=lambda c: rules.rules_without(c.options.disabled),
        condition=_has_rules,
    ),
    PassEntry(
        option="gather-for-diagonal",
        stage=Stage.AS_TRACED,
        what=(
            "the diagonal of a computed matrix is picked out of its rows, so that it can be "
            "computed in slices"
        ),
        why_here="after the rules, which know diagonals as they are traced",
        exact="yes",
        make=lambda _: GATHER_FOR_DIAGONAL,
    ),
    PassEntry(
        option="read-stored-parts",
        stage=Stage.AS_TRACED,
        what="a part of an argument in storage, or rows that indices pick, are read as such",
        why_here="before the split, which cannot cut what a slice or a gather takes a part of",
        exact="yes",
        make=lambda _: READ_STORED_PARTS,
    ),
    PassEntry(
        option="write-out-inner-products",
        stage=Stage.AS_TRACED,
        what="squared distances written as inner products",
        why_here="brings them into the form that the next two know",
        exact="no",
        make=lambda _: INNER_PRODUCTS,
    ),
    PassEntry(
        option="unroll-short-reductions",
        stage=Stage.AS_TRACED,
        what="sums over few features, such as distances for d = 3, become element-wise sums",
        why_here="before products are made of them: loses no digits",
        exact="no: order of a sum",
        make=lambda _: UNROLL,
    ),
    PassEntry(
        option="match-contractions",
        stage=Stage.AS_TRACED,
        what=(
            "sums of products and squared distances become `dot_general` "
            "([distances.md](distances.md))"
        ),
        why_here="after the rules, which see the text as written",
        exact="no",
        make=lambda _: CONTRACTIONS,
    ),
    PassEntry(
        option="unroll-short-reductions",
        stage=Stage.AS_TRACED,
        what=(
            "again, for up to 32 terms: sums of absolute differences and their like; each "
            "feature is stored in a run of its own, if that is little next to the limit"
        ),
        why_here="what products do not stand for",
        exact="no: order of a sum",
        make=lambda c: unroll_without_product_pass(c.limit),
    ),
    PassEntry(
        option="reorder-chains",
        stage=Stage.AS_TRACED,
        what=(
            "products in their best order, common factors out "
            "([linear-algebra.md](linear-algebra.md))"
        ),
        why_here="after the matches, which make products",
        exact="no",
        make=lambda c: chains_pass(c.limit),
        is_per_limit=True,
    ),
    PassEntry(
        option="count-for-sort",
        stage=Stage.AS_TRACED,
        what=(
            "quantiles, and a few places, of a large axis are found by counting, in several passes "
            "([storage.md](storage.md#what-a-program-reads))"
        ),
        why_here="numbers are constants by now; before its sums read transposed arrays",
        exact="yes, but for the sign of zeros",
        make=lambda c: count_for_sort_pass(c.limit),
        when="under a limit below two sorted axes",
        is_per_limit=True,
    ),
    PassEntry(
        option="count-in-memory",
        stage=Stage.AS_TRACED,
        what=(
            "quantiles, and a few places, of a large axis are found by counting, in a loop over "
            "their bits, which takes less time than a sort"
        ),
        why_here="behind counting for want of room, which reads in several passes",
        exact="yes, but for the sign of zeros",
        make=lambda c: count_in_memory_pass(c.options.machine.kernels),
        when="on CPUs, for a few places of 131,072 elements and more",
        condition=lambda c: c.options.machine.kernels.counted_elements < math.inf,
    ),
    PassEntry(
        option="sink-transposes",
        stage=Stage.AS_TRACED,
        what="reductions over transposed arrays read them as they lie in memory",
        why_here="after the chains, which take transposes of their own",
        exact="no: order of sums",
        make=lambda _: TRANSPOSES,
    ),
    PassEntry(
        option="scalar-replacement",
        stage=Stage.AS_TRACED,
        what=(
            "a loop whose state is taken apart and stacked again in every trip carries the "
            "parts ([fusion.md](fusion.md))"
        ),
        why_here=(
            "loops are `while` and starts constants by now; after short sums are taken apart"
        ),
        exact="yes",
        make=lambda c: scalar_replacement_pass(c.limit),
        is_per_limit=True,
    ),
    PassEntry(
        option="common-subexpressions",
        stage=Stage.AS_TRACED,
        what="again, after the rewrites",
        why_here="they make the same pieces twice, such as norms and centres",
        exact="yes",
        make=lambda _: COMMON_SUBEXPRESSIONS,
    ),
    PassEntry(
        option="reduce-through-concatenate",
        stage=Stage.AS_TRACED,
        what=(
            "sums and extrema of a concatenation are taken of its parts ([fusion.md](fusion.md))"
        ),
        why_here="after scalar replacement, which looks for stacks in loops",
        exact="no: order of a sum",
        make=lambda _: REDUCE_THROUGH_CONCATENATE,
    ),
    PassEntry(
        option="horizontal-fusion",
        stage=Stage.AS_TRACED,
        what=(
            "many small alike operations become one on packed arrays; alike carries of a "
            "loop become one carry ([fusion.md](fusion.md))"
        ),
        why_here=(
            "alike pieces are one node each by now; before split, for which packed arrays are small"
        ),
        exact="no: a batched product may round otherwise",
        make=lambda c: horizontal_pass(c.options.machine, c.limit),
        is_per_limit=True,
    ),
    PassEntry(
        option="shard",
        stage=Stage.DEVICES,
        what=(
            "on several devices only: gives each an equal part of large values, and of a "
            "batch that goes through loops ([devices.md](devices.md))"
        ),
        why_here="before split, which cuts what a part still stores above the limit",
        exact="no: order of sums",
        make=_shard,
        when="on several devices",
        condition=_is_spread,
    ),
    PassEntry(
        option="common-subexpressions",
        stage=Stage.DEVICES,
        what="again, after *shard*",
        why_here="parts read the same pieces",
        exact="yes",
        make=lambda _: COMMON_SUBEXPRESSIONS,
        when="on several devices",
        condition=_is_spread,
    ),
    PassEntry(
        option="separate-barriers",
        stage=Stage.LOOPS,
        what="a barrier of large arrays, such as `checkpoint`'s, becomes one for each shape",
        why_here="right before *split*, which cuts arrays that have an axis apart from others",
        exact="yes",
        make=_separate_barriers,
        when="where *split* runs",
    ),
    PassEntry(
        option="separate-extremes",
        stage=Stage.LOOPS,
        what=(
            "gradients of maxima and minima that one cut cannot serve have the matrix computed "
            "once more for each ([planner.md](planner.md#gradients-of-extremes))"
        ),
        why_here="right before *split*: equal copies must not be merged again",
        exact="no: order of sums",
        make=_separate_extremes,
        when="where *split* runs",
    ),
    PassEntry(
        option="split",
        stage=Stage.LOOPS,
        what="computes large values in slices ([planner.md](planner.md))",
        why_here="wants the smallest program",
        exact="no: order of sums",
        make=_split,
        when="under a limit, or where the time model finds it faster",
    ),
    PassEntry(
        option="common-subexpressions",
        stage=Stage.LOOPS,
        what="again, after *split*",
        why_here="slices read the same pieces",
        exact="yes",
        make=lambda _: COMMON_SUBEXPRESSIONS,
        when="where *split* runs",
    ),
    PassEntry(
        option="reuse-operands",
        stage=Stage.LOOPS,
        what=(
            "a loop that reads a value slice by slice and writes another in the same places writes "
            "over the one that it reads, if nothing else does"
        ),
        why_here="behind *split*, which makes such loops; one value by now has one node",
        exact="yes",
        make=lambda _: reused_operands_pass(),
        when="where *split* runs",
    ),
    PassEntry(
        option="separate-fills",
        stage=Stage.LOOPS,
        what=(
            "zeros that loops write their results into are made for each loop, right before it; "
            "one array of zeros would be kept from the first loop to the last"
        ),
        why_here="behind all that merges equal values; loops that reuse an operand need no zeros",
        exact="yes",
        make=lambda _: separate_fills_pass(),
        when="where *split* runs",
    ),
    PassEntry(
        option="fusion-merger",
        stage=Stage.UNSPLIT,
        what=(
            "computes a value in each kernel that reads it, where that is cheaper than to "
            "store it ([fusion.md](fusion.md))"
        ),
        why_here=(
            "for the program that is not split: its barriers end the regions that split follows"
        ),
        exact="no: a copy may round differently",
        make=lambda c: duplicate_pass(c.options.machine),
        when="for the program that is not split",
    ),
    PassEntry(
        option="rematerialise",
        stage=Stage.OVER_LIMIT,
        what=(
            "values stored over the peak are computed again after it "
            "([rematerialisation.md](rematerialisation.md))"
        ),
        why_here=(
            "beside *split*, under a limit only: of the programs that keep it the fastest "
            "by the time model is taken"
        ),
        exact="no: a value computed again may be fused differently",
        make=_rematerialise,
        when="under a limit that the candidate does not keep",
    ),
    PassEntry(
        option="schedule",
        stage=Stage.ORDER,
        what="an order with a smaller peak, which XLA is made to keep",
        why_here="last: its barriers are in the way of other passes",
        exact="yes",
        make=lambda c: schedule_pass(c.options.donated),
        when="where our order or XLA's is above the limit",
    ),
    PassEntry(
        option="loop-interchange",
        stage=Stage.LANES,
        what=(
            "a loop over independent blocks outside, the loop over steps inside: a program "
            "for each core ([fusion.md](fusion.md))"
        ),
        why_here="makes several programs of one: nothing that looks at the whole can follow",
        exact="no: ends of rows, sums",
        make=None,
        when="on CPUs, one device, nothing donated, for programs with loops",
        condition=lambda c: not c.options.donated,
    ),
    PassEntry(
        option="common-subexpressions",
        stage=Stage.LANE,
        what="again, in the program of each core",
        why_here="blocks read the same pieces",
        exact="yes",
        make=lambda _: COMMON_SUBEXPRESSIONS,
        when="after *loop-interchange*",
    ),
    PassEntry(
        option="small-calls",
        stage=Stage.LANE,
        what="the next row, in the program of each core",
        why_here="as for the whole program",
        exact="no: XLA rounds some functions otherwise there",
        make=lambda c: small_calls_pass(c.options.machine, c.options.donated),
        when="after *loop-interchange*",
    ),
    PassEntry(
        option="small-calls",
        stage=Stage.CALLS,
        what="loops of small kernels run as one function ([fusion.md](fusion.md))",
        why_here="every other pass reads loops as they are",
        exact="no: XLA rounds some functions otherwise there",
        make=lambda c: small_calls_pass(c.options.machine, c.options.donated),
        when=(
            "for programs with loops or branches; under a limit not in our order, nor "
            "where it takes more"
        ),
    ),
    PassEntry(
        option="store-shared-values",
        stage=Stage.SHARED,
        what=(
            "stores a long chain of cheap ops, such as random numbers, that several kernels would "
            "each compute ([fusion.md](fusion.md))"
        ),
        why_here="split cuts such chains, and a candidate is only taken further if it fits",
        exact="no: a kernel may round differently",
        make=lambda c: shared_values_pass(c.options.machine, most_bytes=c.room or None),
        when="on CPUs, where the predicted peak stays below the limit",
        condition=lambda c: c.options.machine.broadcasts is not None,
    ),
    PassEntry(
        option="keep-in-place",
        stage=Stage.IN_PLACE,
        what=(
            "kernels wait for what reads the memory they write over, so that XLA copies no "
            "donated argument and no carry ([aliasing.md](aliasing.md))"
        ),
        why_here="for the program that is compiled: it needs the final order",
        exact="yes",
        make=lambda c: in_place_pass(c.options.donated),
    ),
    PassEntry(
        option="count-in-memory",
        stage=Stage.TARGET,
        what="again, in operations on arrays one by one",
        why_here="before masks are stored and reductions cut, which it writes in its loop",
        exact="yes, but for the sign of zeros",
        make=lambda c: count_in_memory_pass(c.options.machine.kernels),
        when="on CPUs, for a few places of 131,072 elements and more",
        condition=lambda c: c.options.machine.kernels.counted_elements < math.inf,
    ),
    PassEntry(
        option="expand-exponentials",
        stage=Stage.TARGET,
        what=(
            "float64 exponentials as polynomials on CPUs, where XLA stores the same values "
            "with them ([memory-model.md](memory-model.md))"
        ),
        why_here=(
            "after all that choose: to those an exponential is one node; not on several devices"
        ),
        exact="no: the last digit, and `exp(a) * exp(b)`, which XLA made one exponential of",
        make=lambda _: EXPAND_EXPONENTIALS,
        when="on CPUs, on one device, for programs with float64 exponentials",
        condition=lambda c: c.options.machine.kernels.expanded_exponentials and not c.on_mesh,
    ),
    PassEntry(
        option="interleave-small-matrices",
        stage=Stage.TARGET,
        what=(
            "many small matrices are factored (Cholesky, LU) and solved with side by side, in the "
            "lanes of vectors"
        ),
        why_here="to all before it is one node, which splits, merges and differentiates as one",
        exact="no: order of sums",
        make=lambda c: small_matrices_pass(c.options.machine),
        when=(
            "on CPUs but on meshes, for 256 real matrices or more of up to 1 kB; "
            "operations on arrays one by one, too"
        ),
        condition=lambda c: c.options.machine.interleaving is not None and not c.on_mesh,
    ),
    PassEntry(
        option="solve-by-blocks",
        stage=Stage.TARGET,
        what=(
            "a large triangular system with one right-hand side is solved block by block, where "
            "the library would pack the matrix ([memory-model.md](memory-model.md))"
        ),
        why_here=(
            "to all before it is one node; before masks are stored and reductions cut, which it "
            "writes in its loop"
        ),
        exact="no: order of sums",
        make=lambda c: block_solves_pass(c.options.machine),
        when=(
            "on CPUs, for real matrices of 512 rows or more; operations on arrays one by one, too"
        ),
        condition=lambda c: c.options.machine.storage.packs,
    ),
    PassEntry(
        option="store-fills",
        stage=Stage.TARGET,
        what=(
            "the number that a mask puts in is read from memory, a row of it behind a barrier "
            "([memory-model.md](memory-model.md))"
        ),
        why_here="to all others it is a constant; before reductions are cut, which read the choice",
        exact="yes",
        make=lambda c: stored_fills_pass(c.options.machine),
        when="on CPUs, for rows of more than a kilobyte; operations on arrays one by one, too",
        condition=lambda c: c.options.machine.kernels.stored_fills,
    ),
    PassEntry(
        option="sum-inner-products",
        stage=Stage.TARGET,
        what="long inner products become sums of products ([values.md](values.md))",
        why_here="to all others they are products; before reductions are cut",
        exact="no: order of sums",
        make=lambda c: summed_products_pass(c.options.machine),
        when="on CPUs, from 2,048 terms on; operations on arrays one by one, too",
        condition=lambda c: c.options.machine.kernels.long_inner_product < math.inf,
    ),
    PassEntry(
        option="lay-out-products",
        stage=Stage.TARGET,
        what=(
            "operands and results of products are written out transposed where the library refuses "
            "them, or packs them slowly; right operands that are no matrix as they lie are copied "
            "by rows; a product is stored before it is transposed "
            "([memory-model.md](memory-model.md))"
        ),
        why_here="to all others a product is one node, whose cost has the bytes of the copies",
        exact="no: a product may round otherwise",
        make=lambda c: product_forms_pass(c.options.machine, on_mesh=c.on_mesh),
        when="on CPUs, with jaxlib from 0.10 on; operations on arrays one by one, too",
        condition=lambda c: c.options.machine.kernels.products_by_rows,
    ),
    PassEntry(
        option="sum-depthwise-windows",
        stage=Stage.TARGET,
        what=(
            "depthwise convolutions are sums of shifted arrays, the gradients for their kernels "
            "sums of products ([memory-model.md](memory-model.md))"
        ),
        why_here=(
            "to all before a convolution is one node, whose cost has the bytes of the padding; "
            "before reductions are cut"
        ),
        exact="no: order of sums",
        make=lambda c: depthwise_sums_pass(c.options.machine),
        when=(
            "on CPUs, for windows of up to 25 places, of float64 and gradients for kernels up to "
            "49; with the features last only float64 and gradients; of 16 bits up to 16 places and "
            "from 131,072 results on; operations on arrays one by one, too"
        ),
        condition=lambda c: c.options.machine.kernels.depthwise_window > 0,
    ),
    PassEntry(
        option="stage-reductions",
        stage=Stage.TARGET,
        what=(
            "long reductions go in stages of blocks, behind barriers; what no block cuts is summed "
            "in twice the bits ([memory-model.md](memory-model.md))"
        ),
        why_here=("to all before a reduction is one node, whose cost has the bytes of the stages"),
        exact="no: order of sums",
        make=lambda c: staged_reductions_pass(c.options.machine),
        when=(
            "on CPUs, for axes of 65 rows or 2,048 columns and more; operations on arrays one by "
            "one, too"
        ),
        condition=lambda c: c.options.machine.reductions is not None,
    ),
    PassEntry(
        option="store-broadcast-operands",
        stage=Stage.TARGET,
        what=(
            "a vector that a broadcast repeats is computed once, not for each repetition "
            "([memory-model.md](memory-model.md))"
        ),
        why_here="after reductions are cut, which look at what is computed with them",
        exact="yes",
        make=lambda c: stored_broadcasts_pass(c.options.machine),
        when="on CPUs, for vectors of 1 to 256 KiB; operations on arrays one by one, too",
        condition=lambda c: c.options.machine.broadcasts is not None,
    ),
    PassEntry(
        option="transpose-columns",
        stage=Stage.TARGET,
        what=(
            "the columns of a matrix that are stored one by one become the rows of one array, "
            "which loops read in slices of all rows ([planner.md](planner.md#planning-time))"
        ),
        why_here="after operands of broadcasts are stored, each slice of a column by itself",
        exact="yes",
        make=lambda _: stored_columns_pass(),
        when="on CPUs, for matrices each of whose columns is stored",
        condition=lambda c: c.options.machine.kernels.columns_as_rows,
    ),
    PassEntry(
        option="round-products",
        stage=Stage.TARGET,
        what=(
            "products are rounded before they are added, where the last digit of the sum decides "
            "something, as its sign or order ([values.md](values.md))"
        ),
        why_here="to all before the choices that it writes are in the way",
        exact="yes",
        make=lambda _: rounded_products_pass(),
        when="always",
        is_optional=False,
    ),
    PassEntry(
        option="keep-operation-order",
        stage=Stage.TARGET,
        what=(
            "XLA's simplifier puts no constants and quotients together, and divides where the last "
            "digit of a quotient decides something ([values.md](values.md))"
        ),
        why_here="to all before the choices that it writes are in the way",
        exact="yes",
        make=lambda _: operation_order_pass(),
        when="always",
        is_optional=False,
    ),
    PassEntry(
        option="store-updates",
        stage=Stage.TARGET,
        what=(
            "what is written into an array is stored first, where it is computed from other places "
            "of that array ([values.md](values.md))"
        ),
        why_here="to all before an update reads and writes as the program says",
        exact="yes",
        make=lambda _: stored_updates_pass(),
        when="operations on arrays one by one, too",
        is_optional=False,
    ),
    PassEntry(
        option="tile-pairwise-reductions",
        stage=Stage.TARGET,
        what=(
            "reductions over features of pairs, such as L1 distances, go in tiles, whose columns' "
            "features stay in a cache ([memory-model.md](memory-model.md))"
        ),
        why_here="to all before it is one node, which is cut and differentiated as one",
        exact="yes",
        make=lambda c: pairwise_reductions_pass(c.options.machine),
        when=(
            "on CPUs but on meshes, where the features of all columns take more than half of the "
            "last cache"
        ),
        condition=lambda c: c.options.machine.kernels.tiles is not None and not c.on_mesh,
    ),
    PassEntry(
        option="pack-extremes",
        stage=Stage.TARGET,
        what=(
            "arg-max, arg-min and the largest of each row are reductions of integers that hold "
            "value and place, of wider elements of pairs, in stages "
            "([memory-model.md](memory-model.md))"
        ),
        why_here=(
            "to all before it is one node, whose cost has the bytes of the stages; it cuts its own "
            "reductions"
        ),
        exact="yes",
        make=lambda c: packed_extremes_pass(c.options.machine),
        when="on CPUs; of wider elements where rows are long; operations on arrays one by one, too",
        condition=lambda c: c.options.machine.kernels.packed_extremes,
    ),
    PassEntry(
        option="stage-selections",
        stage=Stage.TARGET,
        what=(
            "the k largest of long rows are found in blocks, those of short rows one after the "
            "other ([memory-model.md](memory-model.md))"
        ),
        why_here=(
            "to all before it is one node, whose cost has the bytes of the stages; behind "
            "*pack-extremes*, which takes k = 1; it cuts its own reductions"
        ),
        exact="yes",
        make=lambda c: staged_selections_pass(c.options.machine),
        when="on CPUs, where the time model finds it faster; operations on arrays one by one, too",
        condition=lambda c: c.options.machine.kernels.top_k_in_stages,
    ),
    PassEntry(
        option="cumulate-in-pairs",
        stage=Stage.TARGET,
        what=(
            "running sums, products and extremes are found in pairs, piece by piece; products of "
            "floats with elements behind the axis row by row"
        ),
        why_here="to all before it is one node, which splits, merges and differentiates as one",
        exact="no: order of sums",
        make=lambda c: scans_pass(c.options.machine),
        when=(
            "on CPUs, for floats and complex numbers of 65,536 elements or more, or 4,096 "
            "elements of any kind, 8 or more behind the axis; operations on arrays one by one, too"
        ),
        condition=_has_scans,
    ),
    PassEntry(
        option="cumulate-by-numpy",
        stage=Stage.TARGET,
        what="NumPy finds running sums and products of integers, and extremes of few elements",
        why_here="after *cumulate-in-pairs*, which is faster",
        exact="yes, but for the sign of a zero",
        make=lambda c: numpy_cumulatives_pass(c.options.machine),
        when=(
            "on CPUs but on meshes, for arrays of 1,024 elements or more in lines of 64 or more; "
            "operations on arrays one by one, too"
        ),
        condition=lambda c: _has_scans(c) and not c.on_mesh,
    ),
    PassEntry(
        option="decompose-by-numpy",
        stage=Stage.TARGET,
        what="NumPy finds eigenvalues and singular values of many small matrices, on all cores",
        why_here="to all before it is one node, which splits and merges as one",
        exact="no: rounding",
        make=lambda c: numpy_spectra_pass(c.options.machine),
        when=(
            "on CPUs of several cores but on meshes, for 131,072 elements or more in matrices of "
            "up to 16 rows and columns, eigenvalues of real ones; operations on arrays one by "
            "one, too"
        ),
        condition=lambda c: c.options.machine.spectra is not None and not c.on_mesh,
    ),
    PassEntry(
        option="transform-by-scipy",
        stage=Stage.TARGET,
        what="SciPy finds Fourier transforms along other axes than the last ones, and in place",
        why_here="to all before it is one node, which splits, merges and differentiates as one",
        exact="no: rounding",
        make=lambda c: scipy_transforms_pass(c.options.machine),
        when=(
            "on CPUs but on meshes, for arrays of 32,768 elements or more; along the last axes for "
            "524,288 complex64 or more in lines of 64 to 16,384, but on Intel's servers, whose "
            "XLA is faster; operations on arrays one by one, too"
        ),
        condition=lambda c: c.options.machine.transforms is not None and not c.on_mesh,
    ),
    PassEntry(
        option="sort-as-integers",
        stage=Stage.TARGET,
        what="floats are sorted as integers of the same order ([memory-model.md](memory-model.md))",
        why_here="to all before it is one node, whose cost has the bytes of the copy",
        exact="yes, but for the order of zeros of both signs, and the bits of NaNs",
        make=lambda c: integer_sorts_pass(c.options.machine, by_numpy=_sorts_by_numpy(c)),
        when=(
            "for one array of 4,096 floats or more that NumPy does not sort as it is; operations "
            "on arrays one by one, too"
        ),
        condition=lambda c: c.options.machine.kernels.integer_sorts < math.inf,
    ),
    PassEntry(
        option="sort-by-numpy",
        stage=Stage.TARGET,
        what="NumPy sorts arrays of many elements, with the processor's vectors",
        why_here="what is sorted as integers is one array of them by now",
        exact="yes, but for the order of zeros of both signs, and the bits of NaNs",
        make=lambda c: numpy_sorts_pass(c.options.machine),
        when=(
            "on CPUs, for arrays of 1,024 elements or more, but on meshes; operations on arrays "
            "one by one, too"
        ),
        condition=_sorts_by_numpy,
    ),
    PassEntry(
        option="lay-out-convolutions",
        stage=Stage.TARGET,
        what=(
            "operands and results of convolutions are written out with the features last; kernels "
            "of groups of few features are mirrored ([memory-model.md](memory-model.md))"
        ),
        why_here=(
            "to all before a convolution is one node, whose cost has the bytes of the copies; "
            "products that it transposes are stored by now"
        ),
        exact="no: order of sums",
        make=lambda c: convolution_layouts_pass(c.options.machine),
        when="on CPUs, for floats of up to 32 bits; operations on arrays one by one, too",
        condition=lambda c: c.options.machine.kernels.convolutions_by_library,
        # Of other layouts XLA takes memory that it does not count.
        is_optional=False,
    ),
    PassEntry(
        option="keep-nan",
        stage=Stage.TARGET,
        what="maxima and minima that devices join keep their NaNs ([devices.md](devices.md))",
        why_here="behind what cuts reductions: devices may join every stage",
        exact="yes",
        make=lambda _: kept_nan_pass(),
        when="on meshes of devices; operations on arrays one by one, too",
        condition=lambda c: c.on_mesh,
        is_optional=False,
    ),
)

OPTIONAL_PASSES = frozenset(entry.option for entry in TABLE if entry.is_optional)
"""Names by which passes can be switched off; the ops that *expand* writes out have no lowering."""


def entries_in(stage: Stage, context: Context) -> tuple[PassEntry, ...]:
    """Return the rows of a stage that run, in their order."""
    return tuple(
        entry
        for entry in TABLE
        if entry.stage is stage
        and not (entry.is_optional and entry.option in context.options.disabled)
        and entry.condition(context)
    )


def passes_in(stage: Stage, context: Context) -> tuple[Pass, ...]:
    """Return the passes of a stage that run, in their order."""
    return tuple(entry.make(context) for entry in entries_in(stage, context) if entry.make)


def standard_passes(options: PlannerOptions | None = None) -> tuple[Pass, ...]:
    """Return the passes that run before a program is split, in their order."""
    return passes_in(Stage.AS_TRACED, Context(options or PlannerOptions()))


STANDARD_PASSES = standard_passes()

__all__ = [
    "EXPAND",
    "OPTIONAL_PASSES",
    "RECOMPUTE_IN_LOOPS",
    "SEGMENT_SCANS",
    "SHARD_NAME",
    "SPLIT_NAME",
    "STANDARD_PASSES",
    "TABLE",
    "Context",
    "PassEntry",
    "PlannerOptions",
    "Stage",
    "entries_in",
    "passes_in",
    "standard_passes",
]
