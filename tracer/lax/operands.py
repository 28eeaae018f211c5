"""What JAX's primitives ask of their operands: one dtype, one rank, axes that are not negative."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays, broadcast
from tracer.array.dispatch import apply, compound
from tracer.errors import ArgumentError, AxisError, DTypeError, ShapeError, shown
from tracer.ir import Op
from tracer.numpy.ufunc import Binary, Unary, named

_UNARY_DOC = """{summary}

Parameters
----------
x : array_like
    {accepts}

Returns
-------
Array, the shape of `x`
    {returns}

Raises
------
DTypeError
    The dtype has no such operation: nothing is converted.
"""

_BINARY_DOC = """{summary}

Parameters
----------
x, y : array_like
    Of one dtype. Python numbers take the other's. Scalars, and axes of one element, are repeated.

Returns
-------
Array
    {returns}

Raises
------
DTypeError
    The dtypes differ, or have no such operation.
ShapeError
    The shapes differ in more than axes of one element.
"""


def unary(
    name: str,
    body: Callable[[Array], Array],
    summary: str,
    *,
    accepts: str = "Numbers.",
    returns: str = "The dtype of `x`.",
) -> Unary:
    """Make a function of one array, which converts nothing."""
    run = compound(body)

    def function(x: ArrayLike) -> Array:
        return run(as_array(x))

    doc = _UNARY_DOC.format(summary=summary, accepts=accepts, returns=returns)
    return cast("Unary", named(function, name, doc))


def binary(
    name: str,
    body: Callable[[Array, Array], Array],
    summary: str,
    *,
    returns: str = "The dtype of the operands.",
) -> Binary:
    """Make a function of two arrays of one dtype and rank."""
    run = compound(lambda x, y: body(*spread(name, x, y)))

    def function(x: ArrayLike, y: ArrayLike) -> Array:
        return run(*of_one_dtype(name, x, y))

    doc = _BINARY_DOC.format(summary=summary, returns=returns)
    return cast("Binary", named(function, name, doc))


def of_op(name: str, op: Op) -> Unary:
    """Make a function of one array that is one op; its summary is the op's."""
    return unary(name, lambda x: apply(op, x), op.doc)


def of_binary_op(name: str, op: Op) -> Binary:
    """Make a function of two arrays that is one op; its summary is the op's."""
    return binary(name, lambda x, y: apply(op, x, y), op.doc)


def of_one_dtype(name: str, *values: ArrayLike) -> tuple[Array, ...]:
    """Return arrays of one dtype: Python numbers take that of the rest, arrays are not converted.

    Raises
    ------
    DTypeError
        The dtypes differ.
    """
    arrays = as_arrays(*values)
    dtypes = {x.dtype: None for x in arrays}
    if len(dtypes) > 1:
        raise DTypeError(
            f"lax.{name}: the dtypes differ: {', '.join(map(str, dtypes))}",
            mend="convert with astype; the function of tracer.numpy promotes by itself",
        )
    return arrays


def spread(name: str, *arrays: Array) -> list[Array]:
    """Repeat scalars and axes of one element; ranks must be equal, as JAX's primitives ask.

    Raises
    ------
    ShapeError
        The shapes do not fit.
    """
    shapes = {x.shape for x in arrays}
    if len(shapes) == 1:
        return list(arrays)
    ranked = [x.shape for x in arrays if x.ndim]
    if len({len(shape) for shape in ranked}) > 1:
        raise _no_fit(name, arrays, "insert axes with lax.expand_dims")
    target = []
    for sizes in zip(*ranked, strict=True):
        other = {size for size in sizes if size != 1}
        if len(other) > 1:
            raise _no_fit(name, arrays, "give equal shapes")
        target.append(other.pop() if other else 1)
    return [broadcast(x, tuple(target)) for x in arrays]


def _no_fit(name: str, arrays: Sequence[Array], mend: str) -> ShapeError:
    shown = " and ".join(str(x.shape) for x in arrays)
    return ShapeError(
        f"lax.{name}: the shapes {shown} do not fit",
        mend=f"{mend}; the function of tracer.numpy broadcasts by itself",
    )


def integer(name: str, what: str, value: Any) -> int:
    """Return an argument as an int.

    Raises
    ------
    DTypeError
        It is none.
    """
    try:
        return operator.index(value)
    except TypeError as error:
        raise DTypeError(
            f"lax.{name}: {what} is {value!r}, which is no integer", mend="give an integer"
        ) from error


def integers(name: str, what: str, values: Any, count: int | None = None) -> tuple[int, ...]:
    """Return an argument as a tuple of ints, of a length if that is given.

    Raises
    ------
    DTypeError
        Not integers.
    ShapeError
        Not as many.
    """
    found = tuple(integer(name, what, value) for value in sequence(name, what, values))
    if count is not None and len(found) != count:
        raise ShapeError(
            f"lax.{name}: {what} has {len(found)} entries, the array {count} axes",
            mend="give one entry for each axis",
        )
    return found


def sequence(name: str, what: str, values: Any) -> list[Any]:
    """Return an argument as a list.

    Raises
    ------
    DTypeError
        It has no items.
    """
    try:
        return list(values)
    except TypeError as error:
        raise DTypeError(
            f"lax.{name}: {what} is {shown(values)}, which is no sequence",
            mend="give one for each axis",
        ) from error


def axes_of(name: str, what: str, values: Any, ndim: int) -> tuple[int, ...]:
    """Return axes, which count from the front and are given once each.

    Raises
    ------
    AxisError
        There is no such axis; negative ones have no meaning here.
    ShapeError
        One is given twice.
    """
    axes = integers(name, what, values)
    for axis in axes:
        _require_axis(name, what, axis, ndim)
    if len(set(axes)) < len(axes):
        raise ShapeError(f"lax.{name}: {what} {axes} names an axis twice", mend="name each once")
    return axes


def axis_of(name: str, what: str, value: Any, ndim: int) -> int:
    """Return an axis, which counts from the front.

    Raises
    ------
    AxisError
        There is no such axis.
    """
    axis = integer(name, what, value)
    _require_axis(name, what, axis, ndim)
    return axis


def _require_axis(name: str, what: str, axis: int, ndim: int) -> None:
    if not 0 <= axis < ndim:
        raise AxisError(
            f"lax.{name}: {what} {axis} is not in 0..{ndim - 1}, the axes of the array",
            mend="count axes from the front; functions of tracer.numpy count from the end too",
        )


def require_default(name: str, what: str, value: Any, *allowed: Any) -> None:
    """Refuse an option that has no meaning here, unless it has the value that says nothing.

    Raises
    ------
    ArgumentError
        It has another value.
    """
    if not any(value is known for known in (None, *allowed)):
        raise ArgumentError(
            f"lax.{name}: {what}={value!r} has no meaning here", mend=f"leave {what} out"
        )
