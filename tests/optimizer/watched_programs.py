"""Programs that show their values: callbacks put among the nodes of any graph, in bodies too."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, HostFunction, Value, interpret

Array = np.ndarray[Any, Any]
Log = list[tuple[int, Array]]


class Watched:
    """A graph with callbacks, and what they saw.

    Parameters
    ----------
    graph : Graph
        What is watched.
    rng : random.Random
        Chooses the values.
    share : float
        How many of them are shown.
    ordered : bool
        Whether the callbacks keep their order.
    """

    def __init__(self, graph: Graph, rng: random.Random, share: float, *, ordered: bool) -> None:
        self.log: Log = []
        self.count = 0
        self._rng, self._share, self.ordered = rng, share, ordered
        self.graph = self._watched(graph)

    def _watched(self, graph: Graph) -> Graph:
        with Builder() as builder:
            values = {value: builder.input(value.type) for value in graph.inputs}
            for value in graph.inputs:
                self._show(values[value])
            for node in graph.nodes:
                bodies = {
                    key: tuple(map(self._watched, body))
                    if isinstance(body, tuple)
                    else self._watched(body)
                    for key, body in node.bodies.items()
                }
                builder.source = node.source
                operands = tuple(values[value] for value in node.operands)
                found = builder.copy(node, operands, **bodies)
                values.update(zip(node.results, found, strict=True))
                for value in found:
                    self._show(value)
            return builder.finish([values[value] for value in graph.outputs])

    def _show(self, value: Value) -> None:
        if self._rng.random() >= self._share:
            return
        number = self.count
        self.count += 1

        def see(x: Array) -> tuple[()]:
            self.log.append((number, x))
            return ()

        function = HostFunction(see, f"callback {number}", ())
        ops.debug_callback(value, function=function, ordered=self.ordered, batch=(), batched=())

    def seen(self, run: Callable[[], Any]) -> Log:
        """Return what is seen while something runs."""
        self.log.clear()
        run()
        return [*self.log]

    def interpreted(self, graph: Graph, arrays: list[Array]) -> Log:
        """Return what is seen while a form of the graph is interpreted."""
        return self.seen(lambda: interpret(graph, arrays))

    def check(self, found: Log, expected: Log, tolerance: float) -> None:
        """Raise unless the same was seen, each value as often, and in the same order."""
        if self.ordered:
            assert [number for number, _ in found] == [number for number, _ in expected]
        got, wanted = by_number(found), by_number(expected)
        assert {key: len(seen) for key, seen in got.items()} == {
            key: len(seen) for key, seen in wanted.items()
        }
        for number, values in wanted.items():
            for one, other in zip(got[number], values, strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def by_number(log: Log) -> dict[int, list[Array]]:
    """Return what each callback saw, in order."""
    found: dict[int, list[Array]] = defaultdict(list)
    for number, value in log:
        found[number].append(value)
    return found
