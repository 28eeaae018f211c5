"""while_loop and fori_loop, with JAX's names and argument order."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer import ops, tree
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays
from tracer.array.dispatch import apply_many
from tracer.array.promotion import weak_class
from tracer.array.weak import Signature, as_weak, weak_positions, weakened
from tracer.control.bodies import (
    Arguments,
    Body,
    Captures,
    check_callable,
    flatten_arguments,
    require_result,
    trace_body,
)
from tracer.control.carry import check_carry, check_nesting, settle_carry
from tracer.control.scanning import scan_steps
from tracer.errors import DTypeError, RangeError, ShapeError, with_short_traceback
from tracer.ir import Builder, Graph


@with_short_traceback
def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """Apply a function as long as a condition holds.

    Parameters
    ----------
    cond_fun : callable
        `carry -> bool scalar`.
    body_fun : callable
        `carry -> carry`, of the same structure, shapes and dtypes. Both may close over arrays.
    init_val
        The first carry: arrays in any nesting.

    Returns
    -------
    carry
        The first carry for which `cond_fun` is false.

    Raises
    ------
    ShapeError, DTypeError, TracingError
        The carry changes its shape, dtype or structure; the condition is no bool scalar.

    Notes
    -----
    Reverse mode cannot go through it: use `scan`, or `fori_loop` with fixed bounds. Forward mode
    (`jvp`, `jacfwd`) can: a loop over the carry and its tangents, beside the loop itself.

    Examples
    --------
    >>> import tracer
    >>> int(tracer.while_loop(lambda n: n < 100, lambda n: 2 * n, 3))
    192
    """
    name = "while_loop"
    check_callable(name, "cond_fun", cond_fun)
    check_callable(name, "body_fun", body_fun)
    return _while_steps(name, cond_fun, body_fun, init_val)


def _while_steps(
    name: str,
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    inside: str = "",
) -> Any:
    given = flatten_arguments(name, "init_val", init_val, inside)
    structure = tree.structure((init_val,))

    def trace(types: Sequence[Signature]) -> Body:
        return trace_body(name, body_fun, structure, types, types)

    init, body = settle_carry(given, trace)
    check_carry(name, init, body.structure, body.graph.outputs)
    condition = trace_body(name, cond_fun, structure, init.signatures)
    _check_condition(name, condition)
    return _emit_while(init, condition, body)


def _check_condition(name: str, condition: Body) -> None:
    types = condition.graph.output_types
    if len(types) != 1:
        raise DTypeError(
            f"{name}: cond_fun returns {len(types)} arrays, nested as {condition.structure}",
            mend="return one bool scalar",
        )
    if types[0].shape != ():
        raise ShapeError(
            f"{name}: cond_fun returns {types[0]}, which is no scalar",
            mend="reduce it with all() or any()",
        )
    if types[0].dtype.kind != "b":
        raise DTypeError(
            f"{name}: cond_fun returns {types[0]}, which is not bool",
            mend="return a comparison, such as x > 0",
        )


def _emit_while(init: Arguments, condition: Body, body: Body) -> Any:
    captures = Captures(condition, body)
    results = apply_many(
        ops.while_,
        *captures.arrays,
        *init.arrays,
        condition=captures.graph_of(condition),
        body=_carrying(captures, body),
    )
    carry = weakened(results[len(captures.arrays) :], weak_positions(init.arrays))
    return tree.unflatten(init.structure, carry)


def _carrying(captures: Captures, body: Body) -> Graph:
    """Return the body with the captured arrays handed on, as `while` has a carry only."""
    with Builder() as builder:
        closed, _, results = captures.inline(body, builder)
        return builder.finish([*closed, *results])


@with_short_traceback
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool = 1,
) -> Any:
    """Run a function for every index of a range.

    Parameters
    ----------
    lower, upper : int or array of numbers, shape ()
        The range, `upper` excluded. With Python integers (or floats that are whole, which count
        as integers) the number of steps is known and the loop can be differentiated; with arrays
        it is a while loop, and the index has their dtype.
    body_fun : callable
        `(index, carry) -> carry`, of the same structure, shapes and dtypes.
    init_val
        The first carry: arrays in any nesting.
    unroll : int or bool
        Steps written out in a row; True for all. Needs Python integers as bounds.

    Returns
    -------
    carry
        The last carry.

    Raises
    ------
    ShapeError, DTypeError, TracingError
        The carry changes its shape, dtype or structure; a bound is no real scalar, or a Python
        float that is not whole.

    Examples
    --------
    >>> import tracer
    >>> float(tracer.fori_loop(1, 5, lambda i, x: x * i, 1.0))
    24.0
    """
    check_callable("fori_loop", "body_fun", body_fun)
    fixed = [_fixed(bound) for bound in (lower, upper)]
    if fixed[0] is not None and fixed[1] is not None:
        is_weak = weak_class(lower) is not None and weak_class(upper) is not None
        first = fixed[0] if is_weak else as_array(fixed[0])
        length = max(0, fixed[1] - fixed[0])
        return _counted(first, length, body_fun, init_val, unroll)
    if unroll is not False and unroll != 1:
        raise DTypeError(
            "fori_loop: unroll needs bounds that are Python integers",
            mend="give integers as bounds, or leave unroll out",
        )
    given = [
        bound if known is None else known
        for bound, known in zip((lower, upper), fixed, strict=True)
    ]
    start, stop = _bounds(*given)
    for bound in (start, stop):
        if bound.shape != () or bound.dtype.kind in "bc":
            raise DTypeError(f"fori_loop: a bound is {bound.type}", mend="give real scalars")
    result = _while_steps(
        "fori_loop",
        lambda state: state[0] < state[1],
        lambda state: (state[0] + 1, state[1], _step(body_fun, state[0], state[2])),
        (start, stop, init_val),
        "[2]",
    )
    return result[2]


def _step(body_fun: Callable[[Any, Any], Any], index: Any, value: Any) -> Any:
    result = body_fun(index, value)
    for path, leaf in zip(*tree.flatten_with_paths(result)[:2], strict=True):
        require_result("fori_loop", body_fun, path, leaf)
    check_nesting("fori_loop", value, result)
    return result


def _bounds(lower: ArrayLike, upper: ArrayLike) -> tuple[Array, Array]:
    """Return the bounds in one dtype; weak ones, as the index will be, where both are."""
    start, stop = as_arrays(lower, upper)
    is_weak = weak_class(lower) is not None and weak_class(upper) is not None
    return (as_weak(start), as_weak(stop)) if is_weak else (start, stop)


def _fixed(bound: Any) -> int | None:
    """Return a bound that is known now."""
    if isinstance(bound, Array | np.ndarray | bool):
        return None
    if isinstance(bound, float | np.floating):
        if not bound.is_integer():
            raise DTypeError(
                f"fori_loop: the bound {bound} is not whole", mend="round it with math.ceil"
            )
        return int(bound)
    try:
        found = operator.index(bound)
    except TypeError:
        return None
    if not -(2**63) <= found < 2**63:
        raise RangeError(
            f"fori_loop: the bound {found} does not fit into int64", mend="use tracer.while_loop"
        )
    return found


def _counted(
    first: ArrayLike,
    length: int,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    unroll: int | bool,
) -> Any:
    def step(carry: Any, _: None) -> tuple[Any, None]:
        index, value = carry
        return (index + 1, _step(body_fun, index, value)), None

    start = "init_val", (first, init_val)
    return scan_steps("fori_loop", step, start, None, length, unroll=unroll, inside="[1]")[0][1]


__all__ = ["fori_loop", "while_loop"]
