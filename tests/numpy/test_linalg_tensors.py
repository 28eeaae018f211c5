"""tensorsolve and tensorinv beside NumPy."""

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import ArgumentError, LinAlgError

pytestmark = pytest.mark.xla

RNG = np.random.default_rng(5)
# The shape of a, of b, the axes that go last.
SYSTEMS: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None]] = [
    ((2, 3, 6), (2, 3), None),
    ((6, 2, 3), (6,), None),
    ((4, 2, 2, 1), (4,), None),
    ((2, 6, 3), (2, 3), (1,)),
    ((3, 2, 4, 2, 3, 4), (3, 2, 4), None),
    ((1, 1), (1,), None),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
@pytest.mark.parametrize(("shape", "right", "axes"), SYSTEMS)
def test_tensorsolve(shape: Any, right: Any, axes: Any, dtype: str) -> None:
    rng = np.random.default_rng(len(shape))  # of its own: which tests run before varies
    a, b = (10 * rng.standard_normal(s) + 1 for s in (shape, right))
    a, b = (a + 1j * a[::-1] if dtype[0] == "c" else a).astype(dtype), b.astype(dtype)
    wanted = np.linalg.tensorsolve(a, b, axes)
    found = tnp.linalg.tensorsolve(a, b, axes)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    rtol = 1e-3 if dtype == "float32" else 1e-8
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol)


@pytest.mark.parametrize(("shape", "ind"), [((4, 6, 8, 3), 2), ((24, 8, 3), 1), ((2, 3, 6), 2)])
def test_tensorinv(shape: tuple[int, ...], ind: int) -> None:
    a = RNG.standard_normal(shape)
    wanted = np.linalg.tensorinv(a, ind)
    found = tracer.compile(lambda a: tnp.linalg.tensorinv(a, ind))(a)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_gradients() -> None:
    a, b = RNG.standard_normal((2, 3, 6)), RNG.standard_normal((2, 3))
    tracer.check_grads(tnp.linalg.tensorsolve, (a, b), order=2)
    tracer.check_grads(tnp.linalg.tensorinv, (a,), order=2)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(LinAlgError, match=r"tensorsolve: a of shape \(2, 3, 5\)"):
        tnp.linalg.tensorsolve(np.ones((2, 3, 5)), np.ones((2, 3)))
    with pytest.raises(LinAlgError, match="tensorinv: an array of shape"):
        tnp.linalg.tensorinv(np.ones((2, 3, 5)))
    with pytest.raises(ArgumentError, match="ind is 0"):
        tnp.linalg.tensorinv(np.ones((2, 2)), 0)
    with pytest.raises(LinAlgError, match="singular"):
        tnp.linalg.tensorinv(np.zeros((2, 3, 6)))
