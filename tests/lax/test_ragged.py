"""ragged_dot and ragged_dot_general: NumPy's products of each group, and JAX's."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.lax as lax
import tracer.numpy as tnp
from tests.compare_with_jax import check, inputs
from tests.sampling import one_in
from tracer.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    MemoryLimitError,
    ShapeError,
    UnsupportedError,
)
from tracer.lax import RaggedDotDimensionNumbers as Numbers

pytestmark = pytest.mark.xla


def products(x, y, sizes):
    """Multiply group by group."""
    total, start = np.zeros((len(x), y.shape[2]), x.dtype), 0
    for matrix, size in zip(y, sizes, strict=True):
        total[start : start + size] = x[start : start + size] @ matrix
        start += max(0, size)
    return total


SIZES = {
    "all": [3, 40, 0, 27],
    "fewer": [0, 30, 5, 0],
    "none": [0, 0, 0, 0],
    "one": [0, 0, 70, 0],
    "more": [60, 60, 60, 2**40],
    "negative": [5, -3, 10, 20],
}


@pytest.fixture(scope="module")
def compiled():
    return tracer.compile(lax.ragged_dot)


@pytest.mark.parametrize("name", SIZES)
def test_values(compiled, name):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(70, 5)), rng.normal(size=(4, 5, 3))
    sizes = np.array(SIZES[name])
    wanted = products(x, y, sizes)
    np.testing.assert_allclose(np.asarray(compiled(x, y, sizes)), wanted, rtol=1e-13, atol=1e-13)


def test_blocks_of_all_sizes():
    """Groups that end within, at and behind the end of a block, in two hundred rows and more."""
    rng = np.random.default_rng(1)
    for rows, sizes in ((1, [1]), (700, [255, 256, 0, 1]), (33, [16, 17]), (600, [300])):
        x, y = rng.normal(size=(rows, 3)), rng.normal(size=(len(sizes), 3, 2))
        found = lax.ragged_dot(x, y, np.array(sizes))
        np.testing.assert_allclose(np.asarray(found), products(x, y, sizes), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", ["int8", "uint64"])
def test_sizes_of_any_integers(dtype):
    """A sum of int8 beyond 127; sizes of uint64 that no int64 has."""
    sizes = np.array([100, 100, 100] if dtype == "int8" else [1, 2**63 + 5, 3], dtype)
    x, y = np.arange(300.0)[:, None], np.array([[[1.0]], [[2.0]], [[3.0]]])
    wanted = products(x, y, np.minimum(sizes.astype(float), 300).astype(int))
    np.testing.assert_array_equal(np.asarray(lax.ragged_dot(x, y, sizes)), wanted)


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (5, 0, 3, 4), (5, 2, 0, 4), (5, 2, 3, 0)])
def test_nothing(shape):
    m, k, g, n = shape
    x, y, sizes = np.ones((m, k)), np.ones((g, k, n)), np.ones(g, int)
    np.testing.assert_array_equal(np.asarray(lax.ragged_dot(x, y, sizes)), np.zeros((m, n)))
    found = tracer.grad(lambda x, y: lax.ragged_dot(x, y, sizes).sum(), (0, 1))(x, y)
    assert [z.shape for z in found] == [x.shape, y.shape]
    assert not any(np.any(np.asarray(z)) for z in found)


def test_infinities_and_nan_stay_in_their_group():
    x, y = np.ones((6, 2)), np.ones((3, 2, 1))
    y[1], x[5] = np.inf, np.nan
    sizes = np.array([2, 1, 2])
    found = np.asarray(lax.ragged_dot(x, y, sizes))[:, 0]
    np.testing.assert_array_equal(found, [2, 2, np.inf, 2, 2, 0])
    of_x, of_y = tracer.grad(lambda x, y: lax.ragged_dot(x, y, sizes).sum(), (0, 1))(x, y)
    np.testing.assert_array_equal(np.asarray(of_x)[:, 0], [2 / 2, 1, np.inf, 1, 1, 0])
    np.testing.assert_array_equal(np.asarray(of_y)[:, 0, 0], [2, 1, 2])


def test_memory():
    """Beside arguments and result there is a block and a matrix; gradients add results alone."""
    m, k, n, g = 4096, 64, 64, 32
    x, y = np.ones((m, k), "float32"), np.ones((g, k, n), "float32")
    sizes = np.full(g, m // g)
    whole = x.nbytes + y.nbytes + m * n * 4
    within = tracer.compile(lax.ragged_dot, memory_limit=int(1.15 * whole))
    np.testing.assert_array_equal(np.asarray(within(x, y, sizes)), k)
    loss = lambda x, y, sizes: (lax.ragged_dot(x, y, sizes) ** 2).sum()
    slope = tracer.compile(tracer.grad(loss, (0, 1)), memory_limit=int(2.15 * whole))
    np.testing.assert_array_equal(np.asarray(slope(x, y, sizes)[0]), 2 * k * n)
    with pytest.raises(MemoryLimitError):
        tracer.compile(lax.ragged_dot, memory_limit=whole // 2)(x, y, sizes)


ROWS, MATRICES = np.ones((4, 2)), np.ones((3, 2, 5))
PLAIN = (((1,), (1,)), ((), ()))
REFUSALS = {
    "float sizes": (lambda: lax.ragged_dot(ROWS, MATRICES, np.ones(3)), DTypeError),
    "bool sizes": (lambda: lax.ragged_dot(ROWS, MATRICES, np.ones(3, bool)), DTypeError),
    "bools": (lambda: lax.ragged_dot(ROWS > 0, MATRICES > 0, np.ones(3, int)), DTypeError),
    "another number": (lambda: lax.ragged_dot(ROWS, MATRICES, np.ones(2, int)), ShapeError),
    "no sizes": (lambda: lax.ragged_dot(ROWS, MATRICES, 4), ShapeError),
    "rank": (lambda: lax.ragged_dot(ROWS, MATRICES[0], np.ones(3, int)), ShapeError),
    "summed": (lambda: lax.ragged_dot(ROWS.T, MATRICES, np.ones(3, int)), ShapeError),
    "offset": (
        lambda: lax.ragged_dot(ROWS, MATRICES, np.ones(3, int), group_offset=np.array([1])),
        UnsupportedError,
    ),
    "precision": (
        lambda: lax.ragged_dot(ROWS, MATRICES, np.ones(3, int), "HALF"),
        ArgumentError,
    ),
    "ragged axes": (lambda: _general(PLAIN, (0, 1), (0,)), ArgumentError),
    "no group axis": (lambda: _general(PLAIN, (0,), ()), ArgumentError),
    "a group axis": (lambda: _general(PLAIN, (1,), (0,)), ArgumentError),
    "group of the sum": (lambda: _general(PLAIN, (0,), (1,)), ShapeError),
    "axis": (lambda: _general(PLAIN, (2,), (0,)), AxisError),
    "pairs": (lambda: _general((((1,), ()), ((), ())), (0,), (0,)), ShapeError),
    "axis twice": (lambda: _general((((1,), (1,)), ((1,), (1,))), (0,), (0,)), ShapeError),
    "batch of sizes": (
        lambda: lax.ragged_dot_general(ROWS, MATRICES, [[1, 2, 3]], Numbers(PLAIN, (0,), (0,))),
        ShapeError,
    ),
}


def _general(pairs, ragged, group):
    return lax.ragged_dot_general(ROWS, MATRICES, [1, 2, 1], Numbers(pairs, ragged, group))


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    program, error = REFUSALS[name]
    with pytest.raises(error):
        program()


def test_numbers_are_values():
    one = Numbers([[[1], [1]], [[], []]], [0], [0])
    assert one == Numbers(PLAIN, (0,), (0,))
    assert hash(one) == hash(Numbers(PLAIN, (0,), (0,)))


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax


def _beside(jax, program, arrays, **options):
    check(program, lax, jax.lax, arrays, which=("gradient",), **options)


@pytest.mark.parametrize("dtype", one_in(2, ["float32", "float64", "complex128"]))
def test_jaxs_values_and_gradients(jax, dtype):
    x, y = inputs([(50, 4), (3, 4, 2)], "float64")
    x = x + 1j if dtype == "complex128" else x
    arrays = [x.astype(dtype), y.astype(dtype), np.array([20, 0, 25])]
    _beside(jax, lambda lax, x, y, s: lax.ragged_dot(x, y, s), arrays, scale=8)


@pytest.mark.parametrize("dtype", one_in(2, ["bfloat16", "float16", "int32"]))
def test_jaxs_other_dtypes(jax, dtype):
    numbers = [np.arange(24).reshape(8, 3) % 5, np.arange(18).reshape(2, 3, 3) % 4]
    sizes = np.array([3, 4], "uint8")
    found = lax.ragged_dot(*(tnp.asarray(z).astype(dtype) for z in numbers), sizes)
    wanted = jax.lax.ragged_dot(*(jax.numpy.asarray(z).astype(dtype) for z in numbers), sizes)
    assert str(found.dtype) == str(wanted.dtype) == dtype
    np.testing.assert_array_equal(
        np.asarray(found.astype("float64")), np.asarray(wanted.astype("float64"))
    )


def test_jaxs_preferred_dtype(jax):
    arrays = [*inputs([(9, 4), (2, 4, 2)], "float32"), np.array([3, 5])]
    program = lambda lax, x, y, s: lax.ragged_dot(x, y, s, preferred_element_type=np.float64)
    _beside(jax, program, arrays)


def test_jaxs_promoted_dtype(jax):
    arrays = [*inputs([(9, 4)], "float32"), *inputs([(2, 4, 2)], "float64"), np.array([3, 5])]
    program = lambda lax, x, y, s: lax.ragged_dot(x, y, s)
    _beside(jax, program, arrays, differentiates=False)


def test_batches_and_further_derivatives(jax):
    x, y = inputs([(2, 20, 3), (2, 3, 3, 2)], "float64")
    sizes = np.array([[5, 0, 15], [1, 2, 3]])
    mapped = np.asarray(tracer.vmap(lax.ragged_dot)(x, y, sizes))
    for i in range(2):
        np.testing.assert_allclose(mapped[i], products(x[i], y[i], sizes[i]), atol=1e-14)
    one = np.asarray(tracer.vmap(lax.ragged_dot, (0, None, None))(x, y[0], sizes[0]))
    np.testing.assert_allclose(one[1], products(x[1], y[0], sizes[0]), atol=1e-14)

    def loss(lax, x, y):
        return (lax.ragged_dot(x, y, sizes[1]) ** 3).sum()

    tangents = (x[1], y[1])
    wanted = jax.jvp(jax.grad(lambda *a: loss(jax.lax, *a), (0, 1)), (x[0], y[0]), tangents)[1]
    found = tracer.jvp(tracer.grad(lambda *a: loss(lax, *a), (0, 1)), (x[0], y[0]), tangents)[1]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12, atol=1e-12)


GENERAL = {
    "rest": (PLAIN, (0,), (0,), (7, 4), (3, 4, 2), [2, 0, 4]),
    "rest with axes behind": ((((2,), (0,)), ((), ())), (0,), (2,), (7, 3, 4), (4, 2, 2), [3, 2]),
    "rest of a batch": (
        (((1, 3), (3, 0)), ((0,), (2,))),
        (2,),
        (1,),
        (2, 3, 7, 4),
        (4, 2, 2, 3, 5),
        [[3, 4], [0, 6]],
    ),
    "rest, a size for each": (
        (((2,), (1,)), ((), ())),
        (1,),
        (0,),
        (3, 7, 4),
        (2, 4, 5),
        [[3, 4], [0, 6], [1, 1]],
    ),
    "summed": ((((0,), (0,)), ((), ())), (0,), (), (7, 4), (7, 2), [2, 0, 4]),
    "summed of a batch": (
        (((2, 0), (0, 1)), ((1,), (2,))),
        (2,),
        (),
        (3, 2, 7, 4),
        (7, 3, 2, 5),
        [[3, 4], [0, 6]],
    ),
    "summed behind another": (
        (((2, 0), (0, 1)), ((), ())),
        (0,),
        (),
        (3, 2, 7),
        (7, 3, 5),
        [1, 2],
    ),
    "batch": ((((2,), (1,)), ((0,), (0,))), (0,), (), (3, 2, 4), (3, 4, 5), [1, 2]),
}
WITH_GRADIENTS = {"rest", "rest of a batch"}
"""JAX has none where the ragged axis is in both arrays, and few of the others."""


@pytest.mark.parametrize("name", one_in(2, GENERAL))
def test_general(jax, name):
    pairs, ragged, group, left, right, sizes = GENERAL[name]

    def program(lax, x, y):
        numbers = lax.RaggedDotDimensionNumbers(pairs, ragged, group)
        return lax.ragged_dot_general(x, y, np.array(sizes), numbers)

    arrays = inputs([left, right], "float64")
    _beside(jax, program, arrays, differentiates=name in WITH_GRADIENTS)
    tracer.check_grads(lambda x, y: program(lax, x, y), arrays, 1)
