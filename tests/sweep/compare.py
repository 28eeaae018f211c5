"""How far results are from an oracle's, in units in the last place.

XLA:CPU takes subnormal numbers for zeros, and writes zeros for them (docs/numpy-surface.md): where
the oracle has one, zero is right too.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.sweep.values import COMPLEX, FLOATS

Array = np.ndarray[Any, Any]


def part_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a number's parts."""
    return np.dtype(f"float{4 * dtype.itemsize}") if dtype in COMPLEX else dtype


def wide(x: Array) -> Array:
    """Return numbers in a dtype with more digits."""
    if x.dtype in COMPLEX:
        return x.astype(np.complex128 if x.dtype == np.complex64 else np.clongdouble)
    if x.dtype in FLOATS:
        return x.astype(np.longdouble if x.dtype == np.float64 else np.float64)
    return x


def flushed(x: Array) -> Array:
    """Return numbers with zeros of their signs for subnormal ones."""
    if x.dtype in COMPLEX:
        result = np.empty_like(x)
        result.real, result.imag = flushed(x.real), flushed(x.imag)
        return result
    if x.dtype not in FLOATS:
        return x
    tiny = ml_dtypes.finfo(x.dtype).smallest_normal
    values = x.astype(np.float64)
    return np.where(np.abs(values) < float(tiny), np.copysign(0.0, values), values).astype(x.dtype)


def units(size: Array, dtype: np.dtype[Any]) -> Array:
    """Return the distance between numbers of a dtype, normal ones, of some sizes."""
    info = ml_dtypes.finfo(dtype)
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.maximum(size, size.dtype.type(info.smallest_normal))))
    return np.exp2(exponent) * size.dtype.type(float(info.eps))


def apart(got: Array, wanted: Array, dtype: np.dtype[Any], least: float = 0.0) -> Array:
    """Return how many units results lie from an oracle's; infinite where they differ in kind.

    Parameters
    ----------
    got : ndarray
        Of any dtype.
    wanted : ndarray
        Of the same or a wider one.
    dtype : dtype
        That of `got`.
    least : float
        Smaller numbers count units of this size.
    """
    if dtype in COMPLEX:
        return _apart_complex(got, wanted, part_dtype(dtype), least)
    if dtype not in FLOATS:
        return np.where(got == wanted, 0.0, np.inf)
    return _apart_real(got, wanted, dtype, least)


def _apart_real(got: Array, wanted: Array, dtype: np.dtype[Any], least: float) -> Array:
    info = ml_dtypes.finfo(dtype)
    with np.errstate(all="ignore"):
        rounded = wanted.astype(dtype).astype(np.float64)
        values = got.astype(np.float64)
        size = np.maximum(np.abs(wanted), wanted.dtype.type(least))
        distance = np.abs(got.astype(wanted.dtype) - wanted) / units(size, dtype)
    same = (values == rounded) | (np.isnan(values) & np.isnan(rounded))
    # One unit beyond the largest number is infinity.
    near_the_end = (np.isinf(values) ^ np.isinf(rounded)) & ~np.isnan(values) & ~np.isnan(rounded)
    largest = float(info.max)
    beyond = np.abs(np.clip(values, -largest, largest) - np.clip(rounded, -largest, largest))
    close = near_the_end & (beyond <= 8 * float(info.eps) * largest)
    distance = np.where(same, 0.0, np.where(close, 1.0, distance))
    # What is computed on the way may be subnormal where the result is not yet.
    small = 4 * float(info.smallest_normal)
    vanished = (np.abs(values) < small) & (np.abs(rounded) < small)
    return np.where(vanished, 0.0, np.where(np.isfinite(distance), distance, np.inf))


def _apart_complex(got: Array, wanted: Array, dtype: np.dtype[Any], least: float) -> Array:
    """Compare finite numbers by their distance, others part by part."""
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(wanted), least)
        distance = np.abs(got.astype(wanted.dtype) - wanted) / units(size, dtype)
        parts = [
            _apart_real(np.ascontiguousarray(a), np.ascontiguousarray(b), dtype, least)
            for a, b in ((got.real, wanted.real), (got.imag, wanted.imag))
        ]
    both = np.maximum(*parts)
    is_finite = np.isfinite(size) & np.isfinite(np.abs(got))
    return np.where(is_finite, np.minimum(distance, both), both)


__all__ = ["apart", "flushed", "part_dtype", "wide"]
