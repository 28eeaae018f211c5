"""LAPACK through XLA: batches, dtypes, failures; and the other library kernels."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tracer import ops

pytestmark = pytest.mark.xla

TOLERANCE = {"f4": 1e-4, "c8": 1e-4, "f8": 1e-12, "c16": 1e-12, "f2": 2e-2, "bfloat16": 1e-1}


def random(rng: Any, name: str, *shape: int) -> Any:
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if name.startswith("c") else x


def as_dtype(name: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


@pytest.mark.parametrize("name", TOLERANCE)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_cholesky_reads_the_lower_triangle(
    run: Any, rng: Any, name: str, batch: tuple[int, ...]
) -> None:
    a = random(rng, name, *batch, 5, 5)
    positive = a @ np.conj(np.swapaxes(a, -1, -2)) + 5 * np.eye(5)
    with_junk = np.where(np.tri(5, dtype=bool), positive, np.nan).astype(as_dtype(name))
    (factor,) = run(lambda x: [ops.cholesky(x)], with_junk)
    assert factor.dtype == as_dtype(name)
    assert not np.triu(factor.astype("c16"), 1).any()
    wanted = np.linalg.cholesky(positive)
    np.testing.assert_allclose(
        factor.astype("c16"), wanted, rtol=TOLERANCE[name], atol=TOLERANCE[name]
    )


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_cholesky_that_fails_is_nan_for_that_matrix_alone(run: Any, dtype: str) -> None:
    matrices = np.stack([np.eye(3), -np.eye(3), 4 * np.eye(3)]).astype(dtype)
    (factor,) = run(lambda x: [ops.cholesky(x)], matrices)
    np.testing.assert_array_equal(factor[0], np.eye(3))
    np.testing.assert_array_equal(factor[2], 2 * np.eye(3))
    assert np.isnan(factor[1][np.tri(3, dtype=bool)]).all()
    assert not factor[1][~np.tri(3, dtype=bool)].any()


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_linalg_of_nothing(run: Any, shape: tuple[int, ...]) -> None:
    empty = np.zeros(shape)
    factor, solved = run(lambda x: [ops.cholesky(x), solve(x, x)], empty)
    assert factor.shape == solved.shape == shape


def solve(a: Any, x: Any, **changed: Any) -> Any:
    params = {
        "left_side": True,
        "lower": True,
        "unit_diagonal": False,
        "transpose_a": "NO_TRANSPOSE",
    }
    return ops.triangular_solve(a, x, **{**params, **changed})


@pytest.mark.parametrize("name", TOLERANCE)
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_triangular_solve_in_all_its_ways(
    run: Any, rng: Any, name: str, transpose: str, batch: tuple[int, ...]
) -> None:
    ways = [
        {"left_side": left, "lower": lower, "unit_diagonal": unit, "transpose_a": transpose}
        for left in (True, False)
        for lower in (True, False)
        for unit in (True, False)
    ]
    a = (0.2 * random(rng, name, *batch, 4, 4) + 2 * np.eye(4)).astype(as_dtype(name))
    x = random(rng, name, *batch, 4, 4).astype(as_dtype(name))
    solutions = run(lambda a, x: [solve(a, x, **way) for way in ways], a, x)
    for way, solution in zip(ways, solutions, strict=True):
        matrix = (np.tril if way["lower"] else np.triu)(a.astype("c16"))
        if way["unit_diagonal"]:
            matrix[..., np.arange(4), np.arange(4)] = 1
        if transpose != "NO_TRANSPOSE":
            matrix = np.swapaxes(matrix, -1, -2)
        if transpose == "ADJOINT":
            matrix = matrix.conj()
        found = solution.astype("c16")
        back = matrix @ found if way["left_side"] else found @ matrix
        assert solution.dtype == as_dtype(name)
        np.testing.assert_allclose(
            back, x.astype("c16"), rtol=TOLERANCE[name], atol=TOLERANCE[name], err_msg=str(way)
        )


def test_the_other_triangle_is_not_read(run: Any) -> None:
    a = np.array([[2.0, np.nan], [1.0, 4.0]])
    (solution,) = run(lambda a, x: [solve(a, x)], a, np.array([[2.0], [9.0]]))
    np.testing.assert_array_equal(solution, [[1.0], [2.0]])


def dot(x: Any, y: Any) -> Any:
    return [
        ops.dot_general(
            x, y, lhs_batch=(), rhs_batch=(), lhs_contracting=(1,), rhs_contracting=(0,)
        )
    ]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "i8", "u8"])
def test_integer_products_are_exact_and_wrap(run: Any, rng: Any, dtype: str) -> None:
    info = np.iinfo(dtype)
    x, y = (
        rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        for shape in ((3, 40), (40, 2))
    )
    (product,) = run(dot, x, y)
    np.testing.assert_array_equal(product, x @ y)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_products_accumulate_wide(run: Any, dtype: Any) -> None:
    """A narrow running sum of ones would stop at 2048 or at 256."""
    x, y = np.ones((2, 4096), dtype), np.ones((4096, 2), dtype)
    (product,) = run(dot, x, y)
    np.testing.assert_array_equal(product.astype("f8"), np.full((2, 2), 4096))


def test_float32_products_keep_full_precision(run: Any, rng: Any) -> None:
    x, y = rng.standard_normal((2, 64, 64)).astype(np.float32)
    (product,) = run(dot, x, y)
    wanted = x.astype("f8") @ y.astype("f8")
    assert np.abs(product - wanted).max() < 1e-5


SPECIAL = [0.0, np.nan, -1.0, -0.0, np.inf, -np.nan, 3.0, -np.inf, 0.0, 3.0]
FLOATS = ["f2", "f4", "f8", "bfloat16"]


@pytest.mark.parametrize("name", FLOATS)
def test_sort_is_stable_with_nan_last_and_one_zero(run: Any, name: str) -> None:
    x = np.array(SPECIAL).astype(as_dtype(name))
    places = np.arange(len(x), dtype=np.int32)
    values, order = run(
        lambda x, i: ops.sort(x, i, dimension=0, num_keys=1, is_stable=True), x, places
    )
    np.testing.assert_array_equal(order, np.argsort(x.astype("f8"), kind="stable"))
    np.testing.assert_array_equal(values.astype("f8"), np.sort(x.astype("f8")))


@pytest.mark.parametrize("name", FLOATS)
def test_top_k_has_nan_first_and_ties_by_index(run: Any, name: str) -> None:
    x = np.array(SPECIAL).astype(as_dtype(name))
    values, indices = run(lambda x: ops.top_k(x, k=len(SPECIAL)), x)
    np.testing.assert_array_equal(indices, [1, 5, 4, 6, 9, 0, 3, 8, 2, 7])
    np.testing.assert_array_equal(values.astype("f8"), x[indices].astype("f8"))


@pytest.mark.parametrize("k", [0, 1, 4])
def test_top_k_of_rows(run: Any, rng: Any, k: int) -> None:
    x = rng.permutation(24).reshape(2, 3, 4).astype(np.int64)
    values, indices = run(lambda x: ops.top_k(x, k=k), x)
    np.testing.assert_array_equal(values, -np.sort(-x, -1)[..., :k])
    np.testing.assert_array_equal(np.take_along_axis(x, indices, -1), values)


def test_long_cumulative_sums_take_a_linear_number_of_steps(run: Any) -> None:
    """A quadratic lowering would take minutes here."""
    x = np.ones(1_000_000, np.float32)
    forward, backward = run(
        lambda x: [ops.cumulative_add(x, axis=0, reverse=way) for way in (False, True)], x
    )
    np.testing.assert_array_equal(forward, np.arange(1, len(x) + 1))
    np.testing.assert_array_equal(backward, forward[::-1])
