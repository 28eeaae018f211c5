"""Programs whose Fourier transforms SciPy finds give what XLA's transforms give."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import assert_close, assert_same_without
from tracer.ir.library_calls import TransformCall
from tracer.lowering.devices import hardware
from tracer.target import host_target
from tracer.target.transforms import Transforms

pytestmark = pytest.mark.xla
OFF = "-transform-by-scipy"


class Always(Transforms):
    """Has SciPy find all transforms."""

    def are_by_scipy(self, call: TransformCall, *, is_turned: bool) -> bool:
        return call.elements > 0


@pytest.fixture(autouse=True)
def always() -> Iterator[None]:
    machine = replace(host_target(), transforms=Always())
    with mock.patch.object(hardware, "host_target", return_value=machine):
        yield


Program = Callable[[Any], Any]
PROGRAMS: dict[str, tuple[Program, str]] = {
    "alone": (lambda x: tnp.fft.fft(x), "c"),
    "beside": (lambda x: (tnp.fft.fft(x, axis=0), x), "c"),
    "of a view": (lambda x: tnp.fft.fft(x.T[:, ::-1], axis=1), "c"),
    "twice": (lambda x: tnp.fft.fft(tnp.fft.fft(x, axis=0), axis=0), "c"),
    "itself": (lambda x: tnp.fft.fft(x, axis=1) * x + tnp.fft.ifft(x, axis=1), "c"),
    "filter": (lambda x: tnp.fft.ifft2(tnp.fft.fft2(x) * 2, axes=(-2, -1)), "c"),
    "all axes": (lambda x: tnp.fft.fftn(x, norm="ortho"), "c"),
    "first axes": (lambda x: tnp.fft.ifftn(x, axes=(1, 0)), "c"),
    "outer axes": (lambda x: tnp.fft.fftn(x, axes=(0, 2)), "c"),
    "padded": (lambda x: tnp.fft.fft(x, n=100, axis=0), "c"),
    "one element": (lambda x: tnp.fft.fft(x[:, :1], axis=1), "c"),
    "a line": (lambda x: tnp.fft.ifft(x.reshape(-1)), "c"),
    "loop": (lambda x: tracer.fori_loop(0, 3, lambda i, y: tnp.fft.fft(y, axis=1) / 9 - x, x), "c"),
    "batch": (lambda x: tracer.vmap(tnp.fft.ifft, in_axes=1, out_axes=2)(x), "c"),
    "gradient": (
        tracer.grad(lambda x: (tnp.abs(tnp.fft.fft(x.real * 1.5, axis=0)) ** 2).sum().real),
        "c",
    ),
    "real": (lambda x: tnp.fft.rfft(x), "f"),
    "real, first axis": (lambda x: tnp.fft.rfft(x, axis=0), "f"),
    "real, middle axis": (lambda x: tnp.fft.rfft(x, n=90, axis=1), "f"),
    "real, all axes": (lambda x: tnp.fft.rfftn(x), "f"),
    "real, and back": (lambda x: tnp.fft.irfft(tnp.fft.rfft(x, axis=1) * 2, axis=1), "f"),
    "real, odd, and back": (lambda x: tnp.fft.irfftn(tnp.fft.rfftn(x), (96, 80, 65)), "f"),
    "real gradient": (tracer.grad(lambda x: (tnp.fft.rfft2(x, axes=(0, 1)).imag ** 3).sum()), "f"),
    "half to real": (lambda x: tnp.fft.irfft(x, axis=0), "c"),
    "half to real, two axes": (lambda x: tnp.fft.irfft2(x, axes=(2, 0)), "c"),
}
DTYPES = {"c": ("complex64", "complex128"), "f": ("float32", "float64")}
CASES = [(name, dtype) for name, (_, kind) in PROGRAMS.items() for dtype in DTYPES[kind]]


def numbers(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_values_and_no_argument_is_written_over(name: str, dtype: str) -> None:
    function, _ = PROGRAMS[name]
    x = numbers(dtype, 96, 80, 70)
    text = str(tracer.compile(function).graph(x))
    assert "scipy_" in text
    assert " fft(" not in text
    digits = 3e-6 if np.finfo(dtype).bits == 32 else 1e-13
    assert_same_without(OFF, function, x, partial(assert_close, digits=digits))


@pytest.mark.parametrize("kind", ["fft", "ifft"])
@pytest.mark.parametrize("shape", [(5, 1), (1, 7, 3), (0, 8), (8, 0), (2, 96, 300), (3, 2, 2)])
def test_shapes(shape: tuple[int, ...], kind: str) -> None:
    x = numbers("complex64", *shape)
    function = getattr(tnp.fft, kind)
    for axis in (axis for axis, n in enumerate(shape) if n):
        program = tracer.compile(lambda x, axis=axis: function(x, axis=axis))
        wanted = getattr(np.fft, kind)(x.astype("complex128"), axis=axis)
        np.testing.assert_allclose(program(x), wanted, rtol=1e-4, atol=1e-4)


def test_lines_that_are_not_finite_stay_alone() -> None:
    x = numbers("complex64", 300, 128)
    x[3, 5], x[:, 7] = np.nan, np.inf
    found = np.asarray(tracer.compile(lambda x: tnp.fft.fft(x, axis=0))(x))
    is_bad = ~np.isfinite(found)
    assert is_bad[:, 5].all()
    assert is_bad[:, 7].all()
    assert not is_bad[:, 8:].any()


@pytest.mark.parametrize("kind", ["fft", "ifft", "rfft", "irfft"])
def test_modules_can_be_read_again(kind: str) -> None:
    function = getattr(tnp.fft, kind)
    program = tracer.compile(lambda x: function(x, axis=0))
    x = numbers("float32" if kind == "rfft" else "complex64", 1024, 512)
    text = program.stablehlo(x)
    assert "python_cpu_callback" in text
    largest = float(np.abs(np.asarray(program(x))).max())
    again = tracer.from_stablehlo(text)
    np.testing.assert_allclose(again(x), program(x), atol=1e-6 * largest, rtol=0)
