"""`tracer.config(default_float="float32")`: floats that nobody gave a dtype are narrow."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import ArgumentError

pytestmark = pytest.mark.xla
NARROW, WIDE = np.dtype("float32"), np.dtype("float64")


@pytest.fixture
def narrow() -> Iterator[None]:
    with tracer.config(default_float="float32"):
        yield


def integers() -> Any:
    return tnp.arange(4)


def singles() -> Any:
    return tnp.asarray(np.ones(4, "float32"))


def key() -> Any:
    return tracer.random.key(0)


FLOATS: dict[str, Callable[[], Any]] = {
    "zeros": lambda: tnp.zeros(3),
    "ones": lambda: tnp.ones((2, 3)),
    "full": lambda: tnp.full(3, 0.5),
    "eye": lambda: tnp.eye(3),
    "tri": lambda: tnp.tri(3),
    "dtype float": lambda: tnp.zeros(3, float),
    "astype float": lambda: integers().astype(float),
    "lists": lambda: tnp.asarray([1.0, [2.0][0]]),
    "linspace": lambda: tnp.linspace(0, 1, 5),
    "logspace": lambda: tnp.logspace(0, 1, 5),
    "geomspace": lambda: tnp.geomspace(1, 2, 5),
    "arange": lambda: tnp.arange(0, 1, 0.25),
    "windows": lambda: tnp.hanning(5),
    "fftfreq": lambda: tnp.fft.fftfreq(4),
    "normal": lambda: tracer.random.normal(key(), (3,)),
    "uniform": lambda: tracer.random.uniform(key(), (3,)),
    "gamma": lambda: tracer.random.gamma(key(), 2.0, (3,)),
    "one_hot": lambda: tracer.nn.one_hot(integers(), 4),
    "division": lambda: integers() / 2,
    "division of both": lambda: integers() / integers(),
    "square root": lambda: tnp.sqrt(integers()),
    "mean": lambda: integers().mean(),
    "median": lambda: tnp.median(integers()),
    "std": lambda: integers().std(),
    "interp": lambda: tnp.interp(integers(), integers(), integers()),
    "integers times a number": lambda: integers() * 0.5,
    "integers times float32": lambda: integers() * singles(),
    "a function of a number": lambda: tnp.sin(0.5),
    "where": lambda: tnp.where(integers() > 1, 0.5, 1),
    "norm": lambda: tnp.linalg.norm(integers()),
}


@pytest.mark.parametrize("make", FLOATS.values(), ids=FLOATS)
def test_default_floats_are_narrow_while_it_holds(make: Callable[[], Any]) -> None:
    with tracer.config(default_float="float32"):
        made, traced = make(), tracer.compile(make)()
        assert made.dtype == traced.dtype == NARROW
    np.testing.assert_allclose(np.asarray(traced), np.asarray(made), rtol=1e-6)


def test_float64_is_what_it_was_before_and_afterwards() -> None:
    for make in FLOATS.values():
        assert make().dtype == WIDE


STRONG: dict[str, Callable[[], Any]] = {
    "numpy's arrays": lambda: tnp.asarray(np.ones(3)),
    "numpy's scalars": lambda: singles() * np.float64(2),
    "by name": lambda: tnp.ones(3, "float64"),
    "an end of numpy's": lambda: tnp.linspace(np.float64(0), 1, 3),
    "integers times float64": lambda: integers() * tnp.ones(4, "float64"),
}


@pytest.mark.parametrize("make", STRONG.values(), ids=STRONG)
@pytest.mark.usefixtures("narrow")
def test_what_has_a_dtype_keeps_it(make: Callable[[], Any]) -> None:
    assert make().dtype == tracer.compile(make)().dtype == WIDE


@pytest.mark.usefixtures("narrow")
def test_complex_numbers_are_of_two_narrow_floats() -> None:
    assert tnp.asarray([1j]).dtype == np.complex64
    assert (integers() * 1j).dtype == (singles() * 1j).dtype == np.complex64
    assert tnp.zeros(2, complex).dtype == np.complex64
    eight = tnp.asarray(np.ones(4, "int8")) * tnp.asarray(np.ones(4, "complex64"))
    assert eight.dtype == np.complex64


def test_integers_and_bools_are_as_ever() -> None:
    before = [(integers() + 1).dtype, (integers() > 1).dtype, integers().sum().dtype]
    with tracer.config(default_float="float32"):
        assert before == [(integers() + 1).dtype, (integers() > 1).dtype, integers().sum().dtype]


def test_compiled_functions_trace_again_after_a_change() -> None:
    f = tracer.compile(lambda i: i / 2 + tnp.ones(4))
    assert f(integers()).dtype == WIDE
    with tracer.config(default_float="float32"):
        assert f(integers()).dtype == NARROW
    assert f(integers()).dtype == WIDE


@pytest.mark.usefixtures("narrow")
def test_loops_gradients_and_weak_numbers() -> None:
    assert tracer.fori_loop(0, 3, lambda i, c: c * 0.5 + i, tnp.ones(3)).dtype == NARROW
    assert tracer.grad(lambda v: (v * tnp.ones(3)).sum())(tnp.ones(3)).dtype == NARROW
    assert tracer.compile(lambda a: tnp.exp(a) * 2)(0.5).dtype == NARROW
    assert tracer.compile(lambda a, x: a * 2 * x)(0.5, tnp.ones(3, "float16")).dtype == "float16"
    assert tnp.result_type(tnp.int32, tnp.float32) == NARROW
    assert tnp.__array_namespace_info__().default_dtypes()["real floating"] == NARROW


def test_weak_numbers_of_before_are_numbers_still() -> None:
    weak = tracer.compile(lambda a: a * 2)(0.5)
    with tracer.config(default_float="float32"):
        assert (weak * singles()).dtype == NARROW
        assert tnp.sin(weak).dtype == NARROW
        assert float(weak + 1) == 2.0


@pytest.mark.parametrize("dtype", ["float16", "int32", "no dtype", complex])
def test_other_defaults_are_refused(dtype: Any) -> None:
    with pytest.raises(ArgumentError, match="default_float is float32 or float64"):
        tracer.config(default_float=dtype)


@pytest.mark.process
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_environment_sets_it(dtype: str) -> None:
    script = "import tracer.numpy as tnp; print(tnp.ones(3).dtype)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TRACER_DEFAULT_FLOAT": dtype},
    )
    assert done.stdout.strip() == dtype
