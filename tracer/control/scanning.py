"""scan, with JAX's name and argument order."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer import ops, tree
from tracer.array.array import Array
from tracer.array.convert import as_array
from tracer.array.dispatch import apply_many
from tracer.array.weak import Signature, WeakType, weakened
from tracer.control.bodies import (
    Arguments,
    Body,
    Captures,
    check_callable,
    flatten_arguments,
    trace_body,
)
from tracer.control.carry import check_carry, settle_carry
from tracer.control.unrolling import run_unrolled
from tracer.errors import ArgumentError, ShapeError, TracingError, with_short_traceback
from tracer.ir import require_countable


@with_short_traceback
def scan(
    f: Callable[[Any, Any], Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Any, Any]:
    """Apply a function to the slices of arrays, one after the other, with a carry.

    Parameters
    ----------
    f : callable
        `(carry, slice) -> (carry, result)`. It may close over arrays.
    init
        The first carry: arrays in any nesting.
    xs
        Arrays in any nesting, all of one size along axis 0; None for none.
    length : int, optional
        The number of steps; needed without `xs`.
    reverse : bool
        Go from the last slice to the first; results stay in the order of the slices.
    unroll : int or bool
        Steps written out in a row, for speed; True for all.

    Returns
    -------
    carry
        The last carry.
    results
        The results of the steps, stacked along axis 0.

    Raises
    ------
    ShapeError, DTypeError, TracingError
        The carry changes its shape, dtype or structure; `xs` do not fit together.
    ArgumentError
        `length` or `unroll` makes no sense.

    Notes
    -----
    Its gradient keeps, for every step, the values that the backward step reads; with
    `tracer.checkpoint(f)` only the carries.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> total, sums = tracer.scan(lambda s, x: (s + x, s + x), 0.0, tnp.arange(4.0))
    >>> float(total), sums.tolist()
    (6.0, [0.0, 1.0, 3.0, 6.0])
    """
    check_callable("scan", "f", f)
    return scan_steps("scan", f, ("init", init), xs, length, reverse, unroll)


def scan_steps(
    name: str,
    f: Callable[[Any, Any], Any],
    first: tuple[str, Any],
    xs: Any,
    length: int | None,
    reverse: bool = False,
    unroll: int | bool = 1,
    inside: str = "",
) -> tuple[Any, Any]:
    """Scan for the function that users called, which `name` says.

    `first` is the name and the value of the first carry; `inside` is where in it that stands which
    users gave.
    """
    slices = flatten_arguments(name, "xs", xs)
    steps = count_steps(name, slices, length)
    copies = _copies(name, unroll, steps)
    given = flatten_arguments(name, *first, inside)
    loop = _Loop(name, f, given, tree.structure((first[1], xs)), slices, steps)
    arrays = weakened(loop.run(bool(reverse), copies), loop.weak)
    carry = tree.unflatten(given.structure, arrays[: len(given.arrays)])
    return carry, tree.unflatten(loop.results, arrays[len(given.arrays) :])


def count_steps(name: str, slices: Arguments, length: Any) -> int:
    """Return the common size of arrays along axis 0, and check it."""
    for path, type in zip(slices.paths, slices.types, strict=True):
        if not type.shape:
            raise ShapeError(
                f"{name}: xs{path} is a scalar, {type}; there is no axis to take slices along",
                mend="give arrays; close over what is the same in every step",
            )
    sizes = {type.shape[0]: path for path, type in zip(slices.paths, slices.types, strict=True)}
    if length is not None:
        try:
            steps = operator.index(length)
        except TypeError as error:
            raise ArgumentError(f"{name}: length is {length!r}", mend="give an integer") from error
        sizes.setdefault(steps, "length")
    if not sizes:
        raise ArgumentError(
            f"{name}: the number of steps is not known", mend="give xs, or length=n"
        )
    if len(sizes) > 1:
        shown = ", ".join(f"{size} ({path or 'xs'})" for size, path in sizes.items())
        raise ShapeError(
            f"{name}: the sizes along axis 0 differ: {shown}",
            mend="give arrays with one size along axis 0, equal to length if that is given",
        )
    steps = next(iter(sizes))
    if steps < 0:
        raise ArgumentError(f"{name}: length is {steps}", mend="give zero or more")
    require_countable((steps,), np.dtype(bool))
    return steps


def _copies(name: str, unroll: Any, steps: int) -> int:
    if isinstance(unroll, bool):
        return max(1, steps) if unroll else 1
    try:
        copies = operator.index(unroll)
    except TypeError:
        copies = 0
    if copies < 1:
        raise ArgumentError(
            f"{name}: unroll is {unroll!r}", mend="give an integer of 1 or more, or a bool"
        )
    return min(copies, max(1, steps))


class _Loop:
    """A traced scan."""

    def __init__(
        self,
        name: str,
        f: Callable[..., Any],
        init: Arguments,
        structure: tree.Structure,
        slices: Arguments,
        steps: int,
    ) -> None:
        rows = [type.with_shape(type.shape[1:]) for type in slices.signatures]

        def trace(types: Sequence[Signature]) -> Body:
            return trace_body(name, _pair_checked(name, f), structure, [*types, *rows], types)

        self.init, self.body = settle_carry(init, trace)
        self.slices, self.steps = slices, steps
        outputs = self.body.graph.output_types
        pair = tree.unflatten(self.body.structure, range(len(outputs)))
        carried = len(tree.leaves(pair[0]))
        check_carry(name, self.init, tree.structure(pair[0]), self.body.graph.outputs[:carried])
        self.results = tree.structure(pair[1])
        self.rows = outputs[carried:]
        self.weak = [i for i, type in enumerate(self.body.outputs) if isinstance(type, WeakType)]

    def run(self, reverse: bool, copies: int) -> Sequence[Array]:
        """Emit the loop; returns the carry and the stacked results."""
        if self.steps == 0:
            empty = [np.zeros((0, *row.shape), row.dtype) for row in self.rows]
            return [*self.init.arrays, *(as_array(array) for array in empty)]
        if not self.body.graph.outputs:
            return []
        captures = Captures(self.body)
        count = len(self.init.arrays)
        graph = captures.graph_of(self.body)
        if copies > 1:
            return run_unrolled(
                graph,
                captures.arrays,
                self.init.arrays,
                self.slices.arrays,
                steps=self.steps,
                copies=copies,
                reverse=reverse,
            )
        return apply_many(
            ops.scan,
            *captures.arrays,
            *self.init.arrays,
            *self.slices.arrays,
            body=graph,
            length=self.steps,
            num_consts=len(captures.arrays),
            num_carry=count,
            reverse=reverse,
        )


def _pair_checked(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
    def checked(carry: Any, row: Any) -> Any:
        result = f(carry, row)
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise TracingError(
                f"{name}: the body returned {result!r}, which is no pair",
                mend="return (carry, result); result may be None",
            )
        return tuple(result)

    checked.__name__ = getattr(f, "__name__", "the body")
    return checked


__all__ = ["count_steps", "scan", "scan_steps"]
