"""gather and the scatters, with JAX's numbering of axes and modes for what is out of bounds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_shape, broadcast, convert, reshape, scalar
from tracer.array.dispatch import apply, compound, from_host
from tracer.errors import ArgumentError, DTypeError, ShapeError, shown
from tracer.lax.operands import axes_of, of_one_dtype
from tracer.lax.slicing import wide
from tracer.numpy.arithmetic import remainder
from tracer.numpy.bounds import INDEX_DTYPE
from tracer.numpy.ufunc import compare, full_like, select
from tracer.numpy.updates import applied_by_counts


class GatherDimensionNumbers(NamedTuple):
    """Which axes are which in `gather`.

    Attributes
    ----------
    offset_dims : tuple of int
        Axes of the result that are axes of a window.
    collapsed_slice_dims : tuple of int
        Axes of the operand of which a window has one element, and which go.
    start_index_map : tuple of int
        The axis of the operand that each number of an index belongs to.
    operand_batching_dims, start_indices_batching_dims : tuple of int
        Axes that go through both arrays together.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axes are which in `scatter` and its like.

    Attributes
    ----------
    update_window_dims : tuple of int
        Axes of the updates that are axes of a window.
    inserted_window_dims : tuple of int
        Axes of the operand of which a window has one element, and which the updates leave out.
    scatter_dims_to_operand_dims : tuple of int
        The axis of the operand that each number of an index belongs to.
    operand_batching_dims, scatter_indices_batching_dims : tuple of int
        Axes that go through all three arrays together.
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


class GatherScatterMode(Enum):
    """What becomes of windows that are out of bounds."""

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"

    @staticmethod
    def from_any(mode: Any) -> GatherScatterMode:
        """Return the mode of a name; None is FILL_OR_DROP."""
        if mode is None or (isinstance(mode, str) and mode == "drop"):
            return GatherScatterMode.FILL_OR_DROP
        try:
            return GatherScatterMode(mode)
        except (ValueError, TypeError) as error:
            raise ArgumentError(
                f"there is no mode {shown(mode)}",
                mend='use mode="fill", "clip", "drop" or "promise_in_bounds"',
            ) from error


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Array:
    """Take windows at computed places.

    Parameters
    ----------
    operand : array_like
        The array.
    start_indices : array_like of integers
        Indices along the last axis.
    dimension_numbers : GatherDimensionNumbers
        Which axes are which.
    slice_sizes : sequence of int
        The window.
    unique_indices, indices_are_sorted : bool
        Promises, of which nothing is made.
    mode : GatherScatterMode or str, optional
        What becomes of windows out of bounds: "fill", "clip" (the nearest), or
        "promise_in_bounds" (the default).
    fill_value : number, optional
        What to fill with: by default NaN, the smallest signed or largest unsigned integer, True.

    Returns
    -------
    Array
        The windows.

    Raises
    ------
    ShapeError, DTypeError
        Axes, indices or sizes that do not fit.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
    >>> lax.gather(tnp.eye(3), tnp.array([[2], [0]]), rows, (1, 3)).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    x, indices = as_array(operand), _indices("gather", start_indices)
    return _gather(
        x,
        indices,
        numbering=_plain("gather", dimension_numbers),
        sizes=as_shape(slice_sizes),
        mode=GatherScatterMode.from_any("promise_in_bounds" if mode is None else mode).name,
        fill_value=fill_value,
    )


def _indices(name: str, values: ArrayLike) -> Array:
    indices = as_array(values)
    if indices.dtype.kind not in "iu":
        raise DTypeError(f"lax.{name}: the indices are {indices.type}", mend="give integers")
    if not indices.ndim:
        raise ShapeError(
            f"lax.{name}: the indices have no axes", mend="give indices along the last axis"
        )
    return indices


def _plain(name: str, numbering: Any) -> Any:
    """Return the numbering with tuples of integers."""
    if not isinstance(numbering, GatherDimensionNumbers | ScatterDimensionNumbers):
        raise DTypeError(
            f"lax.{name}: dimension_numbers is {shown(numbering)}",
            mend="give lax.GatherDimensionNumbers or lax.ScatterDimensionNumbers",
        )
    make: Any = type(numbering)
    return make(*[tuple(map(operator.index, axes)) for axes in numbering])


@compound
def _gather(x: Array, indices: Array, **params: Any) -> Array:
    return gathered(x, indices, **params)


def gathered(
    x: Array, indices: Array, *, numbering: Any, sizes: tuple[int, ...], mode: str, fill_value: Any
) -> Array:
    """Take windows; what is out of bounds is clamped or, by mode, filled."""
    indices = wide(indices)
    taken = apply(
        ops.gather,
        x,
        indices,
        offset_dims=numbering.offset_dims,
        collapsed_slice_dims=numbering.collapsed_slice_dims,
        start_index_map=numbering.start_index_map,
        index_vector_dim=indices.ndim - 1,
        slice_sizes=sizes,
        operand_batching_dims=numbering.operand_batching_dims,
        start_indices_batching_dims=numbering.start_indices_batching_dims,
    )
    if mode != "FILL_OR_DROP" or not indices.shape[-1]:
        return taken
    inside = _is_inside(indices, [x.shape[d] - sizes[d] for d in numbering.start_index_map])
    kept = [d for d in range(taken.ndim) if d not in numbering.offset_dims]
    mask = apply(ops.broadcast_in_dim, inside, shape=taken.shape, dimensions=tuple(kept))
    return apply(ops.select, mask, taken, full_like(taken, _fill_value(fill_value, x.dtype)))


def _is_inside(indices: Array, last_starts: Sequence[int]) -> Array:
    """Tell which rows of indices are places of a whole window."""
    last = from_host(np.array(last_starts, indices.dtype))
    last = apply(ops.broadcast_in_dim, last, shape=indices.shape, dimensions=(indices.ndim - 1,))
    above = compare(indices, full_like(indices, 0), "GE")
    both = apply(ops.and_, above, compare(indices, last, "LE"))
    return apply(ops.reduce_and, both, axes=(indices.ndim - 1,))


def _fill_value(given: Any, dtype: np.dtype[Any]) -> Any:
    """Return JAX's value for what is out of bounds."""
    if given is not None:
        return given
    if dtype.kind == "b":
        return True
    if dtype.kind == "i":
        return int(np.iinfo(dtype).min)
    return int(np.iinfo(dtype).max) if dtype.kind == "u" else np.nan


def index_take(src: ArrayLike, idxs: Sequence[ArrayLike], axes: Sequence[int]) -> Array:
    """Take elements at places along some axes, whole along the others.

    Parameters
    ----------
    src : array_like
        The array.
    idxs : sequence of array_like of integers, each of shape (n,)
        For each of the axes the places, all of one dtype. They count modulo the size: -1 is the
        last, and what is behind the last starts again at the first.
    axes : sequence of int
        The axes, in increasing order.

    Returns
    -------
    Array, shape (n, *others)
        One entry for each place, of the dtype of `src`.

    Raises
    ------
    ArgumentError
        Not one array of indices for each axis, none, or axes that do not increase.
    AxisError, ShapeError, DTypeError
        There is no such axis, or it has no elements; indices that do not fit.

    Notes
    -----
    Beside the result it takes the indices once more; the gradient is an array like `src`.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> x = tnp.arange(6).reshape(2, 3)
    >>> lax.index_take(x, [tnp.array([0, 1]), tnp.array([2, -3])], (0, 1)).tolist()
    [2, 3]
    """
    x, places = as_array(src), axes_of("index_take", "an axis", axes, as_array(src).ndim)
    rows = of_one_dtype("index_take", *idxs)
    if not rows or len(rows) != len(places) or list(places) != sorted(places):
        raise ArgumentError(
            f"lax.index_take: {len(rows)} arrays of indices for the axes {places}",
            mend="give an array for each axis, and the axes in increasing order",
        )
    if rows[0].dtype.kind not in "biu":
        raise DTypeError(f"lax.index_take: the indices are {rows[0].type}", mend="give integers")
    if any(row.ndim != 1 for row in rows) or len({row.shape for row in rows}) > 1:
        raise ShapeError(
            f"lax.index_take: the indices have the shapes {[row.shape for row in rows]}",
            mend="give vectors of one length",
        )
    if not all(x.shape[d] for d in places):
        raise ShapeError(
            f"lax.index_take: {x.type} has no elements along an axis of {places}",
            mend="give an array with elements along these axes",
        )
    return _index_take(x, *rows, axes=places)


@compound
def _index_take(x: Array, *rows: Array, axes: tuple[int, ...]) -> Array:
    parts = [_counted(row, x.shape[d]) for row, d in zip(rows, axes, strict=True)]
    window = tuple(range(1, x.ndim - len(axes) + 1))
    return gathered(
        x,
        apply(ops.concatenate, *parts, dimension=1) if len(parts) > 1 else parts[0],
        numbering=GatherDimensionNumbers(window, axes, axes),
        sizes=tuple(1 if d in axes else n for d, n in enumerate(x.shape)),
        mode="PROMISE_IN_BOUNDS",
        fill_value=None,
    )


def _counted(row: Array, size: int) -> Array:
    """Return indices modulo a size, as a column."""
    number: Any = remainder(row if row.dtype == np.uint64 else convert(row, INDEX_DTYPE), size)
    return reshape(convert(number, INDEX_DTYPE), (row.shape[0], 1))


_SCATTER_DOC = """{summary}

Parameters
----------
operand : array_like
    The array; it is not written.
scatter_indices : array_like of integers
    Indices along the last axis.
updates : array_like
    The windows, of the operand's dtype.
dimension_numbers : ScatterDimensionNumbers
    Which axes are which.
indices_are_sorted : bool
    A promise, of which nothing is made.
unique_indices : bool
    A promise that no element has several updates.
mode : GatherScatterMode or str, optional
    What becomes of windows out of bounds: "drop" (the default, also "fill"), "clip" or
    "promise_in_bounds".

Returns
-------
Array
    The new array.

Raises
------
ShapeError, DTypeError
    Axes, indices or updates that do not fit.
"""


def _scatter(name: str, combiner: str, summary: str) -> Any:
    def scatter(
        operand: ArrayLike,
        scatter_indices: ArrayLike,
        updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Array:
        x, new = of_one_dtype(name, operand, updates)
        return _scattered(
            x,
            _indices(name, scatter_indices),
            new,
            combiner=combiner,
            numbering=_plain(name, dimension_numbers),
            is_unique=bool(unique_indices),
            mode=GatherScatterMode.from_any(mode).name,
        )

    scatter.__name__ = scatter.__qualname__ = name
    scatter.__doc__ = _SCATTER_DOC.format(summary=summary)
    return scatter


@compound
def _scattered(x: Array, indices: Array, updates: Array, **params: Any) -> Array:
    return scattered(x, indices, updates, **params)


def scattered(
    x: Array,
    indices: Array,
    updates: Array,
    *,
    combiner: str,
    numbering: Any,
    is_unique: bool,
    mode: str,
) -> Array:
    """Combine windows with elements; "subtract" adds what is negative."""
    indices = wide(indices)
    if mode == "CLIP":
        indices = _clamped(x, indices, updates, numbering)
    if combiner == "subtract":
        combiner, updates = "add", apply(ops.negate, updates)
    return apply(
        ops.scatter,
        x,
        indices,
        updates,
        combiner=combiner,
        update_window_dims=numbering.update_window_dims,
        inserted_window_dims=numbering.inserted_window_dims,
        scatter_dims_to_operand_dims=numbering.scatter_dims_to_operand_dims,
        index_vector_dim=indices.ndim - 1,
        unique_indices=is_unique,
        input_batching_dims=numbering.operand_batching_dims,
        scatter_indices_batching_dims=numbering.scatter_indices_batching_dims,
    )


def applied(
    x: Array,
    indices: Array,
    function: Callable[[Array], ArrayLike],
    *,
    update_shape: Sequence[int],
    is_unique: bool,
    **params: Any,
) -> Array:
    """Apply a function of single elements in windows, again where several windows meet."""
    ones = broadcast(scalar(1, INDEX_DTYPE), tuple(update_shape))
    none = broadcast(scalar(0, INDEX_DTYPE), x.shape)
    counts = scattered(none, indices, ones, combiner="add", is_unique=is_unique, **params)
    if not is_unique and ones.size > 1:
        return applied_by_counts(function, x, counts)
    new = broadcast(convert(as_array(function(x)), x.dtype), x.shape)
    return select(compare(counts, none, "GT"), new, x)


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Array], ArrayLike],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """Apply a function to windows at computed places; again where several windows meet.

    Parameters
    ----------
    operand : array_like
        The array; it is not written.
    scatter_indices : array_like of integers
        Indices along the last axis.
    func : callable
        Of an array, element by element.
    dimension_numbers : ScatterDimensionNumbers
        Which axes are which.
    update_shape : sequence of int
        The shape that updates would have.
    indices_are_sorted : bool
        A promise, of which nothing is made.
    unique_indices : bool
        A promise that no element is in several windows; there is a gradient only then, or for one.
    mode : GatherScatterMode or str, optional
        What becomes of windows out of bounds, as in `scatter`.

    Returns
    -------
    Array
        The new array. `func` is computed for all elements, so it takes as much memory again.

    Raises
    ------
    ShapeError, DTypeError
        Axes or indices that do not fit.
    """
    x = as_array(operand)
    return applied(
        x,
        _indices("scatter_apply", scatter_indices),
        func,
        update_shape=as_shape(update_shape),
        is_unique=bool(unique_indices),
        numbering=_plain("scatter_apply", dimension_numbers),
        mode=GatherScatterMode.from_any(mode).name,
    )


def _clamped(x: Array, indices: Array, updates: Array, numbering: Any) -> Array:
    """Move windows inside that are not."""
    without = {*numbering.inserted_window_dims, *numbering.operand_batching_dims}
    window = iter(updates.shape[d] for d in numbering.update_window_dims)
    sizes = [1 if d in without else next(window) for d in range(x.ndim)]
    last = [x.shape[d] - sizes[d] for d in numbering.scatter_dims_to_operand_dims]
    if not last:
        return indices
    high = apply(
        ops.broadcast_in_dim,
        from_host(np.array(last, indices.dtype)),
        shape=indices.shape,
        dimensions=(indices.ndim - 1,),
    )
    return apply(ops.clamp, full_like(indices, 0), indices, high)


scatter = _scatter("scatter", "replace", "Replace windows at computed places.")
scatter_add = _scatter("scatter_add", "add", "Add to windows at computed places.")
scatter_sub = _scatter("scatter_sub", "subtract", "Subtract from windows at computed places.")
scatter_mul = _scatter("scatter_mul", "multiply", "Multiply windows at computed places.")
scatter_max = _scatter("scatter_max", "maximum", "Keep the larger in windows at computed places.")
scatter_min = _scatter("scatter_min", "minimum", "Keep the smaller in windows at computed places.")
