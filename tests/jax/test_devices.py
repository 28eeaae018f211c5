"""Programs run on JAX's device: that of the arguments that were put on one, or the default."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

pytestmark = [pytest.mark.xla, pytest.mark.process]
ROOT = Path(__file__).parent.parent.parent
_TWO = """
import jax, jax.numpy as jnp, numpy as np, tracer.jax
first, second = jax.devices()
constant = jnp.arange(3.0)
f = tracer.jax.limit(lambda x, y: x * y + constant)
x, y = jnp.arange(3.0), np.ones(3, np.float32)
"""
_CASES = {
    "here": "assert jnp.array_equal(f(x, y), 2 * x)",
    "put": "assert jnp.array_equal(f(jax.device_put(x, second), y), 2 * x)",
    "default": """
with jax.default_device(second):
    assert jnp.array_equal(f(x, y), 2 * x)
""",
    "plans": "print(f.plan(x, y)); f.plan(jax.ShapeDtypeStruct((3,), 'float32'), y)",
    "several": """
from tracer.errors import UnsupportedError
try:
    f(jax.device_put(x, first), jax.device_put(y, second))
except UnsupportedError as error:
    assert "on several devices" in str(error) and "jax.device_put" in str(error), error
else:
    raise AssertionError("not refused")
""",
}


@pytest.mark.parametrize("case", _CASES)
def test_where_arguments_were_put(case: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _TWO + _CASES[case]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
