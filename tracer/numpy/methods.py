"""The methods of arrays; each is the function of that name in `tracer.numpy`.

`Methods` is a table; `tracer.numpy` installs its entries into Array. It is a subclass so that mypy
compares each signature with the one in `array/installed.pyi`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer.array.array import Array, ArrayLike
from tracer.array.dispatch import from_host
from tracer.numpy import (
    contraction,
    cumulative,
    elementwise,
    extremes,
    indexing,
    matrices,
    positions,
    reductions,
    repeating,
    rounding,
    searching,
    shaping,
    sorting,
    statistics,
    taking,
    updates,
)
from tracer.numpy.reductions import Axis


class Methods(Array):
    """Methods as NumPy's; see the functions for their parameters."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Array:
        """Return a part; see `numpy.ndarray.__getitem__`."""
        return indexing.get_item(self, index)

    def __setitem__(self, index: Any, value: ArrayLike) -> None:
        """Replace a part: this object then holds a new buffer with the update."""
        self._require_writable()
        self._hold(indexing.update_item(self, index, value))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a NumPy array."""
        return from_host, (np.array(self._host("pickling")),)

    @property
    def T(self) -> Array:  # noqa: N802 - NumPy's name
        """The array with its axes reversed."""
        return shaping.transpose(self)

    @property
    def mT(self) -> Array:  # noqa: N802 - NumPy's name
        """The array with its last two axes swapped."""
        return shaping.matrix_transpose(self)

    @property
    def real(self) -> Array:
        """Real part."""
        return elementwise.real(self)

    @property
    def imag(self) -> Array:
        """Imaginary part."""
        return elementwise.imag(self)

    @property
    def flat(self) -> Array:
        """The elements as a vector."""
        return shaping.ravel(self)

    @property
    def at(self) -> updates.Indexer:
        """Updates that return a new array: `x.at[index].set(y)`, `.add`, `.multiply`, ..."""
        return updates.Indexer(self)

    def sum(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """Sum over axes."""
        return reductions.sum(self, axis, dtype, out, keepdims, initial, where)

    def prod(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """Product over axes."""
        return reductions.prod(self, axis, dtype, out, keepdims, initial, where)

    def mean(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
    ) -> Array:
        """Return the mean over axes."""
        return statistics.mean(self, axis, dtype, out, keepdims, where=where)

    def var(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
        mean: ArrayLike | None = None,
    ) -> Array:
        """Variance over axes."""
        return statistics.var(self, axis, dtype, out, ddof, keepdims, where=where, mean=mean)

    def std(
        self,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
        mean: ArrayLike | None = None,
    ) -> Array:
        """Return the standard deviation over axes."""
        return statistics.std(self, axis, dtype, out, ddof, keepdims, where=where, mean=mean)

    def max(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """Largest element over axes."""
        return extremes.max(self, axis, out, keepdims, initial, where)

    def min(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        """Smallest element over axes."""
        return extremes.min(self, axis, out, keepdims, initial, where)

    def any(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
    ) -> Array:
        """Tell whether any element is true."""
        return reductions.any(self, axis, out, keepdims, where=where)

    def all(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
    ) -> Array:
        """Tell whether all elements are true."""
        return reductions.all(self, axis, out, keepdims, where=where)

    def argmax(self, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Array:
        """Index of the largest element."""
        return extremes.argmax(self, axis, out, keepdims=keepdims)

    def argmin(self, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Array:
        """Index of the smallest element."""
        return extremes.argmin(self, axis, out, keepdims=keepdims)

    def cumsum(self, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
        """Return running sums."""
        return cumulative.cumsum(self, axis, dtype, out)

    def cumprod(self, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
        """Return running products."""
        return cumulative.cumprod(self, axis, dtype, out)

    def reshape(self, *shape: Any, order: str = "C") -> Array:
        """Return the elements in another shape, given as a tuple or as separate sizes."""
        return shaping.reshape(self, shape[0] if len(shape) == 1 else shape, order)

    def ravel(self, order: str = "C") -> Array:
        """Return the elements as a vector."""
        return shaping.ravel(self, order)

    def flatten(self, order: str = "C") -> Array:
        """Return the elements as a new vector."""
        return shaping.ravel(self, order)._snapshot()

    def transpose(self, *axes: Any) -> Array:
        """Permute the axes; reverse them by default."""
        order = axes[0] if len(axes) == 1 and not hasattr(axes[0], "__index__") else axes
        return shaping.transpose(self, order if order else None)

    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """Two axes swapped."""
        return shaping.swapaxes(self, axis1, axis2)

    def squeeze(self, axis: Axis = None) -> Array:
        """Axes of size one removed."""
        return shaping.squeeze(self, axis)

    def repeat(self, repeats: Any, axis: int | None = None) -> Array:
        """Each element repeated."""
        return repeating.repeat(self, repeats, axis)

    def take(
        self,
        indices: ArrayLike,
        axis: int | None = None,
        *,
        mode: str | None = "raise",
        fill_value: Any = None,
    ) -> Array:
        """Elements along an axis."""
        return taking.take(self, indices, axis, mode=mode, fill_value=fill_value)

    def astype(self, dtype: Any, *, copy: bool = True, device: Any = None) -> Array:
        """Return the elements in another dtype."""
        return shaping.astype(self, dtype, copy=copy, device=device)

    def clip(self, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
        """Return the elements limited to an interval."""
        return rounding.clip(self, min, max)

    def round(self, decimals: int = 0) -> Array:
        """Return the elements rounded."""
        return rounding.round(self, decimals)

    def conj(self) -> Array:
        """Complex conjugates."""
        return elementwise.conjugate(self)

    def conjugate(self) -> Array:
        """Complex conjugates."""
        return elementwise.conjugate(self)

    def dot(self, b: ArrayLike) -> Array:
        """Inner product with `b`."""
        return contraction.dot(self, b)

    def sort(self, axis: int | None = -1, kind: str | None = None) -> Array:
        """Return a sorted array; unlike NumPy's method it leaves this one as it is."""
        return sorting.sort(self, axis, kind)

    def argsort(self, axis: int | None = -1, kind: str | None = None) -> Array:
        """Return the indices that sort."""
        return sorting.argsort(self, axis, kind)

    def searchsorted(self, v: ArrayLike, side: str = "left") -> Array:
        """Places that keep this vector sorted."""
        return searching.searchsorted(self, v, side)

    def nonzero(self, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
        """Return the indices of the elements that are not zero."""
        return positions.nonzero(self, size=size, fill_value=fill_value)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """Return the diagonals of matrices."""
        return matrices.diagonal(self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Array:
        """Return the sums of diagonals."""
        return matrices.trace(self, offset, axis1, axis2, dtype)
