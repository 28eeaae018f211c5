"""associative_scan, with JAX's name and argument order.

It computes all running results of n elements in about 2 log2 n vectorised steps: combine pairs,
scan the pairs, fill in the elements between. Source: Blelloch, "Prefix sums and their applications"
(1990); `jax.lax.associative_scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracer import ops, tree
from tracer.array.array import Array
from tracer.array.dispatch import apply
from tracer.control.bodies import Arguments, check_callable, check_same, flatten_arguments
from tracer.errors import ArgumentError, AxisError, ShapeError, with_short_traceback
from tracer.ops.rules import as_tuple

Combine = Callable[[Sequence[Array], Sequence[Array]], list[Array]]


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
    place, size = _axis_and_size(name, given, axis)
    arrays = given.arrays
    if reverse:
        arrays = [apply(ops.reverse, x, dimensions=(place,)) for x in arrays]
    results = _Scan(name, fn, given, place).run(arrays, size)
    if reverse:
        results = [apply(ops.reverse, x, dimensions=(place,)) for x in results]
    return tree.unflatten(given.structure, results)


def _axis_and_size(name: str, given: Arguments, axis: int) -> tuple[int, int]:
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
    return places[0], sizes.pop()


class _Scan:
    """The recursion over lists of leaves."""

    def __init__(
        self, name: str, fn: Callable[[Any, Any], Any], given: Arguments, axis: int
    ) -> None:
        self.name, self.fn, self.given, self.axis = name, fn, given, axis

    def run(self, arrays: list[Array], size: int) -> list[Array]:
        """Return the running results of `size` elements."""
        if size < 2:
            return arrays
        pairs = size // 2
        both = self.every_other(arrays, 0, pairs), self.every_other(arrays, 1, pairs)
        odd = _stored(self.run(_stored(self.combine(*both)), pairs))
        rest = (size - 1) // 2
        first = [self.cut(x, 0, 1, 1) for x in arrays]
        if not rest:
            return self.joined(first, odd)
        before = [self.cut(x, 0, rest, 1) for x in odd]
        between = self.combine(before, self.every_other(arrays, 2, rest))
        return self.interleaved(self.joined(first, between), odd, size)

    def combine(self, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        """Apply the function and check what it returns."""
        structure = self.given.structure
        result = self.fn(tree.unflatten(structure, left), tree.unflatten(structure, right))
        found = flatten_arguments(self.name, "the result of fn", result)
        check_same(
            self.name,
            ("elems", structure, [x.type for x in left]),
            ("the result of fn", found.structure, found.types),
            self.given.paths,
            "return what the function takes, with the same shapes and dtypes",
        )
        return found.arrays

    def every_other(self, arrays: Sequence[Array], start: int, count: int) -> list[Array]:
        """Return `count` elements from `start` in steps of two."""
        return [self.cut(x, start, start + 2 * count - 1, 2) for x in arrays]

    def cut(self, x: Array, start: int, limit: int, stride: int) -> Array:
        """Return a slice along the axis."""
        return apply(
            ops.slice,
            x,
            start=tuple(start if i == self.axis else 0 for i in range(x.ndim)),
            limit=tuple(limit if i == self.axis else n for i, n in enumerate(x.shape)),
            strides=tuple(stride if i == self.axis else 1 for i in range(x.ndim)),
        )

    def joined(self, first: Sequence[Array], second: Sequence[Array]) -> list[Array]:
        """Return one after the other."""
        pairs = zip(first, second, strict=True)
        return [apply(ops.concatenate, x, y, dimension=self.axis) for x, y in pairs]

    def interleaved(self, even: list[Array], odd: list[Array], size: int) -> list[Array]:
        """Return even[0], odd[0], even[1], odd[1], ..., `size` elements of them."""
        results = []
        for x, y in zip(even, odd, strict=True):
            count = y.shape[self.axis]
            shape = (*y.shape[: self.axis], 2 * count, *y.shape[self.axis + 1 :])
            columns = [
                apply(
                    ops.reshape,
                    part,
                    shape=(*shape[: self.axis], count, 1, *y.shape[self.axis + 1 :]),
                )
                for part in (self.cut(x, 0, count, 1), y)
            ]
            pairs = apply(ops.concatenate, *columns, dimension=self.axis + 1)
            mixed = apply(ops.reshape, pairs, shape=shape)
            if size % 2:
                last = self.cut(x, count, count + 1, 1)
                mixed = apply(ops.concatenate, mixed, last, dimension=self.axis)
            results.append(mixed)
        return results


def _stored(arrays: Sequence[Array]) -> list[Array]:
    """Keep XLA from computing a level again for each element of the next one that reads it."""
    return list(as_tuple(apply(ops.optimization_barrier, *arrays)))


__all__ = ["associative_scan"]
