"""tracer.lax against NumPy: strict operands, refusals, and programs under a limit."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.lax as lax
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same
from tracer.array.trace import trace
from tracer.errors import (
    ArgumentError,
    ArrayIndexError,
    AxisError,
    DTypeError,
    MissingNameError,
    NotDifferentiableError,
    ShapeError,
    UnsupportedError,
)

pytestmark = pytest.mark.xla


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_python_numbers_take_the_dtype_beside_them(dtype):
    x = np.array([1.0, 2.0], dtype)
    assert_same(lax.add(x, 1), x + 1)
    assert_same(lax.mul(2.0, x), 2 * x)
    assert lax.clamp(0, x, 1.5).dtype == dtype


def test_nothing_is_promoted_or_repeated():
    x = tnp.ones((2, 3), "float32")
    with pytest.raises(DTypeError, match="float32, float64"):
        lax.add(x, tnp.ones((2, 3)))
    with pytest.raises(DTypeError):
        lax.add(tnp.arange(3), 1.5)
    with pytest.raises(ShapeError, match="expand_dims"):
        lax.add(x, x[0])
    with pytest.raises(ShapeError):
        lax.add(x, x[:, :2])
    with pytest.raises(DTypeError):
        lax.exp(3)
    assert lax.add(x, x[:, :1]).shape == (2, 3)


REFUSALS = {
    "abs of unsigned": (lambda: lax.abs(np.uint8(3)), DTypeError),
    "negative power": (lambda: lax.integer_pow(np.arange(3), -1), DTypeError),
    "pow of integers": (lambda: lax.pow(np.arange(3), 2), DTypeError),
    "rounding": (lambda: lax.round(1.5, "up"), ArgumentError),
    "rounding integers": (lambda: lax.round(1), DTypeError),
    "negative axis": (lambda: lax.rev(np.ones((2, 3)), (-1,)), AxisError),
    "axis twice": (lambda: lax.reduce_sum(np.ones((2, 3)), (1, 1)), ShapeError),
    "axis that is none": (lambda: lax.argmax(np.ones((2, 3)), 1.5, "int32"), DTypeError),
    "cases": (lambda: lax.select(True, np.ones(2), np.ones(3)), ShapeError),
    "no cases": (lambda: lax.select_n(0), ArgumentError),
    "which": (lambda: lax.select_n(np.ones(2), np.ones(2), np.ones(2)), DTypeError),
    "three cases": (lambda: lax.select_n(True, 1.0, 2.0, 3.0), DTypeError),
    "clamp": (lambda: lax.clamp(np.ones(2), np.ones((2, 2)), 1.0), ShapeError),
    "squeeze": (lambda: lax.squeeze(np.ones((1, 3)), (1,)), ShapeError),
    "reshape": (lambda: lax.reshape(np.ones((2, 3)), (-1,)), ShapeError),
    "transpose": (lambda: lax.transpose(np.ones((2, 3)), (0,)), ShapeError),
    "concatenate": (lambda: lax.concatenate([np.ones(2), np.arange(2)], 0), DTypeError),
    "concatenate nothing": (lambda: lax.concatenate([], 0), ArgumentError),
    "iota of bools": (lambda: lax.iota(bool, 3), DTypeError),
    "full": (lambda: lax.full((2,), np.ones(2)), ShapeError),
    "split": (lambda: lax.split(np.ones(3), (1, 1)), ShapeError),
    "pad": (lambda: lax.pad(np.ones(3), 0.0, [(1, 2)]), ShapeError),
    "pad with more": (lambda: lax.pad(np.ones(3), np.ones(2), [(1, 2, 0)]), ShapeError),
    "rank": (lambda: lax.broadcast_to_rank(np.ones((2, 3)), 1), ShapeError),
    "order of axes": (lambda: lax.broadcast_in_dim(np.ones((2, 3)), (3, 2), (1, 0)), ShapeError),
    "slice outside": (lambda: lax.slice(np.ones(3), (1,), (5,)), ShapeError),
    "index outside": (lambda: lax.index_in_dim(np.ones(3), 3), ArrayIndexError),
    "index of none": (lambda: lax.index_in_dim(np.ones(0), 0), ArrayIndexError),
    "starts": (lambda: lax.dynamic_slice(np.ones(3), (1, 1), (1,)), ShapeError),
    "float starts": (lambda: lax.dynamic_slice(np.ones(3), (1.0,), (1,)), DTypeError),
    "window": (lambda: lax.dynamic_slice(np.ones(3), (1,), (4,)), ShapeError),
    "mode": (lambda: lax.GatherScatterMode.from_any("wrap"), ArgumentError),
    "dot": (lambda: lax.dot(np.ones((2, 3)), np.ones((2, 3))), ShapeError),
    "batch_matmul": (lambda: lax.batch_matmul(np.ones((2, 3)), np.ones(3)), ShapeError),
    "precision": (lambda: lax.dot(np.ones(3), np.ones(3), precision="F8"), ArgumentError),
    "bools": (lambda: lax.cumsum(np.ones(3, bool)), DTypeError),
    "bits of floats": (lambda: lax.reduce_and(np.ones(3), (0,)), DTypeError),
    "argmax of none": (lambda: lax.argmax(np.ones((2, 0)), 1, "int32"), ShapeError),
    "float indices": (lambda: lax.argmax(np.ones(3), 0, "float32"), DTypeError),
    "top_k": (lambda: lax.top_k(np.ones(3), 4), ArgumentError),
    "keys": (lambda: lax.sort((np.ones(3),), num_keys=2), ArgumentError),
    "sort": (lambda: lax.sort((np.ones(3), np.ones(2))), ShapeError),
    "bits": (lambda: lax.bitcast_convert_type(np.ones(3, "float32"), "int64"), ShapeError),
    "complex bits": (
        lambda: lax.bitcast_convert_type(np.ones(3, complex), "int32"),
        UnsupportedError,
    ),
    "more bits": (lambda: lax.reduce_precision(np.ones(3, "float16"), 8, 23), UnsupportedError),
    "fft": (lambda: lax.fft(np.ones(3, complex), "DCT", (3,)), ArgumentError),
    "fft of none": (lambda: lax.fft(np.ones(0, complex), "FFT", (0,)), ShapeError),
    "polygamma": (lambda: lax.polygamma(1.5, 2.0), ArgumentError),
    "reduce": (lambda: lax.reduce((np.ones(3),), (0.0, 0.0), lambda x, y: x, (0,)), ArgumentError),
    "sorted": (lambda: lax.linalg.schur(np.eye(2), sort_eig_vals=True), ArgumentError),
    "wide reflectors": (
        lambda: lax.linalg.householder_product(np.ones((2, 3)), np.ones(2)),
        ShapeError,
    ),
    "scales": (lambda: lax.linalg.householder_product(np.eye(2), np.ones(3)), ShapeError),
    "diagonals": (
        lambda: lax.linalg.tridiagonal_solve(np.ones(2), np.ones(3), np.ones(3), np.ones((3, 1))),
        ShapeError,
    ),
    "right side": (
        lambda: lax.linalg.tridiagonal_solve(np.ones(3), np.ones(3), np.ones(3), np.ones(3)),
        ShapeError,
    ),
    "other rows": (lambda: lax.linalg.ormqr(np.eye(2), np.ones(2), np.ones((3, 2))), ShapeError),
    "left eigenvectors": (lambda: lax.linalg.eig(np.eye(2)), ArgumentError),
    "layout": (
        lambda: lax.conv_dimension_numbers((1, 2, 3), (1, 2, 3), ("NCH", "OI", "NCH")),
        ArgumentError,
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    program, error = REFUSALS[name]
    with pytest.raises(error):
        program()


def test_names_without_meaning_say_why():
    with pytest.raises(MissingNameError, match="no psend: it is of programs for several"):
        lax.psend  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'psom'"):
        lax.psom  # noqa: B018
    assert not hasattr(lax, "precv")
    assert "psend" not in dir(lax)


def test_a_known_function_is_one_reduction():
    for function in (lax.add, lambda x, y: y + x, tnp.add):
        traced = trace(lambda x, f=function: lax.reduce(x, 1.0, f, (0,)), [tnp.ones(9)])
        names = [node.name for node in traced.graph.nodes if node.op is not None]
        assert "reduce_add" in names
        assert "slice" not in names


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_windows_of_functions(rng, dtype):
    x = rng.normal(size=(4, 5)).astype(dtype)
    found = lax.reduce_window(x, np.array(-np.inf, dtype), lax.max, (2, 2), (1, 1), "VALID")
    wanted = np.lib.stride_tricks.sliding_window_view(x, (2, 2)).max((-2, -1))
    assert_same(found, wanted)
    other = lax.reduce_window(x, 0, lambda x, y: x + abs(y), (2, 2), (1, 1), "VALID")
    wanted = np.abs(np.lib.stride_tricks.sliding_window_view(x, (2, 2))).sum((-2, -1))
    np.testing.assert_allclose(np.asarray(other), wanted, rtol=1e-6)


def test_a_solver_without_its_transpose_has_no_gradient():
    def solution(b):
        return lax.custom_linear_solve(lambda x: 2 * x, b, lambda f, b: b / 2).sum()

    assert float(solution(tnp.ones(3))) == 1.5
    with pytest.raises(NotDifferentiableError, match="transpose_solve"):
        tracer.grad(solution)(tnp.ones(3))


def test_a_solver_may_close_over_what_is_differentiated():
    a = np.array([[4.0, 1.0], [1.0, 3.0]])

    def solution(a):
        factor = tracer.scipy.linalg.cho_factor(a)
        solve = lambda _, b: tracer.scipy.linalg.cho_solve(factor, b)
        return lax.custom_linear_solve(lambda x: a @ x, tnp.ones(2), solve, symmetric=True).sum()

    inverse = np.linalg.inv(a)
    wanted = -np.outer(inverse.sum(0), inverse.sum(0))
    np.testing.assert_allclose(np.asarray(tracer.grad(solution)(a)), wanted, rtol=1e-12)
    compiled = tracer.compile(tracer.grad(solution))
    np.testing.assert_allclose(np.asarray(compiled(a)), wanted, rtol=1e-12)


def test_programs_keep_a_limit():
    def distances(x):
        square = lax.reduce_sum(lax.integer_pow(x, 2), (1,))
        product = lax.dot_general(x, x, (((1,), (1,)), ((), ())))
        shape = product.shape
        apart = lax.broadcast_in_dim(square, shape, (0,)) + lax.broadcast_in_dim(
            square, shape, (1,)
        )
        kernel = lax.exp(lax.neg(lax.max(apart - 2 * product, 0.0)))
        return lax.reduce_sum(kernel, (1,))

    x = np.random.default_rng(0).normal(size=(1500, 3)).astype("float32")
    found = tracer.compile(distances, memory_limit="2MB")(x)
    apart = ((x[:, None].astype(float) - x[None]) ** 2).sum(-1)
    np.testing.assert_allclose(np.asarray(found), np.exp(-apart).sum(1), rtol=1e-4)
