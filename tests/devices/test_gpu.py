"""On a GPU: values, memory by the device's own counter, decompositions. Skipped without one.

The whole numerical suite runs there with `TRACER_DEVICE=gpu:0 python -m pytest`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from benchmarks.device_programs import PROGRAMS, inputs_of
from tracer.errors import DeviceError, OutOfMemoryError
from tracer.units import parse_bytes

pytestmark = [pytest.mark.gpu, pytest.mark.xla]
ROOT = Path(__file__).parent.parent.parent
# In float32 the CPU's own gradient is 5 percent of the largest from that in float64.
ILL_CONDITIONED = ("SGPR gradient",)
QUICK = ["kernel product", "nearest neighbours", "SGPR bound", "attention"]
_MEASURE = """
import json, sys, tracer
from benchmarks.device_programs import PROGRAMS, inputs_of
name = sys.argv[1]
program = PROGRAMS[name]
f = tracer.compile(program.function, memory_limit=program.limit, device="gpu:0")
inputs = tracer.device_put(inputs_of(name), "gpu:0")
plan = f.plan(*inputs)
raw = tracer.lowering.find_device("gpu:0").raw
before = raw.memory_stats()["bytes_in_use"]
for leaf in tracer.tree.leaves(f(*inputs)):
    leaf.block_until_ready()
peak = raw.memory_stats()["peak_bytes_in_use"]
arguments = sum(leaf.nbytes for leaf in tracer.tree.leaves(inputs))
print(json.dumps([peak - before + arguments, plan.limit_bytes, plan.compiled_bytes]))
"""

_OURS = """
import numpy, tracer, tracer.numpy as tnp
x = tnp.arange(4.0, device="gpu:0")
assert numpy.array_equal(x @ x, 14)
"""
_JAX = """
import jax, jax.numpy as jnp
assert jax.devices()[0].platform == "gpu", jax.devices()
assert jnp.arange(4.0) @ jnp.arange(4.0) == 14
"""
_TORCH = """
import torch
y = torch.arange(4.0, device="cuda")
assert y @ y == 14
"""
_JAX_LIMITED = """
import jax, jax.numpy as jnp, tracer.jax
x, v = jnp.linspace(0, 1, 20_000), jnp.ones(20_000)
f = lambda x, v: jnp.exp(-((x[:, None] - x[None, :]) ** 2)) @ v
limited = tracer.jax.limit(f, memory_limit="16MB")
for device in (jax.devices()[0], jax.devices("cpu")[0]):
    a, b = jax.device_put(x[:2000], device), jax.device_put(v[:2000], device)
    found = limited(a, b)
    assert found.devices() == {device}, found.devices()
    assert jnp.allclose(found, f(a, b), rtol=1e-4)
assert jnp.allclose(limited(x, v), f(x, v), rtol=1e-4)
inside = jax.jit(jax.value_and_grad(lambda x: limited(x, v).sum()))
value, gradient = inside(x)
wanted = jax.value_and_grad(lambda x: f(x, v).sum())(x)
assert jnp.allclose(value, wanted[0], rtol=1e-4)
assert jnp.allclose(gradient, wanted[1], rtol=1e-3, atol=1e-2)
"""


def test_the_gpu_is_found_and_preferred() -> None:
    assert tracer.devices("gpu")
    assert tracer.default_device().platform in ("gpu", "tpu")
    assert str(tnp.zeros(3, device="gpu:0").device) == "gpu:0"
    assert str(tnp.zeros(3, device="cpu:0").device) == "cpu:0"


def test_arrays_go_there_and_back() -> None:
    x = tnp.arange(1000.0, device="gpu:0")
    back = (tnp.sin(x) + 1).to_device("cpu:0")
    np.testing.assert_allclose(back, np.sin(np.arange(1000.0)) + 1, rtol=1e-12)
    with pytest.raises(DeviceError, match="different devices"):
        x + tnp.ones(1000, device="cpu:0")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compute_what_the_cpu_does(name: str) -> None:
    program, inputs, limit = PROGRAMS[name], inputs_of(name), parse_bytes(PROGRAMS[name].limit)
    if name in ILL_CONDITIONED:
        inputs, limit = [np.asarray(x, "float64") for x in inputs], 2 * limit
    found = tracer.compile(program.function, memory_limit=limit, device="gpu:0")(*inputs)
    wanted = tracer.compile(program.function, memory_limit=limit, device="cpu:0")(*inputs)
    pairs = zip(tracer.tree.leaves(found), tracer.tree.leaves(wanted), strict=True)
    for got, want in pairs:
        expected = np.asarray(want)
        scale = np.abs(expected[np.isfinite(expected)]).max(initial=1e-6)
        np.testing.assert_allclose(got, expected, rtol=2e-2, atol=2e-3 * scale)


@pytest.mark.process
@pytest.mark.parametrize("name", QUICK)
def test_the_devices_counter_keeps_the_limit(name: str) -> None:
    """XLA tries no kernels while it compiles: their buffers would be in the counter's peak.

    Its memory is one region: of one that grows, pieces that are free are given out whole where they
    are up to twice as large, and counted so.
    """
    environment = {
        **os.environ, "XLA_FLAGS": "--xla_gpu_autotune_level=0",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "true", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.02",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, name],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    peak, limit, counted = json.loads(done.stdout.splitlines()[-1])
    assert counted <= limit
    assert peak <= limit


@pytest.mark.process
@pytest.mark.parametrize("parts", [(_OURS, _JAX), (_JAX, _OURS), (_JAX_LIMITED,)])
def test_jax_uses_the_same_gpu(parts: tuple[str, ...]) -> None:
    pytest.importorskip("jax")
    _run(parts)


@pytest.mark.process
@pytest.mark.parametrize("parts", [(_OURS, _TORCH), (_TORCH, _OURS)])
def test_torch_uses_the_same_gpu(parts: tuple[str, ...]) -> None:
    pytest.importorskip("torch")
    _run(parts)


def _run(parts: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", "".join(parts)],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(12, 12), (3, 12, 12)])
def test_decompositions(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> None:
    tolerance = 1e-3 if np.finfo(dtype).eps > 1e-10 else 1e-9
    a = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.standard_normal(shape)
    a = a.astype(dtype)
    x = tnp.asarray(a, device="gpu:0")
    adjoint = np.conj(np.swapaxes(a, -1, -2))

    def close(found: Any, wanted: Any) -> None:
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)

    q, r = tnp.linalg.qr(x)
    close(q @ r, a)
    u, s, vh = tnp.linalg.svd(x, full_matrices=False)
    close((u * s[..., None, :]) @ vh, a)
    values, vectors = tnp.linalg.eigh(x + tnp.conj(tnp.swapaxes(x, -1, -2)))
    close(vectors * values[..., None, :], (a + adjoint) @ np.asarray(vectors))
    close(a @ np.asarray(tnp.linalg.solve(x, x)), a)
    factor = np.asarray(tnp.linalg.cholesky(x @ tnp.conj(tnp.swapaxes(x, -1, -2)) + tnp.eye(12)))
    close(factor @ np.conj(np.swapaxes(factor, -1, -2)), a @ adjoint + np.eye(12))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(12, 5), (5, 12), (32, 32), (1, 1)])
@pytest.mark.parametrize("full", [True, False])
def test_singular_values_of_many_small_matrices(
    dtype: str, shape: tuple[int, int], full: bool, rng: np.random.Generator
) -> None:
    tolerance = 1e-4 if np.finfo(dtype).eps > 1e-10 else 1e-9
    a = rng.standard_normal((7, *shape, 2)).view(complex)[..., 0]
    a = (a if np.dtype(dtype).kind == "c" else a.real).astype(dtype)
    x = tnp.asarray(a, device="gpu:0")
    u, s, vh = map(np.asarray, tnp.linalg.svd(x, full_matrices=full))
    k = min(shape)
    wanted = np.linalg.svd(a, compute_uv=False)
    np.testing.assert_allclose(s, wanted, rtol=tolerance, atol=tolerance)
    again = (u[..., :k] * s[:, None]) @ vh[:, :k]
    np.testing.assert_allclose(again, a, rtol=tolerance, atol=10 * tolerance)
    assert u.shape[-1] == (shape[0] if full else k)
    np.testing.assert_allclose(tnp.linalg.svdvals(x), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_cholesky_reads_lower_triangles_and_marks_what_is_not_definite(
    dtype: str, rng: np.random.Generator
) -> None:
    tolerance = 1e-4 if np.finfo(dtype).eps > 1e-10 else 1e-9
    a = rng.standard_normal((3, 6, 6, 2)).view(complex)[..., 0]
    a = a if np.dtype(dtype).kind == "c" else a.real
    a = (a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(6)).astype(dtype)
    wanted = np.linalg.cholesky(a)
    spoiled = np.tril(a) + np.triu(np.ones_like(a), 1) * 7
    if np.dtype(dtype).kind == "c":
        spoiled += 0.3j * np.eye(6, dtype=dtype)
    spoiled[1, 0, 0] = -1
    factor = tracer.compile(tnp.linalg.cholesky, device="gpu:0")
    for given, batch in ((spoiled, (0, 2)), (spoiled[:1], (0,))):
        found = np.asarray(factor(given))
        for i in batch:
            np.testing.assert_allclose(found[i], wanted[i], rtol=tolerance, atol=tolerance)
    found = np.asarray(factor(spoiled))[1]
    assert np.isnan(found[np.tril_indices(6)]).all()
    assert not found[np.triu_indices(6, 1)].any()


@pytest.mark.parametrize("shape", [(9, 9), (4, 9, 9), (3, 40, 40)])
def test_solutions_and_determinants(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    a, b = rng.standard_normal(shape), rng.standard_normal((*shape[:-1], 2))
    x, y = (tnp.asarray(z, device="gpu:0") for z in (a, b))
    np.testing.assert_allclose(tnp.linalg.solve(x, y), np.linalg.solve(a, b), rtol=1e-8)
    np.testing.assert_allclose(tnp.linalg.inv(x), np.linalg.inv(a), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(tnp.linalg.det(x), np.linalg.det(a), rtol=1e-9)


def test_products_of_eight_bits(rng: np.random.Generator) -> None:
    for dtype in ("int8", "uint8"):
        for rows, inner, columns in ((3, 5, 7), (64, 300, 65), (128, 128, 128)):
            bounds = np.iinfo(dtype)
            a, b = (
                rng.integers(bounds.min, bounds.max + 1, size).astype(dtype)
                for size in ((rows, inner), (inner, columns))
            )
            x, y = (tnp.asarray(z, device="gpu:0").astype("int32") for z in (a, b))
            np.testing.assert_array_equal(x @ y, a.astype("i4") @ b.astype("i4"))
            f = tracer.compile(lambda x, y: x.astype("int32") @ y.astype("int32"), device="gpu:0")
            np.testing.assert_array_equal(f(a, b), a.astype("i4") @ b.astype("i4"))


@pytest.mark.parametrize("shape", [(12, 5), (5, 12), (40, 33)])
@pytest.mark.parametrize("full", [True, False])
def test_singular_values_of_long_matrices(
    shape: tuple[int, int], full: bool, rng: np.random.Generator
) -> None:
    a = rng.standard_normal(shape)
    x = tnp.asarray(a, device="gpu:0")
    u, s, vh = map(np.asarray, tnp.linalg.svd(x, full_matrices=full))
    k = min(shape)
    np.testing.assert_allclose((u[:, :k] * s) @ vh[:k], a, rtol=1e-9, atol=1e-9)
    values = tnp.linalg.svd(x, compute_uv=False)
    np.testing.assert_allclose(values, np.linalg.svd(a, compute_uv=False), rtol=1e-9)


def test_donated_memory_is_taken_over() -> None:
    f = tracer.compile(lambda x: x + 1, donate_argnums=0, device="gpu:0")
    x = tnp.zeros(1 << 20, device="gpu:0")
    np.testing.assert_array_equal(f(x), np.ones(1 << 20))
    with pytest.raises(tracer.DonatedArrayError):
        x.sum()


def test_too_large_for_the_device() -> None:
    f = tracer.compile(lambda x: x[:, None] * x[None, :], device="gpu:0")
    with pytest.raises(OutOfMemoryError):
        f(tnp.ones(1 << 20, device="gpu:0")).block_until_ready()


def test_automatic_limit_is_what_is_free() -> None:
    f = tracer.compile(lambda x: x + 1, memory_limit="auto", device="gpu:0")
    plan = f.plan(tracer.ShapeDtype((1000,), "float32"))
    limit = tracer.lowering.find_device("gpu:0").raw.memory_stats()["bytes_limit"]
    assert plan.limit_bytes is not None
    assert 0.1 * limit < plan.limit_bytes <= limit
