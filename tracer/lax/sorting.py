"""Sorting, and the largest elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, normalize_axis, transpose
from tracer.array.dispatch import apply, apply_many, compound
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import as_dtype
from tracer.lax.operands import integer


def sort(
    operand: Any,
    dimension: int = -1,
    is_stable: bool = True,
    num_keys: int = 1,
) -> Any:
    """Sort an array, or several together by the first of them.

    Parameters
    ----------
    operand : array_like, or tuple or list of array_like
        Arrays of one shape. NaN goes last, and -0 counts as 0; complex numbers are in the order of
        their real parts, then of their imaginary parts.
    dimension : int
        The axis.
    is_stable : bool
        Keep the order of equal elements.
    num_keys : int
        How many of the arrays say the order: the second where the first is equal, and so on.

    Returns
    -------
    Array or tuple of Array
        As `operand`.

    Raises
    ------
    ShapeError, ArgumentError
        Shapes that differ, or more keys than arrays.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> keys, values = lax.sort((tnp.array([3, 1, 2]), tnp.array([0, 1, 2])))
    >>> values.tolist()
    [1, 2, 0]
    """
    is_one = not isinstance(operand, tuple | list)
    arrays = [as_array(x) for x in ([operand] if is_one else operand)]
    count = integer("sort", "num_keys", num_keys)
    if not 1 <= count <= len(arrays):
        raise ArgumentError(
            f"lax.sort: num_keys is {count} for {len(arrays)} arrays",
            mend="give one array or more, and as many keys or fewer",
        )
    if len({x.shape for x in arrays}) > 1:
        raise ShapeError(
            f"lax.sort: arrays of shapes {', '.join(str(x.shape) for x in arrays)}",
            mend="give arrays of one shape",
        )
    axis = normalize_axis(dimension, arrays[0].ndim)
    results = _sort(*arrays, axis=axis, count=count, is_stable=bool(is_stable))
    return results[0] if is_one else results


@compound
def _sort(*arrays: Array, axis: int, count: int, is_stable: bool) -> tuple[Array, ...]:
    return tuple(sorted_together(arrays, axis, count, is_stable))


def sorted_together(
    arrays: Sequence[Array], axis: int, count: int, is_stable: bool
) -> Sequence[Array]:
    """Sort arrays by the first `count` of them."""
    if not any(x.dtype.kind == "c" for x in arrays[:count]):
        return apply_many(ops.sort, *arrays, dimension=axis, num_keys=count, is_stable=is_stable)
    # Complex numbers are in the order of their real parts, then of their imaginary parts.
    keys: list[Array] = []
    for x in arrays[:count]:
        keys += [apply(ops.real, x), apply(ops.imag, x)] if x.dtype.kind == "c" else [x]
    results = apply_many(
        ops.sort, *keys, *arrays, dimension=axis, num_keys=len(keys), is_stable=is_stable
    )
    return results[len(keys) :]


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Sort keys, and values by them; see `sort`."""
    first, second = sort((keys, values), dimension, is_stable, 1)
    return first, second


def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """Return the largest elements, the largest first, and where they are.

    Parameters
    ----------
    operand : array_like
        Real numbers.
    k : int
        How many.
    axis : int
        The axis.

    Returns
    -------
    values : Array
        The elements; NaN counts as the largest.
    indices : Array of int32
        Their places; of equal elements the first.

    Raises
    ------
    ArgumentError
        There are fewer elements than `k`.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> [x.tolist() for x in lax.top_k(tnp.array([1.0, 3.0, 2.0]), 2)]
    [[3.0, 2.0], [1, 2]]
    """
    x = as_array(operand)
    return _largest("top_k", x, k, axis, is_max=True)


def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """Return the largest elements and where they are: exactly, which is more than JAX promises.

    Parameters
    ----------
    operand : array_like
        Floats.
    k : int
        How many.
    reduction_dimension : int
        The axis.
    recall_target, reduction_input_size_override, aggregate_to_topk
        Have no effect.
    """
    del recall_target, reduction_input_size_override, aggregate_to_topk
    return _largest("approx_max_k", _floats("approx_max_k", operand), k, reduction_dimension, True)


def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """Return the smallest elements and where they are; see `approx_max_k`.

    Parameters
    ----------
    operand : array_like
        Floats.
    k : int
        How many.
    reduction_dimension : int
        The axis.
    recall_target, reduction_input_size_override, aggregate_to_topk
        Have no effect.
    """
    del recall_target, reduction_input_size_override, aggregate_to_topk
    return _largest("approx_min_k", _floats("approx_min_k", operand), k, reduction_dimension, False)


def _floats(name: str, operand: ArrayLike) -> Array:
    x = as_array(operand)
    if x.dtype.kind in "biuc":
        raise DTypeError(f"lax.{name} of {x.type}", mend="give floats")
    return x


def _largest(name: str, x: Array, k: int, axis: int, is_max: bool) -> tuple[Array, Array]:
    place = normalize_axis(axis, x.ndim)
    count = integer(name, "k", k)
    if not 0 <= count <= x.shape[place]:
        raise ArgumentError(
            f"lax.{name}: k is {count} for an axis of {x.shape[place]}",
            mend="give as many as there are, or fewer",
        )
    values, indices = _top_k(x, axis=place, k=count, is_max=is_max)
    return values, indices


@compound
def _top_k(x: Array, *, axis: int, k: int, is_max: bool) -> tuple[Array, ...]:
    order = (*(i for i in range(x.ndim) if i != axis), axis)
    back = tuple(order.index(i) for i in range(x.ndim))
    moved = transpose(x, order)
    values, indices = apply_many(ops.top_k, moved if is_max else apply(ops.negate, moved), k=k)
    values = values if is_max else apply(ops.negate, values)
    return transpose(values, back), transpose(convert(indices, as_dtype("int32")), back)
