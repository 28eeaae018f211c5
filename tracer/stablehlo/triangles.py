"""Results of LAPACK of which programs read one triangle, and what it holds.

LAPACK leaves more in its results than the factor: reflectors below R, the operand's other triangle.
Programs cut it off with `select` and a mask. Where the mask is within the triangle, the factor
alone is as good, and what else the result holds need not be computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.dispatch import apply
from tracer.array.recording import current_recording
from tracer.ir import Node, Value

_MOST_ELEMENTS = 50_000_000
"""Masks of more elements are not looked at."""
_MOST_NODES = 40
_Mask = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Triangle:
    """An array that equals another one within a triangle of its last two axes."""

    factor: Array
    is_lower: bool


@dataclass
class Triangles:
    """What is known of the values that are traced."""

    known: dict[Value, Triangle] = field(default_factory=dict)
    factored: dict[Value, tuple[Array, Array]] = field(default_factory=dict)
    """Reflectors, with the matrix that they are of, and their scales."""

    def enter(self, x: Array, factor: Array, *, is_lower: bool) -> Array:
        """Remember that `x` equals `factor` within a triangle."""
        self.known[value_of(x)] = Triangle(factor, is_lower)
        return x

    def chosen(self, mask: Array, x: Array, *, where: bool) -> Array:
        """Return what may stand for `x`, which is read where the mask is `where`."""
        found = self._find(value_of(x), x.shape)
        if found is None or mask.shape != x.shape:
            return x
        truths = value_of_mask(value_of(mask))
        if truths is None:
            return x
        read = truths if where else ~truths
        outside = np.tril(read, -1) if not found.is_lower else np.triu(read, 1)
        return x if outside.any() else found.factor

    def _find(self, value: Value, shape: tuple[int, ...]) -> Triangle | None:
        """Look a value up, or the rows or columns that were cut from one."""
        found = self.known.get(value)
        node = value.node
        if found is not None or not is_leading_slice(node):
            return found
        whole = self._find(node.operands[0], shape)
        if whole is None:
            return None
        return Triangle(apply(ops.slice, whole.factor, **node.params), whole.is_lower)


def value_of(x: Array) -> Value:
    """Return the value of an array in the active recording; a constant becomes one."""
    recording = current_recording()
    assert recording is not None
    return recording.capture(x)


def is_leading_slice(node: Node) -> bool:
    """Tell whether a node takes the first rows or columns."""
    if node.op is not ops.slice:
        return False
    return not any(node.params["start"]) and set(node.params["strides"]) <= {1}


def value_of_mask(value: Value) -> _Mask | None:
    """Return an array that depends on nothing; None where it does, or is too large."""
    nodes = _above(value) if value.type.size <= _MOST_ELEMENTS else None
    if nodes is None:
        return None
    values: dict[Value, Any] = {}
    for node in nodes:
        assert node.op is not None
        results = node.op.evaluate(*[values[x] for x in node.operands], **node.params)
        results = results if len(node.results) > 1 else (results,)
        values.update(zip(node.results, results, strict=True))
    return np.asarray(values[value])


def _above(value: Value) -> list[Node] | None:
    """Return the nodes that a value depends on, in order; None where it depends on inputs."""
    found: dict[Node, None] = {}
    waiting = [value.node]
    while waiting:
        node = waiting.pop()
        found.pop(node, None)
        found[node] = None
        if node.op is None or len(found) > _MOST_NODES:
            return None
        waiting += [operand.node for operand in node.operands]
    return list(found)[::-1]


def is_zero_outside(x: Array, *, lower: bool) -> bool:
    """Tell whether an array was made with zeros outside of a triangle."""
    node = value_of(x).node
    if node.op is not ops.select:
        return False
    mask, _, other = node.operands
    zeros, truths = value_of_mask(other), value_of_mask(mask)
    if zeros is None or truths is None or zeros.any():
        return False
    outside = np.triu(truths, 1) if lower else np.tril(truths, -1)
    return not outside.any()
