"""cond and switch, with JAX's names and argument order: one `case` op each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer import ops, tree
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert
from tracer.array.dispatch import apply, apply_many
from tracer.array.promotion import promote_types
from tracer.array.weak import Signature, WeakType, weakened
from tracer.control.bodies import (
    Arguments,
    Body,
    Captures,
    check_callable,
    check_same,
    flatten_arguments,
    trace_body,
)
from tracer.errors import ArgumentError, DTypeError, ShapeError, with_short_traceback

_INT32 = np.dtype(np.int32)


@with_short_traceback
def cond(
    pred: ArrayLike,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
) -> Any:
    """Apply one of two functions; only the chosen one runs.

    Parameters
    ----------
    pred : array, shape ()
        Bool, or a number, of which zero means false.
    true_fun, false_fun : callable
        Take `operands`; return results of one structure, shapes and dtypes. They may close over
        arrays.
    *operands
        Arrays in any nesting.

    Returns
    -------
    result
        `true_fun(*operands)` or `false_fun(*operands)`.

    Raises
    ------
    ShapeError, DTypeError, TracingError
        The results differ in shape, dtype or structure; `pred` is no scalar.

    Examples
    --------
    >>> import tracer
    >>> float(tracer.cond(True, lambda x: x + 1, lambda x: x - 1, 3.0))
    4.0
    """
    chosen = _scalar("cond", "pred", pred)
    if chosen.dtype.kind != "b":
        zero = as_array(np.zeros((), chosen.dtype))
        chosen = apply(ops.compare, chosen, zero, direction="NE")
    check_callable("cond", "true_fun", true_fun)
    check_callable("cond", "false_fun", false_fun)
    named = [("false_fun", false_fun), ("true_fun", true_fun)]
    return _case("cond", convert(chosen, _INT32), named, operands)


@with_short_traceback
def switch(index: ArrayLike, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Apply the function at `index`; only that one runs.

    Parameters
    ----------
    index : array, shape (), integer
        Clamped to the range of branches.
    branches : sequence of callable
        See `cond`.
    *operands
        Arrays in any nesting.

    Returns
    -------
    result
        `branches[index](*operands)`.

    Raises
    ------
    ArgumentError
        There are no branches.
    ShapeError, DTypeError, TracingError
        The results differ in shape, dtype or structure; `index` is no integer scalar.

    Examples
    --------
    >>> import tracer
    >>> branches = [lambda x: x, lambda x: x * x, lambda x: x * x * x]
    >>> float(tracer.switch(2, branches, 3.0))
    27.0
    """
    if not isinstance(branches, Sequence) or not branches:
        raise ArgumentError(
            f"switch: branches is {branches!r}", mend="give a list with one function or more"
        )
    for position, branch in enumerate(branches):
        check_callable("switch", f"branches[{position}]", branch)
    chosen = _scalar("switch", "index", index)
    if chosen.dtype.kind not in "iu":
        raise DTypeError(
            f"switch: index is {chosen.type}; it must be an integer",
            mend="convert it with astype('int32'); for a bool use cond",
        )
    # Clamped in its own dtype: converting first would wrap large indices around.
    last = min(len(branches) - 1, int(np.iinfo(chosen.dtype).max))
    bounds = [as_array(np.asarray(bound, chosen.dtype)) for bound in (0, last)]
    clamped = apply(ops.clamp, bounds[0], chosen, bounds[1])
    named = [(f"branches[{i}]", branch) for i, branch in enumerate(branches)]
    return _case("switch", convert(clamped, _INT32), named, operands)


def _scalar(name: str, what: str, value: ArrayLike) -> Array:
    array = as_array(value)
    if array.shape != ():
        raise ShapeError(
            f"{name}: {what} has shape {array.shape}; it must be a scalar",
            mend="reduce it with all() or any(); to choose element by element use where",
        )
    return array


def _case(
    name: str,
    index: Array,
    branches: Sequence[tuple[str, Callable[..., Any]]],
    operands: Sequence[Any],
) -> Any:
    arguments = flatten_arguments(name, "operands", tuple(operands))
    functions = [branch for _, branch in branches]
    bodies = _traced(name, functions, arguments)
    what, reference = f"the result of {branches[0][0]}", bodies[0]
    for (other, _), body in zip(branches[1:], bodies[1:], strict=True):
        check_same(
            name,
            (what, reference.structure, reference.graph.output_types),
            (f"the result of {other}", body.structure, body.graph.output_types),
            _paths(reference.structure),
            "return results of the same structure, shapes and dtypes from all branches",
        )
    captures = Captures(*bodies)
    graphs = tuple(captures.graph_of(body) for body in bodies)
    if not reference.graph.outputs:
        return tree.unflatten(reference.structure, ())
    results = apply_many(ops.case, index, *captures.arrays, *arguments.arrays, branches=graphs)
    weak = [i for i, leaf in enumerate(_met(bodies)) if isinstance(leaf, WeakType)]
    return tree.unflatten(reference.structure, weakened(results, weak))


def _traced(name: str, functions: Sequence[Callable[..., Any]], arguments: Arguments) -> list[Body]:
    """Trace branches; where a leaf is weak in one, it takes the dtype that it has in others."""

    def traced(expected: Sequence[Signature]) -> list[Body]:
        given = arguments.structure, arguments.signatures
        return [trace_body(name, function, *given, expected) for function in functions]

    bodies = traced(())
    if all(body.graph.output_types == bodies[0].graph.output_types for body in bodies):
        return bodies
    if any(body.structure != bodies[0].structure for body in bodies):
        return bodies
    return traced(_met(bodies))


def _met(bodies: Sequence[Body]) -> list[Signature]:
    """Return the type of each leaf of the result: a strong one if a branch has it, else weak."""
    return [
        functools.reduce(_meet, leaves)
        for leaves in zip(*(body.outputs for body in bodies), strict=True)
    ]


def _meet(first: Signature, second: Signature) -> Signature:
    weak = isinstance(first, WeakType), isinstance(second, WeakType)
    if weak[0] == weak[1]:
        wider = promote_types(first.dtype, second.dtype) != first.dtype
        return second if weak[0] and wider else first
    return second if weak[0] else first


def _paths(structure: tree.Structure) -> list[str]:
    return tree.flatten_with_paths(tree.unflatten(structure, range(structure.num_leaves)))[0]


__all__ = ["cond", "switch"]
