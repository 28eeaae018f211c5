"""Rules of reductions: by a known op, for the first extreme, or with any function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert
from tracer.array.dispatch import apply
from tracer.ir import Op
from tracer.lax.halves import of_elements
from tracer.numpy.associative import reduce_by_halves
from tracer.numpy.ufunc import compare, full_like
from tracer.ops.reduce import highest, lowest
from tracer.ops.rules import dtype_kind, is_float, is_inexact
from tracer.stablehlo import bodies
from tracer.stablehlo.table import Instruction, rule

Axes = tuple[int, ...]
_BOOLEAN = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}
_REDUCTIONS: dict[str, tuple[Op, Op, Callable[[np.dtype[Any]], Any]]] = {
    "add": (ops.reduce_add, ops.add, lambda dtype: 0),
    "multiply": (ops.reduce_multiply, ops.multiply, lambda dtype: 1),
    "maximum": (ops.reduce_maximum, ops.maximum, lowest),
    "minimum": (ops.reduce_minimum, ops.minimum, highest),
    "and": (
        ops.reduce_and,
        ops.and_,
        lambda dtype: True if dtype.kind == "b" else np.invert(np.zeros((), dtype)),
    ),
    "or": (ops.reduce_or, ops.or_, lambda dtype: False if dtype.kind == "b" else 0),
}
"""The reduction by a combiner, the combiner, and what it starts with."""


@rule("stablehlo.reduce")
def reduce_axes(instruction: Instruction, *operands: Array) -> Sequence[Array]:
    """Reduce along axes."""
    count = len(operands) // 2
    arrays, starts = operands[:count], operands[count:]
    axes = tuple(instruction.attributes["dimensions"])
    (body,) = instruction.operation.regions
    shape = instruction.result.shape
    names = bodies.combiners(body)
    if names is not None and all(_is_known(n, x) for n, x in zip(names, arrays, strict=True)):
        return [
            _reduced(name, x, start, instruction.known(count + k), axes)
            for k, (name, x, start) in enumerate(zip(names, arrays, starts, strict=True))
        ]
    direction = _direction(instruction, arrays) if axes else None
    if direction is not None:
        return _first_extreme(instruction, direction, operands, axes)
    initial = [broadcast(x, shape) for x in starts]
    if 0 in arrays[0].shape:
        return initial

    def combine(*pairs: Array) -> tuple[Array, ...]:
        return tuple(instruction.run(body, pairs))

    reduced = reduce_by_halves(arrays, axes, of_elements(combine, arrays[0].ndim))
    return _joined(instruction, initial, reduced)


def _joined(
    instruction: Instruction, initial: Sequence[Array], results: Sequence[Array]
) -> Sequence[Array]:
    """Combine with what the reduction starts with."""
    (body,) = instruction.operation.regions

    def combine(*pairs: Array) -> tuple[Array, ...]:
        return tuple(instruction.run(body, pairs))

    return of_elements(combine, results[0].ndim)(*initial, *results)


def combiner_of(name: str, dtype: np.dtype[Any]) -> str:
    """Return the combiner by name; arithmetic of truth values is logic."""
    return _BOOLEAN.get(name, name) if dtype.kind == "b" else name


def _is_known(name: str, x: Array) -> bool:
    name = combiner_of(name, x.dtype)
    return name in _REDUCTIONS or (name == "xor" and x.dtype.kind == "b")


def starts_with(
    known: np.ndarray[Any, Any] | None, identity: Callable[[np.dtype[Any]], Any]
) -> bool:
    """Tell whether a reduction starts with what changes nothing, the sign of zero included."""
    if known is None:
        return False
    wanted = np.array(identity(known.dtype), known.dtype)
    return known.tobytes() == wanted.tobytes()


def _reduced(
    name: str, x: Array, start: Array, known: np.ndarray[Any, Any] | None, axes: Axes
) -> Array:
    name = combiner_of(name, x.dtype)
    if name == "xor":
        return apply(ops.xor, broadcast(start, _parity(x, axes).shape), _parity(x, axes))
    reduction, combiner, identity = _REDUCTIONS[name]
    if name == "add" and is_inexact(x.dtype) and starts_with(known, lambda dtype: -0.0):
        return apply(ops.reduce_partial_sums, x, axes=axes) if axes else x
    result = apply(reduction, x, axes=axes) if axes else x
    if starts_with(known, identity) and (axes or name != "add"):
        return result
    return apply(combiner, broadcast(start, result.shape), result)


def _parity(x: Array, axes: Axes) -> Array:
    """Tell of which truth values an odd number are true."""
    count = convert(x, np.dtype(np.uint32))
    count = apply(ops.reduce_add, count, axes=axes) if axes else count
    return convert(apply(ops.and_, count, full_like(count, 1)), np.dtype(bool))


def _direction(instruction: Instruction, arrays: Sequence[Array]) -> str | None:
    """Return "GT" or "LT" for a reduction of pairs that finds the first extreme."""
    kinds = [dtype_kind(x.dtype) for x in arrays]
    if len(arrays) != 2 or kinds[0] not in "biuf" or kinds[1] not in "iu" or 0 in arrays[0].shape:
        return None
    (body,) = instruction.operation.regions
    return bodies.extreme(body, instruction.module, is_float=is_float(arrays[0].dtype))


def _first_extreme(
    instruction: Instruction, direction: str, operands: Sequence[Array], axes: Axes
) -> Sequence[Array]:
    """Find the extreme along axes, and the smallest place where it is."""
    x, places, *starts = operands
    reduction, find, least = (
        (ops.reduce_maximum, ops.argmax, lowest)
        if direction == "GT"
        else (ops.reduce_minimum, ops.argmin, highest)
    )
    best = apply(reduction, x, axes=axes)
    initial = [broadcast(start, best.shape) for start in starts]
    if len(axes) != 1 or not _counts(places, axes[0]):
        return _joined(instruction, initial, [best, _smallest_place(x, best, places, axes)])
    found = [best, apply(find, x, axis=axes[0], index_dtype=places.dtype)]
    # Where nothing is larger than what it starts with, the first place is that of it too: 0.
    is_plain = starts_with(instruction.known(2), least)
    is_plain = is_plain and starts_with(instruction.known(3), lambda dtype: 0)
    return found if is_plain else _joined(instruction, initial, found)


def _smallest_place(x: Array, best: Array, places: Array, axes: Axes) -> Array:
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    spread = apply(ops.broadcast_in_dim, best, shape=x.shape, dimensions=kept)
    is_best = compare(x, spread, "EQ")
    if is_float(x.dtype):
        both = apply(ops.and_, compare(x, x, "NE"), compare(spread, spread, "NE"))
        is_best = apply(ops.or_, is_best, both)
    last = full_like(places, np.iinfo(places.dtype).max)
    return apply(ops.reduce_minimum, apply(ops.select, is_best, places, last), axes=axes)


def _counts(places: Array, axis: int) -> bool:
    """Tell whether an array was made by counting along an axis."""
    value: Any = getattr(places, "value", None)
    node = None if value is None else value.node
    while node is not None and node.op is ops.broadcast_in_dim:
        dimensions = node.params["dimensions"]
        if axis not in dimensions:
            return False
        axis = dimensions.index(axis)
        node = node.operands[0].node
    return node is not None and node.op is ops.iota and node.params["dimension"] == axis


@rule("stablehlo.map")
def map_elements(instruction: Instruction, *arrays: Array) -> Sequence[Array]:
    """Apply a function to each element."""
    (body,) = instruction.operation.regions

    def function(*scalars: Array) -> tuple[Array, ...]:
        return tuple(instruction.run(body, scalars))

    return of_elements(function, arrays[0].ndim)(*arrays)
