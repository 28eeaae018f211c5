"""map, one element or one batch at a time, with JAX's names and argument order."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tracer import tree
from tracer.array.array import Array
from tracer.array.weak import as_weak
from tracer.autodiff.transforms import vmap
from tracer.control.bodies import check_callable, flatten_arguments
from tracer.control.scanning import count_steps, scan
from tracer.errors import ArgumentError, with_short_traceback
from tracer.numpy.joining import concatenate


@with_short_traceback
def map(  # noqa: A001 - named as in JAX
    f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None
) -> Any:
    """Apply a function to the slices of arrays along axis 0, one after the other.

    Parameters
    ----------
    f : callable
        Takes a slice. It may close over arrays.
    xs
        Arrays in any nesting, all of one size along axis 0.
    batch_size : int, optional
        Apply `vmap(f)` to so many slices at a time: faster than one by one, and with less memory
        than all at once.

    Returns
    -------
    result
        The results, stacked along axis 0.

    Raises
    ------
    ShapeError
        `xs` do not fit together.
    ArgumentError
        `batch_size` is no integer of 1 or more, or there are no `xs`.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> tracer.map(lambda x: x * x, tnp.arange(3.0), batch_size=2).tolist()
    [0.0, 1.0, 4.0]
    """
    check_callable("map", "f", f)
    slices = flatten_arguments("map", "xs", xs)
    if not slices.arrays:
        raise ArgumentError("map: xs holds no arrays", mend="give one array or more")
    steps = count_steps("map", slices, None)
    size = _batch_size(batch_size)
    if size is None or steps == 0:
        return scan(lambda _, x: ((), f(x)), (), xs)[1]
    given = tree.unflatten(slices.structure, slices.arrays)
    whole = steps - steps % size
    parts = []
    if whole:
        batches = tree.map(lambda x: x[:whole].reshape(whole // size, size, *x.shape[1:]), given)
        results = scan(lambda _, batch: ((), vmap(f)(batch)), (), batches)[1]
        parts.append(tree.map(lambda y: y.reshape(whole, *y.shape[2:]), results))
    if whole < steps:
        parts.append(vmap(f)(tree.map(lambda x: x[whole:], given)))
    return parts[0] if len(parts) == 1 else tree.map(_joined, *parts)


def _joined(first: Array, second: Array) -> Array:
    joined = concatenate((first, second))
    return as_weak(joined) if first.weak_type and second.weak_type else joined


def _batch_size(size: Any) -> int | None:
    if size is None:
        return None
    try:
        number = 0 if isinstance(size, bool) else operator.index(size)
    except TypeError:
        number = 0
    if number < 1:
        raise ArgumentError(f"map: batch_size is {size!r}", mend="give an integer of 1 or more")
    return number


__all__ = ["map"]
