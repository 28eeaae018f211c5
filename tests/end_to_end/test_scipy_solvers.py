"""Compiled functions and our arrays in SciPy's solvers, which hand arrays to C code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize

import tracer
import tracer.numpy as tnp

pytestmark = pytest.mark.xla
WANTED = np.array([1.0, 2.0, 3.0])


def loss(x: Any) -> Any:
    return ((x - WANTED) ** 2).sum() + ((x - WANTED) ** 4).sum() / 10


def residuals(x: Any) -> Any:
    return tnp.concatenate([x - WANTED, (x - WANTED) ** 2])


VALUE_AND_GRADIENT = tracer.compile(tracer.value_and_grad(loss))
HESSIAN = tracer.compile(tracer.hessian(loss))
RESIDUALS = tracer.compile(residuals)
JACOBIAN = tracer.compile(tracer.jacobian(residuals))
WITH_HESSIANS = ["Newton-CG", "trust-constr", "trust-krylov", "trust-ncg", "dogleg", "trust-exact"]


@pytest.mark.parametrize("start", [np.zeros(3), tnp.zeros(3)], ids=["NumPy", "tracer"])
@pytest.mark.parametrize("method", ["L-BFGS-B", "SLSQP", "TNC", "CG", "BFGS", *WITH_HESSIANS])
def test_minimize(method: str, start: Any) -> None:
    more = {"hess": HESSIAN} if method in WITH_HESSIANS else {}
    found = optimize.minimize(VALUE_AND_GRADIENT, start, jac=True, method=method, **more)
    np.testing.assert_allclose(found.x, WANTED, atol=1e-3)


@pytest.mark.parametrize("method", ["Nelder-Mead", "Powell", "COBYLA"])
def test_minimize_without_derivatives(method: str) -> None:
    found = optimize.minimize(tracer.compile(loss), np.zeros(3), method=method)
    np.testing.assert_allclose(found.x, WANTED, atol=1e-2)


def test_constraints() -> None:
    def room(x: Any) -> Any:
        return 3 - x.sum()

    constraint = {
        "type": "ineq",
        "fun": tracer.compile(room),
        "jac": tracer.compile(tracer.grad(room)),
    }
    found = optimize.minimize(
        VALUE_AND_GRADIENT, np.zeros(3), jac=True, method="SLSQP", constraints=constraint
    )
    np.testing.assert_allclose(found.x.sum(), 3, atol=1e-6)


@pytest.mark.parametrize("jacobian", [JACOBIAN, "2-point"], ids=["ours", "differences"])
@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_least_squares(method: str, jacobian: Any) -> None:
    found = optimize.least_squares(RESIDUALS, np.zeros(3), jac=jacobian, method=method)
    np.testing.assert_allclose(found.x, WANTED, atol=1e-4)


@pytest.mark.parametrize("method", ["hybr", "lm"])
def test_root(method: str) -> None:
    def shifted(x: Any) -> Any:
        return tnp.sinh(x - WANTED)

    found = optimize.root(
        tracer.compile(shifted),
        np.zeros(3),
        jac=tracer.compile(tracer.jacobian(shifted)),
        method=method,
    )
    np.testing.assert_allclose(found.x, WANTED, atol=1e-6)


def test_curves_and_numbers() -> None:
    x = np.arange(5.0)
    line = tracer.compile(lambda x, a, b: a * x + b)
    np.testing.assert_allclose(optimize.curve_fit(line, x, 2 * x + 1)[0], [2, 1], atol=1e-6)
    assert abs(optimize.brentq(tracer.compile(lambda x: x - 0.3), 0, 1) - 0.3) < 1e-9
    square = tracer.compile(lambda x: x**2)
    assert abs(integrate.quad(square, 0, 1)[0] - 1 / 3) < 1e-9
    assert abs(optimize.minimize_scalar(square).x) < 1e-6


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF", "LSODA"])
def test_initial_values(method: str) -> None:
    decay = tracer.compile(lambda t, y: -y)
    found = integrate.solve_ivp(decay, (0, 1), np.ones(2), method=method, rtol=1e-6)
    np.testing.assert_allclose(found.y[:, -1], np.exp(-1), rtol=1e-4)


def test_conversions_give_arrays_of_numpy_but_in_a_trace() -> None:
    x = tnp.asarray(2.0)
    for convert in (np.atleast_1d, np.atleast_2d, np.atleast_3d):
        assert type(convert(x)) is np.ndarray
        traced = tracer.compile(lambda y, convert=convert: convert(y) * 3)(x)
        assert isinstance(traced, tracer.Array)
        np.testing.assert_array_equal(traced, convert(6.0))
