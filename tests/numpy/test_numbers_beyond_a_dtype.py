"""Python integers that an array's dtype does not hold, where NumPy computes with them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
import scipy.special

import tracer
import tracer.numpy as tnp
import tracer.scipy.special

pytestmark = pytest.mark.xla

COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64"])
@pytest.mark.parametrize("number", [300, -300, 2**70])
def test_comparisons(name: str, dtype: str, number: int) -> None:
    x = np.array([1, 100], dtype)
    for array in (x, tnp.asarray(x), x[0]):
        found = getattr(tnp, name)(array, number), getattr(tnp, name)(number, array)
        wanted = (
            getattr(np, name)(np.asarray(array), number),
            getattr(np, name)(number, np.asarray(array)),
        )
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(one), other)
    assert bool(getattr(tnp, name)(2**70, 1)) == bool(getattr(np, name)(2**70, 1))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "bool"])
@pytest.mark.parametrize("number", [256, -129, 70_000])
def test_quotients(dtype: str, number: int) -> None:
    x = np.array([1, 100, 7], dtype)

    def by_number(x: Any) -> Any:
        return x / number, tnp.true_divide(number, x), operator.truediv(number, x)

    wanted = x / number, number / x, number / x
    for function in (by_number, tracer.compile(by_number)):
        for found, other in zip(function(tnp.asarray(x)), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(found), other)
            assert found.dtype == other.dtype
    np.testing.assert_allclose(tnp.divide(x, number), wanted[0])


IN_FLOATS = ["arctan2", "hypot", "float_power", "copysign", "nextafter", "heaviside", "logaddexp"]
IN_TRUTH = ["logical_and", "logical_or", "logical_xor"]


@pytest.mark.parametrize("name", [*IN_FLOATS, *IN_TRUTH])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "bool"])
@pytest.mark.parametrize("number", [256, -129, 70_000, 2**62])
def test_functions_of_floats_and_of_truth(name: str, dtype: str, number: int) -> None:
    x = np.array([1, 0, 7], dtype)
    function, reference = getattr(tnp, name), getattr(np, name)
    for ours, theirs in ((tnp.asarray(x), x), (x, x)):
        with np.errstate(all="ignore"):  # 70,000 is infinite in the float16 of bytes.
            wanted = reference(theirs, number), reference(number, theirs)
            found = function(ours, number), function(number, ours)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(one), other, rtol=4 * _epsilon(other))
            assert one.dtype == other.dtype


def _epsilon(x: np.ndarray) -> float:
    return float(np.finfo(x.dtype).eps) if x.dtype.kind == "f" else 0.0


def test_special_functions() -> None:
    x = np.array([1, 0, 7], np.int8)
    for name in ("xlogy", "xlog1py", "rel_entr"):
        found = getattr(tracer.scipy.special, name)(tnp.asarray(x), 300)
        wanted = getattr(scipy.special, name)(x.astype(np.float64), 300.0)
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-3)


def test_bools_to_negative_powers_are_refused() -> None:
    with pytest.raises(tracer.errors.ArgumentError, match="negative integer powers"):
        tnp.asarray(np.array([True, False])) ** -1


def test_what_no_float_holds_is_refused() -> None:
    with pytest.raises(tracer.errors.RangeError, match="does not fit into float64"):
        tnp.asarray(np.array([1], np.int8)) / 10**400
    with pytest.raises(tracer.errors.RangeError, match="does not fit into uint8"):
        tnp.asarray(np.array([1], np.uint8)) + 256
