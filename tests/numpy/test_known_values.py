"""Values that XLA's formulas miss: digits of logarithms, complex infinities, poles; in all ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special as scipy_special

import tracer
import tracer.numpy as tnp
from tests.sweep.compare import apart
from tracer.array.trace import trace
from tracer.errors import ArgumentError
from tracer.ir import interpret
from tracer.scipy import special

pytestmark = pytest.mark.xla
Array = np.ndarray[Any, Any]


def interpreted(function: Callable[..., Any], *arrays: Array) -> Array:
    return np.asarray(interpret(trace(function, arrays).graph, arrays)[0])


def compiled(function: Callable[..., Any], *arrays: Array) -> Array:
    return np.asarray(tracer.compile(function)(*arrays))


def eager(function: Callable[..., Any], *arrays: Array) -> Array:
    return np.asarray(function(*map(tnp.asarray, arrays)))


WAYS = pytest.mark.parametrize("way", [interpreted, compiled, eager])
RUN = pytest.mark.parametrize("way", [compiled, eager])
RNG = np.random.default_rng(0)


def assert_within(units: float, found: Array, wanted: Array) -> None:
    assert float(apart(found, wanted, found.dtype).max()) <= units


# Digits of logarithms.


@RUN
@pytest.mark.parametrize("name", ["log1p", "arctanh"])
def test_log1p_is_right_where_its_polynomial_ends(way: Any, name: str) -> None:
    x = np.concatenate([np.linspace(-0.75, 0.75, 4001), -np.logspace(-30, -0.01, 997)])
    assert_within(4, way(getattr(tnp, name), x), getattr(np, name)(x.astype(np.longdouble)))


@RUN
@pytest.mark.parametrize("name", ["log", "log1p"])
def test_logarithms_of_complex_numbers_of_size_near_one(way: Any, name: str) -> None:
    z = RNG.uniform(0.3, 2.5, 4001) * np.exp(1j * RNG.uniform(-np.pi, np.pi, 4001))
    z = z - 1 if name == "log1p" else z
    assert_within(4, way(getattr(tnp, name), z), getattr(np, name)(z.astype(np.clongdouble)))


def test_sizes_of_which_a_square_is_no_number_have_logarithms() -> None:
    parts = np.array([0.0, 1e-300, 1.0, 1e300, np.inf])
    z = np.array([complex(x, y) for x in parts for y in parts])
    with np.errstate(divide="ignore"):
        wanted = np.log(z)
    np.testing.assert_allclose(compiled(tnp.log, z), wanted, rtol=1e-15)


@RUN
def test_log_ndtr_is_right_where_its_series_begins(way: Any) -> None:
    x = np.concatenate([np.linspace(-40, -5, 701), np.linspace(-20.5, -19.5, 101)])
    wanted = scipy_special.log_ndtr(x)
    np.testing.assert_allclose(way(special.log_ndtr, x), wanted, rtol=3e-15)
    single = way(special.log_ndtr, x.astype(np.float32))
    np.testing.assert_allclose(single, wanted, rtol=1e-6)


@RUN
def test_the_tail_of_erfc_does_not_lose_the_digits_of_a_square(way: Any) -> None:
    x = np.concatenate([np.linspace(-3, 26, 4001), [30.0, 1e200, np.inf, -np.inf, np.nan]])
    wide = x.astype(np.longdouble)
    with np.errstate(invalid="ignore"):
        wanted = np.where(x > 1, scipy_special.erfcx(x) * np.exp(-wide * wide), 0)
    wanted = np.where(x > 1, np.where(x > 28, 0, wanted), scipy_special.erfc(x))
    assert_within(12, way(special.erfc, x), wanted)


@RUN
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logit_keeps_its_digits_near_a_half(way: Any, dtype: str) -> None:
    small = np.logspace(-12, -1, 500)
    x = np.concatenate([0.5 + small, 0.5 - small, small, 1 - small, [0, 1, 0.3, 0.7, 2, -1]])
    x = x.astype(dtype)
    wide = x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        near = np.log1p((2 * wide - 1) / (1 - wide))
        wanted = np.where(abs(wide - 0.5) < 0.2, near, np.log(wide) - np.log1p(-wide))
    assert_within(5, way(special.logit, x), wanted)


def test_slopes_of_logit() -> None:
    x = np.array([0.0, 0.1, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0])
    found = tracer.grad(lambda x: special.logit(x).sum())(x)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(found, 1 / (x * (1 - x)), rtol=1e-14)


# Complex numbers that are not finite, and powers of zero.

PARTS = (0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan)
PLANE = np.array([complex(x, y) for x in PARTS for y in PARTS])
FIRST, SECOND = (z.ravel() for z in np.meshgrid(PLANE, PLANE))


@WAYS
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["abs", "sign", "isinf", "isnan"])
def test_complex_numbers_that_are_not_finite(way: Any, name: str, dtype: str) -> None:
    z = PLANE.astype(dtype)
    with np.errstate(invalid="ignore"):
        wanted = getattr(np, name)(z)
    np.testing.assert_allclose(way(getattr(tnp, name), z), wanted, rtol=1e-6)


@WAYS
@pytest.mark.parametrize("name", ["less", "less_equal", "greater", "greater_equal", "equal"])
def test_complex_numbers_with_nan_have_no_order(way: Any, name: str) -> None:
    found = way(getattr(tnp, name), FIRST, SECOND)
    with np.errstate(invalid="ignore"):
        wanted = getattr(np, name)(FIRST, SECOND)
    np.testing.assert_array_equal(found, wanted)


@WAYS
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_the_sign_of_a_number_whose_size_overflows_has_both_parts(way: Any, dtype: str) -> None:
    largest = np.finfo(dtype).max
    z = np.array([largest - largest * 1j, -largest], dtype)
    wanted = [(1 - 1j) * np.sqrt(0.5), -1]
    np.testing.assert_allclose(way(tnp.sign, z), wanted, rtol=1e-6, atol=1e-12)


@WAYS
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_powers_of_the_complex_zero(way: Any, dtype: str) -> None:
    exponents = PLANE.astype(dtype)
    for zero in (0, complex(-0.0, -0.0)):
        base = np.full_like(exponents, zero)
        with np.errstate(all="ignore"):
            wanted = np.power(base, exponents)
        np.testing.assert_array_equal(way(tnp.power, base, exponents), wanted)


# Poles.


@RUN
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_digamma_at_its_poles(way: Any, dtype: str) -> None:
    x = np.array([0.0, -0.0, -1, -7, np.inf, -np.inf, np.nan], dtype)
    np.testing.assert_array_equal(way(special.digamma, x), scipy_special.digamma(x))


def test_the_slope_of_digamma_at_its_pole() -> None:
    assert float(tracer.grad(special.digamma)(0.0)) == scipy_special.polygamma(1, 0.0)


# Numbers whose values are looked at.

INDEX = tnp.asarray([0, 1, 2])
LATER = tnp.asarray([1, 2])
HOLES = tnp.asarray([1.0, np.nan, 3.0])


def put(x: Any) -> Any:
    x = x.copy()
    tnp.put(x, LATER, 5.0)
    return x


@RUN
@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: tnp.choose(INDEX, [x, 10 * x, 100 * x]), [1, 20, 300]),
        (lambda x: tnp.choose([2, 1, 0], [x, 10 * x, 100 * x]), [100, 20, 3]),
        (put, [1, 5, 5]),
        (lambda x: x * tnp.ravel_multi_index((INDEX, INDEX), (3, 3)), [0, 8, 24]),
        (lambda x: x * tnp.nanargmax(HOLES), [2, 4, 6]),
    ],
)
def test_concrete_arrays_in_a_trace(way: Any, function: Any, wanted: list[int]) -> None:
    np.testing.assert_array_equal(way(function, np.array([1.0, 2.0, 3.0])), wanted)


@RUN
@pytest.mark.parametrize("numbers", [[0, 3], np.array([-1, 0]), (2, 5)])
def test_numbers_that_are_known_to_be_no_choice(way: Any, numbers: Any) -> None:
    with pytest.raises(ArgumentError, match="out of bounds"):
        way(lambda x: tnp.choose(numbers, [x, x, x]), np.ones(2))


def test_traced_numbers_that_are_no_choice_choose_nan() -> None:
    found = compiled(lambda a, x: tnp.choose(a, [x, 2 * x]), np.array([-1, 0, 1, 2]), np.ones(4))
    np.testing.assert_array_equal(found, [np.nan, 1, 2, np.nan])


@RUN
def test_floats_that_do_not_fit_become_the_nearest_integer(way: Any) -> None:
    x = np.array([300, -3.7, np.nan, np.inf, -np.inf], "f4")
    np.testing.assert_array_equal(way(lambda x: x.astype("int8"), x), [127, -3, 0, 127, -128])
    np.testing.assert_array_equal(way(lambda x: x.astype("uint8"), x), [255, 0, 0, 255, 0])
