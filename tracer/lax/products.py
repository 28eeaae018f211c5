"""Products of matrices. They have the digits of the result's dtype."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_arrays, convert
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import Dtype, result_type
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import as_dtype
from tracer.lax.operands import axes_of

Axes = Sequence[int]
DotDimensionNumbers = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]


class Precision(Enum):
    """JAX's precisions of products. On a CPU all of them are the digits of the dtype."""

    DEFAULT = "default"
    HIGH = "high"
    HIGHEST = "highest"


def check_precision(name: str, precision: Any) -> None:
    """Refuse arithmetic that is not the operands' own.

    Raises
    ------
    ArgumentError
        Another precision than those of `Precision`.
    """
    rows = precision if isinstance(precision, tuple | list) else (precision,)
    for row in rows:
        known = getattr(row, "name", row)
        if known is not None and str(known).upper() not in Precision.__members__:
            raise ArgumentError(
                f"lax.{name}: precision={precision!r} has no meaning here",
                mend="leave it out: products have the digits of the result's dtype",
            )


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Multiply and sum along axes, for each element of a batch.

    Parameters
    ----------
    lhs, rhs : array_like
        The factors. Different dtypes are promoted.
    dimension_numbers : ((lhs, rhs), (lhs, rhs))
        Pairs of axes that are summed over, and pairs of axes of the batch.
    precision : Precision, optional
        Has no effect: products have the digits of the result's dtype.
    preferred_element_type : dtype, optional
        Dtype of the result and of the sums.

    Returns
    -------
    Array
        The axes of the batch, then the rest of `lhs`, then the rest of `rhs`.

    Raises
    ------
    ShapeError, AxisError
        The axes do not fit.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> x = tnp.ones((5, 2, 3))
    >>> lax.dot_general(x, x, (((2,), (2,)), ((0,), (0,)))).shape
    (5, 2, 2)
    """
    x, y = as_arrays(lhs, rhs)
    check_precision("dot_general", precision)
    contracting, batch = dimension_numbers
    return _dot_general(
        x,
        y,
        dtype=result_dtype(x, y, preferred_element_type),
        lhs_batch=axes_of("dot_general", "a batch axis", batch[0], x.ndim),
        rhs_batch=axes_of("dot_general", "a batch axis", batch[1], y.ndim),
        lhs_contracting=axes_of("dot_general", "a summed axis", contracting[0], x.ndim),
        rhs_contracting=axes_of("dot_general", "a summed axis", contracting[1], y.ndim),
    )


def result_dtype(x: Array, y: Array, preferred: Any) -> Dtype:
    """Return the dtype that is preferred, or else the promoted one."""
    return result_type(x, y) if preferred is None else as_dtype(preferred)


@compound
def _dot_general(x: Array, y: Array, *, dtype: Dtype, **params: Any) -> Array:
    return apply(ops.dot_general, convert(x, dtype), convert(y, dtype), **params)


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Multiply vectors and matrices.

    Parameters
    ----------
    lhs, rhs : array_like
        One or two axes each, without `dimension_numbers`.
    dimension_numbers, precision, preferred_element_type
        See `dot_general`.

    Raises
    ------
    ShapeError
        The shapes do not fit.
    """
    x, y = as_arrays(lhs, rhs)
    if dimension_numbers is None:
        if not (1 <= x.ndim <= 2 and 1 <= y.ndim <= 2 and x.shape[-1] == y.shape[0]):
            raise ShapeError(
                f"lax.dot: {x.type} and {y.type} are no vectors and matrices that fit",
                mend="give dimension_numbers, or use tracer.numpy.matmul",
            )
        dimension_numbers = (((x.ndim - 1,), (0,)), ((), ()))
    return dot_general(x, y, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Array:
    """Multiply matrices, for each element of a batch.

    Parameters
    ----------
    lhs, rhs : array_like, shapes (..., n, k) and (..., k, m)
        Of one rank, with the same axes in front.
    precision : Precision, optional
        See `dot_general`.

    Returns
    -------
    Array, shape (..., n, m)
        The products.
    """
    x, y = as_arrays(lhs, rhs)
    if x.ndim < 2 or x.ndim != y.ndim:
        raise ShapeError(
            f"lax.batch_matmul: {x.type} and {y.type} are no batches that fit",
            mend="give two arrays of one rank, or use tracer.numpy.matmul",
        )
    batch = tuple(range(x.ndim - 2))
    return dot_general(x, y, (((x.ndim - 1,), (x.ndim - 2,)), (batch, batch)), precision)
