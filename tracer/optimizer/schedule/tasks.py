"""The scheduling problem of a graph: which values are stored, their dependencies, what they free.

A *task* writes one stored node, including the nodes that XLA fuses into it, so a graph of thousands
of nodes has few tasks. An order is priced as by the peak model (`optimizer/model/liveness.py`),
without its finest points (which temporaries fit into a result that is not written yet). The pass
prices the orders found with the full model before it takes one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracer.ir import Graph, Node, Value, keeps_order
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.model.storage import is_fused
from tracer.optimizer.model.trip_counts import carried_operands, passed_through


@dataclass
class Task:
    """One stored node. Values are numbered; those that never die or cost nothing have no number.

    Attributes
    ----------
    node : Node
    needs : set of int
        Tasks that come before.
    reads, writes : list of int
        Values.
    reuses : list of (int, int)
        (written, read): the first may be written over the second where that dies.
    scratch : int
        Bytes that a library or a loop's body takes while the task runs.
    """

    node: Node
    needs: set[int] = field(default_factory=set)
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    reuses: list[tuple[int, int]] = field(default_factory=list)
    scratch: int = 0


class TaskGraph:
    """The tasks of a graph in its own order, and the bytes of the values between them.

    Parameters
    ----------
    live : Liveness
        The peak model of the graph.
    """

    def __init__(self, live: Liveness) -> None:
        self.live = live
        self.sizes: list[int] = []
        self.readers: list[set[int]] = []
        self.tasks = [Task(node) for node in live.graph.nodes if node in live.stored]
        self._index = {task.node: i for i, task in enumerate(self.tasks)}
        self._numbers: dict[Value, int] = {}
        self._leaves = [self._reads(task.node) for task in self.tasks]
        self._number_inputs()
        for i in range(len(self.tasks)):
            self._fill(i)
        in_order = [i for i, task in enumerate(self.tasks) if keeps_order(task.node)]
        for before, after in itertools.pairwise(in_order):
            self.tasks[after].needs.add(before)
        self.users: list[list[int]] = [[] for _ in self.tasks]
        for i, task in enumerate(self.tasks):
            for needed in task.needs:
                self.users[needed].append(i)

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def key(self) -> tuple[Any, ...]:
        """All that an order and its price depend on: equal for equal problems."""
        tasks = [
            (*sorted(task.needs), -1, *task.reads, -1, *task.writes, *task.reuses, task.scratch)
            for task in self.tasks
        ]
        return (*tasks, tuple(self.sizes), *(tuple(sorted(readers)) for readers in self.readers))

    def _reads(self, node: Node) -> dict[Value, bool]:
        """Return the stored values that a task reads, and whether it may write over them."""
        found = dict(self.live.buffers_read(node))
        if is_fused(node):
            stack = [value for value in found if value.node in self.live.again]
            while stack:
                # The kernel computes it again, from what it is made of.
                for value in self.live.buffers_read(stack.pop().node):
                    if value not in found and value.node in self.live.again:
                        stack.append(value)
                    found.setdefault(value, False)
        return found

    def _number_inputs(self) -> None:
        for value, index in self.live.inputs.items():
            if index in self.live.donated and not self._is_kept(value):
                # Its memory is the caller's all the time, but may be written over.
                self._number(value, 0)

    def _is_kept(self, value: Value) -> bool:
        return self.live.death(value) >= len(self.live.graph.nodes)

    def _number(self, value: Value, nbytes: int) -> int:
        self._numbers[value] = len(self.sizes)
        self.sizes.append(nbytes)
        self.readers.append(set())
        return self._numbers[value]

    def _fill(self, i: int) -> None:
        task, leaves = self.tasks[i], self._leaves[i]
        task.scratch = self.live.scratch_bytes(task.node)
        for value in leaves:
            if value.node in self._index:
                task.needs.add(self._index[value.node])
            number = self._numbers.get(value)
            if number is not None and number not in task.reads:
                task.reads.append(number)
                self.readers[number].add(i)
        for index, value in enumerate(task.node.results):
            self._write(task, index, value)
        self._find_reuses(task, leaves)

    def _write(self, task: Task, index: int, value: Value) -> None:
        if index in passed_through(task.node):
            root = self.live.root(task.node.operands[index])
            if root in self._numbers:
                self._numbers[value] = self._numbers[root]
            return
        kept = self._is_kept(value)
        if not kept or self.live.is_body:
            number = self._number(value, value.type.nbytes)
            task.writes.append(number)
            if kept:
                # A reader that never comes: a body's results live to its end.
                self.readers[number].add(len(self.tasks))

    def _find_reuses(self, task: Task, leaves: dict[Value, bool]) -> None:
        carried = carried_operands(task.node)
        roots = [self.live.root(value) for value in carried]
        for index, result in enumerate(task.node.results):
            written = self._numbers.get(result)
            if written is None or written not in task.writes:
                continue
            over = [roots[index]] if carried else [v for v, in_order in leaves.items() if in_order]
            for value in over:
                number = self._numbers.get(value)
                alike = value.type.size == result.type.size and value.dtype == result.dtype
                if number is not None and alike:
                    task.reuses.append((written, number))

    def leaves(self, i: int) -> Iterable[Value]:
        """Return the stored values and inputs that a task reads."""
        return self.live.buffers_read(self.tasks[i].node)

    def step(self, i: int, is_last: Iterable[int]) -> tuple[int, int]:
        """Return the bytes a task adds while it runs, and those that stay added.

        Parameters
        ----------
        i : int
            The task.
        is_last : iterable of int
            The values it reads that nothing reads after it.
        """
        task, sizes = self.tasks[i], self.sizes
        dying = set(is_last)
        freed = sum([sizes[value] for value in dying])
        added = stays = 0
        for value in task.writes:
            added += sizes[value]
            if self.readers[value]:
                stays += sizes[value]
        free = set(dying)
        placed = set()
        for written, read in task.reuses:
            if read in free and written not in placed:
                free.discard(read)
                placed.add(written)
                added -= sizes[written]
        return added + task.scratch, stays - freed

    def run(self, order: Sequence[int]) -> list[tuple[int, int]]:
        """Return for each task of an order the bytes alive while it runs and after it."""
        left = [len(readers) for readers in self.readers]
        live = 0
        found = []
        for i in order:
            last = []
            for value in self.tasks[i].reads:
                left[value] -= 1
                if not left[value]:
                    last.append(value)
            added, stays = self.step(i, last)
            found.append((live + added, live + stays))
            live += stays
        return found

    def peak(self, order: Sequence[int]) -> int:
        """Return the most bytes alive in an order, in addition to what is always there."""
        return max((during for during, _ in self.run(order)), default=0)

    def lower_bound(self) -> int:
        """Return bytes that every order takes: the largest task with all that it reads."""
        most = 0
        for i, task in enumerate(self.tasks):
            # As if it were the last reader of all: then it may write over what it can.
            held = sum(self.sizes[value] for value in task.reads)
            most = max(most, held + self.step(i, task.reads)[0])
        return most

    def reordered(self, order: Sequence[int]) -> Graph:
        """Return the graph with its tasks in this order, what they compute inside before each."""
        graph, position = self.live.graph, self.live.position
        placed: set[Node] = set()
        nodes: list[Node] = []
        for i in order:
            inside = unplaced_ancestors(self.tasks[i].node, placed)
            nodes += sorted(inside, key=position.__getitem__)
        nodes += [node for node in graph.nodes if node not in placed]
        return Graph(graph.inputs, graph.outputs, nodes)


def unplaced_ancestors(node: Node, placed: set[Node]) -> list[Node]:
    """Return the node and those of its ancestors that are not placed yet; they are now."""
    found = []
    stack = [node]
    while stack:
        current = stack.pop()
        if current in placed or current.op is None:
            continue
        placed.add(current)
        found.append(current)
        stack += [value.node for value in current.operands]
    return found
