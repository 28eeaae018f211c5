"""Promotion against NumPy for every pair of dtypes and every Python number."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import COMPLEX, FLOATS, INTEGERS, NUMPY_DTYPES, quietly
from tracer.array.trace import trace
from tracer.errors import DTypeError

PYTHON_NUMBERS = (True, 2, 2.5, 1j)
EXTENSION = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def _type(dtype: str) -> tracer.ShapeDtype:
    return tracer.ShapeDtype((2,), dtype)


@pytest.mark.parametrize("first", NUMPY_DTYPES)
def test_pairs_of_dtypes(first):
    for second in NUMPY_DTYPES:
        expected = np.promote_types(first, second)
        assert tnp.promote_types(first, second) == expected
        traced = trace(tnp.add, [_type(first), _type(second)])
        assert traced.output_types[0].dtype == expected, (first, second)
        traced = trace(tnp.divide, [_type(first), _type(second)])
        divided = np.true_divide(np.ones(2, first), np.ones(2, second)).dtype
        assert traced.output_types[0].dtype == divided, (first, second)


@pytest.mark.parametrize("name", "arctan2 copysign heaviside hypot logaddexp2 nextafter".split())
def test_floats_of_two_integers(name):
    """The first that holds both, which is not that of their common dtype: int8 and uint8."""
    for first, second in itertools.product(("bool", *INTEGERS, *FLOATS), repeat=2):
        traced = trace(getattr(tnp, name), [_type(first), _type(second)])
        wanted = getattr(np, name)(np.ones(2, first), np.ones(2, second)).dtype
        assert traced.output_types[0].dtype == wanted, (first, second)


@pytest.mark.xla
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("number", PYTHON_NUMBERS)
def test_python_numbers_are_weak(dtype, number):
    expected = quietly(np.add, np.ones(2, dtype), number).dtype
    for function in (lambda x: x + number, lambda x: number + x, lambda x: tnp.add(x, number)):
        assert trace(function, [_type(dtype)]).output_types[0].dtype == expected
    assert (tnp.ones(2, dtype) * number).dtype == expected
    assert tnp.result_type(dtype, number) == expected
    chosen = trace(lambda x: tnp.where(True, x, number), [_type(dtype)])
    assert chosen.output_types[0].dtype == np.where(True, np.ones(2, dtype), number).dtype


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_numpy_scalars_are_strong(dtype):
    for other in ("float64", "int64", "float32"):
        scalar = np.dtype(other).type(1)
        expected = np.add(np.ones(2, dtype), scalar).dtype
        assert trace(lambda x, s=scalar: x + s, [_type(dtype)]).output_types[0].dtype == expected


@pytest.mark.xla
def test_python_numbers_alone():
    for x, y in itertools.product(PYTHON_NUMBERS, repeat=2):
        assert tnp.add(x, y).dtype == np.add(x, y).dtype, (x, y)
    assert tnp.asarray(1).dtype == np.int64
    assert tnp.asarray(1.0).dtype == np.float64
    assert tnp.asarray([1, 2.5]).dtype == np.float64
    assert tnp.asarray(True).dtype == np.bool_


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod", "mean", "var", "std", "max"])
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_reductions_choose_numpys_dtype(name, dtype):
    expected = quietly(getattr(np, name), np.ones((2, 3), dtype)).dtype
    found = trace(getattr(tnp, name), [tracer.ShapeDtype((2, 3), dtype)]).output_types[0].dtype
    assert found == expected


@pytest.mark.parametrize("dtype", EXTENSION)
def test_extension_floats(dtype):
    narrow = np.dtype(getattr(ml_dtypes, dtype))
    for other in ("bool", *INTEGERS):
        assert tnp.promote_types(dtype, other) == narrow
        assert tnp.promote_types(other, dtype) == narrow
    for other in ("float32", "float64", *COMPLEX):
        assert tnp.promote_types(dtype, other) == np.dtype(other)
        assert tnp.promote_types(other, dtype) == np.dtype(other)
    with_half = "float32" if dtype == "bfloat16" else "float16"
    assert tnp.promote_types(dtype, "float16") == np.dtype(with_half)
    for number, wanted in ((True, narrow), (2, narrow), (2.5, narrow), (1j, np.dtype("complex64"))):
        assert tnp.result_type(dtype, number) == wanted


def test_promotion_is_commutative():
    names = ("bool", "int32", *FLOATS, *EXTENSION, "complex64")
    for x, y in itertools.product(names, repeat=2):
        assert tnp.promote_types(x, y) == tnp.promote_types(y, x)


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
def test_can_cast(casting):
    for x, y in itertools.product(NUMPY_DTYPES, repeat=2):
        assert tnp.can_cast(x, y, casting) == np.can_cast(x, y, casting=casting)
    assert tnp.can_cast("bfloat16", "float32", casting) == (casting not in ("no", "equiv"))
    assert tnp.can_cast("float32", "bfloat16", casting) == (casting in ("same_kind", "unsafe"))


def test_unknown_dtypes_are_refused():
    for bad in ("float128", "str", "object", "nonsense", ">M8"):
        with pytest.raises(DTypeError, match="use one of bool, int8"):
            tnp.zeros(3, bad)
