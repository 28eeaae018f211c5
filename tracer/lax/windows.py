"""Reductions over sliding windows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from tracer import ops, tree
from tracer.array.array import Array
from tracer.array.convert import as_array, broadcast, scalar
from tracer.array.dispatch import apply, compound
from tracer.autodiff.transforms import vmap
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import Op, as_dtype
from tracer.lax.combiners import recognised
from tracer.lax.operands import of_one_dtype
from tracer.lax.shapes import pad
from tracer.lax.window import Padding, integers, pairs

_WINDOWED = {
    "add": ops.reduce_window_add,
    "multiply": ops.reduce_window_multiply,
    "maximum": ops.reduce_window_maximum,
    "minimum": ops.reduce_window_minimum,
}
"""The windowed reduction with each combiner."""
_IDENTITIES = {"add": 0, "multiply": 1}


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Reduce every window of an array with a function of two elements.

    Parameters
    ----------
    operand
        An array, or several of one shape in any nesting.
    init_value
        A scalar for each array, of its dtype: where each window starts. Padding is passed over.
    computation : callable
        `(one, other) -> combined`, of scalars nested as the operands. Sums, products, maxima and
        minima are one op; others combine as many arrays as a window has places.
    window_dimensions : sequence of int
        The window, for each axis.
    window_strides : sequence of int, optional
        Distance of neighbouring windows; 1 by default.
    padding : str, or sequence of pairs
        "VALID", "SAME", "SAME_LOWER", or places before and behind each axis.
    base_dilation, window_dilation : sequence of int, optional
        Distances of neighbouring elements, and of neighbouring places of a window.

    Returns
    -------
    result
        Nested as the operands; one element for each window.

    Raises
    ------
    ShapeError, DTypeError, ArgumentError
        Operands, first values or windows that do not fit.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> lax.reduce_window(tnp.arange(5.0), 0.0, lax.add, (3,), (2,)).tolist()
    [3.0, 9.0]
    """
    leaves, structure = tree.flatten(operand)
    starts = tree.leaves(init_value)
    if not leaves or len(leaves) != len(starts):
        raise ArgumentError(
            f"lax.reduce_window: {len(leaves)} arrays and {len(starts)} first values",
            mend="give one array or more, and a first value for each",
        )
    rows = [
        of_one_dtype("reduce_window", x, start) for x, start in zip(leaves, starts, strict=True)
    ]
    params = _params(
        rows, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )

    def combine(*both: Array) -> tuple[Array, ...]:
        one, other = both[: len(leaves)], both[len(leaves) :]
        result = computation(tree.unflatten(structure, one), tree.unflatten(structure, other))
        return tuple(map(as_array, tree.leaves(result)))

    found = recognised(combine, rows[0][0].dtype) if len(rows) == 1 else None
    if found is not None and found.name in _WINDOWED:
        results: Sequence[Array] = [_one_op(found, rows[0][0], rows[0][1], starts[0], params)]
    else:
        results = _place_by_place(combine, rows, params)
    return tree.unflatten(structure, results)


def _params(
    rows: Sequence[tuple[Array, ...]],
    window: Sequence[int],
    strides: Sequence[int] | None,
    padding: Padding,
    base: Sequence[int] | None,
    dilation: Sequence[int] | None,
) -> dict[str, Any]:
    shape = rows[0][0].shape
    if any(x.shape != shape or start.shape for x, start in rows):
        raise ShapeError(
            f"lax.reduce_window: arrays of shapes {', '.join(str(x.shape) for x, _ in rows)}",
            mend="give arrays of one shape, and scalars as first values",
        )
    ndim = len(shape)
    sizes = integers("window_dimensions", tuple(window), ndim)
    steps = integers("window_strides", strides, ndim)
    between = integers("base_dilation", base, ndim)
    apart = integers("window_dilation", dilation, ndim)
    spread = tuple(max(0, (n - 1) * step + 1) for n, step in zip(shape, between, strict=True))
    reach = tuple((n - 1) * step + 1 for n, step in zip(sizes, apart, strict=True))
    return {
        "window_dimensions": sizes,
        "window_strides": steps,
        "padding": pairs(padding, spread, reach, steps),
        "base_dilation": between,
        "window_dilation": apart,
    }


def _one_op(combiner: Op, x: Array, start: Array, given: Any, params: Any) -> Array:
    identity = _IDENTITIES.get(combiner.name)
    is_identity = identity is not None and isinstance(given, int | float) and given == identity
    op = _WINDOWED[combiner.name]
    return _windowed(x, start, op=op, combiner=None if is_identity else combiner, **params)


@compound
def _windowed(x: Array, start: Array, *, op: Op, combiner: Op | None, **params: Any) -> Array:
    found = apply(op, x, **params)
    if combiner is None:
        return found
    return apply(combiner, broadcast(start, found.shape), found)


def _place_by_place(
    combine: Callable[..., Any], rows: Sequence[tuple[Array, ...]], params: dict[str, Any]
) -> Sequence[Array]:
    """Combine the arrays that the places of a window see, one after the other.

    Places that padding or dilation adds are passed over, as XLA does.
    """
    padded = [_padded(x, start, params) for x, start in rows]
    is_inside = _padded(*_truths(rows[0][0]), params)
    window, apart = params["window_dimensions"], params["window_dilation"]
    strides = params["window_strides"]
    counts = tuple(
        max(0, (size - (n - 1) * step - 1) // stride + 1)
        for size, n, step, stride in zip(padded[0].shape, window, apart, strides, strict=True)
    )
    for _ in counts:
        combine = vmap(combine)
    found: Sequence[Array] = [broadcast(start, counts) for _, start in rows]
    if 0 in counts:
        return found
    for place in itertools.product(*map(range, window)):
        first = tuple(n * step for n, step in zip(place, apart, strict=True))
        seen = [_seen(x, first, counts, strides) for x in padded]
        mask = _seen(is_inside, first, counts, strides)
        both = zip(combine(*found, *seen), found, strict=True)
        found = [apply(ops.select, mask, new, old) for new, old in both]
    return found


def _truths(x: Array) -> tuple[Array, Array]:
    true, false = scalar(True, as_dtype("bool")), scalar(False, as_dtype("bool"))
    return broadcast(true, x.shape), false


def _padded(x: Array, start: Array, params: dict[str, Any]) -> Array:
    around = zip(params["padding"], params["base_dilation"], strict=True)
    return pad(x, start, [(low, high, step - 1) for (low, high), step in around])


def _seen(x: Array, first: tuple[int, ...], counts: tuple[int, ...], strides: Any) -> Array:
    limit = tuple(
        start + (n - 1) * step + 1 for start, n, step in zip(first, counts, strides, strict=True)
    )
    return apply(ops.slice, x, start=first, limit=limit, strides=strides)
