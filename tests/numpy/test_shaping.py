"""Changing shapes, joining, cutting and creating against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same, interpreted
from tracer.array.trace import trace
from tracer.errors import ArgumentError, DTypeError, ShapeError, TracingError

X = np.arange(24.0).reshape(2, 3, 4)
M = np.arange(12.0).reshape(3, 4)

# Each is called with tracer.numpy and with numpy.
CALLS = {
    "reshape": lambda n, x: n.reshape(x, (4, -1)),
    "reshape F": lambda n, x: n.reshape(x, (4, 6), order="F"),
    "ravel": lambda n, x: n.ravel(x),
    "ravel F": lambda n, x: n.ravel(x, order="F"),
    "transpose": lambda n, x: n.transpose(x),
    "transpose axes": lambda n, x: n.transpose(x, (1, -1, 0)),
    "matrix_transpose": lambda n, x: n.matrix_transpose(x),
    "swapaxes": lambda n, x: n.swapaxes(x, 0, -1),
    "moveaxis": lambda n, x: n.moveaxis(x, 0, -1),
    "moveaxis several": lambda n, x: n.moveaxis(x, (0, 1), (-1, 0)),
    "expand_dims": lambda n, x: n.expand_dims(x, (0, -1)),
    "squeeze": lambda n, x: n.squeeze(x[:1]),
    "squeeze axis": lambda n, x: n.squeeze(x[:1, :, :1], 0),
    "broadcast_to": lambda n, x: n.broadcast_to(x[:, :1], (5, 2, 3, 4)),
    "broadcast_arrays": lambda n, x: n.broadcast_arrays(x, x[0], x[:, :1])[1],
    "atleast_1d": lambda n, x: n.atleast_1d(x[0, 0, 0]),
    "atleast_2d": lambda n, x: n.atleast_2d(x[0, 0]),
    "atleast_3d": lambda n, x: n.atleast_3d(x[0]),
    "flip": lambda n, x: n.flip(x),
    "flip axis": lambda n, x: n.flip(x, (0, -1)),
    "fliplr": lambda n, x: n.fliplr(x),
    "flipud": lambda n, x: n.flipud(x),
    "rot90": lambda n, x: n.rot90(x),
    "rot90 back": lambda n, x: n.rot90(x, -1, (1, 2)),
    "rot90 twice": lambda n, x: n.rot90(x, 2),
    "concatenate": lambda n, x: n.concatenate([x, x[:, :1]], 1),
    "concatenate flat": lambda n, x: n.concatenate([x, x[0]], None),
    "concat": lambda n, x: n.concat([x, x], axis=-1),
    "stack": lambda n, x: n.stack([x, x + 1], 1),
    "stack last": lambda n, x: n.stack([x, x + 1], -1),
    "vstack": lambda n, x: n.vstack([x[0, 0], x[0, 1]]),
    "hstack": lambda n, x: n.hstack([x[0], x[1]]),
    "hstack vectors": lambda n, x: n.hstack([x[0, 0], x[1, 0]]),
    "dstack": lambda n, x: n.dstack([x[0], x[1]]),
    "column_stack": lambda n, x: n.column_stack([x[0, :, 0], x[0]]),
    "append": lambda n, x: n.append(x, x[:1], 0),
    "split": lambda n, x: n.split(x, 2, -1)[1],
    "split places": lambda n, x: n.split(x, [1, 3], 2)[1],
    "array_split": lambda n, x: n.array_split(x, 3, 2)[0],
    "hsplit": lambda n, x: n.hsplit(x, 3)[1],
    "vsplit": lambda n, x: n.vsplit(x, 2)[1],
    "unstack": lambda n, x: n.unstack(x, axis=1)[2],
    "tile": lambda n, x: n.tile(x, (2, 1, 1, 3)),
    "tile short": lambda n, x: n.tile(x, 2),
    "repeat": lambda n, x: n.repeat(x, 3, 1),
    "repeat flat": lambda n, x: n.repeat(x, 2),
    "repeat counts": lambda n, x: n.repeat(x, np.array([1, 0, 2]), 1),
    "roll": lambda n, x: n.roll(x, 5),
    "roll axes": lambda n, x: n.roll(x, (1, -1), (0, 2)),
    "pad": lambda n, x: n.pad(x, 1),
    "pad pair": lambda n, x: n.pad(x, (1, 2), constant_values=7),
    "pad pairs": lambda n, x: n.pad(x, ((0, 1), (2, 0), (0, 0))),
    "pad edge": lambda n, x: n.pad(x, 2, mode="edge"),
    "pad reflect": lambda n, x: n.pad(x, 1, mode="reflect"),
    "pad symmetric": lambda n, x: n.pad(x, 2, mode="symmetric"),
    "pad wrap": lambda n, x: n.pad(x, 3, mode="wrap"),
    "diff": lambda n, x: n.diff(x**2, 2),
    "diff axis": lambda n, x: n.diff(x > 4, axis=0),
    "tril": lambda n, x: n.tril(x, 1),
    "triu": lambda n, x: n.triu(x, -1),
    "diag": lambda n, x: n.diag(x[0], 1),
    "diag matrix": lambda n, x: n.diag(x[0, 0], -2),
    "diagflat": lambda n, x: n.diagflat(x[0, :2, :2], 1),
    "diagonal": lambda n, x: n.diagonal(x),
    "diagonal offset": lambda n, x: n.diagonal(x, -1, 1, 2),
    "diagonal above": lambda n, x: n.diagonal(x, 2, 2, 1),
    "diagonal outside": lambda n, x: n.diagonal(x, 9),
    "trace": lambda n, x: n.trace(x, 1, 1, 2),
    "trace int": lambda n, x: n.trace(n.astype(x[0], np.int8)),
    "meshgrid": lambda n, x: n.meshgrid(x[0, 0], x[0, :, 0])[0],
    "meshgrid ij": lambda n, x: n.meshgrid(x[0, 0], x[0, :, 0], x[:, 0, 0], indexing="ij")[2],
    "meshgrid sparse": lambda n, x: n.meshgrid(x[0, 0], x[0, :, 0], sparse=True)[1],
    "astype": lambda n, x: n.astype(x, "int32"),
    "zeros_like": lambda n, x: n.zeros_like(x, dtype="int8"),
    "ones_like": lambda n, x: n.ones_like(x, shape=(2,)),
    "full_like": lambda n, x: n.full_like(x, 3),
    "nan_to_num": lambda n, x: n.nan_to_num(1 / x - 1 / x, nan=2.0),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_an_array(name):
    call = CALLS[name]
    with np.errstate(all="ignore"):
        expected = call(np, X)
    assert_same(interpreted(lambda x: call(tnp, x), X)[0], expected, name)


@pytest.mark.xla
@pytest.mark.parametrize(
    "name", ["reshape F", "tile", "pad", "diag", "diagonal offset", "roll axes"]
)
def test_eagerly(name):
    assert_same(CALLS[name](tnp, tnp.asarray(X)), CALLS[name](np, X), name)


CREATIONS = {
    "zeros": lambda n: n.zeros((2, 3)),
    "zeros int": lambda n: n.zeros(3, dtype="int32"),
    "ones": lambda n: n.ones((2, 0), np.float32),
    "full": lambda n: n.full((2, 3), 7),
    "full rows": lambda n: n.full((2, 3), np.arange(3.0)),
    "full dtype": lambda n: n.full(2, 1.9, dtype=int),
    "eye": lambda n: n.eye(3, 4, 1, dtype=np.float32),
    "eye below": lambda n: n.eye(3, k=-1),
    "identity": lambda n: n.identity(3),
    "tri": lambda n: n.tri(3, 5, 1),
    "arange": lambda n: n.arange(7),
    "arange float": lambda n: n.arange(0.5, 4),
    "arange step": lambda n: n.arange(10, 0, -3),
    "arange dtype": lambda n: n.arange(5, dtype=np.float32),
    "arange empty": lambda n: n.arange(5, 2),
    "linspace": lambda n: n.linspace(0, 1, 7),
    "linspace open": lambda n: n.linspace(-2, 3, 4, endpoint=False, dtype=np.float32),
    "linspace one": lambda n: n.linspace(2, 3, 1),
    "array": lambda n: n.array([[1, 2], [3, 4.5]]),
    "array ndmin": lambda n: n.array([1, 2], dtype="int8", ndmin=3),
    "array empty": lambda n: n.array([]),
    "array complex": lambda n: n.array(1 + 2j),
}


@pytest.mark.xla
@pytest.mark.parametrize("name", CREATIONS)
def test_creation(name):
    expected = CREATIONS[name](np)
    assert_same(CREATIONS[name](tnp), expected, name)
    assert_same(interpreted(lambda: CREATIONS[name](tnp))[0], expected, name)


@pytest.mark.xla
def test_traced_arange_and_linspace_of_arrays():
    graph = trace(lambda: tnp.arange(10**9), []).graph
    assert [node.name for node in graph.nodes] == ["iota"]
    a, b = np.array([0.0, 1.0]), np.array([1.0, 5.0])
    assert_same(tnp.linspace(tnp.asarray(a), b, 5), np.linspace(a, b, 5))
    with pytest.raises(TracingError, match="shape of the result would depend on values"):
        trace(tnp.arange, [3])


@pytest.mark.xla
def test_copying_from_the_host():
    source = np.arange(4096.0)
    for make in (tnp.asarray, tnp.array, tnp.copy, tnp.from_dlpack):
        array = make(source)
        source[0] = -1
        assert float(array[0]) == 0
        source[0] = 0


@pytest.mark.xla
def test_nested_lists_of_arrays():
    x = tnp.asarray([1.0, 2.0])
    assert_same(tnp.array([[x[0], x[1]], [x[1], 5]]), np.array([[1.0, 2.0], [2.0, 5.0]]))
    stacked = interpreted(lambda v: tnp.asarray([v, v * 2]), np.ones(3, np.float32))[0]
    assert_same(stacked, np.array([[1.0] * 3, [2.0] * 3], np.float32))
    with pytest.raises(ShapeError, match="makes no array"):
        tnp.array([x, x[:1]])


@pytest.mark.parametrize(
    "bad", [[[1, 2], [3]], ["a", "b"], [object()], "text", {1: 2}, np.array([None]), [1, [2]]]
)
def test_what_is_no_array(bad):
    with pytest.raises(DTypeError, match="cannot make an array of"):
        tnp.asarray(bad)


@pytest.mark.xla
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.reshape(5, 5), "cannot reshape an array of shape"),
        (lambda x: x.reshape(-1, -1), "cannot reshape"),
        (lambda x: x.transpose(0, 0, 1), "no permutation"),
        (lambda x: x.squeeze(0), "its size is not 1"),
        (lambda x: tnp.broadcast_to(x, (3, 4)), "cannot broadcast an array"),
        (lambda x: tnp.concatenate([x, x[0]]), "differ elsewhere"),
        (lambda x: tnp.concatenate([]), "no arrays"),
        (lambda x: tnp.stack([x, x[0]]), "differ"),
        (lambda x: tnp.split(x, 5, 2), "cannot be cut into 5 equal parts"),
        (lambda x: tnp.zeros((2, -1)), "negative size"),
        (lambda x: tnp.zeros(1.5), "tuple of integers"),
        (lambda x: tnp.diag(x), "diag takes a vector"),
    ],
)
def test_shape_errors(call, message):
    with pytest.raises(ShapeError, match=message) as caught:
        call(tnp.asarray(X))
    assert caught.value.mend
    assert caught.value.where is not None


def _frame(vector, widths, axis, options):
    vector[: widths[0]] = options.get("value", 8)
    vector[len(vector) - widths[1] :] = axis


PADS = {
    "constant pairs": {"constant_values": ((1, 2), (3, 4))},
    "constant pair": {"constant_values": (5, 6)},
    "linear_ramp": {},
    "linear_ramp ends": {"end_values": ((1, -2), (30, 4))},
    "maximum": {},
    "maximum length": {"stat_length": 1},
    "mean": {},
    "mean length": {"stat_length": ((1, 2), (9, 3))},
    "median": {},
    "median length": {"stat_length": (2, 3)},
    "minimum": {},
    "minimum length": {"stat_length": 2},
    "reflect": {},
    "reflect odd": {"reflect_type": "odd"},
    "symmetric even": {"reflect_type": "even"},
    "symmetric odd": {"reflect_type": "odd"},
    "edge": {},
    "wrap": {},
}


WIDTHS = [2, ((5, 1), (0, 9)), {1: (3, 0)}, {-2: 2}]


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("name", PADS)
def test_modes_of_padding_when_traced(name, dtype, widths):
    check_padding(name, dtype, widths, lambda pad, x: interpreted(pad, x)[0])


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("name", PADS)
def test_modes_of_padding(name, dtype):
    """With the widths that differ at all ends; how they are written is read before any op runs."""
    check_padding(name, dtype, WIDTHS[1], lambda pad, x: np.asarray(pad(tnp.asarray(x))))


def check_padding(name, dtype, widths, run):
    x = np.random.default_rng(1).integers(0, 50, (3, 4)).astype(dtype)
    mode = name.split(" ", maxsplit=1)[0]
    by_axis = widths
    if isinstance(widths, dict):
        by_axis = [(0, 0), (3, 0)] if 1 in widths else [(2, 2), (0, 0)]
    with np.errstate(all="ignore"):
        options = {
            key: np.asarray(value).astype(dtype) if key == "end_values" else value
            for key, value in PADS[name].items()
        }
        expected = np.pad(x, by_axis, mode, **options)
    found = run(lambda v: tnp.pad(v, widths, mode, **options), x)
    if mode == "linear_ramp" and found.dtype.kind in "iu":
        # The order in which NumPy multiplies hangs on whether any slope is zero: a number
        # just off an integer is cut to another one.
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.astype(int), expected.astype(int), atol=1)
    else:
        assert_same(found, expected)


@pytest.mark.xla
def test_padding_by_a_function_and_with_nothing_in_particular():
    assert_same(tnp.pad(tnp.asarray(X), 2, _frame, value=3), np.pad(X, 2, _frame, value=3))
    assert (
        tnp.pad(X, ((1, 0), (0, 2), (3, 3)), "empty").shape
        == np.pad(X, ((1, 0), (0, 2), (3, 3)), "empty").shape
    )
    assert_same(tnp.pad(np.zeros((0, 2)), ((0, 0), (1, 2)), "mean"), np.zeros((0, 5)))


@pytest.mark.xla
def test_memory_order_is_accepted():
    for order in ("C", "K", "A"):
        assert_same(tnp.array(X, order=order), X)
        assert_same(tnp.asarray(np.asfortranarray(X), None, order), X)
        assert_same(tnp.full((2, 3), 7, None, order), np.full((2, 3), 7))
        assert_same(tnp.ones_like(X, None, order), np.ones_like(X))


def test_argument_errors():
    with pytest.raises(ArgumentError, match="pad mode"):
        tnp.pad(X, 1, mode="magic")
    with pytest.raises(ArgumentError, match="does not take stat_length"):
        tnp.pad(X, 1, stat_length=2)
    with pytest.raises(ArgumentError, match="stat_length 0"):
        tnp.pad(X, 1, "maximum", stat_length=0)
    with pytest.raises(ArgumentError, match="negative"):
        tnp.pad(X, -1)
    with pytest.raises(ArgumentError, match="nothing to repeat"):
        tnp.pad(X[:0], 1, "edge")
    with pytest.raises(ArgumentError, match="reflect_type"):
        tnp.pad(X, 1, "reflect", reflect_type="strange")
    with pytest.raises(TracingError, match="in place"):
        trace(lambda x: tnp.pad(x, 1, _frame), [tracer.ShapeDtype((3,), "int32")])
    for refused in (tnp.zeros, tnp.ones, tnp.array, tnp.asarray, tnp.zeros_like, tnp.copy):
        with pytest.raises(ArgumentError, match="order='F'"):
            refused((2, 3), order="F")
    with pytest.raises(ArgumentError, match="order"):
        tnp.reshape(X, (4, 6), order="X")
    with pytest.raises(ArgumentError, match="step 0"):
        tnp.arange(0, 3, 0)
