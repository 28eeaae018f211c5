"""Calls of compiled functions: each way in gives the same answers and the right errors."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

pytestmark = pytest.mark.xla


class Counted:
    """A function that counts how often it is traced."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.traces = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.traces += 1
        return self.function(*args, **kwargs)


X = np.arange(6, dtype=np.float32)


@pytest.mark.parametrize("convert", [np.asarray, tnp.asarray], ids=["numpy", "tracer"])
def test_one_trace_for_each_signature(convert: Any) -> None:
    function = Counted(lambda x, y: x + 2 * y)
    compiled = tracer.compile(function)
    for _ in range(3):
        np.testing.assert_array_equal(compiled(convert(X), convert(X)), 3 * X)
    assert function.traces == 1
    compiled(convert(X[:3]), convert(X[:3]))
    compiled(convert(X.astype(np.float64)), convert(X))
    assert function.traces == 3


def test_nested_arguments_and_keywords() -> None:
    function = Counted(lambda p, *, scale: {"out": (scale["s"] * p["a"], p["b"][0] - p["b"][1])})
    compiled = tracer.compile(function)
    x = tnp.asarray(X)
    for _ in range(3):
        result = compiled({"b": (x, x), "a": x}, scale={"s": x})["out"]
        np.testing.assert_array_equal(result[0], X * X)
        np.testing.assert_array_equal(result[1], 0 * X)
    assert function.traces == 1
    # The same leaves in another structure are another program.
    result = compiled({"b": [x, 2 * x], "a": x}, scale={"s": x})["out"]
    np.testing.assert_array_equal(result[1], -X)
    assert function.traces == 2


def test_static_values_that_are_equal_but_of_another_type() -> None:
    function = Counted(lambda x, n: x * n)
    compiled = tracer.compile(function, static_argnums=1)
    x = tnp.asarray(np.arange(3))
    for _ in range(2):
        assert compiled(x, 2).dtype == np.int64
        assert compiled(x, 2.0).dtype == np.float64
    assert function.traces == 2
    np.testing.assert_array_equal(compiled(x, 3), [0, 3, 6])
    with pytest.raises(tracer.ArgumentError, match="hashed"):
        compiled(x, [2])
    with pytest.raises(tracer.ArgumentError, match="missing"):
        compiled(x)


def test_donated_arguments() -> None:
    compiled = tracer.compile(lambda x: x + 1, donate_argnums=0)
    for _ in range(2):
        x = tnp.asarray(X)
        np.testing.assert_array_equal(compiled(x), X + 1)
        with pytest.raises(tracer.DonatedArrayError, match="took over its memory"):
            compiled(x)


def test_captured_arrays() -> None:
    kept = tnp.asarray(np.arange(100.0))
    compiled = tracer.compile(lambda x: x + kept)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(kept), 2 * np.arange(100.0))
    other = tnp.asarray(np.arange(100.0))
    kept.delete()
    with pytest.raises(tracer.DonatedArrayError, match="is gone"):
        compiled(other)


def test_an_escaped_array_says_so() -> None:
    caught: list[Any] = []
    tracer.compile(lambda x: (caught.append(x), x + 1)[1])(tnp.asarray(X))
    compiled = tracer.compile(lambda x: x - 1)
    compiled(tnp.asarray(X))
    with pytest.raises(tracer.TracingError, match="escaped"):
        compiled(caught[0])


def test_inside_another_trace_a_call_is_recorded() -> None:
    inner = tracer.compile(lambda x: x * x)
    inner(tnp.asarray(X))
    outer = tracer.compile(lambda x: inner(x) + inner(x=x))
    np.testing.assert_array_equal(outer(tnp.asarray(X)), 2 * X * X)


WRONG_DEVICE = """
import tracer, tracer.numpy as tnp
here = tnp.ones(100)
there = here.to_device("cpu:1")
for device, right, wrong in ((None, here, there), ("cpu:1", there, here)):
    f = tracer.compile(lambda x, y: x + y, device=device)
    assert f(right, right).device is right.device
    for arguments in ((wrong, wrong), (right, wrong)):
        try:
            f(*arguments)
        except tracer.DeviceError as error:
            assert str(right.device) in error.mend, error
        else:
            raise AssertionError("an array on another device was taken")
"""


@pytest.mark.process
def test_arrays_on_another_device() -> None:
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run(
        [sys.executable, "-c", WRONG_DEVICE],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_threads_that_call_first_together_trace_once() -> None:
    traced = []

    def function(x):
        traced.append(1)
        return tnp.exp(x[:, None] - x[None, :]).sum(1)

    compiled = tracer.compile(function)
    results: list[Any] = []
    x = np.zeros(50)
    threads = [threading.Thread(target=lambda: results.append(compiled(x))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(traced) == 1
    assert len(results) == 6
    assert all(float(result[0]) == 50.0 for result in results)


def test_a_method_can_be_compiled() -> None:
    class Model:
        def __init__(self, factor):
            self.factor = factor

        @functools.partial(tracer.compile, static_argnums=0)
        def scale(self, x):
            return self.factor * x

    assert float(Model(3.0).scale(2.0)) == 6.0
    assert float(Model(4.0).scale(2.0)) == 8.0
