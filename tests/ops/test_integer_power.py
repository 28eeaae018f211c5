"""Integer powers with negative exponents, in loops of every size too."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

pytestmark = pytest.mark.xla

BASES, EXPONENTS = [-1, -1, -1, 1, 1, 2, -2, 0, 3], [-3, -2, -1, -1, 3, -1, 3, 2, 0]
EXPECTED = [-1, 1, -1, 1, 1, 0, -8, 0, 1]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
@pytest.mark.parametrize("copies", [1, 30, 300])
@pytest.mark.parametrize("passes", [None, ()])
def test_in_a_loop(dtype: str, copies: int, passes: tuple[()] | None) -> None:
    """XLA:CPU compiles small loops with another emitter, which gave 0 for (-1) ** -3."""
    x, y, wanted = (np.array(v * copies, dtype) for v in (BASES, EXPONENTS, EXPECTED))

    def program(x: tracer.Array, y: tracer.Array) -> tracer.Array:
        return tracer.fori_loop(0, 1, lambda i, c: (tnp.power(c[0], c[1]), c[1]), (x, y))[0]

    def again(x: tracer.Array, y: tracer.Array) -> tracer.Array:
        def step(i: tracer.Array, found: tracer.Array) -> tracer.Array:
            return tnp.power(x + 0 * found, y)

        return tracer.fori_loop(0, 7, step, x)

    for function in (program, again, tnp.power):
        found = tracer.compile(function, passes=passes)(x, y)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_exponents_above_six_bits(dtype: str) -> None:
    """XLA reads six bits of the exponent: 0 ** 64 was 1, and 3 ** 65 was 3."""
    largest = np.iinfo(dtype).max
    lowest = max(np.iinfo(dtype).min, -9)
    bases = np.arange(lowest, 10).astype(dtype)[:, None]
    some = [0, 1, 63, 64, 65, 100, 127, 128, 4095, 4096, 2**31 - 1, 2**40 + 3, largest]
    exponents = np.array([n for n in some if n <= largest], dtype)
    with np.errstate(over="ignore"):
        wanted = bases**exponents  # NumPy wraps around
    np.testing.assert_array_equal(tracer.compile(tnp.power)(bases, exponents), wanted)
    np.testing.assert_array_equal(tnp.power(bases, exponents), wanted)
