"""Sorting and the k largest. Source: StableHLO (sort) and CHLO (top_k) specifications.

NumPy's order: NaN last, -0 equal to +0, complex numbers by real, then by imaginary part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import AxisRule, Cost, NotDifferentiable, Op, ShapeDtype, Value
from tracer.ir.library_calls import SortCall, argsort_bytes, merging_bytes
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.batch import leading
from tracer.ops.merges import largest_k
from tracer.ops.reduce import lowest
from tracer.ops.rules import (
    is_float,
    is_inexact,
    merged_axis_rule,
    moved_bytes,
    own_axis_rule,
    require_axes,
    require_kind,
    require_same_shapes,
    widened,
)
from tracer.ops.selection import top_k_cost

Array = np.ndarray[Any, Any]
Cotangents = tuple[Value | None, ...]


def _infer_sort(
    *types: ShapeDtype, dimension: int, num_keys: int, is_stable: bool
) -> tuple[ShapeDtype, ...]:
    if not 1 <= num_keys <= len(types):
        raise ArgumentError(
            f"sort of {len(types)} operands by {num_keys} keys",
            mend="give one key or more, and at most as many as there are operands",
        )
    require_same_shapes("sort", types)
    require_axes("sort", (dimension,), types[0].ndim)
    return types


def _evaluate_sort(*arrays: Array, dimension: int, num_keys: int, is_stable: bool) -> Any:
    keys: list[Array] = []
    for array in arrays[:num_keys]:
        keys.extend([array.real, array.imag] if array.dtype.kind == "c" else [widened(array)])
    # lexsort is stable, and its last key counts most.
    order = np.lexsort(keys[::-1], axis=dimension)
    return tuple(np.take_along_axis(array, order, dimension) for array in arrays)


def _parts(b: Any, x: Any) -> list[Any]:
    return [b.real(x), b.imag(x)] if x.dtype.kind == "c" else [x]


def _precedes(b: Any, pairs: Sequence[tuple[Any, Any]]) -> Any:
    """Compare lexicographically; NaN comes after all numbers and equals NaN."""
    (x, y), *rest = pairs
    before, equal = b.compare("LT", x, y), None
    if x.dtype.kind not in "biu":
        x_is_nan, y_is_nan = b.compare("NE", x, x), b.compare("NE", y, y)
        before = b.or_(before, b.and_(y_is_nan, b.compare("EQ", x, x)))
        equal = b.and_(x_is_nan, y_is_nan)
    if not rest:
        return before
    same = b.compare("EQ", x, y)
    same = same if equal is None else b.or_(same, equal)
    return b.or_(before, b.and_(same, _precedes(b, rest)))


def _lower_sort(
    b: Any, types: Types, *operands: Any, dimension: int, num_keys: int, is_stable: bool
) -> Any:
    def comparator(b: Any, *pairs: Any) -> Any:
        parts: list[tuple[Any, Any]] = []
        for i in range(num_keys):
            parts.extend(zip(_parts(b, pairs[2 * i]), _parts(b, pairs[2 * i + 1]), strict=True))
        return _precedes(b, parts)

    return b.sort(operands, dimension, comparator, is_stable)


def _linearize_sort(
    rules: Any,
    active: Sequence[bool],
    wanted: Sequence[bool],
    *operands: Value,
    dimension: int,
    num_keys: int,
    is_stable: bool,
) -> tuple[tuple[Value, ...], Callable[[Cotangents], Cotangents]]:
    """Sort an iota along to learn the permutation, and send each cotangent back by it."""
    last = operands[-1].node
    numbered = last.op is ops.iota and last.params["dimension"] == dimension
    if numbered and len(operands) > num_keys:
        more: tuple[Value, ...] = ()
    else:
        dtype = np.dtype(np.int32)
        more = (ops.iota(shape=operands[0].shape, dtype=dtype, dimension=dimension),)
    params = {"dimension": dimension, "num_keys": num_keys, "is_stable": is_stable}
    everything = tuple(ops.sort(*operands, *more, **params))
    results, permutation = everything[: len(operands)], everything[-1]

    def pull_back(g: Cotangents) -> Cotangents:
        return tuple(
            helpers.scatter_add_along_axis(ct.shape, permutation, ct, dimension)
            if ct is not None and flag
            else None
            for ct, flag in zip(g, active, strict=True)
        )

    return results, pull_back


_STABLE_BYTES = 16
"""Bytes for each element and operand in the buffer of a stable sort of several arrays."""

PLACE_BITS = 31
"""Bits of a place along an axis, of 64 that hold a key, its place, and whether it is -0."""


def sort_call(operands: Types, *, dimension: int, num_keys: int, is_stable: bool) -> SortCall:
    """Return how many elements may be sorted by one array, or by the orders of several."""
    key, line = operands[0], operands[0].shape[dimension]
    if num_keys > 1 or key.dtype.kind == "c":
        orders = num_keys + sum(type.dtype.kind == "c" for type in operands[:num_keys])
        packing = _stable_bytes(operands, line, is_stable)
        return SortCall(key.size, line, 8, True, packing, orders=orders)
    if len(operands) == 1:
        itemsize, is_number = key.dtype.itemsize, is_float(key.dtype)
        packing = merging_bytes(line, itemsize) if is_stable else 0
        is_single = itemsize > 2 or not is_number
        apart = _apart_bytes(key, dimension)
        return SortCall(
            key.size, line, itemsize, is_number, packing, is_single=is_single, apart_bytes=apart
        )
    is_wide = key.dtype.itemsize > 4 or line > 1 << PLACE_BITS
    packing = _stable_bytes(operands, line, is_stable)
    return SortCall(key.size, line, 8, True, packing, orders=int(is_wide))


def _apart_bytes(x: ShapeDtype, dimension: int) -> int:
    """Return the bytes of a line along an axis if its elements lie apart, else 0."""
    is_apart = math.prod(x.shape[dimension + 1 :]) > 1
    return x.shape[dimension] * x.dtype.itemsize if is_apart else 0


def _stable_bytes(operands: Types, line: int, is_stable: bool) -> int:
    return _STABLE_BYTES * len(operands) * line if is_stable and len(operands) > 1 else 0


def _sort_cost(operands: Types, results: Types, **params: Any) -> Cost:
    """About n log2 n comparisons along the axis; a copy as integers is the target's to say.

    A stable sort goes through a buffer for one line (docs/memory-model.md).
    """
    line, elements = operands[0].shape[params["dimension"]], operands[0].size
    steps = max(line - 1, 0).bit_length()
    moved = (1 + steps) * moved_bytes(operands, results)
    return Cost(elements * steps, moved, calls=(sort_call(operands, **params),))


sort: Op = Op(
    "sort",
    doc="Sort several arrays together along one dimension by the first `num_keys` of them. A sort "
    "that is not stable may order equal keys in any way, but moves all operands the same way. Of a "
    "single operand, -0 may come before +0.",
    infer=_infer_sort,
    evaluate=_evaluate_sort,
    lower=_lower_sort,
    vjp=NotDifferentiable("it is differentiated by its linearize rule"),
    linearize=_linearize_sort,
    axes=lambda operands, results, *, dimension, **_: own_axis_rule(operands, results, dimension),
    cost=_sort_cost,
    reuses=(0,),
    fusion="opaque",
    batch=leading("dimension"),
    jumps=(0,),
)


def _require_numpy_s(name: str, x: ShapeDtype) -> None:
    """Refuse complex numbers, and narrow floats: NumPy has no vectors for them, or no order."""
    require_kind(name, x, "biuf")
    if is_float(x.dtype) and x.dtype.itemsize < 4:
        raise DTypeError(f"{name} of {x}", mend="sort integers of the same order (`sort_keys`)")


def _infer_numpy_sort(x: ShapeDtype, *, dimension: int) -> ShapeDtype:
    _require_numpy_s("numpy_sort", x)
    require_axes("numpy_sort", (dimension,), x.ndim)
    return x


def _evaluate_numpy_sort(x: Array, *, dimension: int) -> Array:
    return np.take_along_axis(x, np.argsort(widened(x), axis=dimension, kind="stable"), dimension)


def _numpy_sort_cost(operands: Types, results: Types, *, dimension: int) -> Cost:
    """Count a line's copy where its elements lie apart."""
    (x,) = operands
    steps = max(x.shape[dimension] - 1, 0).bit_length()
    packing = _apart_bytes(x, dimension)
    return Cost(x.size * steps, moved_bytes(operands, results), packing, packing=packing)


numpy_sort: Op = Op(
    "numpy_sort",
    doc="One array sorted along an axis by NumPy. -0 may come before +0 or behind it, and NaNs, "
    "which come last, may have other bits.",
    infer=_infer_numpy_sort,
    evaluate=_evaluate_numpy_sort,
    lower=lambda b, types, x, *, dimension: b.numpy_call(types, x, "sort", dimension),
    vjp=NotDifferentiable("sorts become it after they are differentiated"),
    axes=lambda operands, results, *, dimension: own_axis_rule(operands, results, dimension),
    cost=_numpy_sort_cost,
    reuses=(0,),
    calls_host=True,
    known_as="sort",
    batch=leading("dimension"),
    jumps=(0,),
)


def _infer_numpy_argsort(x: ShapeDtype) -> ShapeDtype:
    _require_numpy_s("numpy_argsort", x)
    if x.ndim == 0:
        raise ShapeError("numpy_argsort of a scalar", mend="give an array of one axis or more")
    return x.with_dtype(np.int64)


def _numpy_argsort_cost(operands: Types, results: Types) -> Cost:
    """Count the copies of lines that are ordered at a time: elements, orders and numbers."""
    (x,) = operands
    steps = max(x.shape[-1] - 1, 0).bit_length()
    packing = argsort_bytes(x.size, x.shape[-1])
    return Cost(x.size * steps, moved_bytes(operands, results), packing, packing=packing)


numpy_argsort: Op = Op(
    "numpy_argsort",
    doc="The int64 places of the elements along the last axis in their order, equal ones in that "
    "of their places. NaNs, which are equal, come last.",
    infer=_infer_numpy_argsort,
    evaluate=lambda x: np.argsort(widened(x), axis=-1, kind="stable"),
    lower=lambda b, types, x: b.numpy_call(types, x, "argsort", x.type.ndim - 1),
    vjp=NotDifferentiable("sorts become it after they are differentiated"),
    axes=lambda operands, results: own_axis_rule(operands, results, operands[0].ndim - 1),
    cost=_numpy_argsort_cost,
    calls_host=True,
    known_as="sort",
    jumps=(0,),
)


def _infer_top_k(x: ShapeDtype, *, k: int) -> tuple[ShapeDtype, ShapeDtype]:
    require_kind("top_k", x, "iuf")
    if x.ndim == 0 or not 0 <= k <= x.shape[-1]:
        raise ShapeError(
            f"top_k: cannot take {k} elements of the last axis of {x}",
            mend="choose k between 0 and the size of the last axis",
        )
    values = x.resized(x.ndim - 1, k)
    return values, values.with_dtype(np.int32)


def _evaluate_top_k(x: Array, *, k: int) -> Any:
    # A stable ascending order of the flipped array, read backwards: lowest index first in ties.
    ascending = np.argsort(widened(x)[..., ::-1], axis=-1, kind="stable")
    indices = (x.shape[-1] - 1 - ascending[..., ::-1])[..., :k]
    return np.take_along_axis(x, indices, -1), indices.astype(np.int32)


def _top_k_vjp(
    g: tuple[Value | None, None], out: tuple[Value, Value], x: Value, *, k: int
) -> tuple[Value | None]:
    if g[0] is None or not is_inexact(x.dtype):
        return (None,)
    axis = len(x.shape) - 1
    return (helpers.scatter_add_along_axis(x.shape, out[1], g[0], axis),)


def _top_k_axes(operands: Types, results: Types, *, k: int) -> AxisRule:
    axis = operands[0].ndim - 1
    if not k:
        return own_axis_rule(operands, results, axis)
    return merged_axis_rule("top_k", operands, results, axis)


top_k: Op = Op(
    "top_k",
    doc="The k largest elements of the last axis in descending order, and their int32 indices. "
    "Ties: lowest index first; NaN counts as largest.",
    infer=_infer_top_k,
    evaluate=_evaluate_top_k,
    lower=lambda b, types, x, *, k: b.top_k(types, x, k),
    vjp=_top_k_vjp,
    axes=_top_k_axes,
    cost=top_k_cost,
    fusion="opaque",
    merge=largest_k(lowest),
    neutral=lambda types, **_: (lowest(types[0].dtype),),
    jumps=(0,),
)
