"""Search for an order of tasks: exact for few tasks, a beam for more, heuristics for many.

The exact search walks over the sets of finished tasks, the one with the smallest peak so far first
(Ahn et al., "Ordering Chaos: Memory-Aware Scheduling of Irregularly Wired Neural Networks",
SERENITY, MLSys 2020). What is alive depends on the set alone, so the first path to a set is its
best. A task that adds nothing, and needs no more room than was needed already, runs at once: any
order is as good with that task moved to the front.

Minimising the peak is NP-complete for graphs (Sethi 1975), and linear for trees (Sethi & Ullman
1970; Liu 1987): the operand that leaves the most room behind comes first. The heuristics treat the
graph as a tree, depth first, with several orders of operands and roots, and run tasks that free
memory at once. One more goes by freed bytes alone (Kayaaslan, Lambert, Marchal & Ucar, "Scheduling
series-parallel task graphs to minimize peak memory", 2018, compare such rules).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from tracer.optimizer.schedule.tasks import TaskGraph

NEGLIGIBLE_SHARE = 256
"""A gain of at most this share of the peak is not looked for."""
# Sets of finished tasks that the exact search looks at before it gives up: about 50 ms.
_MOST_SETS = 2000
# Graphs of more tasks are too large for it in any case.
_MOST_EXACT = 64
# The beam search looks at about this many tasks in all: about 0.2 s.
_BEAM_STEPS = 60_000
_BROADEST = 24
# Tasks and values of problems whose orders are kept: a few megabytes.
_MOST_KNOWN = 50_000


def candidate_orders(graph: TaskGraph) -> list[list[int]]:
    """Return orders worth pricing, the one with the smallest peak first; the graph's own is one.

    Of orders with equal peaks the graph's own comes first. The candidates of one search are mostly
    alike, so what is found is kept.
    """
    key = graph.key
    found = _KNOWN.get(key)
    if found is None:
        found = _found_orders(graph)
        if sum(map(len, list(_KNOWN))) + len(key) > _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = found
    return found


_KNOWN: dict[tuple[Any, ...], list[list[int]]] = {}


def _found_orders(graph: TaskGraph) -> list[list[int]]:
    own = list(range(len(graph)))
    bound = graph.lower_bound()
    if graph.peak(own) <= bound + bound // NEGLIGIBLE_SHARE:
        return [own]
    orders = [list(each) for each in dict.fromkeys(map(tuple, [own, *heuristic_orders(graph)]))]
    orders.sort(key=graph.peak)
    least = graph.peak(orders[0])
    if least > bound:
        found = exact_order(graph) if len(graph) <= _MOST_EXACT else None
        found = found or beam_order(graph, least)
        if found is not None and graph.peak(found) < least:
            orders.insert(0, found)
    return orders


def exact_order(graph: TaskGraph, most_sets: int = _MOST_SETS) -> list[int] | None:
    """Return an order with the smallest peak of all; None when the search grows too large."""
    return _Search(graph).run(most_sets)


_Way = tuple[int, "_Way | None"]
"""The last task of an order, and the order before it."""


def beam_order(graph: TaskGraph, below: int) -> list[int] | None:
    """Return an order with a peak of less than `below` bytes, if a beam search finds one.

    The search goes by the number of finished tasks and keeps the few best sets of each number:
    those with the smallest peak so far, and of these the ones with the fewest bytes alive.
    """
    width = min(_BROADEST, _BEAM_STEPS // max(1, len(graph)) ** 2)
    return _Search(graph).run_beam(width, below) if width else None


class _Search:
    """Best-first search over sets of finished tasks, written as bits."""

    def __init__(self, graph: TaskGraph) -> None:
        self.graph = graph
        self.needs = [sum(1 << needed for needed in task.needs) for task in graph.tasks]
        self.readers = [sum(1 << reader for reader in readers) for readers in graph.readers]
        self.everything = (1 << len(graph)) - 1

    def run(self, most_sets: int) -> list[int] | None:
        """Return the best order, or None after `most_sets` sets."""
        start = self.graph.lower_bound()
        # Peak, minus the tasks done, a number that settles ties, set, bytes alive, way.
        heap: list[tuple[int, int, int, int, int, _Way | None]]
        heap = [(start, 0, 0, 0, 0, None)]
        number = 0
        closed: set[int] = set()
        while heap and len(closed) < most_sets:
            peak, _, _, done, live, way = heapq.heappop(heap)
            if done in closed:
                continue
            closed.add(done)
            done, live, way = self._run_what_is_free(peak, done, live, way)
            if done == self.everything:
                return _listed(way)
            for i in self._ready(done):
                added, stays = self._step(i, done)
                after = done | 1 << i
                if after not in closed:
                    number += 1
                    price = max(peak, live + added)
                    item = (price, -after.bit_count(), number, after, live + stays, (i, way))
                    heapq.heappush(heap, item)
        return None

    def run_beam(self, width: int, below: int) -> list[int] | None:
        """Return the best order of a beam search, or None without one below a peak."""
        levels: list[dict[int, tuple[int, int, _Way | None]]]
        levels = [{} for _ in range(len(self.graph) + 1)]
        levels[0][0] = (self.graph.lower_bound(), 0, None)
        for level in levels[:-1]:
            best = heapq.nsmallest(width, level.items(), key=lambda item: item[1][:2])
            for done, (peak, live, way) in best:
                for i in self._ready(done):
                    added, stays = self._step(i, done)
                    price = max(peak, live + added)
                    if price >= below:
                        continue
                    state = (price, done | 1 << i, live + stays, (i, way))
                    after, bytes_after, way_after = self._run_what_is_free(*state)
                    known = levels[after.bit_count()].get(after)
                    if known is None or price < known[0]:
                        levels[after.bit_count()][after] = (price, bytes_after, way_after)
            level.clear()
        ways = [way for _, _, way in levels[-1].values()]
        return _listed(ways[0]) if ways else None

    def _run_what_is_free(
        self, peak: int, done: int, live: int, way: _Way | None
    ) -> tuple[int, int, _Way | None]:
        """Run tasks that raise neither the peak nor what is alive, until there is none."""
        again = True
        while again:
            again = False
            for i in self._ready(done):
                added, stays = self._step(i, done)
                if stays <= 0 and live + added <= peak:
                    done, live, way = done | 1 << i, live + stays, (i, way)
                    again = True
        return done, live, way

    def _step(self, i: int, done: int) -> tuple[int, int]:
        after = done | 1 << i
        reads = self.graph.tasks[i].reads
        return self.graph.step(i, [v for v in reads if self.readers[v] & after == self.readers[v]])

    def _ready(self, done: int) -> list[int]:
        return [
            i for i, needs in enumerate(self.needs) if not done >> i & 1 and needs & done == needs
        ]


def _listed(way: _Way | None) -> list[int]:
    order = []
    while way is not None:
        task, way = way
        order.append(task)
    return order[::-1]


def heuristic_orders(graph: TaskGraph) -> list[list[int]]:
    """Return orders in time that grows with the edges (times a logarithm)."""
    room = _room_needed(graph)

    def as_written(i: int) -> int:
        return i

    def by_room(i: int) -> int:
        return -room[i]

    roots = [i for i, users in enumerate(graph.users) if not users]
    orders = [
        _depth_first(graph, roots[::step], key) for key in (by_room, as_written) for step in (1, -1)
    ]
    return [*orders, _Runner(graph).by_freed_bytes()]


def _room_needed(graph: TaskGraph) -> list[int]:
    """Return what each task needs for itself and all before it, less what it leaves behind.

    The order of operands by this number is the best one for a tree (Liu 1987).
    """
    peaks: list[int] = []
    room: list[int] = []
    left: list[int] = []
    for i, task in enumerate(graph.tasks):
        last = [value for value in task.reads if graph.readers[value] == {i}]
        held, peak = 0, 0
        for needed in sorted(task.needs, key=lambda n: -room[n]):
            peak = max(peak, held + peaks[needed])
            held += left[needed]
        added, _ = graph.step(i, last)
        peaks.append(max(peak, held + added))
        left.append(sum(graph.sizes[value] for value in task.writes))
        room.append(peaks[i] - left[i])
    return room


def _depth_first(graph: TaskGraph, roots: Sequence[int], key: Callable[[int], int]) -> list[int]:
    """Order depth first from the roots; what frees memory runs as soon as it can."""
    runner = _Runner(graph)
    for root in roots:
        stack = [root]
        while stack:
            i = stack[-1]
            waits = [needed for needed in graph.tasks[i].needs if not runner.is_done[needed]]
            if waits and not runner.is_done[i]:
                stack += sorted(waits, key=key, reverse=True)
                continue
            stack.pop()
            if not runner.is_done[i]:
                runner.run(i)
                runner.run_what_frees()
    return runner.order


class _Runner:
    """Runs tasks one by one and knows which are ready and what each would free."""

    def __init__(self, graph: TaskGraph) -> None:
        self.graph = graph
        self.order: list[int] = []
        self.is_done = [False] * len(graph)
        self.waits_for = [len(task.needs) for task in graph.tasks]
        self.left = [set(readers) for readers in graph.readers]
        self.small = max(graph.sizes, default=0) // 1024
        """Bytes that are as good as none."""
        self.ready: list[tuple[int, int, int]] = []
        """What a ready task adds, minus the time of this entry, the task: a heap."""
        self.entries = 0
        for i, count in enumerate(self.waits_for):
            if not count:
                self._offer(i)

    def stays(self, i: int) -> int:
        """Return the bytes that a task would add for good now."""
        last = [value for value in self.graph.tasks[i].reads if self.left[value] == {i}]
        return self.graph.step(i, last)[1]

    def _offer(self, i: int) -> None:
        # Of equals the one that became ready last: it goes on with what was begun.
        self.entries += 1
        heapq.heappush(self.ready, (self.stays(i), -self.entries, i))

    def run(self, i: int) -> None:
        """Run a task; what it makes ready, or makes the last reader of a value, is priced."""
        self.order.append(i)
        self.is_done[i] = True
        for value in self.graph.tasks[i].reads:
            self.left[value].discard(i)
            if len(self.left[value]) == 1:
                (reader,) = self.left[value]
                if reader < len(self.graph) and not self.waits_for[reader]:
                    self._offer(reader)
        for user in self.graph.users[i]:
            self.waits_for[user] -= 1
            if not self.waits_for[user]:
                self._offer(user)

    def run_what_frees(self) -> None:
        """Run ready tasks that add next to nothing, until there is none."""
        while self.ready and (self.ready[0][0] <= self.small or self.is_done[self.ready[0][2]]):
            i = heapq.heappop(self.ready)[2]
            if not self.is_done[i]:
                self.run(i)

    def by_freed_bytes(self) -> list[int]:
        """Return the order in which the ready task that adds least is next."""
        while self.ready:
            i = heapq.heappop(self.ready)[2]
            if not self.is_done[i]:
                self.run(i)
        return self.order


__all__ = ["NEGLIGIBLE_SHARE", "beam_order", "candidate_orders", "exact_order", "heuristic_orders"]
