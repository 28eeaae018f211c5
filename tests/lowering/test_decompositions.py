"""LAPACK's decompositions and the Fourier transform through XLA: batches, dtypes, failures."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tracer import lowering, ops
from tracer.errors import LoweringError
from tracer.ir import Builder, Graph, ShapeDtype

BATCHES = [(), (2, 3), (0,)]
DTYPES = {"f4": 1e-4, "f8": 1e-11, "c8": 1e-4, "c16": 1e-11, "f2": 3e-2}
VECTORS = {"compute_vectors": True}


def random(rng: Any, name: str, *shape: int) -> Any:
    x = rng.standard_normal(shape)
    wanted = np.dtype(name)
    return (x + 1j * rng.standard_normal(shape) if wanted.kind == "c" else x).astype(wanted)


def adjoint(x: Any) -> Any:
    return np.swapaxes(x, -1, -2).conj()


def close(found: Any, wanted: Any, name: str) -> None:
    wide = np.complex128
    np.testing.assert_allclose(
        found.astype(wide), wanted.astype(wide), rtol=DTYPES[name], atol=10 * DTYPES[name]
    )


@pytest.mark.xla
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (1, 1), (0, 2), (2, 0)])
@pytest.mark.parametrize(
    ("name", "batch"), [("f4", ()), ("f8", (2, 3)), ("c8", (0,)), ("c16", (2,)), ("f2", (3,))]
)
def test_factors_multiply_to_the_matrix(
    run: Any, rng: Any, name: str, batch: tuple[int, ...], shape: tuple[int, int]
) -> None:
    a = random(rng, name, *batch, *shape)
    full = {"full_matrices": True}
    packed, pivots, rows, q, r, q_full, r_full, u, s, vh, u_full, _, vh_full, values = run(
        lambda x: [
            *ops.lu(x),
            *ops.qr(x, full_matrices=False),
            *ops.qr(x, **full),
            *ops.svd(x, full_matrices=False, **VECTORS),
            *ops.svd(x, **full, **VECTORS),
            ops.svd(x, full_matrices=False, compute_vectors=False),
        ],
        a,
    )
    m, n = shape
    k = min(shape)
    lower = np.tril(packed[..., :k], -1) + np.eye(m, k, dtype=packed.dtype)
    permuted = np.take_along_axis(a, rows[..., None], -2)
    close(lower @ np.triu(packed[..., :k, :]), permuted, name)
    assert pivots.shape == (*batch, k)
    assert (pivots >= np.arange(k)).all()
    close(q @ r, a, name)
    close(q_full @ r_full, a, name)
    close((u * s[..., None, :].astype(a.dtype)) @ vh, a, name)
    close(adjoint(u_full) @ u_full, np.broadcast_to(np.eye(m), (*batch, m, m)), name)
    close(adjoint(vh_full) @ vh_full, np.broadcast_to(np.eye(n), (*batch, n, n)), name)
    close(values, s, name)


@pytest.mark.xla
@pytest.mark.parametrize("n", [4, 1, 0])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", ["f4", "f8", "c8", "c16"])
def test_eigenvectors_are_scaled_by_the_matrix(
    run: Any, rng: Any, name: str, batch: tuple[int, ...], n: int
) -> None:
    a = random(rng, name, *batch, n, n)
    junk = np.where(np.tri(n, dtype=bool), a + adjoint(a), np.nan).astype(a.dtype)
    w, v, values, general, right, alone = run(
        lambda x, y: [
            *ops.eigh(x, **VECTORS),
            ops.eigh(x, compute_vectors=False),
            *ops.eig(y, **VECTORS),
            ops.eig(y, compute_vectors=False),
        ],
        junk,
        a,
    )
    hermitian = (a + adjoint(a)).astype(v.dtype)
    close(hermitian @ v, v * w[..., None, :].astype(v.dtype), name)
    close(values, w, name)
    close(a.astype(right.dtype) @ right, right * general[..., None, :], name)
    close(np.prod(alone, -1), np.prod(general, -1), name)


@pytest.mark.xla
@pytest.mark.parametrize("n", [5, 1, 0])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", list(DTYPES))
def test_schur_factors(run: Any, rng: Any, name: str, batch: tuple[int, ...], n: int) -> None:
    a = random(rng, name, *batch, n, n)
    form, vectors, alone = run(
        lambda x: [*ops.schur(x, **VECTORS), ops.schur(x, compute_vectors=False)], a
    )
    assert form.dtype == vectors.dtype == alone.dtype == a.dtype
    close(vectors @ form @ adjoint(vectors), a, name)
    close(vectors @ adjoint(vectors), np.broadcast_to(np.eye(n), a.shape), name)
    close(np.trace(alone, axis1=-2, axis2=-1), np.trace(form, axis1=-2, axis2=-1), name)
    below = np.tril(form, -1 if a.dtype.kind == "c" else -2)
    assert not below.any()
    if a.dtype.kind != "c":  # no two blocks touch
        is_block = np.diagonal(form, -1, -2, -1) != 0
        assert not (is_block[..., 1:] & is_block[..., :-1]).any()


@pytest.mark.xla
def test_a_matrix_that_fails_is_nan_alone(run: Any) -> None:
    a = np.stack([np.eye(3), np.full((3, 3), np.nan), 2 * np.eye(3)])
    found = run(
        lambda x: [
            *ops.eig(x, **VECTORS),
            *ops.schur(x, **VECTORS),
            *ops.svd(x, full_matrices=False, **VECTORS),
            ops.svd(x, full_matrices=False, compute_vectors=False),
            ops.eigh(x, compute_vectors=False),
        ],
        a,
    )
    for result in found:
        assert np.isfinite(result[[0, 2]]).all()
        assert np.isnan(result[1]).any()


@pytest.mark.xla
def test_long_permutations(run: Any, rng: Any) -> None:
    a = rng.standard_normal((2, 300, 300))
    packed, _, rows = run(lambda x: [*ops.lu(x)], a)
    lower = np.tril(packed, -1) + np.eye(300)
    np.testing.assert_allclose(
        lower @ np.triu(packed), np.take_along_axis(a, rows[..., None], -2), atol=1e-10
    )


@pytest.mark.xla
@pytest.mark.parametrize("name", ["c8", "c16"])
@pytest.mark.parametrize("lengths", [(8,), (7,), (1,), (4, 5), (3, 2, 5)])
def test_fourier_transforms(run: Any, rng: Any, name: str, lengths: tuple[int, ...]) -> None:
    x = random(rng, name, 2, *lengths)
    real = np.ascontiguousarray(x.real)
    axes = tuple(range(1, x.ndim))
    forward, backward, half, whole = run(
        lambda x, y: [
            ops.fft(x, kind="FFT", lengths=lengths),
            ops.fft(x, kind="IFFT", lengths=lengths),
            ops.fft(y, kind="RFFT", lengths=lengths),
            ops.fft(ops.fft(y, kind="RFFT", lengths=lengths), kind="IRFFT", lengths=lengths),
        ],
        x,
        real,
    )
    close(forward, np.fft.fftn(x, axes=axes), name)
    close(backward, np.fft.ifftn(x, axes=axes), name)
    close(half, np.fft.rfftn(real, axes=axes), name)
    close(whole, real, name)
    assert forward.dtype == half.dtype == x.dtype


def graph_of(build: Any, type: ShapeDtype) -> Graph:
    with Builder() as builder:
        found = build(builder.input(type))
        return builder.finish(found if isinstance(found, tuple) else [found])


_ON_GPU = {
    "cholesky": "cusolver_potrf_ffi",
    "lu": "cusolver_getrf_ffi",
    "qr": "cusolver_orgqr_ffi",
    "eigh": "cusolver_syevd_ffi",
    "svd": "cusolver_gesvd_ffi",
}
_ON_TPU = {"lu": "LuDecomposition", "qr": "ProductOfElementary", "eigh": "Eigh"}
_PARAMS: dict[str, dict[str, bool]] = {
    "qr": {"full_matrices": False},
    "eigh": VECTORS,
    "eig": VECTORS,
    "schur": VECTORS,
    "svd": {"full_matrices": False, **VECTORS},
}


def lowered(name: str, platform: str, dtype: str = "float32") -> str:
    type = ShapeDtype((3, 3), dtype)
    graph = graph_of(lambda x: getattr(ops, name)(x, **_PARAMS.get(name, {})), type)
    return str(lowering.emit.module.lower_graph(graph, platform))


@pytest.mark.parametrize(("name", "target"), _ON_GPU.items())
def test_gpus_call_cusolver(name: str, target: str) -> None:
    assert target in lowered(name, "gpu", "float64")


def test_gpus_take_many_small_matrices_by_jacobi_and_order_rows_by_a_kernel() -> None:
    def text(build: Any, shape: tuple[int, ...], dtype: str = "complex64") -> str:
        graph = graph_of(build, ShapeDtype(shape, dtype))
        return str(lowering.emit.module.lower_graph(graph, "gpu"))

    for vectors in (False, True):
        flags = {"full_matrices": False, "compute_vectors": vectors}
        assert "gesvdj" in text(lambda x, f=flags: ops.svd(x, **f), (5, 7, 4))
        assert "gesvdj" not in text(lambda x, f=flags: ops.svd(x, **f), (1, 7, 4))
        assert "gesvdj" not in text(lambda x, f=flags: ops.svd(x, **f), (5, 7, 33))
    ordered = text(lambda x: ops.pivots_to_permutation(x, size=9), (5, 4), "int32")
    assert "cu_lu_pivots_to_permutation" in ordered
    assert "while" not in ordered


@pytest.mark.parametrize(("name", "target"), _ON_TPU.items())
def test_tpus_call_what_their_compiler_brings(name: str, target: str) -> None:
    assert target in lowered(name, "tpu")


@pytest.mark.parametrize(
    ("name", "platform", "dtype"),
    [
        ("eig", "gpu", "float32"),
        ("eig", "tpu", "float32"),
        ("schur", "gpu", "float32"),
        ("schur", "tpu", "float32"),
        ("svd", "tpu", "float32"),
        ("lu", "tpu", "float64"),
        ("eigh", "tpu", "complex128"),
    ],
)
def test_other_devices_refuse_by_name(name: str, platform: str, dtype: str) -> None:
    with pytest.raises(LoweringError, match=rf"no {name} on a|{name} of {dtype} does not run"):
        lowered(name, platform, dtype)


def test_tpus_refuse_wide_fourier_transforms() -> None:
    type = ShapeDtype((8,), "complex128")
    graph = graph_of(lambda x: ops.fft(x, kind="FFT", lengths=(8,)), type)
    with pytest.raises(LoweringError, match="complex128 on a TPU"):
        lowering.emit.module.lower_graph(graph, "tpu")


@pytest.mark.xla
def test_workspaces_are_counted() -> None:
    type = ShapeDtype((700, 700), "float64")

    def scratch(build: Any) -> int:
        memory = lowering.compile_graph(graph_of(build, type)).memory
        assert memory.scratch_bytes is not None
        return memory.scratch_bytes

    values = scratch(lambda x: ops.svd(x, full_matrices=False, compute_vectors=False))
    vectors = scratch(lambda x: ops.svd(x, full_matrices=False, compute_vectors=True))
    assert vectors - values == 4 * type.nbytes
    assert scratch(lambda x: ops.eigh(x, compute_vectors=False)) == values
    assert scratch(lambda x: ops.eigh(x, compute_vectors=True)) - values == 2 * type.nbytes
    schur = [scratch(lambda x, v=v: ops.schur(x, compute_vectors=v)) for v in (False, True)]
    assert schur[1] - schur[0] == type.nbytes


@pytest.mark.xla
def test_singular_values_alone_store_no_vectors() -> None:
    type = ShapeDtype((300, 300), "float64")
    graph = graph_of(lambda x: ops.svd(x, full_matrices=False, compute_vectors=False), type)
    assert lowering.compile_graph(graph).memory.temporary_bytes < 1.1 * type.nbytes


@pytest.mark.xla
@pytest.mark.skipif(lowering.shims.VERSION < (0, 10), reason="batches run in the kernel there")
def test_no_kernel_waits_for_threads_that_wait_for_it() -> None:
    """A batch in one LAPACK call blocks a thread of XLA's pool; two of them block two threads."""

    def build(x: Any) -> Any:
        return (*ops.lu(x), ops.cholesky(x), *ops.eigh(x, **VECTORS), *ops.eig(x, **VECTORS))

    text = lowering.compile_graph(graph_of(build, ShapeDtype((2, 5, 3, 3), "float64"))).hlo()
    calls = [line for line in text.splitlines() if 'custom_call_target="lapack_' in line]
    assert len(calls) == 4
    for call in calls:
        result = call.split(" custom-call(")[0]
        assert "[3,3]" in result
        assert not re.search(r"\[(10|2,5),", result)
