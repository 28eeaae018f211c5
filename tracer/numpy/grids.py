"""Index arrays and coordinate grids."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_shape, convert, reshape, with_ndim
from tracer.array.dispatch import from_host
from tracer.array.placement import beside_arguments
from tracer.errors import ArgumentError, DTypeError, ShapeError, shown
from tracer.ir import as_dtype, require_countable
from tracer.numpy.arithmetic import power
from tracer.numpy.bounds import looked_at
from tracer.numpy.joining import stack
from tracer.numpy.positions import nonzero
from tracer.numpy.ranges import iota, linspace
from tracer.numpy.rounding import clip
from tracer.numpy.shaping import expand_dims

_INT64 = as_dtype("int64")


def indices(dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    """Return the index along each axis of a grid.

    Parameters
    ----------
    dimensions : tuple of int
        The shape of the grid.
    dtype : dtype
        Of the result; int64 by default.
    sparse : bool
        Return a tuple of arrays that broadcast to the grid in place of one array.

    Returns
    -------
    Array, shape (axes, *dimensions), or tuple of Array
        The indices.
    """
    shape, wanted = as_shape(dimensions), as_dtype(dtype)
    if sparse:
        return tuple(
            convert(iota(shape=_only(shape, axis), dtype=_INT64, dimension=axis), wanted)
            for axis in range(len(shape))
        )
    if not shape:
        return from_host(np.zeros((0,), wanted))
    rows = [iota(shape=shape, dtype=_INT64, dimension=axis) for axis in range(len(shape))]
    return convert(stack(rows), wanted)


def _only(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(size if i == axis else 1 for i, size in enumerate(shape))


@beside_arguments
def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Return index arrays whose product is a grid: `x[ix_([0, 1], [2, 3])]`; see `numpy.ix_`."""
    results = []
    for axis, value in enumerate(args):
        # Lists stay on the host, where the places of true elements can be found.
        plain = value if isinstance(value, Array) else np.asarray(value)
        plain = np.asarray(value, np.int64) if _is_empty(value) else plain
        if isinstance(plain, np.ndarray) and plain.dtype.kind == "b" and plain.ndim == 1:
            plain = np.flatnonzero(plain)
        index = as_array(plain)
        if index.ndim != 1:
            raise ShapeError(f"ix_ takes vectors, not shape {index.shape}", mend="give vectors")
        if index.dtype.kind == "b":
            index = nonzero(index)[0]
        results.append(reshape(index, _only((index.size,) * len(args), axis)))
    return tuple(results)


def _is_empty(value: Any) -> bool:
    # NumPy makes floats of an empty list.
    return isinstance(value, list | tuple) and not value


class Grid:
    """What `mgrid` and `ogrid` are: slices in brackets become coordinates.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> tnp.mgrid[0:2, 0:3].shape
    (2, 2, 3)
    """

    def __init__(self, numpys: Any) -> None:
        self._numpys = numpys

    def __getitem__(self, key: Any) -> Any:
        """Return the coordinates.

        Raises
        ------
        ArgumentError
            No memory has room for them, or these are no slices with an end.
        """
        try:
            found = self._numpys[key]
        except (ArithmeticError, AttributeError, MemoryError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"a grid of {shown(key)}: {error}",
                mend="give slices with an end, such as mgrid[0:2, 0:3], of fewer places",
            ) from error
        return tuple(map(from_host, found)) if isinstance(found, tuple) else from_host(found)


mgrid = Grid(np.mgrid)
ogrid = Grid(np.ogrid)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of an array of equal sizes."""
    return (iota(shape=(operator.index(n),), dtype=_INT64, dimension=0),) * ndim


@beside_arguments
def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Return the indices of the main diagonal of an array; see `diag_indices`."""
    x = as_array(arr)
    if x.ndim < 2 or len(set(x.shape)) != 1:
        raise ShapeError(
            f"diag_indices_from does not fit shape {x.shape}",
            mend="give two or more axes of equal sizes",
        )
    return diag_indices(x.shape[0], x.ndim)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, ...]:
    """Return the indices of the elements on and below a diagonal; see `numpy.tril_indices`."""
    return tuple(map(from_host, np.tril_indices(n, k, m)))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, ...]:
    """Return the indices of the elements on and above a diagonal; see `numpy.triu_indices`."""
    return tuple(map(from_host, np.triu_indices(n, k, m)))


@beside_arguments
def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, ...]:
    """Return `tril_indices` for a matrix."""
    return tril_indices(_matrix_shape(arr)[0], k, _matrix_shape(arr)[1])


@beside_arguments
def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, ...]:
    """Return `triu_indices` for a matrix."""
    return triu_indices(_matrix_shape(arr)[0], k, _matrix_shape(arr)[1])


def _matrix_shape(arr: ArrayLike) -> tuple[int, ...]:
    shape = as_array(arr).shape
    if len(shape) != 2:
        raise ShapeError(f"there are no triangle indices of shape {shape}", mend="give a matrix")
    return shape


def mask_indices(n: int, mask_func: Callable[..., Any], k: int = 0) -> tuple[Array, ...]:
    """Return where a function such as `triu` leaves a matrix of ones; see `numpy.mask_indices`."""
    return nonzero(mask_func(from_host(np.ones(as_shape((n, n)), np.int64)), k))


def unravel_index(indices: ArrayLike, shape: Any, order: str = "C") -> tuple[Array, ...]:
    """Return the indices along the axes of a shape for flat indices.

    Parameters
    ----------
    indices : array_like of int
        Concrete ones must be within the shape; traced ones are not checked.
    shape : tuple of int
        The shape.
    order : {"C", "F"}
        Whether the last or the first axis runs fastest.

    Returns
    -------
    tuple of Array
        One for each axis.
    """
    flat, sizes = _integers("unravel_index", indices), as_shape(shape)
    if order not in ("C", "F"):
        raise ArgumentError(
            f"unravel_index: order {order!r} is not known", mend='give order="C" or "F"'
        )
    if not flat.is_traced and flat.size:
        host = np.asarray(flat)
        if host.min() < 0 or host.max() >= math.prod(sizes):
            raise ArgumentError(
                f"unravel_index: an index is out of bounds for shape {sizes}",
                mend=f"give indices from 0 to {math.prod(sizes) - 1}",
            )
    results = []
    for size in sizes[::-1] if order == "C" else sizes:
        results.append(flat % max(size, 1))
        flat = flat // max(size, 1)
    return tuple(results[::-1] if order == "C" else results)


def _integers(name: str, value: ArrayLike) -> Array:
    array = as_array(value)
    if array.dtype.kind not in "iu":
        raise DTypeError(f"{name} takes integers, not {array.type}", mend="convert with astype")
    return convert(array, _INT64)


def ravel_multi_index(
    multi_index: Sequence[ArrayLike],
    dims: Any,
    mode: str | Sequence[str] = "raise",
    order: str = "C",
) -> Array:
    """Return the flat indices for indices along the axes of a shape.

    Parameters
    ----------
    multi_index : sequence of array_like of int
        One for each axis.
    dims : tuple of int
        The shape.
    mode : {"raise", "wrap", "clip"}
        What happens out of bounds; "raise" is for concrete indices, traced ones are not checked.
    order : {"C", "F"}
        Whether the last or the first index runs fastest.

    Returns
    -------
    Array of int64
        The flat indices.
    """
    sizes = as_shape(dims)
    parts = [_integers("ravel_multi_index", part) for part in multi_index]
    modes = (mode,) * len(sizes) if isinstance(mode, str) else tuple(mode)
    if not len(parts) == len(sizes) == len(modes) or order not in ("C", "F"):
        raise ArgumentError(
            f"ravel_multi_index: {len(parts)} indices, {len(modes)} modes, {len(sizes)} axes, "
            f"order {order!r}",
            mend='give one for each axis, and order="C" or "F"',
        )
    triples = list(zip(parts, sizes, modes, strict=True))
    result: Any = 0
    for part, size, rule in triples if order == "C" else triples[::-1]:
        result = result * size + _bounded(part, size, rule)
    return as_array(result)


def _bounded(index: Array, size: int, mode: str) -> Array:
    if mode == "wrap":
        return index % size
    if mode == "clip":
        return clip(index, 0, size - 1)
    if mode != "raise":
        raise ArgumentError(f"mode {mode!r} is not known", mend="use raise, clip or wrap")
    known = looked_at(index)
    if known is not None and ((known < 0) | (known >= size)).any():
        raise ArgumentError(
            f"ravel_multi_index: an index is out of bounds for size {size}",
            mend='use mode="wrap" or mode="clip"',
        )
    return index


def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any
) -> Any:
    """Call a function once with the index arrays of a shape; see `numpy.fromfunction`."""
    return function(*indices(shape, dtype), **kwargs)


def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """Return numbers whose logarithms to a base are evenly spaced; see `linspace`."""
    if promotion.weak_class(base) is None and as_array(base).ndim:
        # Bases are along axes of the ends, beside the new one.
        count = max(as_array(one).ndim for one in (start, stop, base))
        start, stop, base = (with_ndim(as_array(one), count) for one in (start, stop, base))
        base = expand_dims(base, axis)
    result = power(base, linspace(start, stop, num, endpoint, axis=axis))
    return result if dtype is None else result.astype(dtype)


@beside_arguments
def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """Return concrete numbers that grow by one factor; see `numpy.geomspace`."""
    if any(isinstance(end, Array) and end.is_traced for end in (start, stop)):
        raise DTypeError(
            "geomspace cannot take traced numbers",
            mend="use exp(linspace(log(start), log(stop), num)) for positive ones",
        )
    wanted = None if dtype is None else as_dtype(dtype)
    ends = [np.asarray(end) for end in (start, stop)]
    # NumPy does not know in what to compute bfloat16; that of float16 is float64.
    ends = [end.astype(float) if end.dtype.kind == "V" else end for end in ends]
    numbers = np.geomspace(ends[0], ends[1], num, endpoint, wanted, axis)
    is_own = wanted is None and all(map(promotion.weak_class, (start, stop)))
    return from_host(promotion.as_default(numbers) if is_own else numbers)


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:  # noqa: N803
    """Return the powers of a vector as the columns of a matrix; see `numpy.vander`."""
    column = as_array(x)
    if column.ndim != 1:
        raise ShapeError(f"vander takes a vector, not shape {column.shape}", mend="give a vector")
    count = column.size if N is None else operator.index(N)
    require_countable((column.size, max(count, 0)), np.dtype(np.int64))
    exponents = np.arange(count) if increasing else np.arange(count)[::-1]
    wide = column.astype(int) if column.dtype.kind == "b" else column
    wanted = promotion.promote_types(wide.dtype, np.int64)
    return power(wide.astype(wanted)[:, None], from_host(exponents.copy()))
