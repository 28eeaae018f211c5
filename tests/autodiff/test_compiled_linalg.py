"""Derivatives of compiled linear algebra, real and complex: first and second order, both modes.

Against differences, and against JAX where it is installed. The functions are those of
`tests/numpy/test_linalg_gradients.py`: none depends on the phase of a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
import tracer.scipy.linalg
from tests.autodiff.compiled import Case, check, pairing
from tests.numpy.test_linalg_gradients import (
    BESIDE_JAX,
    OF_SCIPY,
    OF_SYMMETRIC,
    OURS,
    SQUARE,
    folded,
    hermitian_part,
    matrix,
)
from tests.sampling import in_turn
from tracer.errors import NotDifferentiableError

pytestmark = pytest.mark.xla
Function = Callable[[Any, Any, Any], Any]
GENERAL: dict[str, Function] = {
    name: lambda np_, sp, x, compute=compute: compute(np_, x)
    for name, compute in {**SQUARE, **OURS}.items()
}
SYMMETRIC: dict[str, Function] = {
    f"symmetric: {name}": compute
    for name, compute in {**OF_SYMMETRIC, **OF_SCIPY, **BESIDE_JAX}.items()
}
QUICK = "inv solve det qr cholesky eigh svd eig pinv lstsq".split()
QUICK += [f"symmetric: {name}" for name in ("cholesky", "eigh", "eigvalsh", "a pair")]
SLOW = [name for name in [*GENERAL, *SYMMETRIC] if name not in QUICK]
# The second derivative is through all columns of Q, though the last ones do not matter.
REFUSED = {("R of a tall complete qr", 2)}
DTYPES = ("float64", "complex128")


def losses(name: str, np_: Any, sp: Any) -> Callable[[Any], Any]:
    compute = {**GENERAL, **SYMMETRIC}[name]
    return lambda x: folded(np_, compute(np_, sp, x))


def drawn(name: str, dtype: str, size: int = 3) -> list[Any]:
    """Return a matrix and two directions, symmetric where the function takes one."""
    rng = np.random.default_rng(11)
    found = [matrix(rng, (size, size), dtype) for _ in range(3)]
    x, *directions = [hermitian_part(np, x) for x in found] if name in SYMMETRIC else found
    return [x, *(v / np.linalg.norm(v) for v in directions)]


def case(name: str, dtype: str, size: int = 3) -> Case:
    x, along, then = drawn(name, dtype, size)
    loss = losses(name, tnp, tracer.scipy.linalg)
    return Case(f"{name}, {dtype}", lambda points: loss(points[0]), (x,), (along,), (then,))


@pytest.mark.parametrize(
    ("name", "order"),
    [*product(QUICK, [1, 2]), *in_turn(SLOW, [1, 2])],
)
def test_derivatives_of_compiled_linear_algebra(name: str, order: int) -> None:
    found = [case(name, dtype) for dtype in DTYPES]
    if (name, order) in REFUSED:
        with pytest.raises(NotDifferentiableError, match="not determined by the matrix"):
            check(found, order)
    else:
        check(found, order)


@pytest.mark.parametrize("name", ["solve", "eigh", "svd", "nuclear"])
def test_second_derivatives_of_larger_matrices(name: str) -> None:
    """XLA writes small programs as one function, and computes them in another way."""
    check([case(name, dtype, 24) for dtype in DTYPES], 2, 2e-5)


def both_orders(grad: Callable[..., Any], loss: Callable[[Any], Any], total: Any) -> Any:
    """Return a function of a matrix and a direction: the gradient, and that of its product."""
    slope = lambda x, v: total(grad(loss)(x), v)
    return lambda x, v: (grad(loss)(x), grad(slope)(x, v))


@pytest.mark.parametrize("name", "solve det qr cholesky eigh svd".split())
def test_compiled_derivatives_are_jaxs(name: str) -> None:
    jax = pytest.importorskip("jax")

    def theirs(x: Any, v: Any) -> Any:
        return jax.numpy.real(x * v).sum()

    for dtype in DTYPES:
        x, direction, _ = drawn(name, dtype)
        with jax.enable_x64(True):
            loss = losses(name, jax.numpy, jax.scipy.linalg)
            wanted = jax.jit(both_orders(jax.grad, loss, theirs))(x, direction)
        ours = both_orders(
            tracer.grad,
            losses(name, tnp, tracer.scipy.linalg),
            lambda g, v: pairing((g,), (v,)),
        )
        for found, other in zip(tracer.compile(ours)(x, direction), wanted, strict=True):
            np.testing.assert_allclose(found, np.asarray(other), rtol=1e-7, atol=1e-8)
