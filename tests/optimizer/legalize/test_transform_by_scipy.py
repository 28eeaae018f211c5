"""SciPy finds Fourier transforms of complex64: what is written, values, and what stays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, text
from tests.optimizer.legalize.interrupts import assert_ends_the_call
from tracer import ops
from tracer.errors import ArgumentError, DTypeError
from tracer.ir import Builder, Graph, ShapeDtype, as_dtype
from tracer.ir.library_calls import TransformCall
from tracer.lowering import compile_graph, to_device, to_host
from tracer.lowering.emit.numpy_routines import NumpyCall
from tracer.optimizer.legalize.transforms import scipy_transforms_pass
from tracer.target import DEFAULT_TARGET, Kernels, accelerator

PASS = scipy_transforms_pass(DEFAULT_TARGET)
OFF = "-transform-by-scipy"
ALWAYS = replace(DEFAULT_TARGET, kernels=Kernels(scipy_transforms=0, scipy_lines=0, scipy_line=0))


def transform(
    shape: tuple[int, ...],
    kind: str = "FFT",
    axes: int = 1,
    before: tuple[int, ...] | None = None,
    after: tuple[int, ...] | None = None,
    dtype: str = "complex64",
) -> Graph:
    with Builder() as builder:
        x = builder.input(ShapeDtype(shape, as_dtype(dtype)))
        y = x if before is None else ops.transpose(x, permutation=before)
        y = ops.fft(y, kind=kind, lengths=y.shape[-axes:])
        return builder.finish([y if after is None else ops.transpose(y, permutation=after)])


def numbers(*shape: int, dtype: str = "complex64") -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def test_transposes_around_a_transform_go() -> None:
    after, log = apply(PASS, transform((4096, 128), before=(1, 0), after=(1, 0)))
    assert log.applied == ["FFT of complex64[128,4096]"]
    assert text(after) == (
        """
graph(%0: complex64[4096,128]) {
  %1: complex64[4096,128] = scipy_fft(%0) {kind='FFT', axis=0}
  return %1
}
""".strip()
    )


CASES = [
    transform((700,)),
    transform((3, 50), "IFFT"),
    transform((5, 1)),
    transform((4, 6, 10), axes=2),
    transform((4, 6, 10), "IFFT", axes=3),
    transform((4, 6, 10), before=(2, 0, 1), after=(1, 2, 0)),
    transform((4, 6, 10), before=(2, 0, 1)),
    transform((4, 6, 10), "IFFT", axes=2, before=(1, 2, 0), after=(0, 2, 1)),
    transform((2, 97, 3), before=(0, 2, 1), after=(0, 2, 1)),
    transform((31, 29), before=(1, 0), after=(0, 1)),
]


@pytest.mark.xla
@pytest.mark.parametrize("graph", CASES, ids=str)
def test_values_are_as_without(graph: Graph) -> None:
    x = numbers(*graph.inputs[0].shape)
    after, log = apply(scipy_transforms_pass(ALWAYS), graph)
    assert len(log.applied) == 1
    assert " fft(" not in text(after)
    (wanted,) = evaluated(graph, x)
    largest = np.abs(wanted).max()
    for found in (evaluated(after, x)[0], to_host(compile_graph(after)(to_device(x))[0])):
        assert found.dtype == np.complex64
        np.testing.assert_allclose(found, wanted, atol=2e-6 * largest, rtol=0)


@pytest.mark.parametrize(
    ("graph", "is_written"),
    [
        (transform((512, 1024)), True),
        (transform((512, 1023)), False),
        (transform((1 << 14, 64)), True),
        (transform((1 << 14, 63)), False),
        (transform((32, 1 << 14)), True),
        (transform((32, (1 << 14) + 1)), False),
        (transform((1 << 20,)), False),
        (transform((512, 1024), dtype="complex128"), False),
        (transform((0, 1024)), False),
        (transform((64, 128, 128), axes=2), True),
        (transform((512, 128, 16), axes=2), False),
    ],
    ids=str,
)
def test_what_is_written(graph: Graph, is_written: bool) -> None:
    assert bool(apply(PASS, graph)[1].applied) == is_written


def test_real_transforms_and_few_lines_are_left() -> None:
    call = TransformCall(4, (1 << 14,), 8, is_real=False)
    kernels = Kernels(scipy_transforms=0)
    assert kernels.is_by_scipy(call)
    assert not kernels.is_by_scipy(replace(call, batch=3))
    assert not kernels.is_by_scipy(replace(call, is_real=True))


def test_other_platforms_have_their_own() -> None:
    graph = transform((512, 1024))
    assert apply(scipy_transforms_pass(accelerator("tpu", "v5e")), graph)[0] is graph


SIZE = (96, 80, 70)
PROGRAMS: dict[str, Callable[..., Any]] = {
    "alone": lambda x: tnp.fft.fft(x),
    "beside": lambda x: (tnp.fft.fft(x, axis=0), x),
    "of a view": lambda x: tnp.fft.fft(x.T[:, ::-1], axis=1),
    "twice": lambda x: tnp.fft.fft(tnp.fft.fft(x, axis=0), axis=0),
    "itself": lambda x: tnp.fft.fft(x, axis=1) * x + tnp.fft.ifft(x, axis=1),
    "filter": lambda x: tnp.fft.ifft2(tnp.fft.fft2(x) * 2, axes=(-2, -1)),
    "all axes": lambda x: tnp.fft.fftn(x, norm="ortho"),
    "padded": lambda x: tnp.fft.fft(x, n=100, axis=0),
    "loop": lambda x: tracer.fori_loop(0, 3, lambda i, y: tnp.fft.fft(y, axis=1) / 9 - x, x),
    "batch": lambda x: tracer.vmap(tnp.fft.ifft, in_axes=1, out_axes=2)(x),
    "gradient": tracer.grad(lambda x: (tnp.abs(tnp.fft.fft(x * 1.5, axis=0)) ** 2).sum()),
}


@pytest.mark.xla
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_and_no_argument_is_overwritten(name: str) -> None:
    x = numbers(*SIZE)
    array, kept = tnp.asarray(x), x.copy()
    program = tracer.compile(PROGRAMS[name])
    assert "scipy_fft" in str(program.graph(array))
    found = program(array)
    wanted = tracer.compile(PROGRAMS[name], passes=OFF)(x)
    for one, other in zip(tracer.tree.leaves(found), tracer.tree.leaves(wanted), strict=True):
        assert one.dtype == other.dtype
        largest = float(np.abs(np.asarray(other)).max())
        np.testing.assert_allclose(one, other, atol=3e-6 * largest, rtol=0)
    np.testing.assert_array_equal(array, kept)
    np.testing.assert_array_equal(x, kept)


@pytest.mark.xla
def test_a_donated_array_is_written_over() -> None:
    x = numbers(1024, 512)
    program = tracer.compile(lambda x: tnp.fft.fft(x, axis=0), donate_argnums=0)
    assert program.plan(x).compiled_bytes < 1.1 * x.nbytes
    found = np.asarray(program(tnp.asarray(x)))
    wanted = np.fft.fft(x.astype("complex128"), axis=0)
    np.testing.assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max(), rtol=0)


@pytest.mark.xla
def test_a_limit_of_argument_and_result_is_met() -> None:
    x = numbers(2048, 1024)
    limit = 2 * x.nbytes + x.nbytes // 8
    program = tracer.compile(lambda x: tnp.fft.fft(x, axis=0), memory_limit=limit)
    assert program.plan(x).peak_bytes <= limit
    wanted = np.fft.fft(x.astype("complex128"), axis=0)
    np.testing.assert_allclose(program(x), wanted, atol=1e-6 * np.abs(wanted).max(), rtol=0)


def test_what_scipy_does_not_write_in_place_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy import fft

    def elsewhere(x: Any, axis: int, **_: Any) -> Any:
        return np.fft.fft(x, axis=axis)

    monkeypatch.setattr(fft, "fft", elsewhere)
    x, result = numbers(6, 5), np.zeros((6, 5), "complex64")
    NumpyCall("fft", 0)(x, result)
    np.testing.assert_allclose(result, np.fft.fft(x, axis=0), rtol=1e-5)


def test_what_it_cannot_do_is_refused() -> None:
    with Builder() as builder:
        x, y = (builder.input(ShapeDtype((9,), dtype)) for dtype in (np.complex64, np.float32))
        with pytest.raises(DTypeError, match="complex numbers"):
            ops.scipy_fft(y, kind="FFT", axis=0)
        with pytest.raises(ArgumentError, match="RFFT"):
            ops.scipy_fft(x, kind="RFFT", axis=0)


@pytest.mark.xla
def test_slopes_are_those_of_the_program() -> None:
    x = np.random.default_rng(0).standard_normal((1024, 512)).astype(np.float32)
    direction = np.random.default_rng(1).standard_normal(x.shape).astype(np.float32)

    def loss(x: Any) -> Any:
        weights = tnp.cos(tnp.arange(1024.0, dtype="float32"))[:, None]
        return (tnp.fft.fft(x, axis=0).real * weights).sum() / 1024

    program = tracer.compile(loss)
    slope = tracer.compile(tracer.grad(loss))(x)
    rise = float(program(x + direction)) - float(program(x - direction))
    np.testing.assert_allclose(rise / 2, float((slope * direction).sum()), rtol=1e-3)


@pytest.mark.xla
def test_an_interrupt_while_scipy_transforms_ends_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = tracer.compile(lambda x: tnp.fft.fft(x, axis=0))
    x = numbers(1024, 512)
    assert_ends_the_call(monkeypatch, "fft", program, x)
    assert math.isfinite(float(tnp.abs(program(x)).max()))


@pytest.mark.xla
@pytest.mark.parametrize("inverse", [False, True])
def test_modules_with_it_can_be_read_again(inverse: bool) -> None:
    function = tnp.fft.ifft if inverse else tnp.fft.fft
    program = tracer.compile(lambda x: function(x, axis=0))
    x = numbers(1024, 512)
    again = tracer.from_stablehlo(program.stablehlo(x))
    largest = float(np.abs(np.asarray(program(x))).max())
    np.testing.assert_allclose(again(x), program(x), atol=1e-6 * largest, rtol=0)
