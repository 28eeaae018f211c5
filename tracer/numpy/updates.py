"""`x.at[index]`: reads and updates of a part that return a new array, as in JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tracer import ops
from tracer.arguments import explained
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, reshape, scalar
from tracer.array.dispatch import apply, apply_many
from tracer.array.recording import Recording, recorded
from tracer.errors import ArgumentError
from tracer.ir import Graph, ShapeDtype
from tracer.numpy.arithmetic import divide as quotient
from tracer.numpy.arithmetic import maximum, minimum
from tracer.numpy.arithmetic import power as raised
from tracer.numpy.bounds import INDEX_DTYPE, READ, WRITE, bounds_of
from tracer.numpy.extremes import max as amax
from tracer.numpy.index_parser import has_truth, parse
from tracer.numpy.indexing import get_item, is_single_mask, mask_of, update_item
from tracer.numpy.ufunc import compare, full_like, select
from tracer.numpy.ufunc_folds import update_in_turn

Mode = str | None
_COUNT = ShapeDtype((), INDEX_DTYPE)


class IndexUpdate:
    """One part of an array, made by `x.at[index]`; each update returns a new array.

    Parameters of all methods, as in JAX:

    mode : {None, "clip", "drop", "fill", "promise_in_bounds"}
        What happens to indices out of bounds; negative ones count from the end first. None:
        integers, lists and NumPy arrays raise `ArrayIndexError`; of indices in device arrays
        those out of bounds are dropped by updates, and `get` does what `x[index]` does. "clip"
        moves them to the nearest element; "drop" and "fill" drop updates and read `fill_value`;
        "promise_in_bounds" is your word that there are none.
    unique_indices : bool
        Your promise that no index occurs twice; `multiply` has a gradient only then.
    indices_are_sorted : bool
        Taken and not needed.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> x = tnp.zeros(3)
    >>> x.at[1].add(5.0)
    Array([0., 5., 0.])
    >>> x.at[tnp.array([0, 7])].set(1.0)
    Array([1., 0., 0.])
    >>> x.at[tnp.array([0, 7])].set(1.0, mode="clip")
    Array([1., 0., 1.])
    """

    __slots__ = ("_array", "_index")

    def __init__(self, array: Array, index: Any) -> None:
        self._array = array
        self._index = index

    @explained
    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
        fill_value: Any = None,
    ) -> Array:
        """Return the part.

        Parameters
        ----------
        indices_are_sorted, unique_indices, mode
            See the class.
        fill_value : number, optional
            What mode "fill" reads out of bounds; by default NaN, the smallest signed or the
            largest unsigned integer, True.

        Raises
        ------
        ArrayIndexError
            There is no `mode`, and an index that is known is out of bounds.
        ArgumentError
            The mode is not known, or reads no `fill_value`.
        """
        if fill_value is not None and mode not in ("fill", "drop"):
            raise ArgumentError(f"mode={mode!r} uses no fill_value", mend='give mode="fill"')
        return get_item(self._array, self._index, bounds_of(mode, READ, fill_value))

    @explained
    def set(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
    ) -> Array:
        """Return the array with the part replaced; of repeated indices one value stays."""
        return self._updated(values, "replace", mode, unique_indices)

    @explained
    def add(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
    ) -> Array:
        """Return the array with values added to the part; repeated indices add up."""
        return self._updated(values, "add", mode, unique_indices)

    @explained
    def subtract(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
    ) -> Array:
        """Return the array with values subtracted from the part."""
        return self._updated(-as_array(values), "add", mode, unique_indices)

    @explained
    def multiply(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
    ) -> Array:
        """Return the array with the part multiplied; repeated indices multiply up."""
        return self._updated(values, "multiply", mode, unique_indices)

    mul = multiply

    @explained
    def divide(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
    ) -> Array:
        """Return the array, in floats, with the part divided; repeated indices divide again."""
        x = convert(self._array, quotient(full_like(self._array, 1), 1).dtype)
        update = IndexUpdate(x, self._index)
        if self._has_arrays(mode):
            # Divided once, by the product: a product with 1 / y is not the quotient.
            ones = IndexUpdate(full_like(x, 1), self._index)
            return quotient(x, ones._updated(values, "multiply", mode, unique_indices))
        divisors = convert(as_array(values), x.dtype)
        return update._mapped(lambda part: quotient(part, divisors), mode)

    @explained
    def power(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
    ) -> Array:
        """Return the array with the part raised to a power; repeated indices raise it again."""
        if not self._has_arrays(mode):
            return self._mapped(lambda part: raised(part, values), mode)
        ones = IndexUpdate(full_like(self._array, 1), self._index)
        exponents = ones._updated(values, "multiply", mode, unique_indices)
        return raised(self._array, exponents)

    @explained
    def apply(
        self,
        func: Callable[[Array], ArrayLike],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
    ) -> Array:
        """Return the array with a function applied to the part; again for repeated indices.

        Parameters
        ----------
        func : callable
            Of an array, element by element.
        indices_are_sorted, unique_indices, mode
            See the class. With index arrays there is a gradient only where they are unique.
        """
        if unique_indices or not self._has_arrays(mode):
            return self._mapped(func, mode, unique_indices)
        zeros = broadcast(scalar(0, INDEX_DTYPE), self._array.shape)
        counts = IndexUpdate(zeros, self._index).add(1, mode=mode)
        return applied_by_counts(func, self._array, counts)

    @explained
    def min(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
    ) -> Array:
        """Return the array with the smaller of part and values."""
        if self._array.dtype.kind == "c":
            return update_in_turn(minimum, mode)(self._array, self._index, values)
        return self._updated(values, "minimum", mode, unique_indices)

    @explained
    def max(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Mode = None,
    ) -> Array:
        """Return the array with the larger of part and values."""
        if self._array.dtype.kind == "c":
            return update_in_turn(maximum, mode)(self._array, self._index, values)
        return self._updated(values, "maximum", mode, unique_indices)

    def _updated(self, values: ArrayLike, combiner: str, mode: Mode, unique: bool) -> Array:
        bounds = bounds_of(mode, WRITE)
        return update_item(self._array, self._index, values, combiner, bounds=bounds, unique=unique)

    def _has_arrays(self, mode: Mode) -> bool:
        """Tell whether the index has arrays in it, with which an element can be meant twice."""
        if is_single_mask(self._index):
            return False
        return has_truth(self._index) or bool(
            parse(self._array.shape, self._index, bounds_of(mode, WRITE)).arrays
        )

    def _mapped(
        self, function: Callable[[Array], ArrayLike], mode: Mode, unique: bool = False
    ) -> Array:
        """Return the array with a function of the part in its place."""
        x = self._array
        if is_single_mask(self._index):
            mask = mask_of(self._index)
            if getattr(mask, "is_traced", False) and mask.shape == x.shape[: mask.ndim]:
                spread = reshape(mask, mask.shape + (1,) * (x.ndim - mask.ndim))
                new = broadcast(convert(as_array(function(x)), x.dtype), x.shape)
                return select(broadcast(spread, x.shape), new, x)
        # What is read out of bounds is not written back.
        part = get_item(x, self._index, replace(bounds_of(mode, WRITE), mode="clip"))
        return self._updated(function(part), "replace", mode, unique)


def applied_by_counts(function: Callable[[Array], ArrayLike], x: Array, counts: Array) -> Array:
    """Apply a function of single elements to each as often as its count says."""

    def record_body(recording: Recording) -> tuple[Graph, list[Array]]:
        step, most = recording.argument(_COUNT), recording.argument(_COUNT)
        current, left = recording.argument(x.type), recording.argument(counts.type)
        new = broadcast(convert(as_array(function(current)), x.dtype), x.shape)
        chosen = select(compare(left, broadcast(step, x.shape), "GT"), new, current)
        following = apply(ops.add, step, scalar(1, INDEX_DTYPE))
        return recording.finish([following, most, chosen, left])

    def record_condition(recording: Recording) -> Graph:
        arguments = [recording.argument(value.type) for value in body.inputs]
        return recording.finish([compare(arguments[0], arguments[1], "LT")])[0]

    body, captured = recorded(record_body)
    condition = recorded(record_condition)
    body = Graph(body.inputs, [*body.outputs, *body.inputs[4:]], body.nodes)
    first = (scalar(0, INDEX_DTYPE), amax(counts, initial=0), x, counts)
    return apply_many(ops.while_, *first, *captured, condition=condition, body=body)[2]


class Indexer:
    """What `x.at` is: takes an index in brackets."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> IndexUpdate:
        """Choose the part."""
        return IndexUpdate(self._array, index)
