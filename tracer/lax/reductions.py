"""Reductions, over axes and windows, and running ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer import ops, tree
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, scalar
from tracer.array.dispatch import apply, compound
from tracer.control import associative_scan
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import Op, as_dtype
from tracer.lax.combiners import recognised
from tracer.lax.halves import of_elements
from tracer.lax.operands import axes_of, axis_of, of_one_dtype
from tracer.numpy.associative import reduce_by_halves
from tracer.numpy.reduceat import all_bits
from tracer.numpy.reductions import accumulation_dtype
from tracer.numpy.ufunc import full_like, named

_REDUCTION_DOC = """{summary}

Parameters
----------
operand : array_like
    {accepts}
axes : sequence of int
    The axes, counted from the front.

Returns
-------
Array
    Without the axes, in the dtype of `operand`. {empty}

Raises
------
DTypeError, AxisError, ShapeError
    A dtype that is not reduced so, or no such axes.
"""


def _reduction(name: str, op: Op, empty: str, accepts: str = "Numbers.") -> Any:
    @compound
    def run(x: Array, *, axes: tuple[int, ...]) -> Array:
        return apply(op, x, axes=axes) if axes else x

    return _public(name, run, op.doc, empty, accepts)


def _public(name: str, run: Callable[..., Array], summary: str, empty: str, accepts: str) -> Any:
    def reduce_axes(operand: ArrayLike, axes: Sequence[int]) -> Array:
        x = as_array(operand)
        return run(x, axes=tuple(sorted(axes_of(name, "axes", axes, x.ndim))))

    doc = _REDUCTION_DOC.format(summary=summary, empty=empty, accepts=accepts)
    return named(reduce_axes, name, doc)


reduce_sum = _reduction("reduce_sum", ops.reduce_add, "Of no elements 0.")
reduce_prod = _reduction("reduce_prod", ops.reduce_multiply, "Of no elements 1.")
reduce_max = _reduction(
    "reduce_max", ops.reduce_maximum, "Of no elements -infinity, or the smallest integer."
)
reduce_min = _reduction(
    "reduce_min", ops.reduce_minimum, "Of no elements infinity, or the largest integer."
)


def _logical(name: str, reduction: Op | None, combiner: Op, summary: str, identity: int) -> Any:
    @compound
    def run(x: Array, *, axes: tuple[int, ...]) -> Array:
        return combined_bits(x, axes, reduction, combiner, identity)

    return _public(
        name, run, summary, f"Of no elements all bits are {-identity}.", "Bools or integers."
    )


def combined_bits(
    x: Array, axes: Sequence[int], reduction: Op | None, combiner: Op, identity: int
) -> Array:
    """Combine bits: bools by a reduction where there is one, integers half by half."""
    if x.dtype.kind not in "biu":
        raise DTypeError(f"bits of {x.type} are not combined", mend="give bools or integers")
    if not axes:
        return x
    if x.dtype.kind == "b" and reduction is not None:
        return apply(reduction, x, axes=tuple(axes))
    if x.dtype.kind == "b":  # how many are true, odd or even
        count = apply(ops.reduce_add, convert(x, np.dtype("uint32")), axes=tuple(axes))
        return convert(apply(ops.and_, count, full_like(count, 1)), np.dtype(bool))
    return halved(x, axes, functools.partial(apply, combiner), identity)


def halved(x: Array, axes: Sequence[int], combine: Any, identity: int) -> Array:
    """Combine the halves of each axis until one element is left; of none take the identity."""
    kept = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
    if any(x.shape[axis] == 0 for axis in axes):
        return broadcast(scalar(all_bits(x.dtype) if identity else 0, x.dtype), kept)
    return reduce_by_halves([x], axes, lambda *pair: [combine(*pair)])[0]


reduce_and = _logical("reduce_and", ops.reduce_and, ops.and_, "Logical or bitwise and.", -1)
reduce_or = _logical("reduce_or", ops.reduce_or, ops.or_, "Logical or bitwise or.", 0)
reduce_xor = _logical("reduce_xor", None, ops.xor, "Logical or bitwise exclusive or.", 0)


def _arg_extreme(name: str, op: Op) -> Any:
    @compound
    def run(x: Array, *, axis: int, dtype: np.dtype[Any]) -> Array:
        return apply(op, x, axis=axis, index_dtype=dtype)

    def find(operand: ArrayLike, axis: int, index_dtype: Any) -> Array:
        x, dtype = as_array(operand), as_dtype(index_dtype)
        if dtype.kind not in "iu":
            raise DTypeError(f"lax.{name}: index_dtype is {dtype}", mend="give an integer dtype")
        place = axis_of(name, "axis", axis, x.ndim)
        if not x.shape[place]:
            raise ShapeError(f"lax.{name} of no elements", mend="give an axis with elements")
        return run(x, axis=place, dtype=dtype)

    return named(find, name, _ARG_DOC.format(summary=op.doc))


_ARG_DOC = """{summary}

Parameters
----------
operand : array_like
    Real numbers.
axis : int
    The axis, counted from the front.
index_dtype : dtype
    Dtype of the result, an integer one.

Returns
-------
Array
    The first place of the extreme element; the first NaN if there is one.
"""
argmax = _arg_extreme("argmax", ops.argmax)
argmin = _arg_extreme("argmin", ops.argmin)

_CUMULATIVE_DOC = """{summary}

Parameters
----------
operand : array_like
    Numbers.
axis : int
    The axis, counted from the front.
reverse : bool
    Go from the last element to the first.

Returns
-------
Array, the shape of `operand`
    In its dtype.
"""


def _cumulative(name: str, op: Op) -> Any:
    @compound
    def run(x: Array, *, axis: int, reverse: bool) -> Array:
        return apply(op, x, axis=axis, reverse=reverse)

    def accumulate(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
        x = as_array(operand)
        if x.dtype.kind == "b":
            raise DTypeError(f"lax.{name} of bools", mend="convert to integers")
        return run(x, axis=axis_of(name, "axis", axis, x.ndim), reverse=bool(reverse))

    return named(accumulate, name, _CUMULATIVE_DOC.format(summary=op.doc))


cumsum = _cumulative("cumsum", ops.cumulative_add)
cumprod = _cumulative("cumprod", ops.cumulative_multiply)
cummax = _cumulative("cummax", ops.cumulative_maximum)
cummin = _cumulative("cummin", ops.cumulative_minimum)


def cumlogsumexp(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Return logarithms of running sums of exponentials, without overflow.

    Parameters
    ----------
    operand : array_like
        Floats.
    axis : int
        The axis, counted from the front.
    reverse : bool
        Go from the last element to the first.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> lax.cumlogsumexp(tnp.zeros(2)).tolist()
    [0.0, 0.6931471805599453]
    """
    x = as_array(operand)
    place = axis_of("cumlogsumexp", "axis", axis, x.ndim)
    return _cumlogsumexp(x, axis=place, reverse=bool(reverse))


@compound
def _cumlogsumexp(x: Array, *, axis: int, reverse: bool) -> Array:
    # In 16 bits each step would round what its derivatives are computed from.
    wide = convert(x, accumulation_dtype(x.dtype))
    add = functools.partial(apply, ops.log_add_exp)
    return convert(associative_scan(add, wide, axis=axis, reverse=reverse), x.dtype)


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
) -> Any:
    """Reduce with a function of two elements.

    Parameters
    ----------
    operands
        An array, or several of one shape in any nesting.
    init_values
        A scalar for each array, of its dtype: where the function starts.
    computation : callable
        `(one, other) -> combined`, of scalars nested as the operands. It must be associative and
        commutative: elements are combined half by half, for all axes at once.
    dimensions : sequence of int
        The axes, counted from the front.

    Returns
    -------
    result
        Nested as the operands.

    Raises
    ------
    ShapeError, DTypeError
        Operands or first values that do not fit.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> float(lax.reduce(tnp.arange(5.0), 1.0, lambda x, y: x + y, (0,)))
    11.0
    """
    leaves, structure = tree.flatten(operands)
    starts = tree.leaves(init_values)
    if not leaves or len(leaves) != len(starts):
        raise ArgumentError(
            f"lax.reduce: {len(leaves)} arrays and {len(starts)} first values",
            mend="give one array or more, and a first value for each",
        )
    pairs = [of_one_dtype("reduce", x, start) for x, start in zip(leaves, starts, strict=True)]
    arrays = [x for x, _ in pairs]
    if len({x.shape for x in arrays}) > 1 or any(start.shape for _, start in pairs):
        raise ShapeError(
            f"lax.reduce: arrays of shapes {', '.join(str(x.shape) for x in arrays)}",
            mend="give arrays of one shape, and scalars as first values",
        )
    axes = axes_of("reduce", "dimensions", dimensions, arrays[0].ndim)

    def combine(*both: Array) -> tuple[Array, ...]:
        one, other = both[: len(leaves)], both[len(leaves) :]
        result = computation(tree.unflatten(structure, one), tree.unflatten(structure, other))
        return tuple(map(as_array, tree.leaves(result)))

    results = _known(pairs, axes, combine)
    if results is None:
        results = reduced(arrays, [start for _, start in pairs], axes, combine)
    return tree.unflatten(structure, results)


def _known(
    pairs: Sequence[tuple[Array, ...]], axes: tuple[int, ...], combine: Callable[..., Any]
) -> Sequence[Array] | None:
    """Reduce one array with a function that is one op with a reduction of its own."""
    if len(pairs) > 1:
        return None
    ((x, start),) = pairs
    combiner = recognised(combine, x.dtype)
    if combiner is None or combiner.name not in _REDUCTIONS:
        return None
    reduction = _REDUCTIONS[combiner.name]
    found = apply(reduction, x, axes=tuple(sorted(axes))) if axes else x
    return [apply(combiner, broadcast(start, found.shape), found)]


_REDUCTIONS = {
    "add": ops.reduce_add,
    "multiply": ops.reduce_multiply,
    "maximum": ops.reduce_maximum,
    "minimum": ops.reduce_minimum,
}
"""The reduction with each combiner."""


def reduced(
    arrays: Sequence[Array],
    starts: Sequence[Array],
    axes: Sequence[int],
    combine: Callable[..., Sequence[Array]],
) -> Sequence[Array]:
    """Reduce arrays together with a function of scalars, half by half."""
    shape = tuple(n for axis, n in enumerate(arrays[0].shape) if axis not in axes)
    initial = [broadcast(start, shape) for start in starts]
    if 0 in arrays[0].shape:
        return initial
    results = reduce_by_halves(arrays, axes, of_elements(combine, arrays[0].ndim))
    joined: Sequence[Array] = of_elements(combine, len(shape))(*initial, *results)
    return joined
