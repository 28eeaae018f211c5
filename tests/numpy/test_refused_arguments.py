"""Arguments that NumPy refuses, and one that it takes: no value is made of a misunderstanding."""

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import scipy

pytestmark = pytest.mark.xla

FLOATS = np.array([0.72, 0.18, 0.43])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tnp.take_along_axis(np.ones(3), FLOATS), tracer.ArrayIndexError),
        (lambda: tnp.put_along_axis(tnp.ones(3), FLOATS, 1.0, 0), tracer.ArrayIndexError),
        (lambda: tnp.choose(FLOATS, [1.0, 2.0]), tracer.ArrayIndexError),
        (lambda: tnp.matvec(np.ones(3), np.ones(3)), tracer.ShapeError),
        (lambda: tnp.vecmat(np.ones(3), np.ones(3)), tracer.ShapeError),
        (lambda: tnp.ravel(np.ones((2, 2)), np.ones(2)), tracer.ArgumentError),
        (lambda: tnp.histogramdd(np.ones((2, 2, 2))), tracer.ShapeError),
        (lambda: tnp.histogram(FLOATS, [3, 2, 1]), tracer.ArgumentError),
        (lambda: tnp.histogram(FLOATS, 3, range=(2, 0)), tracer.ArgumentError),
        (lambda: tnp.digitize(FLOATS, [0.3, 0.1, 0.2]), tracer.ArgumentError),
        (lambda: tnp.bincount([-1, 2]), tracer.ArgumentError),
        (lambda: tnp.bincount([1, 2], minlength=-1), tracer.ArgumentError),
        (lambda: tnp.bincount([[1, 2], [0, 1]]), tracer.ShapeError),
        (lambda: tnp.bincount(FLOATS), tracer.DTypeError),
        (lambda: tnp.bincount([1, 2, 2], [2.0]), tracer.ShapeError),
        (lambda: tnp.bincount([1, 2, 2], [1j, 2, 3]), tracer.DTypeError),
        (lambda: tnp.sum(FLOATS, keepdims="no"), tracer.errors.DTypeError),
        (lambda: tnp.max(FLOATS, keepdims=None), tracer.errors.DTypeError),
        (lambda: tnp.var(FLOATS, keepdims=1.5), tracer.errors.DTypeError),
        (lambda: tnp.median(FLOATS, keepdims="no"), tracer.errors.DTypeError),
        (lambda: tnp.linalg.norm(FLOATS, axis=0, keepdims="no"), tracer.errors.DTypeError),
        (lambda: tnp.concatenate([FLOATS, FLOATS], dtype=int), tracer.errors.DTypeError),
        (lambda: tnp.stack([FLOATS, FLOATS], dtype=int), tracer.errors.DTypeError),
        (lambda: tnp.histogram(np.array([1.0, np.nan])), tracer.ArgumentError),
        (lambda: tnp.histogram(np.array([1.0, np.inf])), tracer.ArgumentError),
        (lambda: tnp.interp(FLOATS, [0.0, 1.0], [1.0, 2.0], period=0), tracer.ArgumentError),
        (lambda: tracer.compile(tnp.bincount)(np.array([1, 2])), tracer.TracingError),
    ],
)
def test_refused(call, error):
    with pytest.raises(error) as caught:
        call()
    assert "mend" in str(caught.value)


UFUNC_ARGUMENTS = [
    (lambda: tnp.add(FLOATS, 1.0, dtype="float32"), r"add takes no dtype=.*\n?.*astype"),
    (
        lambda: tnp.multiply(FLOATS, 2.0, where=FLOATS > 0.2),
        r"(?s)multiply takes no where=.*where\(condition, multiply\(x, y\), other\)",
    ),
    (lambda: tnp.sqrt(FLOATS, out=FLOATS), "sqrt takes no out="),
    (lambda: tnp.exp(FLOATS, FLOATS), "(?s)exp takes no out=.*use the result"),
    (lambda: tnp.divmod(FLOATS, 2.0, casting="unsafe"), "divmod takes no casting="),
    (lambda: tracer.compile(lambda x: tnp.sin(x, order="C"))(FLOATS), "sin takes no order="),
]


@pytest.mark.parametrize(("call", "words"), UFUNC_ARGUMENTS)
def test_arguments_of_numpys_ufuncs_are_refused_by_name(call, words):
    # They were bare TypeErrors of Python, which did not say what to write.
    with pytest.raises(tracer.ArgumentError, match=words) as caught:
        call()
    assert "test_refused_arguments.py" in str(caught.value)


DEFAULTS = [
    (lambda m: m.exp(FLOATS, None), lambda: np.exp(FLOATS)),
    (lambda m: m.add(FLOATS, 1, out=None, where=True), lambda: FLOATS + 1),
    (lambda m: m.less(FLOATS, 0.5, where=np.True_, casting="same_kind"), lambda: FLOATS < 0.5),
    (lambda m: m.power(FLOATS, 2, out=(None,), order="K", dtype=None), lambda: FLOATS**2),
    (lambda m: m.round(FLOATS, out=None), lambda: np.round(FLOATS)),
    (lambda m: m.round(FLOATS, 1, None), lambda: np.round(FLOATS, 1)),
    (lambda m: m.asarray(FLOATS).round(1, out=None), lambda: np.round(FLOATS, 1)),
    (lambda m: m.take(FLOATS, [9], 0, None, "clip"), lambda: FLOATS[2:]),
    (lambda m: m.concatenate([FLOATS], casting="same_kind"), lambda: FLOATS),
    (lambda m: m.einsum("i->", FLOATS, out=None), lambda: FLOATS.sum()),
    (lambda m: np.exp(m.asarray(FLOATS), where=True), lambda: np.exp(FLOATS)),
]


@pytest.mark.parametrize(("call", "expected"), DEFAULTS)
def test_numpys_defaults_are_taken_where_there_is_nothing_else(call, expected):
    np.testing.assert_allclose(np.asarray(call(tnp)), expected(), rtol=1e-12)
    found = tracer.compile(lambda x: call(tnp) + 0 * x)(np.float64(1))
    np.testing.assert_allclose(np.asarray(found), expected(), rtol=1e-12)


def test_what_is_not_the_default_is_refused_with_advice():
    for call, words in (
        (lambda: tnp.round(FLOATS, out=FLOATS), "(?s)round takes no out=.*use the result"),
        (lambda: tnp.round(FLOATS, 1, FLOATS), "round takes no out="),
        (lambda: tnp.array(FLOATS).dot(FLOATS, FLOATS), "dot takes no out="),
        (lambda: np.exp(tnp.array(FLOATS), where=FLOATS > 0.2), "exp takes no where="),
        (lambda: scipy.special.expit(FLOATS, out=FLOATS), r"takes no out=, unlike scipy\.expit"),
    ):
        with pytest.raises(tracer.ArgumentError, match=words):
            call()
    assert scipy.special.expit(FLOATS, out=None, where=True).shape == (3,)


def test_an_error_of_a_call_with_numpys_defaults_names_the_argument():
    with pytest.raises(tracer.errors.DTypeError, match="round: decimals is 'a'"):
        tnp.round(np.arange(3), "a", out=None)


def test_an_argument_that_no_ufunc_takes_is_pythons_error():
    for call in (lambda: tnp.add(FLOATS, 1.0, nonsense=1), lambda: tnp.add(FLOATS)):
        with pytest.raises(TypeError, match=r"add\(\)"):
            call()


def test_keepdims_is_a_bool_or_an_integer():
    for keepdims in (True, np.True_, 2):
        assert tnp.sum(FLOATS, keepdims=keepdims).shape == (1,)
    for keepdims in (False, np.False_, 0):
        assert tnp.sum(FLOATS, keepdims=keepdims).shape == ()


@pytest.mark.parametrize("shape", [(3, 4), (2,), (0, 3), ()])
@pytest.mark.parametrize("size", [0, 1, 5])
def test_resize_repeats_whole_arrays(shape, size):
    x = np.arange(float(size))
    np.testing.assert_array_equal(np.asarray(tnp.resize(x, shape)), np.resize(x, shape))


def test_a_vector_is_points_on_a_line():
    counts, edges = tnp.histogramdd(FLOATS, 4)
    expected, expected_edges = np.histogramdd(FLOATS, 4)
    np.testing.assert_array_equal(np.asarray(counts), expected)
    np.testing.assert_allclose(np.asarray(edges[0]), expected_edges[0])


def test_truth_values_choose():
    flags = np.array([True, False])
    found = tnp.choose(flags, [[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(np.asarray(found), np.choose(flags, [[1.0, 2.0], [3.0, 4.0]]))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "uint64"])
def test_small_integers_are_counted(dtype):
    numbers = np.array([1, 0, 1]).astype(dtype)
    np.testing.assert_array_equal(np.asarray(tnp.bincount(numbers)), np.bincount(numbers))
    counted = tracer.compile(lambda x: tnp.bincount(x, minlength=3))(numbers)
    np.testing.assert_array_equal(np.asarray(counted), [1, 2, 0])


def test_in_a_trace_negative_numbers_are_not_counted():
    counted = tracer.compile(lambda x: tnp.bincount(x, minlength=3))(np.array([-1, 0, 2, 9]))
    np.testing.assert_array_equal(np.asarray(counted), [1, 0, 1])


def test_numbers_that_are_known_are_counted_in_a_trace_without_a_size():
    numbers = np.array([0, 3, 3])
    counted = tracer.compile(lambda w: tnp.bincount(numbers, w))(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(np.asarray(counted), [1, 0, 0, 5])


@pytest.mark.parametrize("key", [slice(0, 2**62), slice(0, 2**64), "a", 5, slice(0, 1, 0)])
def test_grids_are_of_slices_that_fit(key):
    for grid in (tnp.mgrid, tnp.ogrid):
        with pytest.raises(tracer.ArgumentError, match="a grid of"):
            grid[key]
