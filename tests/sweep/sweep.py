"""One program of all functions for a dtype and a size, and how far its results are off.

`python -m tests.sweep.sweep float32:1000 ...` prints what is off, for other processes to read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from tests.sweep.compare import apart, flushed
from tests.sweep.functions import FUNCTIONS, Function, kind_of, result_dtypes, takes, wanted
from tests.sweep.tolerances import (
    COMPLEX_INFINITIES,
    DOMAINS,
    SIGN_OF_ZERO,
    WITHOUT_SUBNORMALS,
    tolerance,
)
from tests.sweep.values import BFLOAT16, COMPLEX, DTYPES, INTEGERS, pair

Array = np.ndarray[Any, Any]
Cases = list[tuple[Function, tuple[Array, ...]]]


def _domain(function: Function, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    """Return arguments at which the comparison says something (`tolerances.OTHERWISE`)."""
    if kind_of(arrays[0].dtype) == "c":
        return _complex_domain(function.name, arrays)
    if arrays[0].dtype in INTEGERS:
        return _integer_domain(function.name, arrays)
    if function.name in WITHOUT_SUBNORMALS:
        return tuple(flushed(x) for x in arrays)
    if function.name not in DOMAINS:
        return arrays
    least, largest, other = DOMAINS[function.name]
    with np.errstate(all="ignore"):
        values = [x.astype(np.float64) for x in arrays]
        kept = [(np.abs(v) < largest) & (v >= least) | np.isnan(v) | (v == 0) for v in values]
        has_nan = np.logical_or.reduce([np.isnan(v) for v in values])
        has_zero = np.logical_or.reduce([v == 0 for v in values])
        kept = [k & ~(has_nan & has_zero) for k in kept]
        return tuple(np.where(k, x, x.dtype.type(other)) for k, x in zip(kept, arrays, strict=True))


def _complex_domain(name: str, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    if name in COMPLEX_INFINITIES:
        return arrays
    other = arrays[0].dtype.type(0.25 - 3j)
    arrays = tuple(np.where(np.isfinite(x), x, other) for x in arrays)
    if name in ("numpy.divide", "numpy.reciprocal"):
        return tuple(np.where(x == 0, other, x) for x in arrays)
    if name in ("numpy.power", "numpy.float_power"):
        return tuple(np.where(np.abs(x) > 8.0, other, x) for x in arrays)
    return arrays


def _integer_domain(name: str, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    if name == "numpy.reciprocal":
        return tuple(np.where(x == 0, x.dtype.type(1), x) for x in arrays)
    if name == "numpy.lcm":
        return tuple((x % x.dtype.type(11)).astype(x.dtype) for x in arrays)
    return arrays


def _is_compared(function: Function, dtype: np.dtype[Any]) -> bool:
    if function.name == "numpy.nan_to_num" and (dtype == BFLOAT16 or dtype in COMPLEX):
        return False
    return takes(function, dtype)


def cases(dtype: np.dtype[Any], size: int) -> Cases:
    """Return the functions that take a dtype, and their arguments."""
    x, y = pair(dtype, size)
    chosen = [function for function in FUNCTIONS if _is_compared(function, dtype)]
    return [(function, _domain(function, function.arguments(x, y))) for function in chosen]


def compiled(found: Cases) -> list[list[Array]]:
    """Return the results of one program of all cases."""
    counts = [len(arrays) for _, arrays in found]

    def program(*arrays: Any) -> list[Any]:
        given = iter(arrays)
        return [
            function.ours(*(next(given) for _ in range(count)))
            for (function, _), count in zip(found, counts, strict=True)
        ]

    return _as_arrays(tracer.compile(program)(*(x for _, arrays in found for x in arrays)))


def eager(found: Cases) -> list[list[Array]]:
    """Return the results of calls one by one."""
    return _as_arrays(
        [function.ours(*(tnp.asarray(x) for x in arrays)) for function, arrays in found]
    )


def _as_arrays(results: list[Any]) -> list[list[Array]]:
    return [
        [np.asarray(part) for part in (r if isinstance(r, (tuple, list)) else (r,))]
        for r in results
    ]


def differences(
    dtype: np.dtype[Any], size: int, run: Callable[[Cases], list[list[Array]]] = compiled
) -> list[str]:
    """Return what is off, a line for each result."""
    found = cases(dtype, size)
    told = []
    for (function, arrays), results in zip(found, run(found), strict=True):
        told += _told(function, arrays, results)
    return told


def _told(function: Function, arrays: tuple[Array, ...], results: list[Array]) -> list[str]:
    dtype = arrays[0].dtype
    exact = wanted(function, *arrays)
    without_subnormals = wanted(function, *(flushed(x) for x in arrays))
    told = []
    for i, (got, *oracles) in enumerate(zip(results, exact, without_subnormals, strict=True)):
        name = f"{function.name}[{i}] of {dtype}, size {got.size}"
        if function.name.startswith("numpy.") and got.dtype != result_dtypes(function, dtype)[i]:
            told.append(f"{name}: {got.dtype}")
            continue
        units, least = tolerance(function.name, got.dtype)
        off = np.minimum(*(apart(got, _like(oracle, got), got.dtype, least) for oracle in oracles))
        wrong_sign = _wrong_zeros(function, got, oracles)
        if (off > units).any() or wrong_sign.any():
            k = int(np.argmax(np.where(wrong_sign, np.inf, off)))
            told.append(
                f"{name}: {int(((off > units) | wrong_sign).sum())} off, by {off[k]:.3g} units at "
                f"{[x[k] for x in arrays]}: {got[k]!r}, the oracle {oracles[0][k]!r}"
            )
    return told


def _like(oracle: Array, got: Array) -> Array:
    return oracle.astype(got.dtype) if kind_of(got.dtype) in "biu" else oracle


def _wrong_zeros(function: Function, got: Array, oracles: list[Array]) -> Array:
    """Tell where a zero has another sign than both oracles say."""
    if kind_of(got.dtype) != "f" or function.name in SIGN_OF_ZERO:
        return np.zeros(got.shape, bool)
    values = got.astype(np.float64)
    both = [(oracle == 0) & (np.signbit(oracle) != np.signbit(values)) for oracle in oracles]
    return (values == 0) & both[0] & both[1]


def main() -> None:
    """Print what is off for each `dtype:size` of the command line."""
    for argument in sys.argv[1:]:
        name, _, size = argument.partition(":")
        dtype = next(dtype for dtype in DTYPES if str(dtype) == name)
        for line in differences(dtype, int(size)):
            sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
