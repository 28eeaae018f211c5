"""Collectives over the axes that `vmap(axis_name=...)` names, with JAX's names and meanings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

import tracer.numpy as tnp
from tracer import ops, tree
from tracer.array.array import Array
from tracer.array.convert import as_array, convert, scalar
from tracer.array.dispatch import apply
from tracer.autodiff.transforms import custom_jvp
from tracer.autodiff.transforms.named_axes import NamedAxis, named_axis
from tracer.errors import ArgumentError, ShapeError

_INT32 = np.dtype(np.int32)
Name = Hashable | tuple[Hashable, ...]


def _axes(what: str, name: Name) -> list[NamedAxis]:
    names = name if isinstance(name, tuple) else (name,)
    return [named_axis(what, each) for each in names]


def _one(what: str, name: Name) -> NamedAxis:
    axes = _axes(what, name)
    if len(axes) != 1:
        raise ArgumentError(
            f"{what} of the axes {name!r}", mend="give the name of one axis, and call it for each"
        )
    return axes[0]


def _no_groups(what: str, groups: Any) -> None:
    if groups is not None:
        raise ArgumentError(
            f"{what}: axis_index_groups are not supported",
            mend="leave it out; with two nested vmap each part of the axis has a name of its own",
        )


def axis_index(axis_name: Name) -> Array:
    """Return the number of the element along a named axis.

    Parameters
    ----------
    axis_name : hashable, or tuple of these
        Axes that `vmap(axis_name=...)` names around; of several, the last one counts fastest.

    Returns
    -------
    Array, int32 scalar
        From 0.

    Raises
    ------
    ArgumentError
        No axis is named so here.

    Examples
    --------
    >>> import tracer, tracer.numpy as tnp
    >>> from tracer import lax
    >>> tracer.vmap(lambda x: x + lax.axis_index("i"), axis_name="i")(tnp.array([5, 5, 5])).tolist()
    [5, 6, 7]
    """
    found = scalar(0, _INT32)
    for axis in _axes("axis_index", axis_name):
        found = found * axis.size + axis.index
    return found


def axis_size(axis_name: Name) -> int:
    """Return how many elements there are along a named axis, or along several together.

    Parameters
    ----------
    axis_name : hashable, or tuple of these
        Axes that `vmap(axis_name=...)` names around.

    Returns
    -------
    int

    Raises
    ------
    ArgumentError
        No axis is named so here.
    """
    size = 1
    for axis in _axes("axis_size", axis_name):
        size *= axis.size
    return size


def psum(x: Any, axis_name: Name, *, axis_index_groups: None = None) -> Any:
    """Sum over a named axis: each element gets the sum of all.

    Parameters
    ----------
    x : array_like, or these in any nesting
        What the element has. Truth values are counted. A Python number is multiplied by the size.
    axis_name : hashable, or tuple of these
        Axes that `vmap(axis_name=...)` names around.
    axis_index_groups : None
        Not supported.

    Returns
    -------
    As `x`
        The sums. Computed once for the batch: they have no batch axis.

    Raises
    ------
    ArgumentError
        No axis is named so here, or there are groups.

    Examples
    --------
    >>> import tracer, tracer.numpy as tnp
    >>> from tracer import lax
    >>> share = tracer.vmap(lambda x: x / lax.psum(x, "i"), axis_name="i")
    >>> share(tnp.array([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    _no_groups("psum", axis_index_groups)
    axes = _axes("psum", axis_name)

    def summed(leaf: Any) -> Any:
        if isinstance(leaf, int | float | complex) and not isinstance(leaf, bool):
            return leaf * axis_size(axis_name)
        array = as_array(leaf)
        array = convert(array, _INT32) if array.dtype.kind == "b" else array
        for axis in axes:
            array = apply(ops.axis_sum, array, axis.index, size=axis.size)
        return array

    return tree.map(summed, x)


def pmean(x: Any, axis_name: Name, *, axis_index_groups: None = None) -> Any:
    """Mean over a named axis: each element gets the mean of all.

    Parameters
    ----------
    x, axis_name, axis_index_groups
        See `psum`.

    Returns
    -------
    As `x`
        The means; of integers floats.

    Raises
    ------
    ArgumentError
        No axis is named so here, or there are groups.
    """
    size = axis_size(axis_name)
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    return tree.map(lambda leaf: leaf / size, total)


def _extreme(name: str, reduce: Callable[..., Array], adjective: str) -> Any:
    def extreme(x: Any, axis_name: Name, *, axis_index_groups: None = None) -> Any:
        _no_groups(name, axis_index_groups)
        axes = _axes(name, axis_name)

        def reduced(leaf: Any) -> Array:
            array = as_array(leaf)
            for axis in axes:
                array = reduce(_gathered(array, axis), axis=0)
            return array

        return tree.map(reduced, x)

    extreme.__name__ = extreme.__qualname__ = name
    extreme.__doc__ = f"""Keep the {adjective} along a named axis: each element gets that of all.

    Parameters
    ----------
    x, axis_name, axis_index_groups
        See `psum`.

    Returns
    -------
    As `x`
        The {adjective} elements, each by itself.

    Raises
    ------
    ArgumentError
        No axis is named so here, or there are groups.
    """
    return extreme


pmax = _extreme("pmax", tnp.max, "largest")
pmin = _extreme("pmin", tnp.min, "smallest")


def _gathered(x: Array, axis: NamedAxis) -> Array:
    """Stack what all elements have; its tangent is a sum of what each puts in its own place."""

    @custom_jvp
    def gathered(x: Array) -> Array:
        return apply(ops.axis_gather, x, axis.index, size=axis.size)

    def tangent_rule(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (t,) = tangents
        places = tnp.arange(axis.size, dtype=_INT32).reshape((axis.size, *(1,) * t.ndim))
        own = tnp.where(places == axis.index, t, tnp.zeros_like(t))
        return gathered(*primals), apply(ops.axis_sum, own, axis.index, size=axis.size)

    gathered.defjvp(tangent_rule)
    return gathered(x)  # type: ignore[no-any-return]


def all_gather(
    x: Any,
    axis_name: Name,
    *,
    axis_index_groups: None = None,
    axis: int = 0,
    tiled: bool = False,
) -> Any:
    """Give each element what all have, along a new axis.

    Parameters
    ----------
    x : array_like, or these in any nesting
        What the element has.
    axis_name : hashable, or tuple of these
        Axes that `vmap(axis_name=...)` names around; of several, the last one counts fastest.
    axis_index_groups : None
        Not supported.
    axis : int
        Where the new axis goes.
    tiled : bool
        Join along that axis of `x`, instead of a new one.

    Returns
    -------
    As `x`, with one more axis
        Computed once for the batch. The gradient takes time for the square of the axis's size.

    Raises
    ------
    ArgumentError
        No axis is named so here, or there are groups.
    """
    _no_groups("all_gather", axis_index_groups)
    axes = _axes("all_gather", axis_name)

    def stacked(leaf: Any) -> Array:
        array = as_array(leaf)
        shape = array.shape
        for each in reversed(axes):
            array = _gathered(array, each)
        array = array.reshape((axis_size(axis_name), *shape))
        place = axis % max(len(shape), 1) if tiled else axis
        array = tnp.moveaxis(array, 0, place)
        return _joined(array, place) if tiled else array

    return tree.map(stacked, x)


def _joined(x: Array, axis: int) -> Array:
    """Make one axis of one and the next."""
    return x.reshape((*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :]))


def _cut(what: str, x: Array, axis: int, size: int, *, tiled: bool) -> Array:
    """Return `x` with a part for each element in front."""
    axis %= max(x.ndim, 1)
    length = x.shape[axis] if x.ndim else 0
    if length % size if tiled else length != size:
        raise ShapeError(
            f"{what}: axis {axis} of {x.type} cannot be dealt out to {size} elements",
            mend=f"give it a multiple of {size} elements" if tiled else f"give it {size} elements",
        )
    if tiled:
        x = x.reshape((*x.shape[:axis], size, length // size, *x.shape[axis + 1 :]))
    return tnp.moveaxis(x, axis, 0)


def psum_scatter(
    x: Any,
    axis_name: Name,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: None = None,
    tiled: bool = False,
) -> Any:
    """Sum over a named axis, and give each element its part of the sum.

    Parameters
    ----------
    x, axis_name
        See `psum`.
    scatter_dimension : int
        The axis of `x` that is dealt out. Without `tiled` it has the size of the named axis, and
        goes.
    axis_index_groups : None
        Not supported.
    tiled : bool
        Give each element a run of that axis, which stays.

    Returns
    -------
    As `x`, with a smaller axis or one less

    Raises
    ------
    ArgumentError
        No axis is named so here, or there are groups.
    ShapeError
        The axis cannot be dealt out.
    """
    _no_groups("psum_scatter", axis_index_groups)
    index, size = axis_index(axis_name), axis_size(axis_name)

    def scattered(leaf: Any) -> Array:
        parts = _cut("psum_scatter", as_array(leaf), scatter_dimension, size, tiled=tiled)
        return psum(parts, axis_name)[index]  # type: ignore[no-any-return]

    return tree.map(scattered, x)


def all_to_all(
    x: Any,
    axis_name: Name,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: None = None,
    tiled: bool = False,
) -> Any:
    """Deal an axis out to the elements, and put together what comes from all of them.

    Parameters
    ----------
    x : array_like, or these in any nesting
        What the element has.
    axis_name : hashable
        The axis that `vmap(axis_name=...)` names.
    split_axis, concat_axis : int
        The axis of `x` that is dealt out, and where what comes is put. Without `tiled` the first
        has the size of the named axis and goes, and the second is new.
    axis_index_groups : None
        Not supported.
    tiled : bool
        Deal out runs, and join them along an axis that is there.

    Returns
    -------
    As `x`

    Raises
    ------
    ArgumentError
        No axis is named so here, or there are groups.
    ShapeError
        The axis cannot be dealt out.
    """
    _no_groups("all_to_all", axis_index_groups)
    axis = _one("all_to_all", axis_name)

    def dealt(leaf: Any) -> Array:
        parts = _cut("all_to_all", as_array(leaf), split_axis, axis.size, tiled=tiled)
        own = _gathered(parts, axis)[:, axis.index]
        place = concat_axis % max(own.ndim - (1 if tiled else 0), 1)
        own = tnp.moveaxis(own, 0, place)
        return _joined(own, place) if tiled else own

    return tree.map(dealt, x)


def pswapaxes(x: Any, axis_name: Name, axis: int, *, axis_index_groups: None = None) -> Any:
    """Exchange a named axis and one of the array, of the same size.

    Parameters
    ----------
    x : array_like, or these in any nesting
        What the element has.
    axis_name : hashable
        The axis that `vmap(axis_name=...)` names.
    axis : int
        The axis of `x`.
    axis_index_groups : None
        Not supported.

    Returns
    -------
    As `x`

    Raises
    ------
    ArgumentError
        No axis is named so here, or there are groups.
    ShapeError
        The sizes differ.
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def ppermute(x: Any, axis_name: Name, perm: Sequence[tuple[int, int]]) -> Any:
    """Give what elements have to others.

    Parameters
    ----------
    x, axis_name
        See `psum`.
    perm : sequence of (int, int)
        From which element to which. No element gives or gets twice; those that get nothing have
        zeros.

    Returns
    -------
    As `x`

    Raises
    ------
    ArgumentError
        No axis is named so here; a number is out of range or occurs twice.
    """
    size = axis_size(axis_name)
    pairs = [(int(source), int(target)) for source, target in perm]
    for numbers in zip(*pairs, strict=True):
        if len(set(numbers)) < len(numbers) or not all(0 <= n < size for n in numbers):
            raise ArgumentError(
                f"ppermute: {list(perm)} is no permutation of parts of {size} elements",
                mend="name each source and each target once, from 0",
            )
    sources = np.zeros(size, np.int32)
    gets = np.zeros(size, np.bool_)
    for source, target in pairs:
        sources[target], gets[target] = source, True
    index = axis_index(axis_name)

    def given(leaf: Any) -> Array:
        array = as_array(leaf)
        found = all_gather(array, axis_name)[tnp.asarray(sources)[index]]
        return tnp.where(tnp.asarray(gets)[index], found, tnp.zeros_like(array))  # type: ignore[no-any-return]

    return tree.map(given, x)


def pshuffle(x: Any, axis_name: Name, perm: Sequence[int]) -> Any:
    """Give each element what another one has.

    Parameters
    ----------
    x, axis_name
        See `psum`.
    perm : sequence of int
        For each element the one it gets from.

    Returns
    -------
    As `x`

    Raises
    ------
    ArgumentError
        No axis is named so here; `perm` is no permutation.
    """
    size = axis_size(axis_name)
    if sorted(perm) != list(range(size)):
        raise ArgumentError(
            f"pshuffle: {list(perm)} is no permutation of {size} elements",
            mend="name each element once, from 0",
        )
    return ppermute(x, axis_name, list(zip(perm, range(size), strict=True)))


def pbroadcast(x: Any, axis_name: Name, source: int) -> Any:
    """Give all elements what one has.

    Parameters
    ----------
    x, axis_name
        See `psum`.
    source : int
        The element.

    Returns
    -------
    As `x`

    Raises
    ------
    ArgumentError
        No axis is named so here, or it has no such element.
    """
    size, source = axis_size(axis_name), int(source)
    if not 0 <= source < size:
        raise ArgumentError(
            f"pbroadcast: there is no element {source} of {size}", mend=f"give 0 to {size - 1}"
        )
    return tree.map(lambda leaf: all_gather(leaf, axis_name)[source], x)
