"""Control dependences: barriers make a large value wait for what an order frees before it.

XLA schedules by its own rules. Its default CPU schedule starts everything that can start (openxla
issue 35719: a hundred large arrays, each reduced to a number, are all alive at once), and its
memory-optimised one is a list heuristic. Only the data flow can guarantee an order. An optimization
barrier takes one operand of the large producer and the results of the tasks that free memory before
it, and the producer reads the operand behind the barrier. Nothing is copied, because a barrier's
results share its operands' memory.

XLA also computes a chain of sums in one kernel at its end, which keeps all addends until then. A
barrier after each partial sum frees every addend at once (`store_partial_sums`).

Barriers stop fusion, so only large values get them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value
from tracer.optimizer.barriers import with_stored
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.passes import Pass, PassLog
from tracer.optimizer.schedule.schedule import SCHEDULE, map_large_bodies, schedule
from tracer.optimizer.schedule.tasks import TaskGraph
from tracer.target.record import LEAST_BARRIER_BYTES

# The smallest values, as many as have this share of the temporaries' peak all together, come when
# XLA likes.
_SMALL_SHARE = 16
# Tasks that one barrier waits for, the last ones.
_MOST_WAITED_FOR = 16
# A partial sum is stored when that frees this many times its own bytes.
_WORTH_STORING = 2


def schedule_pass(donated: Iterable[int] = ()) -> Pass:
    """Return the pass that finds an order with a smaller peak, and makes XLA keep it."""

    def run(graph: Graph, log: PassLog) -> Graph:
        return force_order(graph, log, donated)

    return replace(SCHEDULE, run=run)


def force_order(graph: Graph, log: PassLog, donated: Iterable[int] = ()) -> Graph:
    """Order a graph and its bodies for a small peak, and make XLA keep the order.

    Parameters
    ----------
    graph : Graph
        The program.
    log : PassLog
        Told of orders, stored sums and barriers.
    donated : iterable of int
        Inputs whose memory may be overwritten.

    Returns
    -------
    Graph
        The same values; `graph` itself where nothing is to be gained.
    """
    may_free = frozenset(donated)

    def forced(body: Graph) -> Graph:
        return _force(body, log, frozenset(range(len(body.inputs))), is_body=True)

    return _force(map_large_bodies(graph, forced, may_free), log, may_free, is_body=False)


def _force(graph: Graph, log: PassLog, donated: frozenset[int], *, is_body: bool) -> Graph:
    ordered = schedule(graph, log, donated, is_body=is_body, bodies=False)
    stored = PassLog()
    summed = store_partial_sums(ordered, stored, donated, is_body=is_body)
    if summed is not ordered:
        summed = schedule(summed, stored, donated, is_body=is_body, bodies=False)
        peaks = [Liveness(g, donated, is_body=is_body).peak_bytes for g in (ordered, summed)]
        if peaks[1] < peaks[0]:
            ordered = summed
            log.applied += stored.applied
    return add_control_dependences(ordered, log, donated, is_body=is_body)


def store_partial_sums(
    graph: Graph, log: PassLog, donated: frozenset[int] = frozenset(), *, is_body: bool = False
) -> Graph:
    """Store the values of a kernel that let more than their own bytes go.

    A value that XLA would compute inside of the kernel that reads it, as the partial sums of a
    chain, gets a barrier, so that it has memory of its own, where it is the only reader of stored
    temporaries of at least twice its bytes.
    """
    live = Liveness(graph, donated, is_body=is_body)
    least = _large(live)
    held: dict[Node, frozenset[Value]] = {}
    chosen: set[Node] = set()
    for node in graph.nodes:
        assert node.op is not None
        if node in live.stored or node.op.fusion != "loop":
            continue
        leaves = _leaves(node, live, held, chosen)
        held[node] = leaves
        size = node.types[0].nbytes
        if size >= least and sum(leaf.type.nbytes for leaf in leaves) >= _WORTH_STORING * size:
            chosen.add(node)
    if not chosen:
        return graph

    log.applied.append(f"{len(chosen)} partial sums stored")
    return with_stored(graph, chosen)


def _leaves(
    node: Node, live: Liveness, held: dict[Node, frozenset[Value]], chosen: set[Node]
) -> frozenset[Value]:
    """Return the temporaries that only this kernel reads, and that die when it is computed."""
    found: set[Value] = set()
    for value in node.operands:
        if len(set(live.users[value])) > 1 or value in live.outputs:
            continue
        if value.node in chosen or value.node in live.stored:
            found.add(value)
        else:
            found |= held.get(value.node, frozenset())
    return frozenset(found)


def _large(live: Liveness) -> int:
    """Return the size from which on it matters when a value is alive."""
    arguments = sum(type.nbytes for type in live.graph.input_types)
    room = (live.peak_bytes - arguments) // _SMALL_SHARE
    sizes = sorted(sum(type.nbytes for type in node.types) for node in live.stored)
    for size in sizes:
        room -= size
        if room < 0:
            return max(1, size)
    return live.peak_bytes


@dataclass(frozen=True)
class _Dependence:
    """A task that waits: the value that it reads behind the barrier, and whom it waits for."""

    leaf: Value
    after: tuple[Value, ...]


def add_control_dependences(
    graph: Graph, log: PassLog, donated: frozenset[int] = frozenset(), *, is_body: bool = False
) -> Graph:
    """Let every large value of a graph wait for what the graph's order frees before it.

    If the data flow already forces the order, there is no barrier.
    """
    live = Liveness(graph, donated, is_body=is_body)
    tasks = TaskGraph(live)
    dependences = _dependences(tasks, _large(live))
    if not dependences:
        return graph
    log.applied.append(f"{len(dependences)} barriers keep the order")
    return _Writer(tasks, dependences).run()


def _dependences(tasks: TaskGraph, least: int) -> dict[int, _Dependence]:
    before: list[int] = []
    """For each task those that come before it in the data flow, as bits."""
    dependences: dict[int, _Dependence] = {}
    done: list[int] = []
    """Readers of large values that are dead; of two that follow each other the later one."""
    for i, task in enumerate(tasks.tasks):
        behind = _behind(task.needs, before)
        if sum(tasks.sizes[value] for value in task.writes) + task.scratch >= least:
            # What it writes over has been read by all others.
            over = _readers_of_what_dies(tasks, i, least, [read for _, read in task.reuses])
            others = dict.fromkeys([*done, *over])
            waits_for = [k for k in others if k != i and not behind >> k & 1]
            leaf = _leaf(tasks, i)
            if waits_for and leaf is not None:
                dependences[i] = _Dependence(leaf, tuple(_result(tasks, k) for k in waits_for))
                behind |= _behind(waits_for, before)
        before.append(behind)
        for reader in _readers_of_what_dies(tasks, i, least, task.reads):
            implied = before[reader]
            done = [k for k in done if not implied >> k & 1 and k != reader][-_MOST_WAITED_FOR:]
            done.append(reader)
    return dependences


def _readers_of_what_dies(tasks: TaskGraph, i: int, least: int, values: Iterable[int]) -> list[int]:
    """Return all readers of those values that are large and that task `i` is the last to read."""
    found: set[int] = set()
    for value in values:
        if tasks.sizes[value] >= least and max(tasks.readers[value]) == i:
            found |= tasks.readers[value]
    return sorted(found)


def _behind(needs: Iterable[int], before: Sequence[int]) -> int:
    found = 0
    for needed in needs:
        found |= before[needed] | 1 << needed
    return found


def _result(tasks: TaskGraph, i: int) -> Value:
    """Return the smallest result of a task that is read or handed out; any if it has an effect."""
    live = tasks.live
    results = tasks.tasks[i].node.results
    used = [value for value in results if value in live.users or value in live.outputs]
    return min(used or results, key=lambda value: value.type.nbytes)


def _leaf(tasks: TaskGraph, i: int) -> Value | None:
    """Return what a task reads and a barrier may take: the smallest that is no mere number."""
    leaves = [value for value in tasks.leaves(i) if value.type.nbytes]
    if not leaves:
        return None
    fit = [value for value in leaves if value.type.nbytes >= LEAST_BARRIER_BYTES]
    return min(fit or leaves[-1:], key=lambda value: value.type.nbytes)


class _Writer:
    """Copies a graph task by task, with barriers."""

    def __init__(self, tasks: TaskGraph, dependences: dict[int, _Dependence]) -> None:
        self.tasks = tasks
        self.dependences = dependences
        self.builder = Builder()
        self.mapping: dict[Value, Value] = {}

    def run(self) -> Graph:
        graph = self.tasks.live.graph
        with self.builder as builder:
            for value in graph.inputs:
                self.mapping[value] = builder.input(value.type, value.node.source)
            for i, task in enumerate(self.tasks.tasks):
                behind = (
                    self._barrier(self.dependences[i], task.node) if i in self.dependences else {}
                )
                self._emit([task.node], behind)
            self._emit([value.node for value in graph.outputs], {})
        return builder.finish([self.mapping[value] for value in graph.outputs])

    def _barrier(self, dependence: _Dependence, node: Node) -> dict[Value, Value]:
        """Emit a barrier; return what its leaf is called behind it.

        Those it waits for are read behind it from now on: a value has one name at a time, so that
        a kernel may still write over it.
        """
        values = dict.fromkeys((dependence.leaf, *dependence.after))
        self.builder.source = node.source
        results = ops.optimization_barrier(*[self.mapping[value] for value in values])
        names = dict(zip(values, results, strict=True))
        leaf = names.pop(dependence.leaf)
        self.mapping.update(names)
        return {dependence.leaf: leaf}

    def _emit(self, nodes: Sequence[Node], behind: dict[Value, Value]) -> None:
        """Copy nodes and what they compute inside; behind a barrier that part is a copy."""
        live, mapping = self.tasks.live, self.mapping
        private = dict(behind)
        for node in live.kernels(*nodes):
            if any(value in private for value in node.operands):
                names, known = private, None
            else:
                names, known = mapping, mapping.get(node.results[0])
            if known is not None:
                continue
            operands = tuple([private.get(v) or mapping[v] for v in node.operands])
            names.update(zip(node.results, self.builder.copy(node, operands), strict=True))
            if node in live.stored:
                mapping.update((v, names[v]) for v in node.results)


__all__ = ["add_control_dependences", "force_order", "schedule_pass", "store_partial_sums"]
