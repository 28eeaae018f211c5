"""Calls of NumPy's sorts in modules of ours: read again, and told from other calls of Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

pytestmark = pytest.mark.xla


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "complex64"])
def test_sorts_of_modules_of_ours_are_read(dtype: str, axis: int) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (60, 70)).astype(dtype)

    def program(x: Any) -> Any:
        return tnp.sort(x, axis=axis), tnp.argsort(x, axis=axis)

    text = tracer.compile(program).stablehlo(x)
    assert "xla_buffer_python_cpu_callback" in text
    for one, other in zip(tracer.from_stablehlo(text)(x), program(x), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("reverse", [False, True])
def test_running_numbers_of_modules_of_ours_are_read(reverse: bool) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (30, 70))

    def program(x: Any) -> Any:
        functions = (tracer.lax.cumsum, tracer.lax.cumprod, tracer.lax.cummax, tracer.lax.cummin)
        return [f(x, axis=1, reverse=reverse) for f in functions]

    text = tracer.compile(program).stablehlo(x)
    assert text.count("xla_buffer_python_cpu_callback") == 4
    for one, other in zip(tracer.from_stablehlo(text)(x), program(x), strict=True):
        np.testing.assert_array_equal(one, other)


def test_other_functions_are_refused() -> None:
    def program(x: Any) -> Any:
        return tracer.pure_callback(np.sin, tracer.ShapeDtype((3,), "float64"), x)

    text = tracer.compile(program).stablehlo(np.ones(3))
    with pytest.raises(tracer.UnsupportedError, match="of a Python function"):
        tracer.from_stablehlo(text)
