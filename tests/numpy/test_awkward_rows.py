"""What the sweep of rows (tests/sweep/row_sweep.py) found wrong: infinities, NaN, wide integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same, quietly

pytestmark = pytest.mark.xla

INF, NAN = np.inf, np.nan
INFINITE = np.array([[-INF, -INF, 1.0, 2.0], [-INF, -INF, -INF, -INF], [3.0, INF, INF, 1.0]])
HOLES = np.array([1.0, 4.0, INF, 2.0, 0.5, NAN, 3.0, -1.0, 7.0])
LONG = np.array([[2**62 + 1, -(2**61) - 3], [2**53 + 1, 7]])
IMAGINARY = np.array([3.5 - 1j, complex(1, NAN), 2 + 1j, complex(1, NAN), 2 + 1j, complex(NAN, 0)])
MASK = np.array([True, False, True])

CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "median beside infinities": (lambda m, x: m.median(x, axis=1), (INFINITE,)),
    "median of single precision": (lambda m, x: m.median(x), (INFINITE.astype("f4"),)),
    "nanmedian": (lambda m, x: m.nanmedian(x, axis=1), (INFINITE,)),
    "median of complex numbers": (lambda m, x: m.median(m.nan_to_num(x)), (IMAGINARY,)),
    "median of imaginary NaN": (lambda m, x: m.median(x), (IMAGINARY[:3],)),
    "nanmedian of complex numbers": (lambda m, x: m.nanmedian(x), (IMAGINARY,)),
    "midpoint": (lambda m, x: m.quantile(x, 0.5, method="midpoint"), (np.array([-INF, 1.0]),)),
    "gradient beside an infinity": (lambda m, x: m.gradient(x), (HOLES,)),
    "gradient, step": (lambda m, x: m.gradient(x, 0.5, edge_order=2), (HOLES,)),
    "gradient, places": (lambda m, x: m.gradient(x, x**2 + x), (np.arange(5.0),)),
    "gradient, complex": (lambda m, x: m.gradient(x, 2.0), (np.array([1, 2j, 3], "complex64"),)),
    "gradient, complex step": (lambda m, x: m.gradient(x, 2j), (np.array([1, 2j, 3]),)),
    "pad with the largest": (lambda m, x: m.pad(x, 1, mode="maximum"), (LONG,)),
    "pad with the least": (lambda m, x: m.pad(x, 1, mode="minimum"), (LONG.astype("u8"),)),
    "pad with the mean": (lambda m, x: m.pad(x, 1, mode="mean"), (np.array([1, 2, 2, 9]),)),
    "vecmat of bools": (lambda m, x: m.vecmat(x, x[:, None] & x), (MASK,)),
    "vecmat": (lambda m, x: m.vecmat(x[:3], x.reshape(3, 2)), (np.arange(6) * (1 + 2j),)),
    "lexsort": (lambda m, x: m.lexsort([x[::-1], x]), (IMAGINARY,)),
    "interp of single precision": (
        lambda m, x, y: m.interp(x, x * 3 - 1, y),
        (np.linspace(0, 4, 50), np.linspace(-1, 3, 50, dtype="f4") ** 3),
    ),
    "compress": (lambda m, x: m.compress(MASK, x, axis=0), (INFINITE,)),
    "compress by a list": (lambda m, x: m.compress([True, False, True], x), (INFINITE,)),
    "unwrap of nothing": (lambda m, x: m.unwrap(x), (np.zeros((3, 0)),)),
    "trapezoid of nothing": (lambda m, x: m.trapezoid(x), (np.zeros((3, 0)),)),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_has_numpys_value(name: str) -> None:
    function, arrays = CALLS[name]
    expected = quietly(function, np, *arrays)
    assert_same(tracer.compile(lambda *arrays: function(tnp, *arrays))(*arrays), expected)
    assert_same(function(tnp, *map(tnp.asarray, arrays)), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "float32", "complex64", "bool"])
def test_sorted_complex_numbers_have_numpys_dtype(dtype: str) -> None:
    x = np.array([2, 0, 1], dtype)
    assert_same(tnp.sort_complex(x), np.sort_complex(x))


def test_distinct_complex_numbers_of_a_trace_end_with_nan() -> None:
    """NaN in one part makes a number NaN: it comes last, and all of them are one."""
    more = {"return_index": True, "return_inverse": True, "return_counts": True}
    found = tracer.compile(lambda z: tnp.unique(z, size=3, **more))(IMAGINARY)
    for got, wanted in zip(found, np.unique(IMAGINARY, **more), strict=True):
        assert_same(got, wanted)


def test_the_derivative_of_a_median_is_that_of_its_neighbours() -> None:
    x = np.array([4.0, 1.0, -INF, 3.0])
    np.testing.assert_array_equal(tracer.grad(tnp.median)(x), [0, 0.5, 0, 0.5])
    equal = np.array([2.0, 2.0])
    np.testing.assert_array_equal(tracer.grad(tnp.median)(equal), [0.5, 0.5])


def test_powers_of_bfloat16() -> None:
    found = tnp.vander(tnp.asarray([1.0, 2.0, 3.0]).astype("bfloat16"), 3)
    assert found.dtype == tnp.bfloat16
    assert found.astype("f4").tolist() == [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
