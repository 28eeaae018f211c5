"""linear_transpose: nested arguments, captured arrays, inside of a trace, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import DTypeError, NotDifferentiableError

F3 = tracer.ShapeDtype((3,), "float64")


@pytest.mark.xla
def test_transpose_of_nested_arguments(rng: np.random.Generator) -> None:
    matrix = tnp.asarray(rng.standard_normal((2, 3)))

    def function(pair: dict, z: object) -> list:
        return [matrix @ pair["x"] + 2 * z, pair["y"][::-1]]

    shapes = {"x": F3, "y": F3}
    transpose = tracer.linear_transpose(function, shapes, tracer.ShapeDtype((2,), "float64"))
    g, h = rng.standard_normal(2), rng.standard_normal(3)
    by_pair, by_z = transpose([g, h])
    np.testing.assert_allclose(by_pair["x"], np.asarray(matrix).T @ g)
    np.testing.assert_allclose(by_pair["y"], h[::-1])
    np.testing.assert_allclose(by_z, 2 * g)
    compiled = tracer.compile(lambda g, h: transpose([g, h]))(g, h)
    np.testing.assert_allclose(compiled[1], 2 * g)


@pytest.mark.xla
def test_complex_numbers_are_not_conjugated() -> None:
    transpose = tracer.linear_transpose(lambda x: 1j * x, tracer.ShapeDtype((), "complex128"))
    assert complex(transpose(1.0 + 0j)[0]) == 1j


def test_refusals() -> None:
    with pytest.raises(NotDifferentiableError, match="not linear"):
        tracer.linear_transpose(lambda x: x * x, F3)
    with pytest.raises(NotDifferentiableError, match="not linear"):
        tracer.linear_transpose(tnp.sin, F3)
    with pytest.raises(DTypeError, match="int32"):
        tracer.linear_transpose(lambda x: x, np.int32(3))
    with pytest.raises(DTypeError, match="structure"):
        tracer.linear_transpose(lambda x: x, F3)([np.ones(3)])
    with pytest.raises(DTypeError, match="takes a function"):
        tracer.linear_transpose(3, F3)
