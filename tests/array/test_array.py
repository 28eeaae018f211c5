"""Array behaves like a NumPy array where it holds data."""

from __future__ import annotations

import copy
import operator
import pickle

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same, quietly
from tracer.array.array import Array, Deleted
from tracer.errors import DonatedArrayError, DTypeError, ShapeError

X = np.array([[1.0, -2.5, 3.0], [4.0, 0.5, -6.0]])
OPERATORS = (
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
)


@pytest.mark.xla
@pytest.mark.parametrize("function", OPERATORS)
@pytest.mark.parametrize("other", [2, 2.5, np.float32(3), np.array([1.0, 2.0, 3.0]), [1, 2, 3]])
def test_operators_and_their_reflections(function, other):
    x = tnp.asarray(X)
    assert_same(function(x, other), quietly(function, X, other))
    reflected = function(other, x)
    assert isinstance(reflected, Array)
    assert_same(reflected, quietly(function, other, X))


@pytest.mark.xla
@pytest.mark.parametrize("name", ["and_", "or_", "xor", "lshift", "rshift"])
def test_integer_operators(name):
    x = np.array([5, 3, 8])
    function = getattr(operator, name)
    assert_same(function(tnp.asarray(x), 2), function(x, 2))
    assert_same(function(9, tnp.asarray(x)), function(9, x))
    if "shift" not in name:
        assert_same(function(tnp.asarray(x) > 4, True), function(x > 4, True))


@pytest.mark.xla
def test_unary_operators():
    x = tnp.asarray(X)
    assert_same(-x, -X)
    assert_same(+x, X)
    assert_same(abs(x), abs(X))
    assert_same(~tnp.asarray([1, 2]), ~np.array([1, 2]))
    for got, want in zip(divmod(7, tnp.asarray([2, 3])), divmod(7, np.array([2, 3])), strict=True):
        assert_same(got, want)


def test_operators_with_strangers():
    x = tnp.asarray(X)
    with pytest.raises(TypeError):
        x + object()
    assert (x == object()) is False
    assert (x != None) is True  # noqa: E711


@pytest.mark.xla
@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"])
def test_in_place_operators_bind_a_new_array(name):
    function = getattr(operator, name)
    x = tnp.asarray(X.astype("float32"))
    before = x
    result = function(x, 2.0)
    expected = X.astype("float32")
    expected = quietly(function, expected, 2.0)
    assert_same(result, expected)
    assert_same(before, X.astype("float32"))
    assert function(x, np.float64(2)).dtype == np.float32


@pytest.mark.xla
def test_in_place_operators_keep_dtype_and_shape():
    with pytest.raises(DTypeError, match="cannot store float64 in an array of int64"):
        operator.iadd(tnp.asarray([1, 2]), 0.5)
    with pytest.raises(ShapeError, match="cannot change the shape"):
        operator.iadd(tnp.ones(3), tnp.ones((2, 3)))


@pytest.mark.xla
def test_attributes():
    x = tnp.asarray(X.astype("float32"))
    assert (x.shape, x.dtype, x.ndim, x.size) == ((2, 3), np.float32, 2, 6)
    assert (x.nbytes, x.itemsize, len(x)) == (24, 4, 2)
    assert_same(x.T, x.__array__().T)
    assert_same(tnp.ones((2, 3, 4)).mT, np.ones((2, 4, 3)))
    assert_same(x.flat, X.astype("float32").ravel())
    z = tnp.asarray([1 + 2j])
    assert_same(z.real, np.array([1.0]))
    assert_same(z.imag, np.array([2.0]))
    assert str(x.device) == str(tracer.default_device())
    assert x.type is tracer.ShapeDtype((2, 3), "float32")


METHODS = {
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(1, keepdims=True),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(1),
    "prod": lambda x: x.prod(),
    "any": lambda x: x.any(0),
    "all": lambda x: x.all(),
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(),
    "std": lambda x: x.std(0, ddof=1),
    "var": lambda x: x.var(),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(),
    "reshape": lambda x: x.reshape(3, 2),
    "reshape tuple": lambda x: x.reshape((-1,)),
    "ravel": lambda x: x.ravel(),
    "flatten": lambda x: x.flatten("F"),
    "transpose": lambda x: x.transpose(),
    "transpose axes": lambda x: x.transpose(1, 0),
    "transpose tuple": lambda x: x.transpose((0, 1)),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "astype": lambda x: x.astype("int32"),
    "copy": lambda x: x.copy(),
    "clip": lambda x: x.clip(-1, 2),
    "clip keyword": lambda x: x.clip(max=2),
    "round": lambda x: x.round(),
    "conj": lambda x: x.conj(),
    "dot": lambda x: x.dot(x.T),
    "argsort": lambda x: x.argsort(),
    "take": lambda x: x.take([0, 1], 1),
    "repeat": lambda x: x.repeat(2, 0),
    "trace": lambda x: x.trace(),
    "diagonal": lambda x: x.diagonal(1),
    "nonzero": lambda x: x.nonzero()[1],
    "searchsorted": lambda x: x[0][:1].searchsorted(0.5),
}


@pytest.mark.xla
@pytest.mark.parametrize("name", METHODS)
def test_methods(name):
    assert_same(METHODS[name](tnp.asarray(X)), METHODS[name](X), name)


def test_conversion_to_python_numbers():
    assert float(tnp.asarray(2.5)) == 2.5
    assert int(tnp.asarray([7])) == 7
    assert complex(tnp.asarray(1j)) == 1j
    assert bool(tnp.asarray(0.0)) is False
    assert [10, 20, 30][tnp.asarray(1)] == 20
    assert tnp.asarray(X).item(1, 2) == -6.0
    assert tnp.asarray(3).item() == 3
    assert tnp.asarray(X).tolist() == X.tolist()
    assert tnp.asarray(X).tobytes() == X.tobytes()
    assert list(range(tnp.asarray(3))) == [0, 1, 2]


@pytest.mark.xla
def test_conversions_that_numpy_refuses_are_refused():
    with pytest.raises(ShapeError, match=r"bool\(\) of an array of shape \(2, 3\)") as caught:
        bool(tnp.asarray(X))
    assert "x.any()" in caught.value.mend
    with pytest.raises(ShapeError):
        float(tnp.ones(3))
    with pytest.raises(DTypeError, match="0-d integer arrays"):
        operator.index(tnp.ones(()))


@pytest.mark.xla
def test_iteration_and_containment():
    for got, want in zip(tnp.asarray(X), X, strict=True):
        assert_same(got, want)
    assert 4.0 in tnp.asarray(X)
    assert 5.0 not in tnp.asarray(X)


@pytest.mark.parametrize(
    "x",
    [X, np.float64(1.5), np.arange(3), np.ones(2, np.float32), np.zeros((0, 3)), np.arange(2000)],
)
def test_text_is_numpys(x):
    ours = tnp.asarray(x)
    assert str(ours) == str(np.asarray(x))
    assert repr(ours) == repr(np.asarray(x)).replace("array(", "Array(", 1)


def test_format():
    assert f"{tnp.asarray(1.2345):.2f}" == "1.23"
    assert f"{tnp.asarray([1, 2])}" == "[1 2]"


@pytest.mark.xla
def test_hash_is_refused():
    with pytest.raises(TypeError, match="unhashable"):
        hash(tnp.ones(2))


@pytest.mark.xla
def test_numpy_protocols():
    x = tnp.asarray(X)
    host = np.asarray(x)
    assert not host.flags.writeable
    copied = np.array(x)
    copied[0, 0] = 99
    assert_same(x, X)
    assert np.asarray(x, dtype="int32").dtype == np.int32
    assert x.__array_namespace__() is tnp
    assert isinstance(X + x, Array)
    assert isinstance(np.float64(2) * x, Array)
    assert np.from_dlpack(x).tolist() == X.tolist()
    assert x.__dlpack_device__() == (1, 0)
    assert_same(tnp.from_dlpack(x), X)


@pytest.mark.xla
def test_bfloat16_goes_to_numpy_and_back():
    x = tnp.asarray([1.5, 2.0], tnp.bfloat16)
    host = np.asarray(x)
    assert host.dtype == tnp.bfloat16
    assert_same(tnp.asarray(host).astype("float32"), np.array([1.5, 2.0], np.float32))


@pytest.mark.xla
def test_copies_and_pickles():
    x = tnp.asarray(X)
    for other in (
        x.copy(),
        copy.copy(x),
        copy.deepcopy({"x": x})["x"],
        pickle.loads(pickle.dumps(x)),
    ):
        other[0, 0] = 7
        assert_same(x, X)
        assert float(other[0, 0]) == 7


@pytest.mark.xla
def test_deleted_arrays_say_so():
    x = tnp.ones(100)
    y = x.copy()
    x.delete()
    assert x.is_deleted()
    assert not y.is_deleted()
    assert repr(x) == "Array(deleted, float64[100])"
    for use in (
        lambda: x + 1,
        lambda: np.asarray(x),
        lambda: x.copy(),
        lambda: x.delete(),
        x.tolist,
    ):
        with pytest.raises(DonatedArrayError, match=r"delete\(\) took over its memory") as caught:
            use()
        assert "copy()" in caught.value.mend
    x = tnp.ones(100)
    x._buffer = Deleted("step(params)")
    with pytest.raises(DonatedArrayError, match=r"step\(params\) took over its memory"):
        x.sum()


@pytest.mark.xla
def test_shared_scalars_survive_deletion():
    (tnp.ones(3) + 2.5).block_until_ready()
    shared = tnp.asarray(2.5)
    shared.delete()
    assert_same(tnp.ones(3) + 2.5, np.full(3, 3.5))


@pytest.mark.xla
def test_devices():
    x = tnp.ones(3, "float32")
    there = x.to_device("cpu:0")
    assert there.to_device("cpu:0") is there
    if str(x.device) == "cpu:0":
        assert there._buffer is x._buffer
    assert x.block_until_ready() is x
    with pytest.raises(tracer.DeviceError):
        x.to_device("quantum:7")


def test_big_endian_arrays():
    assert_same(tnp.asarray(np.array([1, 2], ">i4")), np.array([1, 2], np.int32))
