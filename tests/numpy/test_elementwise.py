"""Element-wise functions against NumPy: values and dtypes over all dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import tracer.numpy as tnp
from tests.numpy.oracle import (
    NUMPY_DTYPES,
    assert_same,
    interpreted,
    numpy_twin,
    our_function,
    quietly,
    sample,
)
from tracer.errors import DTypeError, RangeError, ShapeError

UFUNCS = [ufunc for name in tnp.__all__ if isinstance(ufunc := getattr(np, name, None), np.ufunc)]
UNARY = sorted(
    {ufunc.__name__ for ufunc in UFUNCS if (ufunc.nin, ufunc.nout) == (1, 1)}
    | {"angle", "imag", "nan_to_num", "real", "round", "sinc"}
)
"""Those that NumPy has as ufuncs are found by themselves: under one of their names."""
BINARY = (
    "add subtract multiply divide floor_divide remainder fmod power maximum minimum fmax fmin "
    "arctan2 hypot logaddexp copysign nextafter equal not_equal less less_equal greater "
    "greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor "
    "left_shift right_shift float_power"
).split()


def _expected(name: str, *arrays: np.ndarray) -> np.ndarray | None:
    """Return NumPy's answer, None where NumPy has none."""
    try:
        return quietly(numpy_twin(name), *arrays)
    except TypeError:
        return None


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_are_numpys(name, dtype, rng):
    x = sample(rng, (3, 4), dtype)
    expected = _expected(name, x)
    function = our_function(name)
    if expected is None:
        with pytest.raises(DTypeError):
            interpreted(function, x)
        return
    if name == "reciprocal" and x.dtype.kind in "iu":
        expected = np.where(x == 0, 0, expected)  # NumPy leaves 1 // 0 undefined
    assert_same(interpreted(function, x)[0], expected, f"{name} {dtype}")


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_are_numpys(name, dtype, rng):
    x, y = sample(rng, (3, 1), dtype), sample(rng, (1, 4), dtype)
    if "shift" in name or (name == "power" and x.dtype.kind == "i"):
        y = np.abs(y)
    expected = _expected(name, x, y)
    function = our_function(name)
    if expected is None:
        with pytest.raises(DTypeError):
            interpreted(function, x, y)
        return
    assert_same(interpreted(function, x, y)[0], expected, f"{name} {dtype}")


@pytest.mark.xla
@pytest.mark.parametrize("name", ["add", "divide", "floor_divide", "remainder", "power", "hypot"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_eager_results_are_numpys(name, dtype, rng):
    x, y = sample(rng, (4, 1), dtype), np.abs(sample(rng, (5,), dtype))
    ours = our_function(name)(tnp.asarray(x), y)
    assert_same(ours, quietly(numpy_twin(name), x, y), name)


@pytest.mark.parametrize("exponent", [-2, -1, -0.5, 0, 0.5, 1, 2, 3, 4, 2.0, 2.5, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "complex64"])
def test_powers_by_python_numbers(exponent, dtype, rng):
    x = np.abs(sample(rng, (6,), dtype)) + np.ones((), dtype)
    x = x.astype(dtype)
    try:
        expected = quietly(np.power, x, exponent)
    except (ValueError, OverflowError) as error:
        with pytest.raises(type(error)):
            interpreted(lambda v: v**exponent, x)
        return
    assert_same(interpreted(lambda v: v**exponent, x)[0], expected)


@pytest.mark.xla
def test_a_square_is_one_product():
    from tracer.array.trace import trace

    graph = trace(lambda x: x**2, [tnp.ones(3)]).graph
    assert [node.name for node in graph.nodes] == ["multiply"]


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -2.5, np.inf, -np.inf, np.nan])


@pytest.mark.xla
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "hypot", "logaddexp"])
@pytest.mark.parametrize("is_eager", [False, True])
def test_special_floats(name, is_eager):
    x, y = SPECIAL[:, None], SPECIAL[None, :]
    expected = quietly(numpy_twin(name), x, y)
    function = our_function(name)
    ours = np.asarray(function(x, y)) if is_eager else interpreted(function, x, y)[0]
    np.testing.assert_allclose(ours, expected, rtol=1e-15)
    if name in ("floor_divide", "remainder"):
        # The sign of a NaN means nothing; NumPy's differ by machine.
        is_number = ~np.isnan(expected)
        signs = np.signbit(ours)[is_number], np.signbit(expected)[is_number]
        np.testing.assert_array_equal(*signs)


@pytest.mark.xla
def test_remainder_has_the_sign_of_the_divisor():
    x = np.array([7, -7, 7, -7, 0])
    y = np.array([3, 3, -3, -3, 0])
    assert_same(tnp.remainder(x, y), quietly(np.remainder, x, y))
    assert_same(tnp.floor_divide(x, y), quietly(np.floor_divide, x, y))
    quotient, rest = divmod(tnp.asarray(x), 2)
    assert_same(quotient, x // 2)
    assert_same(rest, x % 2)


@pytest.mark.xla
def test_comparison_of_signed_and_unsigned_is_exact():
    x = np.array([-1, 2**62, 2**63 - 1])
    y = np.array([2**63, 2**62, 2**64 - 1], np.uint64)
    for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
        assert_same(our_function(name)(x, y), numpy_twin(name)(x, y), name)
        assert_same(our_function(name)(y, x), numpy_twin(name)(y, x), name)


@pytest.mark.xla
def test_comparison_with_integers_beyond_the_dtype():
    x = np.array([0, 200], np.uint8)
    assert_same(tnp.asarray(x) < 300, x < 300)
    assert_same(tnp.asarray(x) == -1, x == -1)
    assert_same(-1 < tnp.asarray(x), -1 < x)


@pytest.mark.xla
def test_arithmetic_with_integers_beyond_the_dtype_is_refused():
    with pytest.raises(RangeError, match="300 does not fit into uint8"):
        tnp.zeros(3, "uint8") + 300


@pytest.mark.xla
def test_where_and_clip(rng):
    x = rng.normal(size=(4, 5)).astype("float32")
    assert_same(tnp.where(x > 0, x, 0), np.where(x > 0, x, np.float32(0)))
    assert_same(tnp.where(x, x[:1], 2.0), np.where(x, x[:1], np.float32(2)))
    assert_same(tnp.clip(x, -0.5, 0.5), np.clip(x, -0.5, 0.5))
    assert_same(tnp.clip(x, None, x[0]), np.clip(x, None, x[0]))
    assert_same(tnp.clip(x, 1.0, None), np.clip(x, 1.0, None))
    assert_same(tnp.asarray(x).clip(1, -1), x.clip(1, -1))
    assert_same(tnp.where(x > 0)[1], np.where(x > 0)[1])


@pytest.mark.parametrize("decimals", [-1, 0, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex64"])
def test_round(decimals, dtype, rng):
    x = (sample(rng, (20,), dtype) * 7).astype(dtype)
    assert_same(interpreted(lambda v: tnp.round(v, decimals), x)[0], np.round(x, decimals))


@pytest.mark.xla
def test_closeness(rng):
    x = np.array([1.0, 1.0 + 1e-9, np.nan, np.inf, -np.inf, np.inf])
    y = np.array([1.0, 1.0, np.nan, np.inf, np.inf, 1.0])
    for equal_nan in (False, True):
        assert_same(tnp.isclose(x, y, equal_nan=equal_nan), np.isclose(x, y, equal_nan=equal_nan))
    assert bool(tnp.allclose(x[:2], y[:2]))
    assert not bool(tnp.allclose(x, y))
    assert bool(tnp.array_equal(x, x, equal_nan=True))
    assert not bool(tnp.array_equal(x, x))
    assert not bool(tnp.array_equal(x, x[:2]))
    assert bool(tnp.array_equiv([1, 1], 1))
    assert not bool(tnp.array_equiv([1, 1], [1, 1, 1]))


def test_bool_arithmetic_that_numpy_refuses_is_refused():
    truth = tnp.array([True, False])
    with pytest.raises(DTypeError, match="subtract is not defined for bool"):
        tnp.subtract(truth, truth)
    with pytest.raises(DTypeError, match="negative is not defined for bool"):
        tnp.negative(truth)


@pytest.mark.xla
def test_shapes_that_do_not_fit_name_both():
    with pytest.raises(ShapeError, match=r"add: shapes \(3,\) and \(4,\)") as caught:
        tnp.ones(3) + tnp.ones(4)
    assert "x[:, None]" in caught.value.mend
    assert caught.value.where is not None
    assert caught.value.where.file == __file__


@pytest.mark.xla
def test_bfloat16(rng):
    x = rng.normal(size=8).astype("float32")
    y = tnp.asarray(x, tnp.bfloat16)
    assert (y + 1).dtype == tnp.bfloat16
    assert (y * 2.0).dtype == tnp.bfloat16
    assert (y + tnp.asarray(x)).dtype == np.float32
    assert (y + tnp.asarray(x, "float16")).dtype == np.float32
    assert tnp.exp(y).dtype == tnp.bfloat16
    np.testing.assert_allclose(np.asarray(y.sum()).astype(float), x.sum(), rtol=2e-2, atol=2e-2)
