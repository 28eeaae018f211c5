"""Horizontal fusion: many small equal operations become one on packed operands.

An optimiser's step over hundreds of parameters, or hundreds of small products, is as many kernels,
each of which takes longer to start than to run. Isomorphic subgraphs (`packs`) are computed at once
on one flat array (`flat`, `batch`). Element-wise ones may differ in shape; products become one
batched product. Joining must not cost more than it saves. In a loop the carries themselves are
packed (`packed_loops`), with one copy before and one after it. Elsewhere it pays where operands are
parts of one array, where results are joined again, and for products.

Element-wise results are the same operations on the same elements; a batched product may round
differently than single ones.

Sources: Snider & Liang, "Operator Fusion in XLA" (2023), III-B, horizontal fusion, which XLA has
for GPUs only (xla/service/gpu/transforms/horizontal_loop_fusion.h); Neubig, Goldberg & Dyer,
"On-the-fly Operation Batching in Dynamic Computation Graphs" (2017), for equal operations at one
depth. Left out: subgraphs with reductions or with several shapes each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, map_bodies, rebuild
from tracer.optimizer.fuse.batch import fuse_group
from tracer.optimizer.fuse.flat import adjoining
from tracer.optimizer.fuse.packed_loops import find_packs, is_loop, pack_loop, packed_graph
from tracer.optimizer.fuse.packs import Pack, Subgraph, find_isomorphic
from tracer.optimizer.model.liveness import peak_bytes
from tracer.optimizer.model.speed import trip_seconds
from tracer.optimizer.model.trip_counts import trip_count
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Prices, Sizes, Target

_WORTHWHILE = 0.9
_UNKNOWN_TRIPS = 100
"""Taken for loops that do not say how often they run."""
_MOST_GROUPS = 64
_MOST_MEMORY = 1.25
"""Times the peak before. Six masks of dropout, drawn as one array, took 1.8 times, and longer."""
_LARGE = "what is joined takes too much memory"
_DEAR = "joining and cutting takes as long as it saves"


def horizontal_pass(machine: Target, limit_bytes: int | None = None) -> Pass:
    """Return the pass for a limit: packing that raises the peak to more than half of it is refused.

    Parameters
    ----------
    machine : Target
        What the device can do.
    limit_bytes : int, optional
        The whole program's.
    """

    def run(graph: Graph, log: PassLog) -> Graph:
        found = PassLog()
        result = _fused(graph, found, machine)
        if result is graph:
            log.refusals.extend(found.refusals)
            return graph
        peak = peak_bytes(result)
        if limit_bytes is not None and peak > max(limit_bytes // 2, peak_bytes(graph)):
            for line in found.applied:
                log.refuse(line, f"packed arrays take the peak to {peak} bytes, near the limit")
            return graph
        log.applied.extend(found.applied)
        log.refusals.extend(found.refusals)
        return result

    return Pass("horizontal fusion", run, exact=False, bodies=False)


def _fused(graph: Graph, log: PassLog, machine: Target) -> Graph:
    return _fuse_groups(_in_bodies(graph, log, machine), log, machine)


def _in_bodies(graph: Graph, log: PassLog, machine: Target) -> Graph:
    """Fuse in bodies, the innermost first: loops with their carries, then the rest."""
    graph = map_bodies(graph, lambda body: _in_bodies(body, log, machine))

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        found = _packed_body(node, log, machine) if is_loop(node) else None
        if found is None:
            return None
        body, packs = found
        return pack_loop(operands, node.params["condition"], body, packs)

    graph = rebuild(graph, rewrite)
    return map_bodies(graph, lambda body: _fuse_groups(body, log, machine))


def _packed_body(
    node: Node, log: PassLog, machine: Target
) -> tuple[Graph, tuple[tuple[int, ...], ...]] | None:
    body = node.params["body"]
    packs = find_packs(body, machine.sizes, partial(_may_pay, machine))
    if not packs:
        return None
    inner = PassLog()
    result = _fuse_groups(packed_graph(body, packs, True), inner, machine)
    before, after = (_seconds(graph, machine) for graph in (body, result))
    carries = sum(map(len, packs))
    subject = f"{carries} carries of a loop as {len(packs)}"
    if not inner.applied or after > _WORTHWHILE * before:
        log.refuse(subject, _too_little(before, after), node.source)
        return None
    trips = trip_count(node) or _UNKNOWN_TRIPS
    if trips * (before - after) < carries * machine.prices.part_seconds:
        few = f"{trips} trips ({_gain(before, after)} each) are too few for joining them before"
        log.refuse(subject, few, node.source)
        return None
    log.applied.append(f"{subject}: {_gain(before, after)} a trip")
    log.applied.extend(inner.applied)
    return result, packs


def _fuse_groups(graph: Graph, log: PassLog, machine: Target) -> Graph:
    refused: set[str] = set()
    before = None
    for _ in range(_MOST_GROUPS):
        step = next(_candidates(graph, refused, machine.sizes), None)
        if step is None:
            return graph
        if not _may_pay(machine, step.pack):
            refused.add(step.subject)
            log.refuse(step.subject, _DEAR, step.pack[0].nodes[0].source)
            continue
        before = _seconds(graph, machine) if before is None else before
        result = fuse_group(graph, step.pack)
        after = _seconds(result, machine)
        if not _is_enough(before - after, step.pack, machine):
            refused.add(step.subject)
            log.refuse(step.subject, _too_little(before, after), step.pack[0].nodes[0].source)
            continue
        if _takes_more(graph, result, machine.sizes):
            refused.add(step.subject)
            log.refuse(step.subject, _LARGE, step.pack[0].nodes[0].source)
            continue
        log.applied.append(f"{step.subject}: {_gain(before, after)}")
        graph, before = result, after
    return graph


def _may_pay(machine: Target, pack: Pack, packed: Set[Value] = frozenset()) -> bool:
    """Tell whether a pack could pay: a bound that needs no program to be written.

    At most the start of each kernel is saved, and what other cores would do; at least the leaves
    that are neither packed nor parts of one array nor shared have to be joined.
    """
    subgraph, prices = pack[0], machine.prices
    joined = sum(
        map(_is_joined, zip(*(_leaves(subgraph, packed) for subgraph in pack), strict=True))
    )
    if subgraph.is_product:
        return joined * prices.part_seconds < prices.small_product_seconds
    flops = max(sum(node.cost.flops for node in subgraph.nodes) for subgraph in pack)
    alone = (1 - 1 / machine.cores) * flops / prices.vector_rate
    starts = len(subgraph.nodes) * prices.small_kernel_seconds
    return joined * prices.part_seconds < starts + alone


def _is_enough(saved: float, pack: Pack, machine: Target) -> bool:
    return saved >= len(pack) * machine.prices.small_kernel_seconds


def _takes_more(before: Graph, after: Graph, sizes: Sizes) -> bool:
    peak = peak_bytes(before)
    return peak_bytes(after) > max(_MOST_MEMORY * peak, peak + sizes.pack_bytes)


def _leaves(subgraph: Subgraph, packed: Set[Value]) -> list[Value | None]:
    return [None if leaf in packed else leaf for leaf in subgraph.leaves]


def _is_joined(leaves: Sequence[Value | None]) -> bool:
    given = [leaf for leaf in leaves if leaf is not None]
    return len(set(given)) > 1 and adjoining(given) is None


@dataclass(frozen=True)
class _Candidate:
    pack: Pack
    subject: str


def _candidates(graph: Graph, refused: set[str], sizes: Sizes) -> Iterator[_Candidate]:
    for pack in find_isomorphic(graph, sizes):
        subject = _subject(pack)
        if subject not in refused:
            yield _Candidate(pack, subject)


def _subject(pack: Pack) -> str:
    subgraph, types = pack[0], [item.nodes[-1].types[0] for item in pack]
    names = " ".join(node.name for node in subgraph.nodes[:4])
    more = f" ... of {len(subgraph.nodes)}" if len(subgraph.nodes) > 4 else ""
    shapes = dict.fromkeys(map(str, types))
    sizes = str(types[0]) if len(shapes) == 1 else f"{types[0]} and {len(shapes) - 1} other shapes"
    return f"{len(pack)} times ({names}{more}) on {sizes}"


def _gain(before: float, after: float) -> str:
    return f"{1e6 * before:.3g} to {1e6 * after:.3g} us by the model"


def _too_little(before: float, after: float) -> str:
    return f"{_DEAR} ({_gain(before, after)})"


def _seconds(graph: Graph, machine: Target) -> float:
    """Return the time model's estimate, with the prices of many small kernels."""
    prices = machine.prices
    calls = sum(_calls(node, prices) for node in graph.nodes)
    small = replace(prices, kernel_seconds=prices.small_kernel_seconds)
    return trip_seconds(graph, replace(machine, prices=small)) + calls


def _calls(node: Node, prices: Prices) -> float:
    if node.op is ops.concatenate:
        return prices.part_seconds * len(node.operands)
    is_product = node.cost.product_flops and not node.body_graphs
    return prices.small_product_seconds if is_product else 0.0


__all__ = ["horizontal_pass"]
