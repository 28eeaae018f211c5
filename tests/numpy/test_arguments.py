"""Keywords and argument kinds of NumPy's functions that were wrong or refused before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same, quietly
from tracer.errors import ArgumentError, DTypeError, ShapeError, TracingError

pytestmark = pytest.mark.xla

X = np.arange(24.0).reshape(2, 3, 4) - 7
GAPS = np.array([[np.nan, 2.0, 5.0, 8.0], [1.0, np.nan, np.nan, -3.0]])
MASK = np.array([[True, True, False, True], [True, False, True, True]])
PAIRS = np.array([[1, 1], [2, 2], [3, 3]])
CUBE = np.arange(24).reshape(2, 3, 4)
SMALL = np.array([1, 200], "uint8")
NAN = np.nan
COMPLEX = np.array(
    [1 + 2j, 2 + 0j, complex(1, NAN), complex(NAN, 1), complex(NAN, NAN), 3 - 1j, 1 - 2j, -1j]
)
FINITE = COMPLEX[[0, 1, 5, 6, 7]]
GRID = np.stack([FINITE, FINITE[::-1] * 1j, np.roll(FINITE, 2).conj()])

CALLS: list[Callable[[Any], Any]] = [
    # start values are converted to the dtype of the result first
    lambda m: m.sum(np.array([-1, -2]), initial=0.5),
    lambda m: m.prod(np.array([2, 3]), initial=0.5),
    lambda m: m.max(np.array([1, 2]), initial=2.5),
    lambda m: m.max(np.float32([1]), initial=np.float64(2)),
    lambda m: m.max(np.zeros(0, "int32"), initial=5),
    lambda m: m.min(X, axis=(0, 2), keepdims=True, initial=-3, where=X > 0),
    lambda m: m.max(np.zeros((2, 0)), axis=1, initial=-1.0),
    # covariances, averages
    lambda m: m.cov(np.arange(3.0)[None], rowvar=False, ddof=0),
    lambda m: m.cov(np.arange(3.0), np.array([[4.0, 1.0, 2.0]]), rowvar=False),
    lambda m: m.cov(X[0], X[1] ** 2, rowvar=False),
    lambda m: m.average(X, (2, 0), np.arange(8.0).reshape(4, 2)),
    lambda m: m.average(X, (1, -3), np.arange(6.0).reshape(3, 2), keepdims=True),
    lambda m: m.average(X, (2, 1, 0), np.arange(24.0).reshape(4, 3, 2), returned=True),
    # running sums of numbers, and of truth values
    lambda m: m.cumsum(3.0),
    lambda m: m.cumsum(np.array(3.0), axis=-1),
    lambda m: m.cumprod(np.array(3), axis=0),
    lambda m: m.cumulative_sum(np.array(3.0)),
    lambda m: m.cumulative_sum(np.array([0.1, 0, 2]), dtype=bool),
    lambda m: m.cumulative_prod(np.array([0.1, 2, 0, 2]), dtype=bool, include_initial=True),
    lambda m: m.cumsum(X - 3, axis=1, dtype=bool),
    # variances about a known mean
    lambda m: m.var(X, axis=1, mean=X.mean(1, keepdims=True)),
    lambda m: m.std(X, axis=(0, 2), mean=np.ones((1, 3, 1)), correction=1),
    lambda m: m.var(np.arange(3), mean=1.5, dtype="float32"),
    lambda m: m.var(X, axis=1, dtype="complex64"),
    lambda m: m.std(X + 1j, axis=1, dtype="complex64"),
    # reductions that skip NaN
    lambda m: m.nanvar(GAPS, axis=1, ddof=2),
    lambda m: m.nanstd(GAPS, axis=1, correction=3),
    lambda m: m.nansum(GAPS, axis=1, initial=1.5, where=MASK),
    lambda m: m.nanprod(GAPS, where=MASK, initial=2.0, keepdims=True),
    lambda m: m.nanmean(GAPS, axis=0, where=MASK),
    lambda m: m.nanvar(GAPS, axis=1, where=MASK),
    lambda m: m.nanstd(GAPS, axis=1, ddof=1, where=MASK),
    lambda m: m.nanvar(GAPS, axis=1, mean=np.array([[4.0], [0.0]])),
    lambda m: m.nanvar(GAPS, correction=1),
    lambda m: m.nanmax(GAPS, axis=1, initial=3.0),
    lambda m: m.nanmin(GAPS, axis=0, initial=9.0, where=MASK),
    lambda m: m.nanmax(np.full((2, 2), NAN), axis=0, initial=-2.0),
    lambda m: m.nanmax(np.arange(3), initial=0, where=np.array([True, False, False])),
    # integers that stay integers
    lambda m: m.ldexp(np.array([3.0, -0.5]), 2),
    lambda m: m.ldexp(np.float32([3.0]), -1),
    lambda m: m.ldexp(np.float16([3.0]), np.array([2])),
    lambda m: m.ldexp(3.0, np.array([2, 3])),
    # places and distances in arrays
    lambda m: m.roll(X, np.array([1, 2]), np.array([0, 1])),
    lambda m: m.roll(X, np.array(5)),
    lambda m: m.roll(X, [1, -2], 1),
    lambda m: m.roll(X, 7, (0, -1, 0)),
    lambda m: m.roll(X, (), ()),
    lambda m: m.split(X, np.array([1, 2]), axis=1),
    lambda m: m.split(X, np.array([2]), axis=2),
    lambda m: m.split(X, np.array(2)),
    lambda m: m.array_split(X, np.array([-1, 3, 9]), axis=2),
    # insertions
    lambda m: m.insert(PAIRS, 1, [7, 8, 9], axis=1),
    lambda m: m.insert(PAIRS, 1, [[7], [8], [9]], axis=1),
    lambda m: m.insert(PAIRS, [1], [[7], [8], [9]], axis=1),
    lambda m: m.insert(PAIRS, [1], [[4, 5], [6, 7]], axis=0),
    lambda m: m.insert(PAIRS, 1, np.arange(6).reshape(2, 3), axis=1),
    lambda m: m.insert(CUBE, 1, np.arange(8).reshape(2, 4), axis=1),
    lambda m: m.insert(CUBE, 1, np.arange(6).reshape(2, 3), axis=2),
    lambda m: m.insert(CUBE, [1], np.arange(6).reshape(2, 3, 1), axis=2),
    lambda m: m.insert(PAIRS, np.array([False, True, False]), 5, axis=0),
    lambda m: m.insert(PAIRS, np.array([True, False, True]), [5], axis=0),
    lambda m: m.insert(PAIRS, np.array([True, False, True]), [[5], [6]], axis=0),
    lambda m: m.insert(PAIRS, np.array([False, False]), 7, axis=1),
    lambda m: m.delete(PAIRS, np.array([False, True, False]), axis=0),
    lambda m: m.insert(CUBE, [0, 2], np.arange(6).reshape(2, 3, 1), axis=2),
    lambda m: m.insert(PAIRS, [2, 2], [5, 6]),
    # norms of nothing
    *[
        lambda m, order=order: m.linalg.vector_norm(np.zeros((2, 0)), axis=1, ord=order)
        for order in (np.inf, 0, 1, 2, 3)
    ],
    *[
        lambda m, order=order, shape=shape: m.linalg.matrix_norm(np.zeros(shape), ord=order)
        for order in (1, np.inf, 2, "nuc", "fro")
        for shape in ((0, 3), (3, 0), (2, 0, 0))
    ],
    # complex numbers, ordered by their parts
    *[
        lambda m, name=name, axis=axis: getattr(m, name)(GRID, axis=axis)
        for name in ("max", "min", "argmax", "argmin", "ptp", "sort", "argsort")
        for axis in (0, 1, None)
    ],
    *[
        lambda m, name=name: getattr(m, name)(COMPLEX)
        for name in ("max", "min", "argmax", "argmin", "sort", "argsort", "sort_complex", "nanmax")
    ],
    *[
        lambda m, name=name: getattr(m, name)(COMPLEX[:, None], COMPLEX)
        for name in ("maximum", "minimum", "fmax", "fmin")
    ],
    lambda m: m.max(GRID, axis=(0, 1), keepdims=True, initial=9j, where=GRID.real < 0),
    lambda m: m.clip(FINITE, 0, 2 + 1j),
    lambda m: m.max(np.full((2, 3), complex(np.inf, -np.inf)), axis=0),
]


def _in_parts(found: Any) -> list[np.ndarray[Any, Any]]:
    parts = [np.asarray(part) for part in (found if isinstance(found, list | tuple) else [found])]
    # Apart, as NaN in the real part says nothing of the other; the zero has the dtype of both.
    return [half for part in parts for half in (part.real, part.imag, np.zeros((), part.dtype))]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_as_numpy(number: int) -> None:
    wanted = _in_parts(quietly(CALLS[number], np))
    found = _in_parts(CALLS[number](tnp))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert_same(one, other)


REFUSED: list[tuple[type[Exception], Callable[[Any], Any]]] = [
    *[
        (DTypeError, lambda m, name=name, mask=mask: getattr(m, name)(X, axis=-1, where=mask))
        for name in "sum prod mean var std any all nansum nanprod nanmean nanvar nanstd".split()
        for mask in (np.array([1, 0, 1, 1]), np.ones(4))
    ],
    *[
        (
            DTypeError,
            lambda m, name=name: getattr(m, name)(X, initial=0, where=np.array([1, 0, 1, 1])),
        )
        for name in ("max", "min", "nanmax", "nanmin")
    ],
    *[
        (ShapeError, lambda m, name=name: getattr(m, name)(X, axis=-1, initial=np.zeros((1, 2, 3))))
        for name in "sum prod max min nansum nanprod nanmax nanmin".split()
    ],
    *[
        (ShapeError, lambda m, name=name: getattr(m, name)(X[0, 0], where=np.ones((2, 4), bool)))
        for name in "sum prod mean var std any all nansum".split()
    ],
    (DTypeError, lambda m: m.add.reduce(X, where=np.array([1, 0, 1, 1]))),
    (DTypeError, lambda m: m.sum(np.ones(2), initial=1j)),
    (ArgumentError, lambda m: m.var(X, ddof=1, correction=1)),
    (ShapeError, lambda m: m.var(X, axis=1, mean=np.ones((2, 4)))),
    (ShapeError, lambda m: m.linalg.vector_norm(np.zeros(0), ord=-np.inf)),
    (ShapeError, lambda m: m.linalg.matrix_norm(np.zeros((0, 3)), ord=-2)),
    (ShapeError, lambda m: m.insert(PAIRS, [0, 1], [[1, 2, 3]], axis=0)),
    (ShapeError, lambda m: m.split(X, 5, axis=2)),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused_as_by_numpy(number: int) -> None:
    kind, call = REFUSED[number]
    with pytest.raises(Exception):  # noqa: B017, PT011 - NumPy's are of several classes
        quietly(call, np)
    with pytest.raises(kind):
        call(tnp)


def test_inside_a_trace() -> None:
    x = np.arange(12.0).reshape(3, 4)
    mask = x > 4
    total = tracer.compile(lambda x, start, mask: x.sum(initial=start, where=mask))
    assert_same(total(x, 0.5, mask), x.sum(initial=0.5, where=mask))
    parts = tracer.compile(
        lambda x: tnp.split(tnp.roll(x, np.array([1, 2]), (0, 1)), np.array([1]))
    )
    for one, other in zip(parts(x), np.split(np.roll(x, (1, 2), (0, 1)), [1]), strict=True):
        assert_same(one, other)
    with pytest.raises(TracingError, match="depend on values"):
        tracer.compile(lambda x, places: tnp.split(x, places))(x, np.array([1]))


def test_traced_distances() -> None:
    """As in JAX: a roll by an argument of a compiled function."""
    x = np.arange(24.0).reshape(2, 3, 4)
    roll = tracer.compile(lambda x, n, axis: tnp.roll(x, n, axis), static_argnums=2)
    for shift, axis in ((5, None), (np.array([1, -2]), (0, 1)), (-7, (0, 2, 0))):
        assert_same(roll(x, shift, axis), np.roll(x, shift, axis))
    gradient = tracer.grad(lambda x, n: (tnp.roll(x, n) * np.arange(5.0)).sum())
    assert gradient(np.ones(5), 2).tolist() == [2, 3, 4, 0, 1]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_cube_roots_of_subnormal_numbers(dtype: str) -> None:
    """XLA:CPU reads subnormal numbers as zeros; its cube root made -5.6e-16 of 1e-40."""
    limits = tnp.finfo(dtype)
    smallest, tiny = limits.smallest_subnormal, limits.smallest_normal
    x = np.array([smallest, -smallest, 3 * smallest, -0.4 * tiny, tiny, -tiny, 0.0, -0.0, -8.0])
    x = np.asarray(tnp.asarray(x).astype(dtype))
    found = np.asarray(tracer.compile(tnp.cbrt)(x)).astype(np.float64)
    wanted = np.cbrt(x.astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=2 * limits.eps)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_gradient_of_complex_extremes() -> None:
    """The cotangent goes to the element that is taken."""
    place = int(np.argmax(FINITE))
    found = tracer.grad(lambda x: tnp.max(x).imag)(FINITE)
    wanted = np.zeros(FINITE.size, complex)
    wanted[place] = -1j
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("bounds", [(-1, 10), (None, 300), (-(10**30), 10**30), (-1, 2.5)])
def test_clip_to_integers_beyond_the_dtype(bounds: tuple[Any, Any]) -> None:
    x = np.array([1, 200, 9], "uint8")
    for found in (tnp.clip(x, *bounds), tracer.compile(lambda x: x.clip(*bounds))(x)):
        wanted = np.clip(x, *bounds)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(np.asarray(found), wanted)
    with pytest.raises(tracer.RangeError):
        tnp.clip(x, 300, None)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounding_to_more_digits_than_there_are(dtype: str) -> None:
    """NumPy makes NaN of it, JAX leaves the numbers as they are."""
    x = np.array([1.25, -1e30, np.inf, np.nan], dtype)
    assert_same(tnp.round(x, 400), x)
    assert_same(tnp.round(x, -400), np.array([0.0, -0.0, np.inf, np.nan], dtype))
    assert_same(tnp.round(np.arange(3) * 7, -400), np.zeros(3, int))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("method", ["linear", "lower", "nearest", "weibull"])
def test_levels_of_quantiles_keep_their_digits(dtype: str, method: str) -> None:
    """As a float16 99.99 % are all, and 99.9999 % of millions have no place in float32."""
    x = np.random.default_rng(0).normal(size=300_001 if dtype == "float32" else 5_001)
    x = (x**5).astype(dtype) if dtype == "float32" else x.astype(dtype)
    for level in (0.13, 0.99987, 0.999999):
        expected = np.quantile(x, level, method=method)
        assert_same(tnp.quantile(x, level, method=method), expected)
        assert_same(tnp.nanpercentile(x, 100 * level, method=method), expected)
        found = tracer.compile(lambda x, q=level: tnp.quantile(x, q, method=method))(x)
        assert_same(found, expected)


@pytest.mark.parametrize("dtype", ["int8", "float16", "complex64"])
@pytest.mark.parametrize("number", [0.1, 300, -129, True, 2.5j])
def test_float_power_of_python_numbers_keeps_their_digits(dtype: str, number: complex) -> None:
    """NumPy converts both to float64, a Python number not to the array's dtype first."""
    x = np.array([1, 2, 3], dtype)
    for function in (
        lambda np_, x: np_.float_power(x, number),
        lambda np_, x: np_.float_power(number, x),
    ):
        expected = function(np, x)
        assert_same(function(tnp, tnp.asarray(x)), expected)
        assert_same(tracer.compile(lambda x, f=function: f(tnp, x))(x), expected)


def test_a_python_base_keeps_the_dtype_of_logarithms():
    for dtype in ("float16", "float32"):
        zero, one = np.array(0, dtype), np.array(1, dtype)
        assert_same(tnp.logspace(zero, one, 3), np.logspace(zero, one, 3))
        assert_same(tnp.logspace(zero, one, 3, base=2), np.logspace(zero, one, 3, base=2))
    assert tnp.logspace(tnp.asarray(0, "bfloat16"), 1, 3).dtype == "bfloat16"
    for axis in (0, -1):
        found = tnp.logspace(0, [1, 2], 3, base=[[2.0], [3.0]], axis=axis)
        assert_same(found, np.logspace(0, [1, 2], 3, base=[[2.0], [3.0]], axis=axis))


def test_geomspace_of_bfloat16():
    one, ten = (tnp.asarray(x, "bfloat16") for x in (1, 10))
    assert_same(tnp.geomspace(one, ten, 3), np.geomspace(1.0, 10.0, 3))
    assert tnp.geomspace(one, ten, 3, dtype="bfloat16").tolist() == [1, 3.15625, 10]


def test_unwrap_by_a_period_of_numpy():
    x = np.array([1, 8, 3, 9])
    period = np.int64(10)
    assert_same(tnp.unwrap(x, period=period), np.unwrap(x, period=period))
