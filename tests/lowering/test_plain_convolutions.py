"""Convolutions that XLA:CPU computes in loops of its own read nothing outside of their operands."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tracer
from tracer import lax
from tracer.lowering.settings import xla_defaults

pytestmark = pytest.mark.xla

CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "float64": ("float64", (2, 3, 9, 8), (4, 3, 3, 2), {"padding": "SAME"}),
    "one axis": ("float64", (2, 3, 9), (4, 3, 3), {"padding": [(2, 0)]}),
    "cut": ("float64", (2, 3, 9, 8), (4, 3, 3, 2), {"padding": [(-1, 2), (1, -2)]}),
    "integers": ("int32", (2, 3, 9, 8), (4, 3, 3, 2), {"padding": "SAME"}),
    "complex": ("complex64", (2, 3, 9, 8), (4, 3, 3, 2), {"padding": "SAME"}),
    "spread": (
        "float64",
        (2, 3, 5, 4),
        (4, 3, 3, 2),
        {"padding": [(2, 2), (1, 1)], "lhs_dilation": (2, 3)},
    ),
    "depthwise": (
        "float32",
        (2, 6, 9, 8),
        (6, 1, 3, 3),
        {"padding": "SAME", "feature_group_count": 6},
    ),
    "batch groups": (
        "float64",
        (4, 3, 9, 8),
        (4, 3, 3, 2),
        {"padding": "SAME", "batch_group_count": 2},
    ),
}


AS_CONVOLUTION = "-sum-depthwise-windows"
"""Depthwise convolutions with the features in front are sums otherwise."""


def program(**options: Any) -> Any:
    return lambda x, kernel: lax.conv_general_dilated(x, kernel, (1,) * (x.ndim - 2), **options)


def arrays(dtype: str, *shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [(4 * rng.standard_normal(shape)).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("is_own", [True, False], ids=["XLA's options", "ours"])
@pytest.mark.parametrize("name", CASES)
def test_the_padding_is_written_out(name: str, is_own: bool) -> None:
    """With XLA's own options too: so `check` compiles the program as written."""
    dtype, *shapes, options = CASES[name]
    x, kernel = arrays(dtype, *shapes)
    with xla_defaults() if is_own else contextlib.nullcontext():
        text = tracer.compile(program(**options), passes=AS_CONVOLUTION).hlo(x, kernel)
    windows = re.findall(r"convolution\(.*window=\{([^}]*)\}", text)
    assert windows
    # What is cut off is within the array; padding is outside.
    ends = [
        int(end)
        for end in re.findall(
            r"(?<=[=x_])-?\d+(?=_)|(?<=_)-?\d+",
            " ".join(
                part for window in windows for part in window.split() if part.startswith("pad=")
            ),
        )
    ]
    assert all(end <= 0 for end in ends)
    assert bool(ends) == (name in ("cut", "spread"))


@pytest.mark.parametrize("name", CASES)
def test_values_are_the_interpreters(name: str) -> None:
    dtype, *shapes, options = CASES[name]
    x, kernel = arrays(dtype, *shapes)
    compiled = tracer.compile(program(**options), passes=AS_CONVOLUTION)
    found = np.asarray(compiled(x, kernel))
    (wanted,) = tracer.ir.interpret(tracer.make_graph(program(**options))(x, kernel), [x, kernel])
    np.testing.assert_allclose(found, wanted, rtol=2e-5 if found.itemsize < 8 else 1e-12, atol=1e-4)


@pytest.mark.process
def test_the_process_goes_on() -> None:
    """XLA's loops read in front of an array at the beginning of mapped memory (rc 139)."""
    code = """
import numpy as np, tracer
from tracer import lax
x, kernel = np.ones((4, 1, 128, 128)), np.ones((1, 1, 5, 5))
f = tracer.compile(lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME").sum(0))
print(float(np.asarray(f(x, kernel)).sum()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1607824.0"]
