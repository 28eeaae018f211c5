"""NumPy finds eigenvalues and singular values of many matrices: what is written, and values."""

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
from tests.optimizer.graphs import apply, assert_close, assert_same_without, text
from tests.optimizer.legalize.interrupts import assert_ends_the_call
from tracer import ops
from tracer.errors import ArgumentError, DTypeError
from tracer.ir import Builder, Graph, ShapeDtype, as_dtype
from tracer.lowering.devices import hardware
from tracer.lowering.emit import spectrum_routines
from tracer.lowering.emit.numpy_routines import NumpyCall
from tracer.optimizer.legalize.spectra import numpy_spectra_pass
from tracer.target import DEFAULT_TARGET, accelerator, host_target
from tracer.target.spectra import Spectra

PASS = numpy_spectra_pass(DEFAULT_TARGET)
OFF = "-decompose-by-numpy"


@pytest.fixture
def always() -> Iterator[None]:
    """Take all, on a machine of one core too."""
    machine = replace(host_target(), spectra=Spectra(elements=0))
    with mock.patch.object(hardware, "host_target", return_value=machine):
        yield


def values_of(shape: tuple[int, ...], *, compute_vectors: bool = False) -> Graph:
    with Builder() as builder:
        x = builder.input(ShapeDtype(shape, as_dtype("float32")))
        found = ops.eigh(x, compute_vectors=compute_vectors)
        return builder.finish(list(found) if compute_vectors else [found])


def test_what_is_written() -> None:
    after, log = apply(PASS, values_of((4, 1024, 8, 8)))
    assert log.applied == ["eigvalsh of float32[4,1024,8,8]"]
    assert text(after) == (
        """
graph(%0: float32[4,1024,8,8]) {
  %1: float32[4,1024,8] = numpy_spectrum(%0) {kind='eigvalsh'}
  return %1
}
""".strip()
    )


@pytest.mark.parametrize(
    ("shape", "is_written"),
    [
        ((512, 16, 16), True),
        ((511, 16, 16), False),
        ((4, 300, 11, 11), True),
        ((1000, 17, 17), False),
        ((0, 8, 8), False),
        ((100, 0, 0), False),
        ((8, 8), False),
    ],
)
def test_which_are_written(shape: tuple[int, ...], is_written: bool) -> None:
    assert bool(apply(PASS, values_of(shape))[1].applied) == is_written
    assert not apply(PASS, values_of(shape, compute_vectors=True))[1].applied


def test_other_platforms_have_their_own() -> None:
    graph = values_of((100, 8, 8))
    assert apply(numpy_spectra_pass(accelerator("tpu", "v5e")), graph)[0] is graph


def symmetric(x: Any) -> Any:
    return x + np.swapaxes(x, -1, -2).conj()


SYMMETRIC = ("eigenvalues", "upper triangle", "one matrix", "of one element")
PROGRAMS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "eigenvalues": (tnp.linalg.eigvalsh, (301, 7, 7)),
    "upper triangle": (lambda x: tnp.linalg.eigvalsh(x, "U"), (20, 9, 9)),
    "one matrix": (tnp.linalg.eigvalsh, (1, 5, 5)),
    "of one element": (tnp.linalg.eigvalsh, (3, 1, 1)),
    "singular values": (tnp.linalg.svdvals, (2, 150, 5, 9)),
    "tall": (lambda x: tnp.linalg.svd(x, compute_uv=False), (520, 9, 4)),
    "columns": (tnp.linalg.svdvals, (30, 6, 1)),
    "of a view": (lambda x: tnp.linalg.svdvals(x.T[::-1]), (5, 8, 40)),
    "twice": (lambda x: tnp.linalg.svdvals(x) - tnp.linalg.svdvals(x * 2), (40, 4, 4)),
    "norm": (lambda x: tnp.linalg.norm(x, 2, axis=(1, 2)), (40, 6, 4)),
    "batch": (tracer.vmap(tnp.linalg.eigvalsh, in_axes=1), (6, 30, 6)),
    "in a loop": (
        lambda x: tracer.fori_loop(
            0, 3, lambda i, s: s + tnp.linalg.svdvals(x * (i + 1)), tnp.linalg.svdvals(x)
        ),
        (40, 5, 3),
    ),
}


@pytest.mark.xla
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_no_argument_is_written_over(name: str, dtype: str) -> None:
    function, shape = PROGRAMS[name]
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    x = (x if dtype[0] == "c" else x.real).astype(dtype)
    if name in SYMMETRIC:
        x = symmetric(x)
    is_left = dtype[0] == "c" and name in (*SYMMETRIC, "batch")
    assert ("numpy_spectrum" in str(tracer.compile(function).graph(x))) != is_left
    digits = 1e-5 if np.finfo(dtype).bits == 32 else 1e-13
    assert_same_without(OFF, function, x, partial(assert_close, digits=digits))


@pytest.mark.xla
@pytest.mark.usefixtures("always")
def test_slopes_are_those_of_the_program() -> None:
    x = np.random.default_rng(0).standard_normal((20, 5, 4))
    for function in (tnp.linalg.svdvals, lambda x: tnp.linalg.eigvalsh(symmetric(x @ x.mT))):
        program = tracer.compile(lambda x, f=function: (f(x) ** 3).sum())
        tracer.check_grads(program, (x,), order=1)
        second = tracer.compile(tracer.grad(lambda x, f=function: (f(x) ** 3).sum()))
        wanted = tracer.compile(tracer.grad(lambda x, f=function: (f(x) ** 3).sum()), passes=OFF)
        np.testing.assert_allclose(second(x), wanted(x), rtol=1e-10, atol=1e-10)


@pytest.mark.xla
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("kind", spectrum_routines.SPECTRA)
def test_only_matrices_with_nan_have_nan(kind: str) -> None:
    rng = np.random.default_rng(0)
    x = symmetric(rng.standard_normal((600, 6, 6)))
    x[[3, 300, 599], 2, 1] = np.nan
    function = getattr(tnp.linalg, kind)
    found = np.asarray(tracer.compile(function)(x))
    assert np.flatnonzero(np.isnan(found).any(1)).tolist() == [3, 300, 599]
    fine = np.delete(x, [3, 300, 599], 0)
    wanted = np.asarray(tracer.compile(function, passes=OFF)(fine))
    np.testing.assert_allclose(np.delete(found, [3, 300, 599], 0), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", spectrum_routines.SPECTRA)
def test_what_does_not_converge_is_nan(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = spectrum_routines._VALUES[kind]

    def some(matrices: Any) -> Any:
        if (matrices[..., 0, 0] == 99).any():
            raise np.linalg.LinAlgError
        return plain(matrices)

    monkeypatch.setitem(spectrum_routines._VALUES, kind, some)
    x = symmetric(np.random.default_rng(0).standard_normal((9, 3, 3)))
    x[7, 0, 0] = 99
    result = np.zeros((9, 3))
    NumpyCall(kind, (1, 2))(x, result)
    assert np.isnan(result[7]).all()
    np.testing.assert_allclose(result[:7], plain(x[:7]), rtol=1e-12)
    np.testing.assert_allclose(result[8], plain(x[8]), rtol=1e-12)


def test_an_error_on_another_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectrum_routines, "xla_threads", lambda: 3)

    def some(matrices: Any) -> Any:
        if (matrices == 99).any():
            raise MemoryError("none left")
        return matrices[..., 0]

    monkeypatch.setitem(spectrum_routines._VALUES, "svdvals", some)
    x, result = np.zeros((9, 2, 2)), np.zeros((9, 2))
    x[8] = 99
    with pytest.raises(MemoryError, match="none left"):
        NumpyCall("svdvals", (1, 2))(x, result)


@pytest.mark.xla
@pytest.mark.usefixtures("always")
def test_an_interrupt_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((30, 4, 4))
    assert_ends_the_call(monkeypatch, "svdvals", tracer.compile(tnp.linalg.svdvals), x)


@pytest.mark.xla
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("kind", spectrum_routines.SPECTRA)
def test_modules_with_it_can_be_read_again(kind: str) -> None:
    program = tracer.compile(getattr(tnp.linalg, kind))
    x = symmetric(np.random.default_rng(0).standard_normal((30, 4, 4)))
    again = tracer.from_stablehlo(program.stablehlo(x))
    np.testing.assert_allclose(again(x), program(x), rtol=1e-12, atol=1e-12)


@pytest.mark.xla
@pytest.mark.usefixtures("always")
def test_a_limit_is_met() -> None:
    x = np.random.default_rng(0).standard_normal((4000, 10, 10))
    limit = x.nbytes + x.nbytes // 2

    def loss(x: Any) -> Any:
        return tnp.log(tnp.linalg.svdvals(tnp.sin(x) * 2)).sum()

    program = tracer.compile(loss, memory_limit=limit)
    assert program.plan(x).compiled_bytes <= limit
    wanted = np.log(np.linalg.svd(np.sin(x) * 2, compute_uv=False)).sum()
    np.testing.assert_allclose(program(x), wanted, rtol=1e-10)


def test_what_it_does_not_know_is_refused() -> None:
    with Builder() as builder:
        x = builder.input(ShapeDtype((9, 3, 3), as_dtype("float32")))
        with pytest.raises(ArgumentError, match="eigvals'"):
            ops.numpy_spectrum(x, kind="eigvals")
        with pytest.raises(DTypeError, match="float16"):
            ops.numpy_spectrum(ops.convert(x, dtype=as_dtype("float16")), kind="svdvals")
