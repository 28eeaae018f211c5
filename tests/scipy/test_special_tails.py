"""i0e, i1e and log_ndtr against SciPy, near, far and with their gradients."""

import numpy as np
import pytest
from scipy import special

import tracer
from tracer.scipy import special as ours

pytestmark = pytest.mark.xla

X = np.concatenate([np.linspace(-30, 30, 241), [-700.0, -60.0, 8.0, 7.999, 8.001, 500.0]])
DERIVATIVES = {
    "i0e": lambda x: special.i1e(x) - np.sign(x) * special.i0e(x),
    "i1e": lambda x: special.ivp(1, x) * np.exp(-np.abs(x)) - np.sign(x) * special.i1e(x),
    "log_ndtr": lambda x: np.exp(-0.5 * x**2 - special.log_ndtr(x)) / np.sqrt(2 * np.pi),
}


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-12), ("float32", 2e-5)])
@pytest.mark.parametrize("is_eager", [False, True])
def test_values(name, dtype, rtol, is_eager) -> None:
    x = X.astype(dtype)
    function = getattr(ours, name)
    found = np.asarray(function(x) if is_eager else tracer.compile(function)(x))
    assert found.dtype == dtype
    expected = getattr(special, name)(x.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-300 if rtol < 1e-9 else 1e-37)


@pytest.mark.parametrize("name", DERIVATIVES)
def test_gradients(name) -> None:
    x = X[(X != 0) & (np.abs(X) < 40)]
    found = tracer.grad(lambda x: getattr(ours, name)(x).sum())(x)
    np.testing.assert_allclose(np.asarray(found), DERIVATIVES[name](x), rtol=1e-9, atol=1e-13)


def test_limits() -> None:
    assert float(ours.log_ndtr(np.inf)) == 0.0
    assert float(ours.log_ndtr(-np.inf)) == -np.inf
    assert all(np.isnan(float(f(np.nan))) for f in (ours.i0e, ours.i1e, ours.log_ndtr))
    assert float(ours.i1e(np.array(0.0))) == 0.0
