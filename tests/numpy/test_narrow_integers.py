"""Narrow integers: averages of them, common multiples, Python integers that they cannot hold."""

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same
from tracer.errors import ArgumentError, DTypeError, RangeError

pytestmark = pytest.mark.xla

U = np.arange(4, dtype="uint16")


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("weights", ["float16", "float32"])
def test_averages_with_narrow_weights(dtype, weights):
    # The products were summed in float16 (infinite from 65,520 on), or float32.
    x, w = np.full(1000, 100, dtype), np.ones(1000, weights)
    for function in tnp.average, tracer.compile(lambda x, weights: tnp.average(x, weights=weights)):
        found, total = np.asarray(function(x, weights=w)), np.average(x, weights=w)
        assert (found.dtype, found) == (total.dtype, total)


def test_least_common_multiples_wrap_around():
    x, y = np.array([-72, 100, -128, 3], "int8"), np.array([51, -99, 3, 4], "int8")
    np.testing.assert_array_equal(np.asarray(tnp.lcm(x, y)), np.lcm(x, y))


@pytest.mark.parametrize("number", [-3, 2, 70000])
def test_closeness_to_integers_beyond_the_dtype(number):
    np.testing.assert_array_equal(np.asarray(tnp.isclose(U, number)), np.isclose(U, number))
    assert bool(tnp.allclose(number, tnp.asarray(U))) == np.allclose(number, U)


WRITES = {
    "list": lambda m, x: x.__setitem__([0, 1], [-1, 2]),
    "tuple": lambda m, x: x.__setitem__(slice(0, 2), (1, 70000)),
    "nested": lambda m, x: x.reshape(2, 2).__setitem__(slice(0, 1), [[1, -1]]),
    "insert": lambda m, x: m.insert(x, 0, -1),
    "insert a list": lambda m, x: m.insert(x, [0, 1], [5, 70000]),
    "putmask": lambda m, x: m.putmask(x, x > 1, -1),
    "place": lambda m, x: m.place(x, x > 1, [-1]),
    "put": lambda m, x: m.put(x, [0], -1),
    "copyto": lambda m, x: m.copyto(x, -1),
    "piecewise": lambda m, x: m.piecewise(x, [x > 1], [-1, 5]),
    "fill_diagonal": lambda m, x: m.fill_diagonal(m.stack([x, x]), -1),
    "floats": lambda m, x: x.__setitem__(slice(0, 2), [1.5, -2.5]),
    "infinity": lambda m, x: m.put(x, [0], float("inf")),
}


@pytest.mark.parametrize("name", WRITES)
def test_python_integers_that_do_not_fit_are_refused_as_in_numpy(name):
    # They wrapped around: 65535 was written for -1.
    with pytest.raises(OverflowError):
        WRITES[name](np, U.copy())
    with pytest.raises(RangeError, match="does not fit into uint16"):
        WRITES[name](tnp, tnp.array(U))


LOST = {
    "NaN in a list": lambda m, x: x.__setitem__(slice(0, 2), [float("nan"), 1]),
    "NaN": lambda m, x: m.putmask(x, x > 1, float("nan")),
    "an imaginary part in a list": lambda m, x: x.__setitem__([0, 1], [1, 1j]),
    "an imaginary part": lambda m, x: m.place(x, x > 1, 1j),
    "wider integers by putmask": lambda m, x: m.putmask(x, x > 1, m.asarray(U.astype("int64"))),
    "wider integers by place": lambda m, x: m.place(x, x > 1, m.asarray(U.astype("uint32"))),
    "integers with a sign": lambda m, x: m.place(x, x > 1, m.asarray(U.astype("int16"))),
    "an array of floats": lambda m, x: m.putmask(x, x > 1, m.asarray([1.5])),
    "a fraction by copyto": lambda m, x: m.copyto(x, 1.5),
    "a fraction at the end of differences": lambda m, x: m.ediff1d(x, to_end=1.5),
    "a fraction before differences": lambda m, x: m.ediff1d(x, to_begin=[0.5]),
    "differences of truth": lambda m, x: m.ediff1d(x > 1),
}


@pytest.mark.parametrize("name", LOST)
def test_numbers_that_would_lose_a_part_are_refused_as_in_numpy(name):
    # They were written as the least integer, or without the part.
    with pytest.raises((TypeError, ValueError)):
        LOST[name](np, U.copy())
    with pytest.raises((DTypeError, ArgumentError)):
        LOST[name](tnp, tnp.array(U))


@pytest.mark.parametrize("values", [300, (1, -300), [[300, 1]], np.int64(300), np.array([1, 300])])
def test_padding_by_what_does_not_fit_is_refused(values):
    # 44 was written. (NumPy writes some of them in dtypes wider than these.)
    x = np.arange(4, dtype="int8")
    with pytest.raises(OverflowError):
        np.pad(x, 1, constant_values=values)
    for dtype in "int8", "uint8":
        with pytest.raises(RangeError, match=f"does not fit into {dtype}"):
            tnp.pad(x.astype(dtype), 1, constant_values=values)
        with pytest.raises(ArgumentError, match="NaN"):
            tnp.pad(x.astype(dtype), 1, constant_values=float("nan"))


def test_a_ramp_to_what_does_not_fit_is_refused():
    # It ended at 65535; NumPy's wraps around.
    with pytest.raises(RangeError, match="does not fit into uint16"):
        tnp.pad(U, 2, mode="linear_ramp", end_values=70000)


def test_arrays_whose_dtype_fits_are_written():
    for name in "putmask", "place":
        x, mine = U.astype("int64"), tnp.array(U.astype("int64"))
        getattr(np, name)(x, x > 1, U + 5)
        getattr(tnp, name)(mine, mine > 1, tnp.asarray(U + 5))
        np.testing.assert_array_equal(np.asarray(mine), x)


def test_an_imaginary_part_is_not_lost_in_an_array_of_reals():
    with pytest.raises(DTypeError, match="real"):
        tnp.zeros(3, "float32")[:2] = [1.0, 1j]
    with pytest.raises(DTypeError, match="real"):
        tnp.zeros(3, "bfloat16")[:2] = [1.0, 1j]


def test_lists_that_fit_are_written():
    for m in np, tnp:
        x = m.array(U)
        x[[0, 1]] = [65535, True]
        m.put(x, [2, 3], [7, np.uint16(8)])
        assert np.asarray(x).tolist() == [65535, 1, 7, 8]


def test_a_list_that_holds_itself_is_refused():
    endless = [1]
    endless.append(endless)
    with pytest.raises(tracer.TracerError):
        tnp.array(U)[[0, 1]] = endless


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 2.0, True])
def test_powers_of_bools(exponent):
    x = np.array([True, False])
    for found in (tnp.asarray(x) ** exponent, tracer.compile(lambda x: x**exponent)(x)):
        assert_same(found, x**exponent)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64"])
def test_a_python_integer_times_powers_of_two_is_a_float16(dtype):
    exponents = np.array([1, 0], dtype)
    for number in (2, True, 2.5, np.int16(2)):
        assert_same(tnp.ldexp(number, exponents), np.ldexp(number, exponents))
    assert_same(tnp.ldexp(2, 3), np.ldexp(2, 3))


def test_an_integer_beyond_the_dtype_is_in_no_array():
    assert not bool(tnp.array_equal(np.int8(3), 300))
    assert not bool(tnp.array_equiv(np.array([3, 3], "int8"), 300))


def test_bins_of_complex_numbers_are_refused():
    with pytest.raises(DTypeError, match="digitize takes real numbers"):
        tnp.digitize(np.array([1j]), [0, 1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_averages_with_large_weights_do_not_overflow(dtype):
    x, weights = tnp.asarray([1.0, 2.0, 4.0], dtype), tnp.asarray([4e4, 4e4, 4e4], dtype)
    found = tnp.average(x, weights=weights)
    assert found.dtype == dtype
    assert found == tnp.asarray(7 / 3, dtype)
