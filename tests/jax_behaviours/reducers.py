"""lax_numpy_reducers: sums, means, variances, quantiles, running sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.jax_behaviours.comparing import Behaviour, Program

Programs = Iterator[tuple[str, Program]]
RNG = np.random.default_rng(7)
BASE = RNG.normal(size=(2, 3, 4)) * 3
BASE[0, 1, 2] = 0
DTYPES = "bool int8 uint8 int32 int64 float16 float32 float64 complex64 complex128".split()
SUMS = "sum prod mean var std any all count_nonzero".split()
EXTREMES = "max min ptp argmax argmin".split()
NANS = "nansum nanprod nanmean nanvar nanstd nanmax nanmin".split()


def array(dtype: str, shape: tuple[int, ...] = (2, 3, 4)) -> Any:
    """Return numbers of both signs, one of them zero."""
    values = np.resize(BASE, shape)
    if dtype == "bool":
        return values > 0
    if dtype.startswith("complex"):
        return (values + 1j * np.roll(values, 1)).astype(dtype)
    return (np.abs(values) if dtype.startswith("u") else values).astype(dtype)


def call(path: str, *args: Any, **keywords: Any) -> Program:
    """Return a program of one call of a function, named as from the library."""

    def program(library: Any) -> Any:
        function = library
        for part in path.split("."):
            function = getattr(function, part)
        return function(*args, **keywords)

    return program


def labelled(path: str, *args: Any, **keywords: Any) -> tuple[str, Program]:
    """Return a call with a label that says all of it."""
    shown = [_shown(arg) for arg in args] + [f"{k}={_shown(v)}" for k, v in keywords.items()]
    return f"{path}({', '.join(shown)})", call(path, *args, **keywords)


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > 6:
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.tolist()}"
    if isinstance(value, list | tuple):
        inside = ", ".join(map(_shown, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return getattr(value, "__name__", repr(value))


def dtypes() -> Programs:
    for name in (*SUMS, *EXTREMES):
        for dtype in DTYPES:
            yield labelled(f"np.{name}", array(dtype))


def axes() -> Programs:
    for name in (*SUMS, *EXTREMES[:3]):
        for axis in (0, -1, (0, 2), (), (2, 0, 1), 3, (0, 0)):
            for keepdims in (False, True):
                yield labelled(f"np.{name}", array("float32"), axis=axis, keepdims=keepdims)


def result_dtypes() -> Programs:
    for name in SUMS[:5]:
        for dtype in ("int8", "float32"):
            for wanted in ("int32", "float16", "float64", "complex64"):
                yield labelled(f"np.{name}", array(dtype), axis=1, dtype=wanted)


def starts() -> Programs:
    for name in ("sum", "prod", "max", "min"):
        for dtype in ("int32", "float32", "complex64"):
            for initial in (1, 0.5, np.float32(2), -(2**20)):
                yield labelled(f"np.{name}", array(dtype), axis=1, initial=initial)
        yield labelled(f"np.{name}", array("float32"), axis=-1, initial=np.zeros((1, 2, 3)))
        yield labelled(f"np.{name}", np.zeros((0, 3)), axis=0, initial=2.0)
        yield labelled(f"np.{name}", np.zeros((0, 3)), axis=0)


def masks() -> Programs:
    full, row = array("bool"), np.array([True, False, True, True])
    for name in (*SUMS[:7], *NANS[:5]):
        for mask in (full, row, np.zeros(4, bool), np.array([1, 0, 1, 1]), True):
            yield labelled(f"np.{name}", array("float32"), axis=-1, where=mask)
    for name in ("max", "min", "nanmax", "nanmin"):
        yield labelled(f"np.{name}", array("float32"), axis=0, where=full, initial=-1.0)
        yield labelled(f"np.{name}", array("float32"), axis=0, where=full)
        yield labelled(f"np.{name}", array("float32"), axis=2, where=np.arange(4), initial=-1.0)


def variances() -> Programs:
    for name in ("var", "std", "nanvar", "nanstd"):
        for dtype in ("int32", "float32", "complex64"):
            for ddof in (0, 1, 2, 9):
                yield labelled(f"np.{name}", array(dtype), axis=(0, 1), ddof=ddof)
        yield labelled(f"np.{name}", array("float32"), axis=1, mean=np.ones((2, 1, 4), "float32"))
        yield labelled(f"np.{name}", array("float32"), axis=1, correction=1)
        yield labelled(f"np.{name}", array("float32"), axis=1, ddof=1, correction=0)


def gaps() -> Programs:
    x = array("float64").copy()
    x[0, :, 1] = np.nan
    x[:, 2, 0] = np.nan
    empty = np.full((2, 3), np.nan)
    for name in (*NANS, "nanmedian", "nanargmax", "nanargmin", "nancumsum", "nancumprod"):
        for axis in (None, 0, 1, -1):
            yield labelled(f"np.{name}", x, axis=axis)
        yield labelled(f"np.{name}", array("int32"), axis=1)
        yield labelled(f"np.{name}", x.astype("complex64"), axis=2)
    for name in (*NANS, "nanmedian"):
        yield labelled(f"np.{name}", empty, axis=0)


def averages() -> Programs:
    x, w = array("float64"), np.abs(array("float32")) + 1
    for axis, weights in (
        (None, None),
        (1, None),
        ((0, 2), None),
        (None, w),
        (1, w),
        (1, w[0, :, 0]),
        ((0, 1), w[:, :, 0]),
        ((2, 0), w[:, 0].T),
        ((0, 1, 2), w),
        (1, w[0]),
        (0, w[:, 0, 0]),
    ):
        for returned in (False, True):
            yield labelled("np.average", x, axis, weights, returned)
    yield labelled("np.average", array("int32"), 0, keepdims=True)
    yield labelled("np.average", array("complex64"), 2, w[0, 0], keepdims=True)


def covariances() -> Programs:
    x = array("float64", (4, 5))
    for rowvar in (True, False):
        for m in (x, x[:1], x[0], x[:, :1], x.astype("float32"), array("complex64", (4, 5))):
            for name in ("cov", "corrcoef"):
                yield labelled(f"np.{name}", m, rowvar=rowvar)
        yield labelled("np.cov", x, x**2, rowvar=rowvar)
        yield labelled("np.corrcoef", x, x**2, rowvar=rowvar)
    for keywords in (
        {"ddof": 0},
        {"bias": True},
        {"ddof": 2},
        {"fweights": np.arange(5)},
        {"aweights": np.arange(5.0)},
        {"fweights": np.arange(5), "aweights": np.arange(5.0)},
    ):
        yield labelled("np.cov", x, **keywords)
    yield labelled("np.cov", np.zeros((0, 3)))


def quantiles() -> Programs:
    x = array("float64")
    gap = x.copy()
    gap[0, 0, 0] = np.nan
    methods = "linear lower higher midpoint nearest".split()
    for name in ("quantile", "nanquantile"):
        for values in (x, gap):
            for axis in (None, 0, (0, 2)):
                for q in (0.3, np.array([0.0, 0.5, 1.0])):
                    yield labelled(f"np.{name}", values, q, axis=axis)
        for method in (*methods, "weibull", "hazen"):
            yield labelled(f"np.{name}", x, 0.35, axis=1, method=method)
        yield labelled(f"np.{name}", x, 0.5, axis=1, keepdims=True)
        yield labelled(f"np.{name}", array("int32"), 0.25, axis=1)
        yield labelled(f"np.{name}", array("float32"), 0.25)
        weights = np.array([1.0, 2.0, 0.5])
        yield labelled(f"np.{name}", x, 0.5, axis=1, weights=weights, method="inverted_cdf")
    for name in ("percentile", "nanpercentile"):
        yield labelled(f"np.{name}", gap, np.array([10, 50]), axis=1)
    yield labelled("np.median", gap, axis=1)
    yield labelled("np.median", array("int32"), axis=(0, 1), keepdims=True)


def running() -> Programs:
    for name in ("cumsum", "cumprod", "nancumsum", "nancumprod"):
        for dtype in ("bool", "int8", "float32", "complex64"):
            yield labelled(f"np.{name}", array(dtype), axis=1)
        for keywords in ({}, {"axis": -1}, {"axis": 3}, {"axis": 0, "dtype": "float16"}):
            yield labelled(f"np.{name}", array("float32"), **keywords)
        yield labelled(f"np.{name}", np.float32(3))
    for name in ("cumulative_sum", "cumulative_prod"):
        for dtype in (None, "bool", "int32", "float64"):
            for start in (False, True):
                yield labelled(
                    f"np.{name}", array("float32"), axis=1, dtype=dtype, include_initial=start
                )
        yield labelled(f"np.{name}", array("float32"))
        yield labelled(f"np.{name}", np.float32(2), axis=0)


def large() -> Programs:
    x = np.full(100_000, 1.1, "float16")
    for name in ("sum", "mean", "var", "std"):
        yield labelled(f"np.{name}", x)
    yield labelled("np.mean", np.ones(2**25, bool))
    yield labelled("np.std", (np.arange(200_000) % 7).astype("float32"))


def derivatives() -> Programs:
    x = array("float64", (3, 4))
    gap = x.copy()
    gap[1, 2] = np.nan
    for name in "sum prod mean var std max min ptp cumsum cumprod".split():
        yield f"grad of np.{name}", lambda m, n=name: m.grad(lambda x: getattr(m.np, n)(x).sum())(x)
    for name in NANS:
        yield f"grad of np.{name}", lambda m, n=name: m.grad(lambda x: getattr(m.np, n)(x))(gap)
    for name in ("var", "std", "mean", "prod"):
        yield (
            f"grad of np.{name} with a mask",
            lambda m, n=name: m.grad(lambda v: getattr(m.np, n)(v, where=x > 0).sum())(x),
        )


BEHAVIOURS = [
    Behaviour("lax_numpy_reducers", "reductions of every dtype", dtypes),
    Behaviour("lax_numpy_reducers", "axes, several, none, twice, out of bounds; keepdims", axes),
    Behaviour(
        "lax_numpy_reducers",
        "dtype= of sums, products, means and variances",
        result_dtypes,
        missing=(
            "var(float32[2, 3, 4], axis=1, dtype='int32'",
            "var(int8[2, 3, 4], axis=1, dtype='int32'",
        ),
    ),
    Behaviour("lax_numpy_reducers", "initial=: scalars in the result's dtype, no arrays", starts),
    Behaviour("lax_numpy_reducers", "where=: masks that broadcast, no integers", masks),
    Behaviour("lax_numpy_reducers", "var, std: ddof, correction, mean", variances),
    Behaviour("lax_numpy_reducers", "reductions that skip NaN", gaps),
    Behaviour("lax_numpy_reducers", "average with weights of some axes, in any order", averages),
    Behaviour("lax_numpy_reducers", "cov and corrcoef", covariances),
    Behaviour(
        "lax_numpy_reducers",
        "quantiles, percentiles, medians",
        quantiles,
        missing=("np.quantile(float64[2, 3, 4], 0.5, axis=1, weights=",),
    ),
    Behaviour("lax_numpy_reducers", "running sums and products", running),
    Behaviour("lax_numpy_reducers", "many float16 and bool elements", large),
    Behaviour("lax_numpy_reducers", "derivatives of reductions", derivatives),
]
