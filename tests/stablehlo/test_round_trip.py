"""Programs of ours come back from their own StableHLO unchanged in value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from benchmarks.framework import tracer_framework
from benchmarks.gradient_programs import PROGRAMS
from benchmarks.programs import WORKLOADS
from tests.sampling import one_in

pytestmark = pytest.mark.xla


def assert_comes_back(
    function: Callable[..., Any], arguments: tuple[Any, ...], **options: Any
) -> str:
    compiled = tracer.compile(function, **options)
    wanted = tracer.tree.leaves(compiled(*arguments))
    text = compiled.stablehlo(*arguments)
    again = tracer.from_stablehlo(text)
    found = tracer.compile(again)(*tracer.tree.leaves(arguments))
    found = found if isinstance(found, tuple) else (found,)
    assert len(found) == len(wanted) > 0
    for x, y in zip(found, wanted, strict=True):
        assert x.type is y.type
        if x.dtype.kind in "biu":
            np.testing.assert_array_equal(x, y)
        else:
            # Of each result by itself: no element may hide behind a larger one elsewhere.
            digits = float(ml_dtypes.finfo(x.dtype).eps)
            wide = np.complex128 if x.dtype.kind == "c" else np.float64
            x, y = (np.asarray(array).astype(wide) for array in (x, y))
            scale = np.abs(y[np.isfinite(y)]).max(initial=0)
            np.testing.assert_allclose(x, y, rtol=50 * digits, atol=50 * digits * scale)
    return text


@pytest.mark.parametrize("name", one_in(3, WORKLOADS))
def test_programs_of_the_benchmark(name: str) -> None:
    workload = WORKLOADS[name]
    shape = {k: max(8, n // 40) if n > 64 else n for k, n in workload.sizes["small"].shape.items()}
    arguments = workload.inputs(np.random.default_rng(0), **shape)
    assert_comes_back(workload.program(tracer_framework()), arguments)


@pytest.mark.parametrize("name", one_in(3, PROGRAMS))
@pytest.mark.parametrize("what", ["loss", "derivative_of"])
def test_gradient_programs(name: str, what: str) -> None:
    program = PROGRAMS[name]
    arguments = program.inputs(np.random.default_rng(7), min(program.size, 25))
    assert_comes_back(getattr(program, what)(tracer_framework()), arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "share"), [("kernel", 3), ("attention gradient", 3), ("10 neighbours, L2", 6)]
)
def test_programs_in_slices(name: str, share: int) -> None:
    """What a limit made of them: loops over slices."""
    workload = WORKLOADS[name]
    shape = {k: max(8, n // 4) if n > 64 else n for k, n in workload.sizes["small"].shape.items()}
    arguments = workload.inputs(np.random.default_rng(0), **shape)
    function = workload.program(tracer_framework())
    limit = tracer.compile(function).plan(*arguments).baseline_peak_bytes // share
    assert "stablehlo.while" in assert_comes_back(function, arguments, memory_limit=limit)


MATRIX = np.random.default_rng(0).normal(size=(5, 5))
TALL = np.random.default_rng(1).normal(size=(3, 6, 4))
SYMMETRIC = MATRIX @ MATRIX.T + np.eye(5)
LINE = np.array([2.0, np.nan, -0.0, 0.0, -np.inf, 7.0, 2.0])
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "qr": (tnp.linalg.qr, (MATRIX,)),
    "qr of tall matrices": (tnp.linalg.qr, (TALL,)),
    "qr, whole": (lambda a: tnp.linalg.qr(a, mode="complete"), (TALL[0],)),
    "qr of a wide matrix": (tnp.linalg.qr, (TALL[0].T,)),
    "qr, complex": (tnp.linalg.qr, (MATRIX[:, :3] + 1j * MATRIX[:, 1:4],)),
    "svd": (tnp.linalg.svd, (MATRIX,)),
    "svd, values only": (lambda a: tnp.linalg.svd(a, compute_uv=False), (TALL,)),
    "eigh": (tnp.linalg.eigh, (SYMMETRIC,)),
    "eigvalsh": (tnp.linalg.eigvalsh, (SYMMETRIC,)),
    "eig": (tnp.linalg.eig, (MATRIX,)),
    "eigvals": (tnp.linalg.eigvals, (MATRIX,)),
    "solve": (tnp.linalg.solve, (MATRIX, MATRIX[:, :2])),
    "determinant": (tnp.linalg.slogdet, (TALL[:, :4],)),
    "cholesky, complex": (
        tnp.linalg.cholesky,
        ((MATRIX + 1j * MATRIX.T) @ (MATRIX + 1j * MATRIX.T).conj().T + np.eye(5),),
    ),
    "cholesky of none": (lambda a: tnp.linalg.cholesky(-a), (SYMMETRIC,)),
    "fft": (tnp.fft.fft2, (MATRIX,)),
    "irfft": (tnp.fft.irfft, (MATRIX + 1j,)),
    "sort": (tnp.sort, (LINE,)),
    "argsort": (tnp.argsort, (LINE,)),
    "sort, complex": (tnp.sort, (MATRIX.round(0)[0] + 1j * MATRIX[1],)),
    "argmax": (tnp.argmax, (LINE,)),
    "argmin, long": (tnp.argmin, (np.tile(LINE, 40_000),)),
    "nanmax": (tnp.nanmax, (LINE,)),
    "median": (tnp.median, (MATRIX,)),
    "cumsum": (lambda x: tnp.cumsum(x, 1), (MATRIX,)),
    "scatter": (lambda x: x.at[tnp.array([0, 0, 9])].add(1.0), (LINE,)),
    "unique": (lambda x: tnp.searchsorted(x, x), (np.sort(MATRIX.ravel()),)),
    "round": (tnp.round, (MATRIX * 5,)),
    "bits": (tnp.bitwise_count, (np.arange(-5, 5),)),
    "bfloat16": (lambda x: x.astype("bfloat16") * 3 + 0.5, (MATRIX,)),
    "complex constants": (lambda x: x * np.array([1 + 2j, 3j, 0, 1, 1]), (MATRIX,)),
    "random": (lambda x: x + tracer.random.normal(tracer.random.key(3), (5,)), (MATRIX,)),
}


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    function, arguments = CASES[name]
    assert_comes_back(lambda *args: tuple(tracer.tree.leaves(function(*args))), arguments)
