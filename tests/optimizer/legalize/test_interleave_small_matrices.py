"""Many small matrices side by side: values, what is not read, and what fails as in LAPACK."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
import tracer.scipy.linalg as sla
from tests.optimizer.graphs import apply, evaluated
from tracer import ops
from tracer.ir import Builder, Graph, ShapeDtype, as_dtype
from tracer.lowering import compile_graph, to_device, to_host
from tracer.optimizer.legalize.small_matrices import small_matrices_pass
from tracer.target import DEFAULT_TARGET, accelerator

PASS = small_matrices_pass(DEFAULT_TARGET)
OFF = "-interleave-small-matrices"
LEAST = DEFAULT_TARGET.interleaving.least_count
COUNTS = [LEAST, 300, 521, (3, 100), (1, LEAST, 1)]
DIGITS = {"float16": 3e-3, "bfloat16": 3e-2, "float32": 1e-4, "float64": 1e-11}


def shaped(count: Any, *matrix: int) -> tuple[int, ...]:
    return (*(count if isinstance(count, tuple) else (count,)), *matrix)


def matrices(count: Any, rows: int, columns: int, dtype: str = "float64", seed: int = 0) -> Any:
    x = np.random.default_rng(seed).standard_normal(shaped(count, rows, columns))
    return x.astype(as_dtype(dtype))


def definite(count: Any, n: int, dtype: str = "float64") -> Any:
    x = matrices(count, n, 2 * n)
    return (x @ np.swapaxes(x, -1, -2) / n + np.eye(n)).astype(as_dtype(dtype))


def graph_of(op: Any, *arrays: Any, **params: Any) -> Graph:
    with Builder() as builder:
        found = op(*(builder.input(ShapeDtype(x.shape, x.dtype)) for x in arrays), **params)
        return builder.finish(found if isinstance(found, tuple) else [found])


def both(op: Any, *arrays: Any, **params: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Return results as the op says, as they are written, interpreted and compiled."""
    before = graph_of(op, *arrays, **params)
    after, log = apply(PASS, before)
    assert log.applied
    compiled = [to_host(x) for x in compile_graph(after)(*map(to_device, arrays))]
    return evaluated(before, *arrays), evaluated(after, *arrays), compiled


def assert_close(found: Any, wanted: Any, dtype: str) -> None:
    assert found.dtype == wanted.dtype
    found, wanted = (x.astype("f8") for x in (found, wanted))
    scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1)
    np.testing.assert_allclose(found, wanted, rtol=DIGITS[dtype], atol=DIGITS[dtype] * scale)


@pytest.mark.xla
@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("count", COUNTS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_cholesky(n: int, count: Any, dtype: str) -> None:
    x = definite(count, n, dtype)
    # The upper triangle is not read.
    x[..., *np.triu_indices(n, 1)] = np.nan
    x.reshape(-1, n, n)[7, n - 1, n - 1] = -1  # It is not definite, the last pivot is not positive.
    x.reshape(-1, n, n)[9, 0, 0] = 0
    (wanted,), *others = both(ops.cholesky, x)
    assert np.isnan(wanted.astype("f8")).any()
    for (found,) in others:
        assert_close(found, wanted, dtype)


SYSTEMS = [
    (left, lower, unit, turned)
    for left in (True, False)
    for lower in (True, False)
    for unit in (True, False)
    for turned in ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
]


@pytest.mark.xla
@pytest.mark.parametrize(("left", "lower", "unit", "turned"), SYSTEMS)
def test_triangular_systems(left: bool, lower: bool, unit: bool, turned: str) -> None:
    n, many, count = 5, 3, 300
    a = matrices(count, n, n) / 3 + 2 * np.eye(n)
    # Neither the other triangle nor a unit diagonal is read.
    other = np.triu_indices(n, 1) if lower else np.tril_indices(n, -1)
    a[..., *other] = np.nan
    if unit:
        a[..., np.arange(n), np.arange(n)] = 7
    x = matrices(count, *((n, many) if left else (many, n)), seed=1)
    params = {"left_side": left, "lower": lower, "unit_diagonal": unit, "transpose_a": turned}
    (wanted,), *others = both(ops.triangular_solve, a, x, **params)
    assert np.isfinite(wanted).all()
    for (found,) in others:
        assert_close(found, wanted, "float64")


@pytest.mark.xla
@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize(("n", "many", "count"), [(1, 1, 300), (3, 0, 300), (2, 9, (2, 200))])
def test_triangular_shapes(n: int, many: int, count: Any, dtype: str) -> None:
    a = (np.tril(matrices(count, n, n)) + 3 * np.eye(n)).astype(as_dtype(dtype))
    x = matrices(count, n, many, dtype, 1)
    params = {"left_side": True, "lower": True, "unit_diagonal": False}
    params["transpose_a"] = "NO_TRANSPOSE"
    if not many:
        assert not apply(PASS, graph_of(ops.triangular_solve, a, x, **params))[1].applied
        return
    (wanted,), *others = both(ops.triangular_solve, a, x, **params)
    for (found,) in others:
        assert_close(found, wanted, dtype)


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", COUNTS, ids=str)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 2), (3, 3), (8, 8), (3, 5), (6, 2)])
def test_lu(rows: int, columns: int, count: Any, dtype: str) -> None:
    x = matrices(count, rows, columns, dtype)
    flat = x.reshape(-1, rows, columns)
    flat[3] = 0
    flat[4] = np.round(flat[4])  # Pivots of one size: the first is taken.
    flat[5, :, 0] = 0
    flat[6] = -1
    wanted, *others = both(ops.lu, x)
    for found in others:
        assert_close(found[0], wanted[0], dtype)
        for one, other in zip(found[1:], wanted[1:], strict=True):
            np.testing.assert_array_equal(one, other)


def test_no_element_that_is_not_finite_spreads_to_other_matrices() -> None:
    x = matrices(300, 4, 4)
    x[5, 2, 1], x[6, 0, 0], x[7] = np.nan, np.inf, np.nan
    for op, a in ((ops.lu, x), (ops.cholesky, x @ np.swapaxes(x, -1, -2) + np.eye(4))):
        before = graph_of(op, a)
        found, wanted = (evaluated(g, a)[0] for g in (apply(PASS, before)[0], before))
        kept = [i for i in range(300) if i not in (5, 6, 7)]
        assert_close(found[kept], wanted[kept], "float64")


@pytest.mark.parametrize(
    ("graph", "is_written"),
    [
        (graph_of(ops.cholesky, matrices(LEAST, 3, 3)), True),
        (graph_of(ops.cholesky, matrices(LEAST - 1, 3, 3)), False),
        (graph_of(ops.cholesky, matrices(LEAST, 12, 12)), False),
        (graph_of(ops.lu, matrices(LEAST, 16, 16, "float32")), True),
        (graph_of(ops.lu, matrices(LEAST, 17, 17, "float32")), False),
        (graph_of(ops.lu, matrices(LEAST, 3, 3).astype(complex)), False),
        (graph_of(ops.lu, matrices(LEAST, 0, 0)), False),
        (graph_of(ops.lu, matrices((0, 9), 3, 3)), False),
    ],
)
def test_what_is_written(graph: Graph, is_written: bool) -> None:
    assert bool(apply(PASS, graph)[1].applied) == is_written


def test_other_platforms_have_batches() -> None:
    graph = graph_of(ops.lu, matrices(1000, 3, 3))
    assert apply(small_matrices_pass(accelerator("gpu", "NVIDIA H100")), graph)[0] is graph


def test_chunks_are_as_large_as_the_target_says() -> None:
    rules = replace(DEFAULT_TARGET.interleaving, largest_chunk=100)
    target = replace(DEFAULT_TARGET, interleaving=rules)
    _, log = apply(small_matrices_pass(target), graph_of(ops.lu, matrices(500, 3, 3)))
    assert log.applied == ["lu of float64[500,3,3], 100 at a time"]


def kalman(x: Any) -> Any:
    """Filter many series of two numbers at once."""
    f, h = np.array([[1, 0.1], [0, 1]]), np.eye(2)

    def step(state: Any, y: Any) -> Any:
        m, p = state
        m, p = m @ f.T, f @ p @ f.T + 0.1 * np.eye(2)
        s = h @ p @ h.T + np.eye(2)
        gain = tnp.linalg.solve(s, h @ p).swapaxes(-1, -2)
        m = m + (gain @ (y - m @ h.T)[..., None])[..., 0]
        return (m, p - gain @ s @ gain.swapaxes(-1, -2)), tnp.linalg.slogdet(s)[1]

    start = tnp.zeros(x.shape[1:]), tnp.broadcast_to(tnp.eye(2), (x.shape[1], 2, 2))
    return tracer.scan(step, start, x)[1].sum()


def mixture(x: Any) -> Any:
    """Evaluate densities of many covariances."""
    factor = tnp.linalg.cholesky(x @ x.swapaxes(-1, -2) + tnp.eye(x.shape[-1]))
    y = sla.solve_triangular(factor, x[..., :1], lower=True)
    log = tnp.log(tnp.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)
    return tracer.nn.logsumexp(-0.5 * (y[..., 0] ** 2).sum(-1) - log)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "kalman": (kalman, (6, 300, 2)),
    "mixture": (mixture, (300, 3, 3)),
    "inverse": (lambda x: (tnp.linalg.inv(x) ** 2).sum(), (400, 3, 3)),
    "determinant": (lambda x: tnp.log(tnp.abs(tnp.linalg.det(x))).sum(), (400, 4, 4)),
    "vmap": (
        lambda x: tracer.vmap(lambda a: tnp.linalg.solve(a + 3 * tnp.eye(3), a[0]))(x).sum(),
        (270, 3, 3),
    ),
}


@pytest.mark.xla
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_and_their_gradients(name: str) -> None:
    program, shape = PROGRAMS[name]
    x = np.random.default_rng(0).standard_normal(shape)
    direction = np.random.default_rng(1).standard_normal(shape)
    with_it, plain = tracer.compile(program), tracer.compile(program, passes=OFF)
    assert "interleave small matrices" in {row.name for row in with_it.plan(x).passes}
    np.testing.assert_allclose(with_it(x), plain(x), rtol=1e-9)
    slope = tracer.compile(tracer.grad(program))(x)
    np.testing.assert_allclose(
        slope, tracer.compile(tracer.grad(program), passes=OFF)(x), rtol=1e-6, atol=1e-8
    )
    step = 1e-6
    ahead, behind = (with_it(x + sign * step * direction) for sign in (1, -1))
    along = (np.asarray(slope) * direction).sum()
    np.testing.assert_allclose((ahead - behind) / (2 * step), along, rtol=2e-4, atol=1e-4)


@pytest.mark.xla
def test_memory_is_what_was_predicted() -> None:
    x = matrices(20_000, 4, 4) + 3 * np.eye(4)
    limit = 3 * x.nbytes
    for program in (tnp.linalg.inv, lambda x: ops_lu(x), lambda x: tnp.linalg.cholesky(x)):
        plan = tracer.compile(program, memory_limit=limit).plan(x)
        assert plan.compiled_bytes <= limit
        assert "interleave small matrices" in {row.name for row in plan.passes}


def ops_lu(x: Any) -> Any:
    return sla.lu_factor(x)
