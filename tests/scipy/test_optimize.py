"""minimize: where it ends, against SciPy's, compiled, for batches, and where it gives up."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import tracer
import tracer.numpy as tnp
from tracer.errors import ArgumentError, DTypeError, NotDifferentiableError, ShapeError
from tracer.scipy.optimize import OptimizeResults, minimize
from tracer.scipy.optimize.line_search import Point, line_search

pytestmark = pytest.mark.xla

START = np.array([-1.2, 1.0])


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def powers(x):
    return ((x - 1) ** 4).sum() + (x[0] - x[1]) ** 2


def bent(x):
    return tnp.log(1 + x @ x) + 0.1 * (x - 1) @ (x - 1)


NUMPY = {
    "rosenbrock": (rosenbrock, scipy.optimize.rosen),
    "powers": (powers, lambda x: np.sum((x - 1) ** 4) + (x[0] - x[1]) ** 2),
    "bent": (bent, lambda x: np.log(1 + x @ x) + 0.1 * (x - 1) @ (x - 1)),
}


@pytest.mark.parametrize("name", NUMPY)
def test_minima_are_those_of_scipy(name):
    ours, theirs = NUMPY[name]
    start = np.array([-1.2, 1.0, 0.3])
    wanted = scipy.optimize.minimize(theirs, start, method="BFGS", tol=1e-6)
    found = minimize(ours, start, method="BFGS", tol=1e-6)
    assert bool(found.success)
    assert int(found.status) == 0
    tolerance = 0.02 if name == "powers" else 1e-4
    np.testing.assert_allclose(np.asarray(found.x), wanted.x, atol=tolerance)
    np.testing.assert_allclose(float(found.fun), wanted.fun, atol=1e-7)
    np.testing.assert_allclose(float(found.fun), theirs(np.asarray(found.x)), rtol=1e-9)
    assert np.abs(found.jac).max() <= 1e-6
    assert int(found.nit) < 2 * wanted.nit + 10
    assert int(found.nfev) == int(found.njev) < 3 * wanted.njev + 10


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_quadratic_gives_its_inverse(dtype):
    half = np.random.default_rng(0).normal(size=(4, 4))
    a, b = (half @ half.T + np.eye(4)).astype(dtype), np.arange(4.0).astype(dtype)
    found = minimize(
        lambda x, a, b: x @ a @ x / 2 - b @ x, np.ones(4, dtype), (a, b), method="bfgs"
    )
    assert bool(found.success)
    assert found.x.dtype == found.fun.dtype == found.jac.dtype == found.hess_inv.dtype == dtype
    exact = np.linalg.inv(a.astype(float))
    np.testing.assert_allclose(np.asarray(found.x), exact @ b, atol=1e-4)
    np.testing.assert_allclose(np.asarray(found.hess_inv), exact, atol=0.02)
    np.testing.assert_allclose(np.asarray(found.hess_inv), np.asarray(found.hess_inv).T, rtol=1e-4)


def test_slopes_decide_where_values_are_rounded():
    """Beside 1e4, float32 does not show the last of the descent; its slopes do."""
    start = START.astype("float32")
    for constant in (0, 1e4):
        found = minimize(lambda x, c: rosenbrock(x) + c, start, (constant,), method="BFGS")
        assert bool(found.success)
        np.testing.assert_allclose(np.asarray(found.x), 1, atol=1e-3)


def test_values_wider_than_the_vector():
    weights = np.array([1.0, 3.0])
    found = minimize(
        lambda x: (weights * (x - 2) ** 2).sum(), np.zeros(2, "float32"), method="BFGS"
    )
    assert (found.x.dtype, found.fun.dtype) == ("float32", "float64")
    np.testing.assert_allclose(np.asarray(found.x), 2, atol=1e-4)
    whole = minimize(lambda x: ((x - 0.5) ** 2).sum(), [3, 4], method="BFGS")
    assert whole.x.dtype == "float64"
    np.testing.assert_allclose(np.asarray(whole.x), 0.5, atol=1e-6)


def test_steps_into_nan_are_shortened():
    """The first whole step from 50 leads below zero, where there is no logarithm."""

    def loss(x):
        return tnp.where((x > 0).all(), (x - tnp.log(x)).sum(), tnp.nan)

    found = minimize(loss, [50.0, 0.01], method="BFGS")
    assert bool(found.success)
    np.testing.assert_allclose(np.asarray(found.x), 1, atol=1e-4)
    inner = minimize(lambda x: -tnp.log(1 - x @ x) + 2 * x.sum(), [0.0, 0.0], method="BFGS")
    assert bool(inner.success)
    np.testing.assert_allclose(np.asarray(inner.x), -0.5, atol=1e-5)


def test_where_it_gives_up():
    few = minimize(rosenbrock, START, method="BFGS", options={"maxiter": 3})
    assert (bool(few.success), int(few.status), int(few.nit)) == (False, 1, 3)
    assert float(few.fun) < float(rosenbrock(START))
    downhill = minimize(
        lambda x: -x.sum(), [0.0], method="BFGS", options={"line_search_maxiter": 4}
    )
    assert (bool(downhill.success), int(downhill.status), int(downhill.nfev)) == (False, 5, 5)
    np.testing.assert_allclose(float(downhill.fun), -float(downhill.x[0]))
    edge = minimize(lambda x: abs(x).sum(), [0.7], method="BFGS")
    assert (bool(edge.success), int(edge.status)) == (False, 3)
    assert abs(float(edge.x[0])) < 1e-6
    nowhere = minimize(lambda x: tnp.log(x).sum(), [-1.0], method="BFGS")
    assert (bool(nowhere.success), int(nowhere.status)) == (False, 3)
    assert nowhere.x.tolist() == [-1.0]
    # The start, a step, and thirty within the bracket.
    assert int(nowhere.nfev) == int(nowhere.njev) == 32
    endless = minimize(lambda x: tnp.log(x).sum(), [1.0], method="BFGS", options={"maxiter": 9})
    assert (bool(endless.success), bool(tnp.isfinite(endless.fun))) == (False, True)
    assert float(endless.x[0]) > 0


def searched(values, slopes):
    """Search along a line of which the value and the slope are functions; from 0, first to 1."""
    zero = tnp.zeros(())

    def along(step):
        return values(step), slopes(step), step[None]

    return line_search(along, Point(zero, values(zero), slopes(zero)), zero[None], zero + 1, 10)


def test_a_flat_step_is_not_taken_where_a_lower_one_was():
    """-1 at 1, where the slope is still the first one, and flat at 2, but higher: -1/2."""
    places = np.array([[s**k for k in range(6)] for s in (0, 1, 2)], float)
    rises = np.array([[k * s ** max(k - 1, 0) for k in range(6)] for s in (0, 1, 2)], float)
    factors = np.linalg.solve(np.vstack([places, rises]), [0, -1, -0.5, -1, -1, 0])[::-1]
    found = searched(
        lambda s: tnp.polyval(factors, s), lambda s: tnp.polyval(np.polyder(factors), s)
    )
    assert bool(found.is_done)
    assert float(found.low.value) < -1
    np.testing.assert_allclose(float(found.low.value), np.polyval(factors, float(found.low.step)))


def test_a_search_that_fails_has_the_best_step_and_its_gradient():
    found = searched(lambda s: abs(s - 0.3), lambda s: tnp.where(s < 0.3, -1.0, 1.0))
    assert not bool(found.is_done)
    assert abs(float(found.low.value)) < 1e-3
    assert float(found.grad[0]) == float(found.low.step) != float(found.high.step)


def test_tolerance_and_norm():
    at_once = minimize(rosenbrock, START, method="BFGS", options={"gtol": 1e4})
    assert (bool(at_once.success), int(at_once.nit), int(at_once.nfev)) == (True, 0, 1)
    assert at_once.x.tolist() == START.tolist()
    loose = minimize(rosenbrock, START, method="BFGS", tol=1e-1)
    tight = minimize(rosenbrock, START, method="BFGS", tol=1e-1, options={"gtol": 1e-9, "norm": 2})
    assert 1e-9 < np.abs(loose.jac).max() <= 1e-1
    assert np.linalg.norm(tight.jac) <= 1e-9
    assert int(loose.nit) < int(tight.nit)


def test_compiled_under_a_limit_and_in_batches():
    starts = np.array([[-1.2, 1.0], [3.0, -2.0], [1.0, 1.0], [0.0, 5.0]])
    many = tracer.compile(
        tracer.vmap(lambda x, a: minimize(lambda x, a: a * rosenbrock(x), x, (a,), method="BFGS")),
        memory_limit="1MB",
    )
    scales = np.array([1.0, 2.0, 0.5, 1.0])
    found = many(starts, scales)
    assert isinstance(found, OptimizeResults)
    assert found.hess_inv.shape == (4, 2, 2)
    assert np.asarray(found.success).all()
    for i, start in enumerate(starts):
        alone = minimize(lambda x, a: a * rosenbrock(x), start, (scales[i],), method="BFGS")
        np.testing.assert_allclose(np.asarray(found.x)[i], np.asarray(alone.x), atol=1e-6)
        assert int(found.nit[i]) == int(alone.nit)
    assert int(found.nit[2]) == 0
    doubled = tracer.tree.map(lambda x: x + x, found)
    assert isinstance(doubled, OptimizeResults)


def test_forward_mode_goes_through_and_reverse_mode_says_no():
    def place(b):
        return minimize(lambda x: ((x - b) ** 2).sum(), np.zeros(2), method="BFGS").x

    b = np.array([1.0, 2.0])
    _, moved = tracer.jvp(place, (b,), (np.array([1.0, -1.0]),))
    np.testing.assert_allclose(np.asarray(moved), [1.0, -1.0], atol=1e-6)
    with pytest.raises(NotDifferentiableError):
        tracer.grad(lambda b: place(b).sum())(b)


def test_refusals():
    for method in ("L-BFGS-B", "l-bfgs-experimental-do-not-rely-on-this", None):
        with pytest.raises(ArgumentError, match="no method"):
            minimize(rosenbrock, START, method=method)
    with pytest.raises(ArgumentError, match="tuple"):
        minimize(rosenbrock, START, [1.0], method="BFGS")
    with pytest.raises(ArgumentError, match="disp"):
        minimize(rosenbrock, START, method="BFGS", options={"disp": True, "gtol": 1e-3})
    with pytest.raises(ArgumentError, match="maxiter"):
        minimize(rosenbrock, START, method="BFGS", options={"maxiter": 1.5})
    for start in (1.0, np.ones((2, 2)), np.ones(0)):
        with pytest.raises(ShapeError):
            minimize(rosenbrock, start, method="BFGS")
    with pytest.raises(DTypeError):
        minimize(rosenbrock, START + 1j, method="BFGS")
    with pytest.raises(DTypeError, match="no function"):
        minimize(3, START, method="BFGS")


def test_results_are_named_as_in_jax():
    pytest.importorskip("jax")
    import inspect

    from jax.scipy import optimize as theirs

    assert OptimizeResults._fields == theirs.OptimizeResults._fields
    ours = inspect.signature(minimize).parameters.values()
    wanted = inspect.signature(theirs.minimize).parameters.values()
    assert [(p.name, p.kind, p.default) for p in ours] == [
        (p.name, p.kind, p.default) for p in wanted
    ]


@pytest.mark.parametrize("name", NUMPY)
def test_minima_are_those_of_jax(name):
    jax = pytest.importorskip("jax")
    from jax.scipy import optimize as theirs

    start = np.array([-1.2, 1.0, 0.3])
    with jax.enable_x64(True):
        function = (
            NUMPY[name][0]
            if name != "bent"
            else lambda x: jax.numpy.log(1 + x @ x) + 0.1 * (x - 1) @ (x - 1)
        )
        wanted = theirs.minimize(function, jax.numpy.asarray(start), method="BFGS")
        found = minimize(NUMPY[name][0], start, method="BFGS")
        assert bool(found.success)
        assert float(found.fun) <= float(wanted.fun) + 1e-7
        for mine, other in zip(found, wanted, strict=True):
            assert mine.shape == other.shape
            assert mine.dtype.kind == np.asarray(other).dtype.kind
