"""index_take and conv_general_dilated_local, beside NumPy and JAX."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import tracer
import tracer.lax as lax
import tracer.lax as ours
import tracer.numpy as tnp
from tests.compare_with_jax import check, inputs
from tests.sampling import one_in
from tracer.errors import ArgumentError, AxisError, DTypeError, ShapeError

pytestmark = pytest.mark.xla

X = np.arange(24.0).reshape(2, 3, 4)
ROWS = [np.array([0, -1, 5, -7]), np.array([2, 1, -1, 4])]


@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool"])
def test_places_count_modulo_the_size(dtype):
    first, second = (row.astype(dtype) for row in ROWS)
    found = np.asarray(lax.index_take(X, [first, second], (0, 2)))
    rows, columns = (np.array([int(i) % n for i in row]) for row, n in ((first, 2), (second, 4)))
    np.testing.assert_array_equal(found, X[rows, :, columns])


def test_a_small_dtype_of_a_long_axis():
    x = np.arange(300)
    found = np.asarray(lax.index_take(x, [np.array([-1, 100, -128], "int8")], (0,)))
    np.testing.assert_array_equal(found, [299, 100, 172])


def test_vmap_and_limit():
    x, rows = np.random.default_rng(0).normal(size=(2, 50, 40)), np.array([[3, -1], [49, 60]])
    each = tracer.vmap(lambda x, i: lax.index_take(x, [i, i], (0, 1)))(x, rows)
    wanted = [[x[0, 3, 3], x[0, 49, 39]], [x[1, 49, 9], x[1, 10, 20]]]
    np.testing.assert_array_equal(np.asarray(each), wanted)
    taken = tracer.compile(
        lambda x, i: lax.index_take(x, [i], (1,)), memory_limit=x.nbytes + 2 * 2 * 40 * 8 + 1000
    )
    np.testing.assert_array_equal(np.asarray(taken(x, rows[0])), x[:, [3, 49]].swapaxes(0, 1))


REFUSALS = {
    "fewer": (lambda: lax.index_take(X, ROWS[:1], (0, 1)), ArgumentError),
    "none": (lambda: lax.index_take(X, [], ()), ArgumentError),
    "order": (lambda: lax.index_take(X, ROWS, (2, 0)), ArgumentError),
    "twice": (lambda: lax.index_take(X, ROWS, (0, 0)), ShapeError),
    "negative axis": (lambda: lax.index_take(X, ROWS, (0, -1)), AxisError),
    "floats": (lambda: lax.index_take(X, [np.ones(2)], (0,)), DTypeError),
    "two dtypes": (
        lambda: lax.index_take(X, [ROWS[0], ROWS[1].astype("int8")], (0, 1)),
        DTypeError,
    ),
    "scalars": (lambda: lax.index_take(X, [1], (0,)), ShapeError),
    "lengths": (lambda: lax.index_take(X, [ROWS[0], ROWS[1][:2]], (0, 1)), ShapeError),
    "no elements": (lambda: lax.index_take(X[:0], [ROWS[0]], (0,)), ShapeError),
    "places of kernels": (lambda: _local(np.ones((3, 2, 4))), ShapeError),
    "features of kernels": (lambda: _local(np.ones((3, 3, 3))), ShapeError),
    "rank of kernels": (lambda: _local(np.ones((3, 2))), ShapeError),
    "precision": (lambda: _local(np.ones((3, 2, 3)), precision="HALF"), ArgumentError),
    "window": (
        lambda: lax.conv_general_dilated_local(
            np.ones((1, 1, 4)), np.ones((3, 2, 3)), (1,), "VALID", (2, 2)
        ),
        ShapeError,
    ),
}


def _local(kernels, **options):
    return lax.conv_general_dilated_local(
        np.ones((1, 1, 4)), kernels, (1,), "VALID", (2,), **options
    )


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    program, error = REFUSALS[name]
    with pytest.raises(error):
        program()


def _windows_multiplied(x, kernels, window):
    """Multiply windows of (n, h, w, c) with kernels (h, w, c * window, o), place by place."""
    rows, columns, inputs, outputs = kernels.shape
    total = np.zeros((len(x), rows, columns, outputs))
    for i in range(rows):
        for j in range(columns):
            part = x[:, i : i + window[0], j : j + window[1]].transpose(0, 3, 1, 2)
            total[:, i, j] = part.reshape(len(x), inputs) @ kernels[i, j]
    return total


def test_windows_have_kernels_of_their_own():
    x, kernels = inputs([(2, 4, 5, 3), (3, 3, 18, 2)], "float64")
    layout = ("NHWC", "HWIO", "NHWC")

    def program(x, kernels):
        return lax.conv_general_dilated_local(
            x, kernels, (1, 1), "VALID", (2, 3), dimension_numbers=layout
        )

    wanted = _windows_multiplied(x, kernels, (2, 3))
    within = tracer.compile(program, memory_limit="40KB")
    for function in (program, within):
        np.testing.assert_allclose(np.asarray(function(x, kernels)), wanted, rtol=1e-12, atol=1e-12)
    each = tracer.vmap(program, (0, None))(np.stack([x, 2 * x]), kernels)
    np.testing.assert_allclose(np.asarray(each)[1], 2 * wanted, rtol=1e-12, atol=1e-12)


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax


TAKEN = {
    "two axes": (ROWS, (0, 2)),
    "all": ([*ROWS, ROWS[0]], (0, 1, 2)),
    "one, none": ([ROWS[0][:0]], (1,)),
    "int32": ([ROWS[0].astype("int32")], (1,)),
}


@pytest.mark.parametrize("name", TAKEN)
def test_takes_as_jax(jax, name):
    rows, axes = TAKEN[name]
    check(
        lambda lax, x: lax.index_take(
            x, [tnp.asarray(r) if lax is ours else r for r in rows], axes
        ),
        ours,
        jax.lax,
        [X.astype("float32")],
        which=("gradient",),
    )


LOCAL = {
    "plain": ((2, 3, 6), (4, 6, 5), (1,), "VALID", (2,), None, None, None),
    "same": ((2, 3, 6), (4, 6, 3), (2,), "SAME", (2,), None, None, None),
    "dilated": ((2, 3, 5), (4, 6, 7), (2,), [(2, 4)], (2,), (2,), (2,), None),
    "image": ((2, 4, 5, 3), (3, 2, 12, 2), (1, 2), "VALID", (2, 2), None, None, "NHWC HWIO NHWC"),
    "turned": ((3, 5, 2, 4), (18, 2, 3, 3), (1, 1), "VALID", (3, 2), None, None, "CWNH IOWH WNHC"),
    "crossed": ((3, 5, 2, 4), (18, 2, 3, 3), (1, 1), "VALID", (3, 2), None, None, "CWNH IOWH HCWN"),
    "none": ((0, 3, 6), (4, 6, 5), (1,), "VALID", (2,), None, None, None),
}


@pytest.mark.parametrize("name", one_in(3, LOCAL, 2))
def test_local_as_jax(jax, name):
    left, right, strides, padding, window, base, dilation, layout = LOCAL[name]

    def program(lax, x, kernels):
        numbers = tuple(layout.split()) if layout else None
        return lax.conv_general_dilated_local(
            x, kernels, strides, padding, window, base, dilation, numbers
        )

    check(program, ours, jax.lax, inputs([left, right], "float64"), which=("gradient",), scale=8)


def test_layouts_of_the_result_mean_the_same():
    x, kernels = inputs([(2, 3, 4, 5), (2, 12, 3, 4)], "float64")
    run = lambda layout: lax.conv_general_dilated_local(
        x, kernels, (1, 1), "VALID", (2, 2), dimension_numbers=("NCHW", "OIHW", layout)
    )
    first = np.asarray(run("NCHW"))
    for order in list(permutations("NCHW"))[3::7]:
        axes = ["NCHW".index(letter) for letter in order]
        np.testing.assert_allclose(
            np.asarray(run("".join(order))), first.transpose(axes), rtol=1e-12
        )


def test_narrow_floats(jax):
    x, k = np.arange(6).reshape(1, 1, 6), np.arange(10).reshape(1, 2, 5) % 3
    found, wanted = (
        module.lax.conv_general_dilated_local(
            numpy.asarray(x).astype("bfloat16"),
            numpy.asarray(k).astype("bfloat16"),
            (1,),
            "VALID",
            (2,),
        )
        for module, numpy in ((tracer, tnp), (jax, jax.numpy))
    )
    assert str(found.dtype) == str(wanted.dtype) == "bfloat16"
    np.testing.assert_array_equal(
        np.asarray(found.astype("float64")), np.asarray(wanted.astype("float64"))
    )
