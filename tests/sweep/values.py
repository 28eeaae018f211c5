"""Awkward values of every dtype, and arrays of them at every size."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
BOOL = np.dtype(bool)
INTEGERS = tuple(np.dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64))
FLOATS = (np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64))
COMPLEX = (np.dtype(np.complex64), np.dtype(np.complex128))
DTYPES = (BOOL, *INTEGERS, *FLOATS, *COMPLEX)
SIZES = (1, 7, 1000, 4097)


def is_float(dtype: np.dtype[Any]) -> bool:
    return dtype in FLOATS


def awkward(dtype: np.dtype[Any]) -> Array:
    """Return zeros, infinities, NaN, subnormal, smallest and largest numbers, and branch points."""
    if dtype == BOOL:
        return np.array([False, True])
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        bits = info.bits
        wanted = [0, 1, -1, 2, -2, 3, 7, -7, bits - 1, bits, bits + 1, info.min, info.max]
        wanted += [info.min + 1, info.max - 1]
        return np.array([v for v in wanted if info.min <= v <= info.max], dtype)
    if dtype in FLOATS:
        info = ml_dtypes.finfo(dtype)
        largest, tiny, subnormal = (
            float(v) for v in (info.max, info.smallest_normal, info.smallest_subnormal)
        )
        eps = float(info.eps)
        positive = [0.0, 1.0, 0.5, 2.0, 3.0, math.pi, 1 - eps / 2, 1 + eps, eps, 1e-3, 10.5, 100.25]
        positive += [math.inf, largest, tiny, 5 * subnormal]
        values = [sign * v for v in positive for sign in (1, -1)]
        return np.array([*values, math.nan]).astype(dtype)
    part = np.dtype(f"float{4 * dtype.itemsize}")
    info = np.finfo(part)
    # On both sides of each branch cut, at branch points, near and far.
    parts = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, float(info.eps), 20.0, math.inf, -math.inf]
    parts += [math.nan]
    real, imag = np.meshgrid(parts, parts)
    values = np.empty(real.size, dtype)
    values.real, values.imag = real.ravel(), imag.ravel()
    return values


def everyday(dtype: np.dtype[Any], size: int, rng: np.random.Generator) -> Array:
    """Return random numbers of several magnitudes and both signs."""
    if dtype == BOOL:
        return rng.random(size) < 0.5
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        small = rng.integers(max(info.min, -9), 10, size)
        wide = rng.integers(info.min, info.max, size, dtype, endpoint=True)
        return np.where(rng.random(size) < 0.5, small.astype(dtype), wide)
    values = rng.normal(size=size) * 10.0 ** rng.integers(-2, 2, size)
    if dtype in COMPLEX:
        values = values + 1j * rng.normal(size=size) * 10.0 ** rng.integers(-2, 2, size)
    return values.astype(dtype)


def pair(dtype: np.dtype[Any], size: int) -> tuple[Array, Array]:
    """Return two vectors in which, where they are long enough, all pairs of awkward values stand.

    Complex values are so many that each stands beside some others only. The rest is random.
    """
    rng = np.random.default_rng(size)
    values = awkward(dtype)
    order = rng.permutation(len(values))
    if dtype in COMPLEX:
        first, second = values, values[order]
    else:
        first, second = (v.ravel() for v in np.meshgrid(values, values))
        if size < first.size:  # some of them, each value once
            chosen = rng.permutation(len(values))
            first, second = values[chosen], values[order]
    x, y = everyday(dtype, size, rng), everyday(dtype, size, rng)
    count = min(size, first.size)
    places = rng.permutation(size)[:count]
    x[places], y[places] = first[:count], second[:count]
    return x, y
