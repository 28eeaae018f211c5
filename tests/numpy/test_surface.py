"""The public names: each is NumPy's, takes NumPy's arguments in NumPy's order, is documented."""

from __future__ import annotations

import inspect

import ml_dtypes
import numpy as np
import pytest

import tracer.numpy as tnp
from tests.numpy.oracle import assert_same, interpreted
from tracer.errors import ArgumentError

OWN_NAMES = {
    "Array",
    "TracedArray",
    "__array_namespace_info__",
    "top_k",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
}
# NumPy writes these signatures in another way, or hides them in C.
OTHER_SIGNATURES = {
    "clip",
    "vectorize",
    "arange",
    "einsum",
    "empty_like",
    "iinfo",
    "real",
    "imag",
    "outer",
    "tensordot",
}
MODULES = [(tnp, np), (tnp.linalg, np.linalg), (tnp.fft, np.fft)]
FUNCTIONS = [
    (ours, numpys, name)
    for ours, numpys in MODULES
    for name in ours.__all__
    if inspect.isfunction(getattr(ours, name)) and name not in OWN_NAMES
]


def _positional(function):
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in kinds]


def _has_signature(function):
    try:
        return bool(inspect.signature(function))
    except ValueError:  # some of NumPy's functions that are written in C
        return False


COMPARABLE = [
    (ours, numpys, name)
    for ours, numpys, name in FUNCTIONS
    if name not in OTHER_SIGNATURES and _has_signature(getattr(numpys, name))
]


def test_names_are_numpys():
    for ours, numpys in MODULES:
        missing = {name for name in ours.__all__ if not hasattr(numpys, name)}
        assert missing <= OWN_NAMES


@pytest.mark.parametrize(("ours", "numpys", "name"), COMPARABLE, ids=[f[2] for f in COMPARABLE])
def test_arguments_stand_in_numpys_order(ours, numpys, name):
    expected = _positional(getattr(numpys, name))
    found = _positional(getattr(ours, name))
    assert found == expected[: len(found)]


@pytest.mark.parametrize("name", [f[2] for f in FUNCTIONS])
def test_every_function_is_documented(name):
    homes = (tnp.linalg, tnp.fft, tnp)
    function = next(getattr(home, name) for home in homes if hasattr(home, name))
    assert inspect.getdoc(function)
    assert function.__name__ in (name, *_aliases(function))


def _aliases(function):
    return [
        name for name in (*tnp.__all__, *tnp.linalg.__all__) if getattr(tnp, name, 0) is function
    ]


@pytest.mark.xla
def test_constants_and_dtypes():
    for name in ("pi", "e", "inf", "euler_gamma", "newaxis", "float32", "int8", "bool", "dtype"):
        assert getattr(tnp, name) is getattr(np, name)
    assert np.isnan(tnp.nan)
    assert tnp.bfloat16 is ml_dtypes.bfloat16
    assert tnp.ndarray is tnp.Array
    assert tnp.ones(2, tnp.bfloat16).dtype == tnp.bfloat16


@pytest.mark.xla
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std", "any", "all"])
def test_numpy_functions_find_the_methods(name):
    x = np.arange(6.0).reshape(2, 3)
    assert_same(getattr(np, name)(tnp.asarray(x), 1), getattr(np, name)(x, 1))


@pytest.mark.xla
@pytest.mark.parametrize(
    "name", "sum prod max min mean var std any all ptp argmax argmin cumsum cumprod".split()
)
def test_writing_in_place_is_refused(name):
    with pytest.raises(ArgumentError, match="out= is not supported"):
        getattr(tnp, name)(tnp.ones(3), out=np.ones(3))


@pytest.mark.xla
def test_limits_of_dtypes():
    assert tnp.finfo("float32").eps == np.finfo("float32").eps
    assert tnp.finfo(tnp.ones(1, "complex64")).max == np.finfo("float32").max
    assert float(tnp.finfo("bfloat16").max) > 3e38
    assert tnp.iinfo("int8").min == -128


@pytest.mark.xla
def test_linalg_names_take_the_last_two_axes(rng):
    x = rng.normal(size=(2, 3, 3))
    assert_same(tnp.linalg.diagonal(x, offset=1), np.linalg.diagonal(x, offset=1))
    assert_same(tnp.linalg.trace(x), np.linalg.trace(x))


COPIES = {
    "round": lambda x: tnp.round(x),
    "positive": lambda x: +x,
    "conj": lambda x: tnp.conj(x),
    "floor": lambda x: tnp.floor(x),
    "nan_to_num": lambda x: tnp.nan_to_num(x),
    "clip": lambda x: tnp.clip(x),
    "roll": lambda x: tnp.roll(x, 0, 0),
    "roll whole": lambda x: tnp.roll(x, 3, 0),
    "flatten": lambda x: x.flatten(),
    "copy": lambda x: x.copy(),
    "astype": lambda x: x.astype(int),
    "array": lambda x: tnp.array(x),
    "diff": lambda x: tnp.diff(x, 0),
    "pad": lambda x: tnp.pad(x, 0, mode="edge"),
    "sum": lambda x: tnp.sum(x, axis=()),
    "concatenate": lambda x: tnp.concatenate([x]),
    "repeat": lambda x: tnp.repeat(x, 1),
    "index": lambda x: x[:],
    "set": lambda x: x.at[()].set(x),
}


@pytest.mark.xla
@pytest.mark.parametrize("name", COPIES)
def test_assignment_to_a_result_spares_the_argument(name):
    x = tnp.array([1, 2, 3])
    y = COPIES[name](x)
    y[0] = 9
    assert x.tolist() == [1, 2, 3]

    def function(x):
        y = COPIES[name](x)
        y[0] = 9
        return x

    assert interpreted(function, np.array([1, 2, 3]))[0].tolist() == [1, 2, 3]


@pytest.mark.xla
def test_scalars_are_not_shared():
    for make in (lambda: tnp.zeros(()), lambda: tnp.full((), 2.5), lambda: tnp.asarray(1)):
        x, y = make(), make()
        x.delete()
        assert not y.is_deleted()
    x = tnp.ones(())
    x[()] = 5
    assert float(tnp.ones(())) == 1.0
