"""NumPy's own functions on our arrays, traced and not (NEP 13, NEP 18)."""

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

X = np.linspace(0.1, 2.0, 6).reshape(2, 3)


@pytest.mark.xla
@pytest.mark.parametrize(
    "function",
    [np.exp, np.sqrt, np.negative, np.sum, np.transpose, lambda x: np.add(x, X), np.argsort,
     lambda x: np.concatenate([x, X]), lambda x: np.where(x > 1, x, X), np.linalg.norm,
     lambda x: np.einsum("ij,kj->ik", x, x), lambda x: X + x, lambda x: X @ x.T],
)  # fmt: skip
def test_functions_of_numpy_give_our_arrays(function) -> None:
    expected = function(X)
    eager = function(tnp.asarray(X))
    compiled = tracer.compile(function)(X)
    assert isinstance(eager, tracer.Array)
    np.testing.assert_allclose(np.asarray(eager), expected, rtol=1e-14)
    np.testing.assert_allclose(np.asarray(compiled), expected, rtol=1e-14)


@pytest.mark.xla
def test_numpy_code_differentiates() -> None:
    gradient = tracer.grad(lambda x: np.sum(np.sin(x) ** 2))(X)
    np.testing.assert_allclose(np.asarray(gradient), np.sin(2 * X), rtol=1e-13)


def test_functions_without_a_counterpart_use_the_data() -> None:
    assert np.shape(tnp.asarray(X)) == (2, 3)
    assert np.array_repr(tnp.asarray(X)) == np.array_repr(X)


def test_functions_without_a_counterpart_cannot_be_traced() -> None:
    with pytest.raises(tracer.TracingError, match=r"^array_repr has no counterpart"):
        tracer.compile(np.array_repr)(X)


def test_a_function_of_scipy_names_ours() -> None:
    special = pytest.importorskip("scipy.special")
    with pytest.raises(tracer.TracingError, match=r"use tracer\.scipy\.special\.erf$"):
        tracer.compile(special.erf)(X)
    with pytest.raises(tracer.TracingError, match=r"kv has no counterpart(.|\n)*pure_callback"):
        tracer.compile(special.kv)(X, X)


@pytest.mark.xla
def test_an_ndarray_is_changed_in_place() -> None:
    target = X.copy()
    target += tnp.asarray(X)
    np.testing.assert_array_equal(target, 2 * X)


def test_our_arrays_are_never_written_into() -> None:
    x = tnp.asarray(X)
    with pytest.raises((tracer.DTypeError, TypeError)):
        np.unwrap(x, out=x)
    np.testing.assert_array_equal(np.asarray(x), X)
