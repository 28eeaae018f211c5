"""Apply a function of vectors along an axis, or of single elements, to whole arrays.

The function is recorded once and its graph is batched, so it must be traceable: it may not read
values. The result is one program, not a loop.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from tracer.array.array import Array, ArrayLike, get_evaluator
from tracer.array.convert import as_array, broadcast_shape, convert, normalize_axis, reshape
from tracer.array.dispatch import apply_graph
from tracer.array.recording import Recording, recorded
from tracer.errors import ArgumentError, DTypeError, ShapeError, shown
from tracer.ir import Graph, as_dtype
from tracer.numpy.shaping import broadcast_to, moveaxis

_SIGNATURE = re.compile(r"\(([\w,\s]*)\)")


def _map_rows(function: Callable[..., Any], rows: Sequence[Array], size: int) -> list[Array]:
    """Apply a function of arrays to each of `size` rows; its results get a first axis."""

    def record(recording: Recording) -> tuple[Graph, list[Array]]:
        arguments = [recording.argument(row.type.with_shape(row.shape[1:])) for row in rows]
        results = function(*arguments)
        many = isinstance(results, tuple)
        return recording.finish([as_array(result) for result in (results if many else (results,))])

    graph, captured = recorded(record)
    flags = [True] * len(rows) + [False] * len(captured)
    return apply_graph(get_evaluator().batch(graph, flags, size), [*rows, *captured])


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Array:
    """Apply a function to every vector along an axis.

    Parameters
    ----------
    func1d : callable
        Takes a vector, returns an array; must be traceable.
    axis : int
        The axis of the vectors.
    arr : array_like
        The data.
    *args, **kwargs
        Passed to the function.

    Returns
    -------
    Array
        The axes of the function's result in place of the axis.

    Raises
    ------
    TracingError
        The function looks at values.
    """
    x = as_array(arr)
    number = normalize_axis(axis, x.ndim)
    moved = moveaxis(x, number, -1)
    batch = moved.shape[:-1]
    size = math.prod(batch)
    rows = reshape(moved, (size, moved.shape[-1]))
    (result,) = _map_rows(lambda row: func1d(row, *args, **kwargs), [rows], size)
    tail = result.shape[1:]
    placed = reshape(result, (*batch, *tail))
    count = len(batch)
    inner = range(count, count + len(tail))
    return placed.transpose((*range(number), *inner, *range(number, count)))


def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: int | Sequence[int]) -> Array:
    """Apply a reduction such as `sum` over axes one after the other; axes stay with size one."""
    result, several = as_array(a), axes if isinstance(axes, Sequence) else (axes,)
    for axis in several:
        number = normalize_axis(axis, as_array(a).ndim)
        reduced = as_array(func(result, number))
        if reduced.ndim == result.ndim - 1:
            shape = (*reduced.shape[:number], 1, *reduced.shape[number:])
            reduced = reshape(reduced, shape)
        if reduced.ndim != result.ndim:
            raise ShapeError(
                f"apply_over_axes: the function returned {reduced.ndim} axes for {result.ndim}",
                mend="use one that reduces a single axis, such as sum",
            )
        result = reduced
    return result


def vectorize(
    pyfunc: Callable[..., Any],
    otypes: Any = None,
    doc: str | None = None,
    excluded: Collection[int | str] | None = None,
    cache: bool = False,
    signature: str | None = None,
) -> Callable[..., Any]:
    """Make a function of single elements (or of vectors, by a signature) one of whole arrays.

    Parameters
    ----------
    pyfunc : callable
        Must be traceable: it may not look at values. It is called once for each type.
    otypes : sequence of dtype or str, optional
        The dtypes of the results.
    doc : str, optional
        Documentation of the new function.
    excluded : set of int or str, optional
        Arguments that are passed as they are.
    cache : bool
        Without effect.
    signature : str, optional
        Such as "(n),(n)->()": how many axes of each argument belong to one element.

    Returns
    -------
    callable
        Broadcasts its arguments and returns an array, or a tuple of arrays.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> dot = tnp.vectorize(tnp.dot, signature="(n),(n)->()")
    >>> dot(tnp.ones((4, 3)), tnp.ones(3))
    Array([3., 3., 3., 3.])
    """
    del cache
    if not callable(pyfunc):
        raise DTypeError(f"vectorize: {shown(pyfunc)} is no function", mend="give a function")
    left_out = set(excluded or ())
    cores = None if signature is None else _core_axes(signature)

    def function(*args: Any, **kwargs: Any) -> Any:
        places = [i for i in range(len(args)) if i not in left_out]
        named = [name for name in kwargs if name not in left_out]
        arrays = [as_array(args[i]) for i in places] + [as_array(kwargs[name]) for name in named]

        def element(*parts: Any) -> Any:
            mapped, values = list(args), dict(kwargs)
            for place, part in zip(places, parts, strict=False):
                mapped[place] = part
            values.update(zip(named, parts[len(places) :], strict=True))
            return pyfunc(*mapped, **values)

        return _broadcast_call(element, arrays, cores, otypes)

    function.__name__ = getattr(pyfunc, "__name__", "vectorized")
    function.__doc__ = doc if doc is not None else pyfunc.__doc__
    return function


def _core_axes(signature: str) -> list[int]:
    left, arrow, _ = signature.partition("->")
    found = [len([n for n in core.split(",") if n.strip()]) for core in _SIGNATURE.findall(left)]
    if not arrow or not found:
        raise ArgumentError(
            f"vectorize: signature {signature!r} is not known", mend='write "(m,n),(n)->(m)"'
        )
    return found


def _broadcast_call(
    element: Callable[..., Any], arrays: list[Array], cores: list[int] | None, otypes: Any
) -> Any:
    counts = [0] * len(arrays) if cores is None else cores
    if len(counts) != len(arrays):
        raise ArgumentError(
            f"vectorize: {len(arrays)} arguments for a signature of {len(counts)}",
            mend="give as many as the signature has",
        )
    tails = [x.shape[x.ndim - count :] for x, count in zip(arrays, counts, strict=True)]
    heads = [x.shape[: x.ndim - count] for x, count in zip(arrays, counts, strict=True)]
    batch = broadcast_shape("vectorize", *heads) if heads else ()
    size = 1
    for length in batch:
        size *= length
    rows = [
        reshape(broadcast_to(x, (*batch, *tail)), (size, *tail))
        for x, tail in zip(arrays, tails, strict=True)
    ]
    many = []

    def once(*parts: Any) -> Any:
        result = element(*parts)
        many.append(isinstance(result, tuple))
        return result

    results = [
        reshape(result, (*batch, *result.shape[1:])) for result in _map_rows(once, rows, size)
    ]
    if otypes is not None:
        pairs = zip(results, otypes, strict=True)
        results = [convert(result, as_dtype(dtype)) for result, dtype in pairs]
    return tuple(results) if many[-1] else results[0]
