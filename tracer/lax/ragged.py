"""Products of rows that lie in groups, each of which has a matrix of its own."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tracer.numpy as tnp
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays, convert, reshape
from tracer.array.dispatch import compound
from tracer.array.promotion import Dtype
from tracer.autodiff.transforms import vmap
from tracer.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from tracer.lax.operands import axes_of
from tracer.lax.products import (
    DotDimensionNumbers,
    check_precision,
    dot_general,
    result_dtype,
)
from tracer.lax.ragged_loops import ragged_outer, ragged_product
from tracer.lax.shapes import transpose
from tracer.lax.slicing import wide
from tracer.numpy.bounds import INDEX_DTYPE

Axes = tuple[int, ...]


@dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """Which axes are which in `ragged_dot_general`.

    Parameters
    ----------
    dot_dimension_numbers : ((lhs, rhs), (lhs, rhs))
        Pairs of axes that are summed over, and pairs of axes of the batch.
    lhs_ragged_dimensions : sequence of one int
        The axis of `lhs` along which groups lie one behind the other.
    rhs_group_dimensions : sequence of int
        The axis of `rhs` that counts groups; none where the ragged axis is in both arrays.
    """

    dot_dimension_numbers: DotDimensionNumbers
    lhs_ragged_dimensions: Axes
    rhs_group_dimensions: Axes

    def __init__(
        self,
        dot_dimension_numbers: DotDimensionNumbers,
        lhs_ragged_dimensions: Sequence[int],
        rhs_group_dimensions: Sequence[int],
    ) -> None:
        pairs = tuple(tuple(tuple(axes) for axes in pair) for pair in dot_dimension_numbers)
        object.__setattr__(self, "dot_dimension_numbers", pairs)
        object.__setattr__(self, "lhs_ragged_dimensions", tuple(lhs_ragged_dimensions))
        object.__setattr__(self, "rhs_group_dimensions", tuple(rhs_group_dimensions))


_ROWS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
) -> Array:
    """Multiply rows that lie in groups, each group with a matrix of its own.

    Parameters
    ----------
    lhs : array_like, shape (m, k)
        The rows: first those of group 0, then those of group 1, and so on.
    rhs : array_like, shape (g, k, n)
        A matrix for each group.
    group_sizes : array_like of integers, shape (g,)
        The number of rows of each group. Negative ones count as 0, and what is behind the last row
        as nothing.
    precision : Precision, optional
        Has no effect: products have the digits of the result's dtype.
    preferred_element_type : dtype, optional
        Dtype of the result and of the sums; the promoted one by default.
    group_offset : None
        Refused, as in JAX.

    Returns
    -------
    Array, shape (m, n)
        Rows in no group are 0. Infinities and NaN of a group's matrix stay with its rows (in JAX
        they are NaN in all).

    Raises
    ------
    ShapeError
        The shapes do not fit.
    DTypeError
        The sizes are no integers.
    ArgumentError
        `precision` or `group_offset` have no meaning.

    Notes
    -----
    A loop over blocks of 16 to 256 rows, about m k n products for groups of 16 rows and more; JAX
    multiplies g times as many on CPUs. It adds one block and one matrix to the arrays and the
    result, never (g, m, k) or (m, k, n). Its first derivatives are loops of this kind; further ones
    keep the blocks and matrices of all steps.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> twice_and_thrice = tnp.array([[[2.0]], [[3.0]]])
    >>> lax.ragged_dot(tnp.ones((4, 1)), twice_and_thrice, tnp.array([1, 2])).ravel().tolist()
    [2.0, 3.0, 3.0, 0.0]
    """
    x, y = as_arrays(lhs, rhs)
    if x.ndim != 2 or y.ndim != 3:
        raise ShapeError(
            f"lax.ragged_dot: {x.type} and {y.type} are no rows and matrices",
            mend="give shapes (m, k) and (g, k, n), or use lax.ragged_dot_general",
        )
    return _ragged(
        "ragged_dot", x, y, group_sizes, _ROWS, precision, preferred_element_type, group_offset
    )


def ragged_dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
) -> Array:
    """Multiply and sum along axes, where an axis of `lhs` lies in groups.

    Parameters
    ----------
    lhs, rhs : array_like
        The factors. Different dtypes are promoted.
    group_sizes : array_like of integers, shape (g,) or (*batch, *outer, g)
        The sizes of the groups along the ragged axis; for each element of the batch and of the
        outer axes, if they differ. Outer are those of the axes of its kind in front of the ragged
        one: the rest of `lhs`, or those that are summed over.
    ragged_dot_dimension_numbers : RaggedDotDimensionNumbers
        Which axes are which.
    precision, preferred_element_type, group_offset
        See `ragged_dot`.

    Returns
    -------
    Array
        Depends on what the ragged axis is. An axis of `lhs` alone: as `dot_general` without the
        axis of groups of `rhs`, of which each group takes its element. An axis that is summed over:
        (g, ...), a sum for each group. An axis of the batch: as `dot_general`, without groups.

    Raises
    ------
    ShapeError, AxisError
        Axes or shapes that do not fit.
    DTypeError
        The sizes are no integers.
    ArgumentError
        The ragged axis and the axis of groups do not fit together.

    Notes
    -----
    Loops as in `ragged_dot`, beside copies of the operands where axes have to be moved. Where a
    summed axis is ragged and others stand in front of it, there is a result for each of these.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> summed = lax.RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
    >>> x = tnp.ones((5, 1))
    >>> lax.ragged_dot_general(x, x, tnp.array([1, 4]), summed).ravel().tolist()
    [1.0, 4.0]
    """
    x, y = as_arrays(lhs, rhs)
    return _ragged(
        "ragged_dot_general",
        x,
        y,
        group_sizes,
        ragged_dot_dimension_numbers,
        precision,
        preferred_element_type,
        group_offset,
    )


def _ragged(
    name: str,
    x: Array,
    y: Array,
    group_sizes: ArrayLike,
    numbers: RaggedDotDimensionNumbers,
    precision: Any,
    preferred: Any,
    group_offset: Any,
) -> Array:
    check_precision(name, precision)
    if group_offset is not None:
        raise UnsupportedError(
            f"lax.{name}: group_offset={group_offset!r} is not supported",
            mend="leave it out, and give a matrix for each group",
        )
    sizes = as_array(group_sizes)
    if sizes.dtype.kind not in "iu":
        raise DTypeError(f"lax.{name}: the sizes are {sizes.type}", mend="give integers")
    plan = _Plan(name, x, y, sizes, numbers)
    if plan.kind == "batch":
        return dot_general(x, y, numbers.dot_dimension_numbers, precision, preferred)
    run = _by_group if plan.kind == "rest" else _summed_by_group
    return run(x, y, sizes, dtype=result_dtype(x, y, preferred), **plan.params())


class _Plan:
    """The axes of a call, checked, in the order in which the loops take them."""

    def __init__(
        self, name: str, x: Array, y: Array, sizes: Array, numbers: RaggedDotDimensionNumbers
    ) -> None:
        self.name = name
        summed, batch = numbers.dot_dimension_numbers
        self.left_summed = axes_of(name, "a summed axis", summed[0], x.ndim)
        self.right_summed = axes_of(name, "a summed axis", summed[1], y.ndim)
        self.left_batch = axes_of(name, "a batch axis", batch[0], x.ndim)
        self.right_batch = axes_of(name, "a batch axis", batch[1], y.ndim)
        ragged = axes_of(name, "the ragged axis", numbers.lhs_ragged_dimensions, x.ndim)
        self.group = axes_of(name, "the axis of groups", numbers.rhs_group_dimensions, y.ndim)
        if len(ragged) != 1:
            raise ArgumentError(f"lax.{name}: {len(ragged)} ragged axes", mend="give one")
        self.ragged = ragged[0]
        self.left_rest = _without(x.ndim, self.left_summed, self.left_batch)
        self.right_rest = _without(y.ndim, self.right_summed, self.right_batch, self.group)
        self._check_pairs(x, y)
        self._choose_kind()
        self._check_groups(x, y, sizes)

    def _check_pairs(self, x: Array, y: Array) -> None:
        left = [x.shape[d] for d in (*self.left_batch, *self.left_summed)]
        right = [y.shape[d] for d in (*self.right_batch, *self.right_summed)]
        counts = len(self.left_batch) == len(self.right_batch)
        twice = {*self.left_summed} & {*self.left_batch} or {*self.right_summed} & {
            *self.right_batch
        }
        if left != right or not counts or twice:
            raise ShapeError(
                f"lax.{self.name}: the axes of {x.type} and {y.type} do not fit",
                mend="give pairs of axes of one size, each axis once",
            )

    def _choose_kind(self) -> None:
        """Find what the ragged axis is, and the axes of its kind in front of it and behind."""
        kinds = {"rest": self.left_rest, "summed": self.left_summed, "batch": self.left_batch}
        self.kind, axes = next(item for item in kinds.items() if self.ragged in item[1])
        self.place = axes.index(self.ragged)
        wanted = 1 if self.kind == "rest" else 0
        if len(self.group) != wanted:
            raise ArgumentError(
                f"lax.{self.name}: rhs_group_dimensions {self.group} for a ragged axis of the "
                f"kind {self.kind!r}",
                mend="name one axis where the ragged axis is in lhs alone, else none",
            )

    def _check_groups(self, x: Array, y: Array, sizes: Array) -> None:
        front = {
            "rest": (*self.left_batch, *self.left_rest[: self.place]),
            "summed": (*self.left_batch, *self.left_summed[: self.place]),
            "batch": self.left_batch[: self.place],
        }[self.kind]
        shape = tuple(x.shape[d] for d in front)
        groups = sizes.shape[-1] if sizes.ndim else None
        of_matrices = {y.shape[d] for d in self.group if {d}.isdisjoint(self._taken())}
        fits = sizes.ndim == 1 or (sizes.ndim and sizes.shape[:-1] == shape)
        if not fits or (self.group and of_matrices != {groups}):
            raise ShapeError(
                f"lax.{self.name}: sizes {sizes.type} do not fit {x.type} and {y.type}",
                mend=f"give one size for each group: a shape (g,) or {(*shape, 'g')}, where g is "
                "the size of rhs along its axis of groups, which is not summed nor of the batch",
            )

    def _taken(self) -> set[int]:
        return {*self.right_summed, *self.right_batch}

    def params(self) -> dict[str, Any]:
        """Return what the loops are told."""
        if self.kind == "rest":
            outer, inner = self.left_rest[: self.place], self.left_rest[self.place + 1 :]
            left = (self.left_batch, outer, (self.ragged, *inner), self.left_summed)
            right: tuple[Axes, ...] = (
                self.right_batch,
                self.group,
                self.right_summed,
                self.right_rest,
            )
            return {"left": left, "right": right}
        at = self.place
        parts = (slice(at), slice(at, None))
        left_axes, right_axes = (
            [axes[part] for part in parts] for axes in (self.left_summed, self.right_summed)
        )
        return {
            "left": (self.left_batch, *left_axes, self.left_rest),
            "right": (self.right_batch, *right_axes, self.right_rest),
        }


def _without(ndim: int, *taken: Iterable[int]) -> Axes:
    every = {d for axes in taken for d in axes}
    return tuple(d for d in range(ndim) if d not in every)


def _joined(x: Array, mapped: tuple[Axes, ...], parts: tuple[Axes, ...]) -> Array:
    """Return an array with an axis for each part, which joins its axes; mapped ones if any."""
    every = (*(axes for axes in mapped if axes), *parts)
    shape = tuple(math.prod(_shape(x, axes)) for axes in every)
    return reshape(transpose(x, tuple(d for axes in every for d in axes)), shape)


def _shape(x: Array, *parts: Axes) -> tuple[int, ...]:
    return tuple(x.shape[d] for axes in parts for d in axes)


def _sizes_of_rows(x: Array, sizes: Array, left: tuple[Axes, ...]) -> Array:
    """Return sizes in joined rows: the axes behind the ragged one have a row for each element."""
    batch, outer, (ragged, *inner), _ = left
    known = tnp.clip(convert(wide(sizes), INDEX_DTYPE), 0, x.shape[ragged])
    rows = known * math.prod(_shape(x, tuple(inner)))
    if sizes.ndim == 1:
        return rows
    mapped = (math.prod(_shape(x, axes)) for axes in (batch, outer) if axes)
    return reshape(rows, (*mapped, sizes.shape[-1]))


@compound
def _by_group(
    x: Array,
    y: Array,
    sizes: Array,
    *,
    dtype: Dtype,
    left: tuple[Axes, ...],
    right: tuple[Axes, ...],
) -> Array:
    rows = _sizes_of_rows(x, sizes, left)
    place = None if sizes.ndim == 1 else 0
    run: Any = functools.partial(ragged_product, dtype, 0)
    if left[1]:
        run = vmap(run, (0, None, place))
    if left[0]:
        run = vmap(run, (0, 0, place))
    found = run(_joined(x, left[:2], left[2:]), _joined(y, right[:1], right[1:]), rows)
    return reshape(found, (*_shape(x, *left[:3]), *_shape(y, right[3])))


@compound
def _summed_by_group(
    x: Array,
    y: Array,
    sizes: Array,
    *,
    dtype: Dtype,
    left: tuple[Axes, ...],
    right: tuple[Axes, ...],
) -> Array:
    rows = _sizes_of_rows(x, sizes, left)
    place = None if sizes.ndim == 1 else 0
    one: Any = functools.partial(ragged_outer, dtype)

    def run(*arrays: Array) -> Any:
        return vmap(one, (0, 0, place))(*arrays).sum(axis=0, dtype=dtype)

    run = run if left[1] else one
    if left[0]:
        run = vmap(run, (0, 0, place))
    found = run(_joined(x, left[:2], left[2:]), _joined(y, right[:2], right[2:]), rows)
    groups, count = (sizes.shape[-1],), len(left[0])
    shape = (*_shape(x, left[0]), *groups, *_shape(x, left[3]), *_shape(y, right[3]))
    order = (count, *range(count), *range(count + 1, len(shape)))
    return transpose(reshape(found, shape), order)
