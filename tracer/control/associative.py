"""associative_scan, with JAX's name and argument order.

It computes all running results of n elements in about 2 log2 n vectorised steps (`accumulated`).
Source: `jax.lax.associative_scan`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer import ops, tree
from tracer.array.array import Array
from tracer.array.dispatch import apply
from tracer.control.bodies import Arguments, check_callable, check_same, flatten_arguments
from tracer.errors import ArgumentError, AxisError, ShapeError, with_short_traceback
from tracer.numpy.associative import Combine, accumulated


@with_short_traceback
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Combine the elements of arrays from the first up to each one, in parallel.

    Parameters
    ----------
    fn : callable
        Takes two trees of arrays, nested as `elems`, and combines them element by element along
        `axis` (of any size); it must be associative. It may close over arrays.
    elems
        Arrays in any nesting, all of one size along `axis`.
    reverse : bool
        Combine from the last element down to each one.
    axis : int
        The axis of the elements.

    Returns
    -------
    result
        Nested as `elems`, with the same shapes and dtypes.

    Raises
    ------
    ArgumentError
        There are no `elems`.
    AxisError
        An array has no such axis.
    ShapeError, DTypeError, TracingError
        The sizes along the axis differ, or `fn` returns something of another type.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> tracer.associative_scan(tnp.add, tnp.arange(5)).tolist()
    [0, 1, 3, 6, 10]
    """
    name = "associative_scan"
    check_callable(name, "fn", fn)
    given = flatten_arguments(name, "elems", elems)
    place = _axis(name, given, axis)
    arrays = given.arrays
    if reverse:
        arrays = [apply(ops.reverse, x, dimensions=(place,)) for x in arrays]
    results = accumulated(arrays, place, _checked(name, fn, given))
    if reverse:
        results = [apply(ops.reverse, x, dimensions=(place,)) for x in results]
    return tree.unflatten(given.structure, results)


def _axis(name: str, given: Arguments, axis: int) -> int:
    if not given.arrays:
        raise ArgumentError(f"{name}: elems holds no arrays", mend="give one array or more")
    ndims = [type.ndim for type in given.types]
    for path, type in zip(given.paths, given.types, strict=True):
        if not -type.ndim <= axis < type.ndim:
            raise AxisError(
                f"{name}: elems{path} is {type} and has no axis {axis}",
                mend="give arrays that all have the axis",
            )
    places = [axis % ndim for ndim in ndims]
    sizes = {type.shape[place] for type, place in zip(given.types, places, strict=True)}
    if len(sizes) > 1 or len(set(places)) > 1:
        raise ShapeError(
            f"{name}: {', '.join(map(str, given.types))} differ along axis {axis}",
            mend="give arrays of one size along the axis, and a non-negative axis where their "
            "numbers of dimensions differ",
        )
    return places[0]


def _checked(name: str, fn: Callable[[Any, Any], Any], given: Arguments) -> Combine:
    """Return a function that takes and returns leaves, and checks what `fn` returns."""

    def combine(*both: Array) -> list[Array]:
        structure = given.structure
        left, right = both[: len(both) // 2], both[len(both) // 2 :]
        result = fn(tree.unflatten(structure, left), tree.unflatten(structure, right))
        found = flatten_arguments(name, "the result of fn", result)
        check_same(
            name,
            ("elems", structure, [x.type for x in left]),
            ("the result of fn", found.structure, found.types),
            given.paths,
            "return what the function takes, with the same shapes and dtypes",
        )
        return found.arrays

    return combine


__all__ = ["associative_scan"]
