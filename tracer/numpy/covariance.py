"""Covariance and correlation of variables."""

from __future__ import annotations

from typing import Any

from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, reshape
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.contraction import matmul
from tracer.numpy.elementwise import real, sqrt
from tracer.numpy.joining import concatenate
from tracer.numpy.matrices import diag
from tracer.numpy.rounding import clip
from tracer.numpy.shaping import atleast_2d
from tracer.numpy.statistics import average


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    *,
    dtype: Any = None,
) -> Array:
    """Return the covariance matrix of variables.

    Parameters
    ----------
    m : array_like, shape (variables, observations) or (observations,)
        The data.
    y : array_like, optional
        More variables.
    rowvar : bool
        Whether a row is a variable.
    bias : bool
        Divide by the number of observations instead of one less.
    ddof : int, optional
        Overrides what `bias` says: divide by the number of observations less this.
    fweights, aweights : array_like, shape (observations,), optional
        How often each observation was made, and how much it weighs.
    dtype : dtype, optional
        Of the result; at least float64 by default.

    Returns
    -------
    Array, shape (variables, variables) or ()
        The covariances.
    """
    if ddof is not None and ddof != int(ddof):
        raise ArgumentError(f"cov: ddof is {ddof}, not an integer", mend="give an integer")
    rows = _variables(m, y, rowvar, None if dtype is None else as_dtype(dtype))
    freedom = (0 if bias else 1) if ddof is None else int(ddof)
    weights = _weights(rows.shape[1], fweights, aweights)
    if weights is None:
        center, total = rows.mean(1), as_array(float(rows.shape[1]))
        correction: Any = freedom
    else:
        center, total = average(rows, 1, weights), weights.sum()
        correction = freedom
        if aweights is not None and freedom:
            correction = freedom * (weights * as_array(aweights)).sum() / total
    centered = rows - center[:, None]
    weighted = centered if weights is None else centered * weights
    divisor = convert(clip(total - correction, 0, None), promotion.real_dtype(rows.dtype))
    return (matmul(weighted, centered.T.conj()) / divisor).squeeze()


def _variables(
    m: ArrayLike, y: ArrayLike | None, rowvar: bool, dtype: promotion.Dtype | None
) -> Array:
    x = as_array(m)
    others = [] if y is None else [as_array(y)]
    if max(part.ndim for part in (x, *others)) > 2:
        raise ShapeError(
            f"cov takes a vector or a matrix, not shape {x.shape}", mend="give a vector or a matrix"
        )
    wide = promotion.promote_types(promotion.result_type(x, *others), "float64")
    wide = wide if dtype is None else dtype
    # NumPy's rule: one row of `y` is one more variable, whatever `rowvar` says.
    turned = [not rowvar, *[not rowvar and part.shape[0] != 1 for part in map(atleast_2d, others)]]
    rows = [
        _rows(convert(part, wide), turn) for part, turn in zip((x, *others), turned, strict=True)
    ]
    return concatenate(rows) if len(rows) > 1 else rows[0]


def _rows(x: Array, is_turned: bool) -> Array:
    if x.ndim < 2:
        return reshape(x, (1, x.size))
    return x.T if is_turned else x


def _weights(count: int, fweights: ArrayLike | None, aweights: ArrayLike | None) -> Array | None:
    given = [as_array(w) for w in (fweights, aweights) if w is not None]
    if any(w.shape != (count,) for w in given):
        raise ShapeError(
            f"cov: weights of shapes {[w.shape for w in given]} for {count} observations",
            mend="give one for each observation",
        )
    if len(given) == 2:
        return given[0] * given[1]
    return given[0] if given else None


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: Any = None
) -> Array:
    """Return the correlation coefficients of variables; the parameters are those of `cov`."""
    covariances = cov(x, y, rowvar, dtype=dtype)
    if covariances.ndim == 0:
        return covariances / covariances
    deviations = sqrt(real(diag(covariances)))
    result = covariances / deviations[:, None] / deviations[None, :]
    if result.dtype.kind == "c":
        return clip(real(result), -1, 1) + 1j * clip(result.imag, -1, 1)
    return clip(result, -1, 1)
