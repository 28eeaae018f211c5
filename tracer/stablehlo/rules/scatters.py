"""Rules of scatter: updates that are combined into arrays at computed places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import scalar
from tracer.array.dispatch import apply
from tracer.control import fori_loop
from tracer.lax.halves import of_elements
from tracer.numpy.associative import Combine
from tracer.numpy.bounds import INDEX_DTYPE
from tracer.stablehlo import bodies
from tracer.stablehlo.indices import wide
from tracer.stablehlo.table import Instruction, rule

_COMBINERS = ("add", "multiply", "maximum", "minimum", "replace")
_BOOLEAN = {"or": "maximum", "and": "minimum", "add": "maximum", "multiply": "minimum"}
"""What logic is for truth values that are ordered."""
Arrays = Sequence[Array]


@rule("stablehlo.scatter")
def scatter(instruction: Instruction, *operands: Array) -> list[Array]:
    """Combine updates into arrays at computed places; those out of bounds are dropped."""
    count = len(operands) // 2
    arrays, indices, updates = operands[:count], wide(operands[count]), operands[count + 1 :]
    places = _Places(instruction.attributes["scatter_dimension_numbers"])
    is_unique = bool(instruction.attributes.get("unique_indices", False))
    combiners = _combiners(instruction)
    if combiners is not None:
        return [
            places.scatter(x, indices, new, combiner, is_unique=is_unique)
            for combiner, x, new in zip(combiners, arrays, updates, strict=True)
        ]
    (body,) = instruction.operation.regions
    joined = of_elements(lambda *e: tuple(instruction.run(body, e)), updates[0].ndim)
    if is_unique or not updates[0].size:
        return places.join(arrays, indices, updates, joined)
    return _one_after_the_other(places, arrays, indices, updates, joined)


def _combiners(instruction: Instruction) -> list[str] | None:
    """Return the combiner of each operand by the names of `ops.scatter`."""
    (body,) = instruction.operation.regions
    names = bodies.combiners(body)
    if names is None:
        return None
    found = [
        _BOOLEAN.get(name, name) if type.dtype.kind == "b" else name
        for name, type in zip(names, instruction.results, strict=True)
    ]
    return found if set(found) <= set(_COMBINERS) else None


@dataclass(frozen=True)
class _Places:
    """Which axes of indices, updates and arrays belong together."""

    numbers: Any

    def scatter(
        self, x: Array, indices: Array, updates: Array, combiner: str, *, is_unique: bool
    ) -> Array:
        numbers = self.numbers
        return apply(
            ops.scatter,
            x,
            indices,
            updates,
            combiner=combiner,
            update_window_dims=numbers["update_window_dims"],
            inserted_window_dims=numbers["inserted_window_dims"],
            scatter_dims_to_operand_dims=numbers["scattered_dims_to_operand_dims"],
            index_vector_dim=numbers["index_vector_dim"],
            unique_indices=is_unique,
            input_batching_dims=numbers["input_batching_dims"],
            scatter_indices_batching_dims=numbers["scatter_indices_batching_dims"],
        )

    def gather(self, x: Array, indices: Array, like: Array) -> Array:
        """Read what updates of a shape are combined with."""
        numbers = self.numbers
        single = {*numbers["inserted_window_dims"], *numbers["input_batching_dims"]}
        sizes = iter(like.shape[axis] for axis in numbers["update_window_dims"])
        return apply(
            ops.gather,
            x,
            indices,
            offset_dims=numbers["update_window_dims"],
            collapsed_slice_dims=numbers["inserted_window_dims"],
            start_index_map=numbers["scattered_dims_to_operand_dims"],
            index_vector_dim=numbers["index_vector_dim"],
            slice_sizes=tuple(1 if axis in single else next(sizes) for axis in range(x.ndim)),
            operand_batching_dims=numbers["input_batching_dims"],
            start_indices_batching_dims=numbers["scatter_indices_batching_dims"],
        )

    def join(self, arrays: Arrays, indices: Array, updates: Arrays, joined: Combine) -> list[Array]:
        """Combine windows of which no two meet; what is out of bounds is read, and not written."""
        old = [self.gather(x, indices, new) for x, new in zip(arrays, updates, strict=True)]
        return [
            self.scatter(x, indices, y, "replace", is_unique=True)
            for x, y in zip(arrays, joined(*old, *updates), strict=True)
        ]

    def axes(self, indices: Array, updates: Array) -> list[tuple[int, int]]:
        """Return the axes along which windows are counted, of indices and of updates."""
        windows = self.numbers["update_window_dims"]
        of_updates = [axis for axis in range(updates.ndim) if axis not in windows]
        vector = self.numbers["index_vector_dim"]
        of_indices = [axis for axis in range(indices.ndim) if axis != vector]
        # Windows of a batch are in parts of their own.
        batch = self.numbers["scatter_indices_batching_dims"]
        pairs = zip(of_indices, of_updates, strict=True)
        return [pair for pair in pairs if pair[0] not in batch]


def _one_after_the_other(
    places: _Places, arrays: Arrays, indices: Array, updates: Arrays, joined: Combine
) -> list[Array]:
    """Combine window by window, in the order of the updates: windows may meet."""
    axes = places.axes(indices, updates[0])
    sizes = [indices.shape[axis] for axis, _ in axes]

    def step(number: Any, current: Any) -> Any:
        starts = []
        for size in reversed(sizes):
            starts.append(number % size)
            number = number // size
        starts.reverse()
        index = _taken(indices, [axis for axis, _ in axes], starts)
        new = [_taken(x, [axis for _, axis in axes], starts) for x in updates]
        return tuple(places.join(current, index, new, joined))

    return list(fori_loop(0, math.prod(sizes), step, tuple(arrays)))


def _taken(x: Array, axes: Sequence[int], starts: Sequence[Array]) -> Array:
    """Return one element along some axes, which stay."""
    places = dict(zip(axes, starts, strict=True))
    first = [places.get(axis, scalar(0, INDEX_DTYPE)) for axis in range(x.ndim)]
    sizes = tuple(1 if axis in places else n for axis, n in enumerate(x.shape))
    return apply(ops.dynamic_slice, x, *first, sizes=sizes)
