"""`add.reduce` and its like against NumPy's, called by our names and by NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same, interpreted, sample
from tracer import lax
from tracer.errors import ArgumentError, DTypeError, TracingError

pytestmark = pytest.mark.xla

NAMES = ("add", "multiply", "maximum", "minimum", "logical_and", "logical_or")
DTYPES = ("bool", "int8", "uint16", "int64", "float32", "float64")
REDUCTIONS = {
    "first axis": {},
    "axis": {"axis": -1},
    "axes": {"axis": (0, 1), "keepdims": True},
    "all": {"axis": None},
    "none": {"axis": ()},
    "dtype": {"dtype": "float64"},
}


@pytest.mark.parametrize("options", REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_reduce(name, dtype, options, rng):
    x = sample(rng, (3, 4), dtype)
    chosen = dict(REDUCTIONS[options])
    if "dtype" in chosen and name.startswith("logical"):
        chosen["dtype"] = bool
    expected = getattr(np, name).reduce(x, **chosen)
    assert_same(getattr(tnp, name).reduce(tnp.asarray(x), **chosen), expected)
    assert_same(getattr(np, name).reduce(tnp.asarray(x), **chosen), expected)
    (traced,) = interpreted(lambda v: getattr(np, name).reduce(v, **chosen), x)
    assert_same(traced, expected)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_accumulate(name, dtype, axis, rng):
    x = sample(rng, (3, 4), dtype)
    ours, numpys = getattr(tnp, name), getattr(np, name)
    assert_same(ours.accumulate(tnp.asarray(x), axis), numpys.accumulate(x, axis))
    (traced,) = interpreted(lambda v: numpys.accumulate(v, axis=axis), x)
    assert_same(traced, numpys.accumulate(x, axis))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_outer(name, dtype, rng):
    x, y = sample(rng, (3, 4), dtype), sample(rng, (2,), dtype)
    ours, numpys = getattr(tnp, name), getattr(np, name)
    for second in (y, 1):
        assert_same(ours.outer(tnp.asarray(x), second), numpys.outer(x, second))
        assert_same(numpys.outer(tnp.asarray(x), second), numpys.outer(x, second))
    assert_same(ours.outer(2, tnp.asarray(y)), numpys.outer(2, y))


@pytest.mark.parametrize("name", NAMES[:4])
def test_at(name):
    x, places, values = np.arange(1.0, 6.0), np.array([0, 3, 0, -1]), np.array([7.0, 0.5, 2.0, 3.0])
    expected, ours = x.copy(), tnp.array(x)
    getattr(np, name).at(expected, places, values)
    other = ours.copy()
    getattr(np, name).at(ours, places, values)
    getattr(tnp, name).at(other, places, values)
    assert_same(ours, expected)
    assert_same(other, expected)
    host = x.copy()
    getattr(np, name).at(host, places, tnp.asarray(values))
    assert_same(host, expected)

    def traced(v):
        getattr(tnp, name).at(v, places, values)
        return v

    assert_same(interpreted(traced, x)[0], expected)


def test_options():
    x = np.arange(6.0).reshape(2, 3)
    mask = x > 1
    assert_same(
        tnp.add.reduce(x, 1, initial=3.0, where=mask), np.add.reduce(x, 1, initial=3.0, where=mask)
    )
    assert_same(
        tnp.maximum.reduce(x, initial=2.5, where=mask),
        np.maximum.reduce(x, initial=2.5, where=mask),
    )
    assert_same(tnp.logical_and.reduce(x, 1, where=mask), np.logical_and.reduce(x, 1, where=mask))
    assert_same(tnp.add.reduce(3.0), np.add.reduce(3.0))
    assert_same(tnp.add.accumulate(x, 1, "float32"), np.add.accumulate(x, 1, "float32"))


def test_what_is_refused():
    x = tnp.arange(3.0)
    with pytest.raises(ArgumentError, match="initial"):
        tnp.logical_or.reduce(x, initial=True)
    with pytest.raises(DTypeError, match="truth values"):
        tnp.logical_and.accumulate(x, dtype=float)
    with pytest.raises(ArgumentError, match="0-d"):
        tnp.add.accumulate(tnp.asarray(1.0))
    with pytest.raises(DTypeError, match=r"add\.at"):
        tnp.add.at(np.zeros(3), 0, 1)
    with pytest.raises(ArgumentError, match="out="):
        tnp.add.reduce(x, out=x)
    with pytest.raises(TracingError, match=r"ldexp\.reduce"):
        tracer.compile(np.ldexp.reduce)(tnp.arange(3))


def test_gradient_of_a_reduction():
    gradient = tracer.grad(lambda v: np.multiply.reduce(v))(np.array([2.0, 3.0, 5.0]))
    assert_same(gradient, np.array([15.0, 10.0, 6.0]))


BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")
BY_HALVES = [(name, dtype) for name in BITS for dtype in ("bool", "int8", "uint16", "int64")]
BY_HALVES += [(name, dtype) for name in ("fmax", "fmin") for dtype in ("int8", "float32")]


@pytest.mark.parametrize(("name", "dtype"), BY_HALVES)
def test_functions_without_an_op_of_their_own(name, dtype, rng):
    # They had no methods.
    x = sample(rng, (5, 7), dtype)
    if x.dtype.kind == "f":
        x[rng.random(x.shape) < 0.4] = np.nan
        x[:, 2] = np.nan
    ours, numpys = getattr(tnp, name), getattr(np, name)
    for options in ({}, {"axis": 1}, {"axis": (0, 1), "keepdims": True}, {"axis": None}):
        assert_same(ours.reduce(x, **options), numpys.reduce(x, **options))
        (traced,) = interpreted(lambda v: ours.reduce(v, **options), x)  # noqa: B023
        assert_same(traced, numpys.reduce(x, **options))
    assert_same(ours.reduce(x, initial=x[0, 0]), numpys.reduce(x, initial=x[0, 0]))
    mask = {"where": x == x, "initial": x[0, 0]}
    assert_same(ours.reduce(x, **mask), numpys.reduce(x, **mask))
    for axis in (0, -1):
        assert_same(tnp.asarray(ours.accumulate(x, axis)), numpys.accumulate(x, axis))
    places = [0, 4, 1, 1]
    assert_same(ours.reduceat(x, places), numpys.reduceat(x, places))
    traced = tracer.compile(ours.reduceat)(x, np.array(places))
    assert_same(traced, numpys.reduceat(x, places))
    assert_same(numpys.outer(tnp.asarray(x[0]), x[:, 1]), numpys.outer(x[0], x[:, 1]))


@pytest.mark.parametrize("dtype", ["bool", "int16", "uint8", "uint64"])
@pytest.mark.parametrize("name", BITS)
def test_bits_of_nothing(name, dtype):
    x = np.zeros((0, 2), dtype)
    assert_same(getattr(tnp, name).reduce(x), getattr(np, name).reduce(x))
    assert_same(getattr(tnp, name).accumulate(x), getattr(np, name).accumulate(x))
    with pytest.raises(DTypeError, match="not defined"):
        getattr(tnp, name).reduce([1.5])
    with pytest.raises(ArgumentError, match="identity"):
        tnp.fmax.reduce(tnp.zeros(0))


IN_TURN = [
    ("subtract", "uint16"),
    ("divide", "int8"),
    ("power", "int64"),
    ("float_power", "float32"),
    ("floor_divide", "int8"),
    ("remainder", "float32"),
    ("fmod", "int16"),
    ("hypot", "int16"),
    ("logaddexp", "float64"),
    ("logaddexp2", "float32"),
    ("gcd", "int8"),
    ("lcm", "int64"),
    ("left_shift", "int64"),
    ("copysign", "float32"),
    ("heaviside", "float64"),
    ("equal", "bool"),
    ("greater", "bool"),
    ("logical_xor", "int64"),
]


def _answer(call):
    """Return an array, or that the call is refused."""
    try:
        return np.asarray(call())
    except (TypeError, ValueError):  # ours are subclasses
        return None


@pytest.mark.parametrize(("name", "dtype"), IN_TURN)
def test_functions_of_which_the_order_may_matter(name, dtype, rng):
    # They had no methods.
    x = rng.integers(1, 4, (3, 4)).astype(dtype)
    ours, numpys = getattr(tnp, name), getattr(np, name)
    for options in (
        {},
        {"axis": None, "keepdims": True},
        {"axis": ()},
        {"initial": 1},
        {"initial": 1, "where": x > 1},
        {"where": x > 1},
        {"dtype": "float32"},
        {"dtype": bool},
    ):
        expected = _answer(lambda: numpys.reduce(x, **options))  # noqa: B023
        found = _answer(lambda: ours.reduce(x, **options))  # noqa: B023
        assert (found is None) == (expected is None), options
        if expected is not None:
            assert_same(found, expected)
    assert_same(ours.accumulate(x, -1), numpys.accumulate(x.T.copy(), 0).T)
    places = [0, 2, 1]
    expected = numpys.reduceat(x, places)
    assert_same(ours.reduceat(x, places), expected)
    assert_same(tracer.compile(ours.reduceat)(x, np.array(places)), expected)
    assert_same(numpys.outer(tnp.asarray(x[0]), x[1]), numpys.outer(x[0], x[1]))


@pytest.mark.parametrize(("name", "dtype"), IN_TURN)
def test_at_in_turn(name, dtype, rng):
    x, values = rng.integers(1, 4, 5).astype(dtype), rng.integers(1, 4, 3).astype(dtype)
    for places in ([0, 3, 0], [0, 1, 4], np.array([True, False, True, True, False])):
        expected, found = x.copy(), tnp.array(x)
        getattr(np, name).at(expected, places, values)
        getattr(tnp, name).at(found, places, values)
        assert_same(found, expected)

        def traced(v, where):
            getattr(tnp, name).at(v, where, values)
            return v

        if not np.asarray(places).dtype == bool:
            assert_same(tracer.compile(traced)(x, np.array(places)), expected)


@pytest.mark.parametrize("name", ["logaddexp", "hypot", "gcd", "lcm", "subtract", "logical_xor"])
def test_nothing_has_the_identity_if_there_is_one(name):
    dtype = int if name in ("gcd", "lcm") else float
    for x in (np.zeros((0, 2), dtype), np.zeros((2, 0), dtype)):
        expected = _answer(lambda: getattr(np, name).reduce(x))  # noqa: B023
        found = _answer(lambda: getattr(tnp, name).reduce(x))  # noqa: B023
        assert (found is None) == (expected is None)
        if expected is not None:
            assert_same(found, expected)
        assert_same(getattr(tnp, name).accumulate(x), getattr(np, name).accumulate(x))


def test_gradient_of_a_reduction_in_turn():
    x = np.array([8.0, 2.0, 4.0])
    gradient = tracer.grad(lambda v: tnp.divide.reduce(v))(x)
    np.testing.assert_allclose(gradient, [1 / 8, -1 / 2, -1 / 4])
    slope = tracer.grad(lambda v: tnp.logaddexp.reduce(v))(x)
    np.testing.assert_allclose(slope, np.exp(x) / np.exp(x).sum())


@pytest.mark.parametrize("places", [[0, 3, 0, -1], [0, 3, 1, -2]])
@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_extremes_of_complex_numbers_in_parts_of_an_array(name, places):
    # They were refused.
    x = np.array([1 + 1j, 2, 3 - 1j, 4, 5])
    values = np.array([1.0, 4 + 1j, 1 + 2j, 2 + 3j])
    expected, found = x.copy(), tnp.array(x)
    getattr(np, name).at(expected, places, values)
    getattr(tnp, name).at(found, places, values)
    assert_same(found, expected)
    update = lambda v, i: getattr(v.at[i], name[:3])(values)
    assert_same(tracer.compile(update)(x, np.array(places)), expected)
    outside = np.array([7, 3, 7, 9])
    dropped, clipped = x.copy(), x.copy()
    getattr(np, name).at(dropped, [3], values[1:2])
    assert_same(tracer.compile(update)(x, outside), dropped)
    getattr(np, name).at(clipped, outside.clip(0, 4), values)
    assert_same(getattr(tnp.asarray(x).at[outside], name[:3])(values, mode="clip"), clipped)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, c: tnp.logaddexp.reduce(x),
        lambda x, c: (tnp.logaddexp.accumulate(x) * c).sum(),
        lambda x, c: (tnp.logaddexp2.accumulate(x) * c).sum(),
        lambda x, c: tnp.hypot.reduce(x),
        lambda x, c: (lax.cumlogsumexp(x) * c).sum(),
    ],
)
def test_derivatives_of_floats_of_16_bits_are_rounded_once(function, dtype):
    """Each step rounded, and what it was computed from: up to three units of the largest."""
    rng = np.random.default_rng(0)
    x, c = (tnp.asarray(rng.standard_normal(64) * size, dtype) for size in (30, 1))
    wanted = np.asarray(tracer.grad(function)(x.astype("float64"), c.astype("float64")))
    found = np.asarray(tracer.grad(function)(x, c).astype("float64"))
    unit = float(tnp.finfo(dtype).eps)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=0.55 * unit * abs(wanted).max())


@pytest.mark.parametrize("name", ["logaddexp", "divide", "power"])
def test_what_is_left_out_has_no_share_in_derivatives(name):
    """Steps that are left out divided by zero or took logarithms: NaN times the zero they weigh."""
    function = getattr(tnp, name)
    x, mask = np.array([3.0, 0.5, 0.0, 2.0]), np.array([True, True, False, True])
    if name != "power":
        slope = tracer.grad(lambda x: function.reduceat(x, [0, 3])[1])(x[[2, 0, 1, 3]])
        assert slope.tolist() == [0, 0, 0, 1]
    options = {} if name == "logaddexp" else {"initial": 5.0}
    slope = tracer.grad(lambda x: function.reduce(x, where=mask, **options))(x)
    kept = tracer.grad(lambda x: function.reduce(x, **options))(x[mask])
    np.testing.assert_allclose(np.asarray(slope)[mask], kept, rtol=1e-12)
    assert slope[2] == 0
