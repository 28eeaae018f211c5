"""What the rules promise where mathematics leaves a choice: ties, zeros, complex numbers, NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tracer import ops
from tracer.autodiff import vjp_graph
from tracer.ir import Builder, Op, ShapeDtype, interpret

NAN = np.nan


def cotangents(op: Op, *operands: Any, g: Any = None, **params: Any) -> list[np.ndarray[Any, Any]]:
    """Return the cotangents of all inexact operands, for a cotangent of ones."""
    arrays = [np.asarray(x) for x in operands]
    with Builder() as builder:
        inputs = [builder.input(ShapeDtype(x.shape, x.dtype)) for x in arrays]
        found = op(*inputs, **params)
        results = found if isinstance(found, tuple) else (found,)
        graph = builder.finish(results)
    wrt = [i for i, x in enumerate(arrays) if x.dtype.kind in "fc"]
    seeds = [np.ones(t.shape, t.dtype) for t in graph.output_types if t.dtype.kind in "fc"]
    return interpret(vjp_graph(graph, wrt), [*arrays, *(seeds if g is None else [g])])


def test_ties_of_maximum_and_minimum_are_halved() -> None:
    x, y = np.array([1.0, 2.0, 3.0, NAN]), np.array([1.0, 3.0, 2.0, 1.0])
    first, second = cotangents(ops.maximum, x, y)
    assert first.tolist() == [0.5, 0, 1, 0]
    assert second.tolist() == [0.5, 1, 0, 0]
    first, second = cotangents(ops.minimum, x, y)
    assert first.tolist() == [0.5, 1, 0, 0]
    assert second.tolist() == [0.5, 0, 1, 0]


def test_ties_of_reduced_extrema_share_equally() -> None:
    (got,) = cotangents(ops.reduce_maximum, np.array([[3.0, 1.0, 3.0, 3.0]]), axes=(1,))
    np.testing.assert_allclose(got, [[1 / 3, 0, 1 / 3, 1 / 3]])


def test_running_maximum_credits_the_first_place() -> None:
    x = np.array([2.0, 2.0, 1.0, 3.0, 3.0])
    (got,) = cotangents(ops.cumulative_maximum, x, axis=0, reverse=False)
    assert got.tolist() == [3, 0, 0, 2, 0]
    (got,) = cotangents(ops.cumulative_maximum, x, axis=0, reverse=True)
    assert got.tolist() == [0, 0, 0, 0, 5]


def test_the_largest_credit_the_lowest_index() -> None:
    x, g = np.array([2.0, 2, 1, 3, 3]), np.array([1.0, 2, 3])
    assert cotangents(ops.top_k, x, g=g, k=3)[0].tolist() == [3, 0, 0, 1, 2]


def test_clamp_at_a_bound_has_no_gradient() -> None:
    low, x, high = np.zeros(5), np.array([-1.0, 0.0, 0.5, 1.0, 2.0]), np.ones(5)
    for got, wanted in zip(
        cotangents(ops.clamp, low, x, high),
        ([1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]),
        strict=True,
    ):
        assert got.tolist() == wanted


def test_slopes_at_zero_are_finite() -> None:
    assert cotangents(ops.abs, np.array([0.0, -0.0]))[0].tolist() == [1, 1]
    assert cotangents(ops.abs, np.zeros(1, complex))[0].tolist() == [0]
    bases, exponents = np.array([0.0, 0.0, 2.0, np.inf]), np.array([2.0, 0, 0, 0])
    by_base, by_exponent = cotangents(ops.power, bases, exponents)
    assert by_base.tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(by_exponent, [0, 0, np.log(2), np.inf])


def test_products_with_zeros_have_exact_gradients() -> None:
    x = np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 5.0], [2.0, 3.0, 4.0]])
    (got,) = cotangents(ops.reduce_multiply, x, axes=(1,))
    assert got.tolist() == [[6, 0, 0], [0, 0, 0], [12, 8, 6]]
    (got,) = cotangents(ops.cumulative_multiply, x, axis=1, reverse=False)
    assert got.tolist() == [[1 + 2 + 6, 0, 0], [1, 0, 0], [1 + 3 + 12, 2 + 8, 6]]


def test_gather_credits_the_clamped_place_and_scatter_drops() -> None:
    window = {"index_vector_dim": 1}
    (got,) = cotangents(
        ops.gather,
        np.zeros(3),
        np.array([[-5], [9], [1], [1]], np.int32),
        offset_dims=(),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        slice_sizes=(1,),
        **window,
    )
    assert got.tolist() == [1, 2, 1]
    _, updates = cotangents(
        ops.scatter,
        np.zeros(3),
        np.array([[-5], [9], [1], [1]], np.int32),
        np.ones(4),
        combiner="add",
        update_window_dims=(),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        unique_indices=False,
        **window,
    )
    assert updates.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("op", "params"),
    [
        (ops.cholesky, {}),
        (ops.eigh, {"g": np.array([1.0, 3.0]), "compute_vectors": False}),
        (ops.eigh, {"compute_vectors": True}),
        (ops.mirror_triangle, {"conjugated": True}),
    ],
)
@pytest.mark.parametrize("turn", [0.0, 0.5j])
def test_what_reads_one_triangle_has_a_hermitian_gradient(op: Op, params: Any, turn: Any) -> None:
    whole = np.array([[2.0, 1.0 - turn], [1.0 + turn, 3.0]])
    (wanted,) = cotangents(op, whole, **params)
    assert abs(wanted[1, 0]) > 0.01
    np.testing.assert_allclose(wanted, wanted.T.conj(), atol=1e-15)
    whole[0, 1] = 99
    (found,) = cotangents(op, whole, **params)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("x", "y", "quotient", "remainder"),
    [(7, -2, -3, 1), (-7, 2, -3, -1), (5, 0, -1, 5), (-(2**31), -1, -(2**31), 0)],
)
def test_integer_division_is_xlas(x: int, y: int, quotient: int, remainder: int) -> None:
    left, right = np.array([x], np.int32), np.array([y], np.int32)
    assert ops.divide.evaluate(left, right).tolist() == [quotient]
    assert ops.remainder.evaluate(left, right).tolist() == [remainder]


def test_nan_is_sorted_last_and_counts_as_largest() -> None:
    x = np.array([NAN, 1.0, -0.0, 0.0, NAN, 5.0])
    places = np.arange(6, dtype=np.int32)
    _, order = ops.sort.evaluate(x, places, dimension=0, num_keys=1, is_stable=True)
    assert order.tolist() == [2, 3, 1, 5, 0, 4]
    _, best = ops.top_k.evaluate(x, k=4)
    assert best.tolist() == [0, 4, 5, 1]
    assert int(ops.argmax.evaluate(x, axis=0, index_dtype=np.dtype(np.int32))) == 0
    assert int(ops.argmin.evaluate(x, axis=0, index_dtype=np.dtype(np.int32))) == 0


JAX_GRADIENTS = {
    "abs": "abs",
    "exponential": "exp",
    "log": "log",
    "sqrt": "sqrt",
    "sine": "sin",
    "tanh": "tanh",
    "asin": "asin",
    "real": "real",
    "imag": "imag",
    "logistic": "logistic",
}


@pytest.mark.parametrize("name", JAX_GRADIENTS)
def test_complex_gradients_are_jaxs(name: str, rng: np.random.Generator) -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        x = rng.normal(size=5) + 1j * rng.normal(size=5)
        out, pull_back = jax.vjp(getattr(jax.lax, JAX_GRADIENTS[name]), x)
        g = rng.normal(size=5).astype(out.dtype)
        (wanted,) = pull_back(jax.numpy.asarray(g))
        (got,) = cotangents(getattr(ops, name), x, g=g)
        np.testing.assert_allclose(got, np.asarray(wanted), rtol=1e-9)
