"""What happens to indices out of bounds: the modes of reads and of updates.

Names and meaning are JAX's (`jax.lax.GatherScatterMode`). In every mode a negative index counts
from the end once. If it is still outside then, it is out of bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array, ArrayLike, get_evaluator
from tracer.array.convert import (
    as_array,
    broadcast,
    convert,
    holds_arrays,
    host_array,
    reshape,
    scalar,
)
from tracer.array.dispatch import apply
from tracer.array.recording import current_recording
from tracer.errors import ArgumentError, shown
from tracer.ir import as_dtype
from tracer.numpy.ufunc import compare, full_like, select

INDEX_DTYPE = as_dtype("int64")


@dataclass(frozen=True)
class Bounds:
    """A mode.

    Attributes
    ----------
    mode : str
        For indices that are not looked at: "clip" moves them to the nearest element, "fill" reads
        a number and drops updates, "promise_in_bounds" is the caller's word.
    raises : bool
        Indices that are known (integers, lists, NumPy arrays) raise `ArrayIndexError`.
    looks : bool
        So do those in concrete arrays, outside of a trace.
    fill : number, optional
        What "fill" reads; by default NaN, of integers the one furthest from zero, True.
    """

    mode: str
    raises: bool = True
    looks: bool = False
    fill: Any = None

    @property
    def guards(self) -> bool:
        """Tell whether indices out of bounds are treated separately."""
        return self.mode == "fill"

    def is_known(self, index: Array) -> bool:
        """Tell whether the values of an index array are looked at."""
        if not self.looks or index.is_traced or current_recording() is not None:
            return False
        # No process has all values of an array that is spread over several of them.
        return get_evaluator().parts_here(index) is None


READ = Bounds("clip", looks=True)
"""`x[index]`."""
TAKE = Bounds("fill", looks=True)
"""`take` and `take_along_axis`."""
WRITE = Bounds("fill")
"""`x[index] = y` and the updates of `x.at[index]`."""
TRUSTED = Bounds("promise_in_bounds", raises=False)
"""Indices that a function of this library computed."""
_MODES = {
    "clip": "clip",
    "fill": "fill",
    "drop": "fill",
    "promise_in_bounds": "promise_in_bounds",
}


def bounds_of(mode: str | None, default: Bounds, fill_value: Any = None) -> Bounds:
    """Return the bounds that a user asks for.

    Raises
    ------
    ArgumentError
        There is no such mode, or `fill_value` is no number.
    """
    fill = _number(fill_value)
    if mode is None:
        return replace(default, fill=fill)
    if not isinstance(mode, str) or mode not in _MODES:
        raise ArgumentError(
            f"mode {shown(mode)} is not known",
            mend='use "clip", "fill" (for updates "drop"), "promise_in_bounds", or None',
        )
    return Bounds(_MODES[mode], raises=False, fill=fill)


def _number(fill_value: Any) -> Any:
    if fill_value is None or isinstance(fill_value, bool | int | float | complex):
        return fill_value
    if isinstance(fill_value, np.generic | np.ndarray) and fill_value.size == 1:
        return fill_value.item()
    if isinstance(fill_value, Array) and fill_value.size == 1:
        return fill_value._host("a fill_value").item()
    raise ArgumentError(f"fill_value {fill_value!r} is no number", mend="give one")


def looked_at(given: ArrayLike) -> np.ndarray[Any, Any] | None:
    """Return the values that a check may read; None for those of an array in a trace.

    Also for a concrete one there: results of it are traced, and it may be an argument next.
    """
    if isinstance(given, list | tuple) and holds_arrays(given):
        given = as_array(given)
    if not isinstance(given, Array):
        return host_array(given)
    return given._host("a check of values") if TAKE.is_known(given) else None


def filling(dtype: np.dtype[Any], fill: Any) -> Array:
    """Return what reading out of bounds gives, in a dtype."""
    if fill is None:
        fill = True if dtype.kind == "b" else np.nan
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            fill = int(limits.min if dtype.kind == "i" else limits.max)
    return scalar(fill, dtype)


def wide_index(index: Array) -> Array:
    """Return indices as int64; unsigned ones that this cannot hold stay out of bounds."""
    if index.dtype == np.uint64:
        index = apply(ops.minimum, index, full_like(index, int(np.iinfo(np.int64).max)))
    return convert(index, INDEX_DTYPE)


def wrap_negative(index: Array, size: int) -> Array:
    """Count negative indices from the end of an axis of `size` elements."""
    if index.dtype.kind == "u":
        return index
    is_negative = compare(index, full_like(index, 0), "LT")
    return select(is_negative, apply(ops.add, index, full_like(index, size)), index)


def clipped(index: Array, size: int) -> Array:
    """Move indices to the nearest one of an axis."""
    return apply(ops.clamp, full_like(index, 0), index, full_like(index, max(size - 1, 0)))


def is_inside(indices: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Tell where indices along several axes, of one shape, are all in bounds."""
    inside: Array | None = None
    for index, size in zip(indices, sizes, strict=True):
        fits = apply(
            ops.and_,
            compare(index, full_like(index, 0), "GE"),
            compare(index, full_like(index, size), "LT"),
        )
        inside = fits if inside is None else apply(ops.and_, inside, fits)
    assert inside is not None
    return inside


def filled(x: Array, inside: Array, shape: tuple[int, ...], fill: Any) -> Array:
    """Return `x` with a number where not `inside`, which broadcasts in this shape."""
    mask = broadcast(reshape(inside, shape), x.shape)
    return select(mask, x, broadcast(filling(x.dtype, fill), x.shape))
