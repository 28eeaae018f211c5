"""A cache of what was found for loops, shared by equal loops.

A program of equal layers asks the same questions for each of them, under every setting of the split
pass: how much memory a trip takes, how long it runs, whether its body is split again. Loops are
equal if they compute the same on operands of the same types. Bodies are equal if they are the same
program from the same lines of the user's code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from tracer.ir import Builder, Graph, Value
from tracer.ir.graph import param_key
from tracer.optimizer.budget import spend
from tracer.optimizer.loops.split.carry import carry_types
from tracer.optimizer.loops.split.generated import generated_nodes
from tracer.optimizer.loops.split.grouping import Loop
from tracer.optimizer.loops.split.levels import Stream
from tracer.optimizer.loops.split.loop import SliceEmitter, build_body
from tracer.optimizer.loops.split.region import Pieces, Region, Subject
from tracer.optimizer.model.liveness import body_extra_bytes
from tracer.optimizer.model.speed import trip_seconds
from tracer.target import Target

Key = tuple[Hashable, ...]
Tiled = tuple[Graph, tuple[Any, ...], tuple[str, ...]]
"""A body that was split again, or not; the rows of its loops; what the log says was applied."""


@dataclass(frozen=True)
class Trips:
    """What a trip of a loop takes, given its rows.

    Attributes
    ----------
    nbytes : callable
        Bytes beyond the loop's carries and what it reads.
    seconds : callable
        Seconds by the time model.
    body : callable
        The loop's body.
    """

    nbytes: Callable[[int], int]
    seconds: Callable[[int], float]
    body: Callable[[int], Graph]


@dataclass
class SplitCache:
    """What is known about loops and bodies, for any region and setting.

    Only for graphs that are looked at under the same assumptions on the device
    (`optimizer/model/costs.py`), such as those of one planner.
    """

    _numbers: dict[Hashable, int] = field(default_factory=dict)
    _nbytes: dict[Key, int] = field(default_factory=dict)
    _seconds: dict[Key, float] = field(default_factory=dict)
    _bodies: dict[Key, Graph] = field(default_factory=dict)
    _tiled: dict[Key, Tiled] = field(default_factory=dict)

    def trips(self, subject: Subject, region: Region, loop: Loop, machine: Target) -> Trips:
        """Return the cost of a loop's trips."""
        # A number in the signature's place: it is long, and hashed for each look.
        number = self._numbers.setdefault(signature(loop, region), len(self._numbers))
        key = (number, region.length, region.extent, machine)

        @functools.cache
        def body(rows: int) -> Graph:
            spend(len(loop.nodes))
            return _body(subject, region, loop, rows)

        def nbytes(rows: int) -> int:
            if (*key, rows) not in self._nbytes:
                self._nbytes[*key, rows] = body_extra_bytes(body(rows))
            return self._nbytes[*key, rows]

        def seconds(rows: int) -> float:
            if (*key, rows) not in self._seconds:
                self._seconds[*key, rows] = trip_seconds(body(rows), machine)
            return self._seconds[*key, rows]

        return Trips(nbytes, seconds, body)

    def body(self, body: Graph) -> Graph:
        """Return the first body that is the same program of the same lines; often this one."""
        sources = tuple([node.source for node in body.nodes])
        return self._bodies.setdefault((body.fingerprint, sources), body)

    def tiled(
        self, body: Graph, pieces: Pieces, settings: Hashable, tile: Callable[[], Tiled]
    ) -> Tiled:
        """Return what splitting a body again gives, found once for each setting."""
        folds = tuple([i for i, node in enumerate(body.nodes) if node in pieces.folds])
        key = (body, folds, settings)
        if key not in self._tiled:
            self._tiled[key] = tile()
        return self._tiled[key]


def _body(subject: Subject, region: Region, loop: Loop, rows: int) -> Graph:
    emitter = SliceEmitter(subject, region, loop)
    with Builder() as scratch:
        carries = [scratch.input(type) for type in carry_types(subject, loop)]
        return build_body(emitter, carries, rows, region.length)[0]


def signature(loop: Loop, region: Region) -> Hashable:
    """Return a key that is equal for loops that compute the same from other values."""
    numbers: dict[Value, int] = {}
    parts: list[Hashable] = [loop.is_backward]
    for node, label in loop.nodes:
        read = tuple([numbers.setdefault(value, len(numbers)) for value in node.operands])
        made = tuple([numbers.setdefault(value, len(numbers)) for value in node.results])
        params = tuple([(key, param_key(value)) for key, value in sorted(node.params.items())])
        is_head = loop.heads.get(node) == label
        stream = _corrected(loop.streams[node], numbers) if node in loop.streams else None
        parts.append((node.name, params, node.types, label, is_head, read, made, stream))
    names = tuple([_named(value, region) for value in numbers])
    return (names, tuple(loop.heads.values()), *parts)


def _corrected(stream: Stream, numbers: dict[Value, int]) -> Hashable:
    """Return how a sum is corrected, with numbers for values; those that are new get one."""
    parts: list[Hashable] = []
    for term in stream.factors:
        reference, anchor = term.reference, term.reference.anchor
        value = numbers.setdefault(reference.value, len(numbers))
        maximum = None
        if anchor is not None:
            maximum = (numbers.setdefault(anchor.maximum, len(numbers)), anchor.places)
        parts.append((value, maximum, reference.is_shift, term.weight, term.places))
    return tuple(parts)


def _named(value: Value, region: Region) -> Hashable:
    """Return what a body knows of a value: scalar constants, and how masks are made, are in it."""
    node = value.node
    made = generated_nodes(value, region)
    if made:
        return value.type, tuple((inner.name, inner.types) for inner in made)
    if node.operands or node.types[0].ndim:
        return value.type, node.name
    return value.type, node.name, tuple(param_key(node.params[key]) for key in sorted(node.params))
