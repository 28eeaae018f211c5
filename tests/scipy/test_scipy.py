"""tracer.scipy against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import tracer
import tracer.scipy
from tests.numpy.oracle import assert_same, interpreted, quietly, sample
from tracer.errors import ArgumentError, DTypeError, LinAlgError, ShapeError

linalg, special = tracer.scipy.linalg, tracer.scipy.special

DTYPES = ("bool", "int8", "int32", "float16", "float32", "float64")
UNARY = "erf erfc erfinv gammaln digamma expit logit log_expit entr ndtr".split()
BINARY = "xlogy xlog1py betaln rel_entr".split()


def _assert_close(result, expected, context=""):
    """SciPy's own algorithms differ from XLA's in the last digits."""
    got, want = np.asarray(result), np.asarray(expected)
    assert got.dtype == want.dtype, context
    tolerance = {"float16": 1e-2, "float32": 1e-4}.get(want.dtype.name, 1e-11)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=str(context))


def _result_dtype(dtype):
    """Floats stay, integers become float64; SciPy is of several minds about float16 and int8."""
    return dtype if np.dtype(dtype).kind == "f" else "float64"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary_functions(name, dtype, rng):
    x = sample(rng, (12,), dtype)
    wanted = _result_dtype(dtype)
    expected = quietly(getattr(scipy.special, name), x.astype(wanted)).astype(wanted)
    _assert_close(interpreted(getattr(special, name), x)[0], expected, f"{name} {dtype}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary_functions(name, dtype, rng):
    x, y = np.abs(sample(rng, (5, 1), dtype)), np.abs(sample(rng, (6,), dtype))
    wanted = _result_dtype(dtype)
    expected = quietly(getattr(scipy.special, name), x.astype(wanted), y.astype(wanted))
    expected = expected.astype(wanted)
    _assert_close(interpreted(getattr(special, name), x, y)[0], expected, f"{name} {dtype}")


@pytest.mark.xla
def test_special_points():
    nan, inf = np.nan, np.inf
    x, y = np.array([0, 0, 0, 1, 1, nan, -1.0]), np.array([0, nan, inf, 0, nan, 1, 2.0])
    for name in ("xlogy", "xlog1py", "rel_entr"):
        expected = quietly(getattr(scipy.special, name), x, y)
        np.testing.assert_allclose(np.asarray(getattr(special, name)(x, y)), expected, err_msg=name)
    points = np.array([-inf, -1.0, 0.0, 0.5, 1.0, inf, nan, 800.0, -800.0])
    for name in ("entr", "expit", "log_expit", "erfc", "ndtr", "logit"):
        expected = quietly(getattr(scipy.special, name), points)
        found = np.asarray(getattr(special, name)(points))
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=name)


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_beta_keep_their_digits_for_large_arguments(dtype):
    """As differences of logarithms of gamma they had none: betaln(1e10, 0.5) of float32 was 0."""
    large = np.array([8.0, 50.0, 1e4, 1e6, 1e10, 1e15], dtype)
    exact, one = large.astype(float), np.ones_like(large)
    tolerance = 64 * float(np.finfo(dtype).eps)
    for found, wanted in (
        (special.betaln(large, one), -np.log(exact)),
        (special.betaln(2 * one, large), -np.log(exact) - np.log1p(exact)),
        (special.betaln(large, 3 * one), np.log(2 / exact) - np.log1p(exact) - np.log(exact + 2)),
        (special.beta(one, large), 1 / exact),
        (special.poch(large, one), exact),
        (special.comb(large, one), exact),
        (special.comb(large[:5], 2 * one[:5]), exact[:5] * (exact[:5] - 1) / 2),
    ):
        assert np.asarray(found).dtype == dtype
        np.testing.assert_allclose(np.asarray(found, float), wanted, rtol=tolerance)


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_beside_negative_numbers_keep_their_digits(dtype):
    large, half = np.array([1e5, 1e6, 1e10], dtype), np.asarray(-0.5, dtype)
    # gamma(n - 1 / 2) / gamma(n) is (1 + 3 / (8 n)) / sqrt(n), and gamma(-1 / 2) is -2 sqrt(pi).
    ratio = (1 + 0.375 / large.astype(float)) / np.sqrt(large.astype(float))
    rtol = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(special.poch(large, half), ratio, rtol=rtol + 1e-10)
    known = np.log(2 * np.sqrt(np.pi)) - np.log(ratio)
    np.testing.assert_allclose(special.betaln(half, large), known, rtol=rtol + 1e-10)
    np.testing.assert_allclose(special.betaln(large, half), known, rtol=rtol + 1e-10)
    below = special.poch(large, np.asarray(-2, dtype)) * (large - 1.0) * (large - 2.0)
    np.testing.assert_allclose(below, 1, rtol=30 * np.finfo(dtype).eps)


@pytest.mark.xla
def test_beta_at_its_ends_and_its_derivatives():
    inf = np.inf
    assert np.asarray(special.betaln([inf, 2.0, 0.0, 3.0], [2.0, inf, 3.0, 0.0])).tolist() == [
        -inf, -inf, inf, inf,
    ]  # fmt: skip
    assert np.isnan(special.betaln([np.nan, 2.0, 0.0, np.nan], [2.0, np.nan, np.nan, 0.0])).all()
    np.testing.assert_allclose(special.comb([10.0, 10.0], [0.0, 10.0]), 1, rtol=0)
    for a, b in ((9.0, 9.0), (3.0, 3.0), (0.5, 1e6), (30.0, 12.0)):
        total = scipy.special.psi(a + b)
        slopes = tracer.grad(special.betaln, (0, 1))(a, b)
        wanted = [scipy.special.psi(a) - total, scipy.special.psi(b) - total]
        np.testing.assert_allclose(slopes, wanted, rtol=1e-7)
        second = tracer.hessian(special.betaln, (0, 1))(a, b)
        total = scipy.special.polygamma(1, a + b)
        np.testing.assert_allclose(second[0][0], scipy.special.polygamma(1, a) - total, rtol=1e-9)
        np.testing.assert_allclose(second[0][1], -total, rtol=1e-9)


def test_complex_numbers_are_refused():
    with pytest.raises(DTypeError, match="not defined for complex"):
        special.erf(np.ones(2, complex))


@pytest.mark.xla
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_sums_of_exponentials(axis, rng):
    x = rng.normal(size=(3, 4)) * 300
    b = rng.random((3, 4))
    for keepdims in (False, True):
        expected = scipy.special.logsumexp(x, axis, keepdims=keepdims)
        found = interpreted(lambda v, k=keepdims: special.logsumexp(v, axis, keepdims=k), x)[0]
        assert_same(found, expected)
    _assert_close(special.logsumexp(x, axis, b), scipy.special.logsumexp(x, axis, b))
    _assert_close(special.softmax(x, axis), scipy.special.softmax(x, axis))
    _assert_close(special.log_softmax(x, axis), scipy.special.log_softmax(x, axis))


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_dtypes_of_softmax(name, dtype, rng):
    x = sample(rng, (5,), dtype)
    expected = getattr(scipy.special, name)(x)
    _assert_close(interpreted(getattr(special, name), x)[0], expected, dtype)


@pytest.mark.xla
def test_logsumexp_of_infinities():
    x = np.array([[-np.inf, -np.inf], [np.inf, 0.0], [-np.inf, 2.0]])
    np.testing.assert_array_equal(
        np.asarray(special.logsumexp(x, 1)), quietly(scipy.special.logsumexp, x, 1)
    )


@pytest.mark.xla
def test_softmax_keeps_half_precision():
    x = tracer.numpy.asarray([1.0, 2.0], "bfloat16")
    assert special.softmax(x).dtype == tracer.numpy.bfloat16


def _triangle(rng, dtype="float64", n=4):
    a = sample(rng, (n, n), dtype)
    return (a + 5 * np.eye(n)).astype(dtype)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("trans", [0, 1, 2, "N", "T", "C"])
@pytest.mark.parametrize("unit_diagonal", [False, True])
def test_solve_triangular(lower, trans, unit_diagonal, rng):
    a, b = _triangle(rng, "complex128"), rng.normal(size=(4, 3))
    options = {"trans": trans, "lower": lower, "unit_diagonal": unit_diagonal}
    expected = scipy.linalg.solve_triangular(a, b, **options)
    found = interpreted(lambda x, y: linalg.solve_triangular(x, y, **options), a, b)[0]
    _assert_close(found, expected)


@pytest.mark.xla
def test_solve_triangular_shapes_and_dtypes(rng):
    a, b = _triangle(rng, "float32"), rng.normal(size=4)
    _assert_close(linalg.solve_triangular(a, b), scipy.linalg.solve_triangular(a, b))
    stack = np.stack([a, 2 * a])
    found = np.asarray(linalg.solve_triangular(stack, np.eye(4, dtype="float32"), lower=True))
    np.testing.assert_allclose(found[1] * 2, found[0], rtol=1e-5)
    assert found.dtype == np.float32
    with pytest.raises(ShapeError, match="do not fit"):
        linalg.solve_triangular(a, np.ones(5))
    with pytest.raises(LinAlgError, match="square"):
        linalg.solve_triangular(np.ones((2, 3)), b)
    with pytest.raises(ArgumentError, match="trans"):
        linalg.solve_triangular(a, b, trans="X")


@pytest.mark.xla
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_cholesky_solves(lower, dtype, rng):
    a = sample(rng, (4, 4), dtype)
    a = a @ a.conj().T + 4 * np.eye(4)
    b = rng.normal(size=(4, 2))
    _assert_close(linalg.cholesky(a, lower), scipy.linalg.cholesky(a, lower))
    factor = linalg.cho_factor(a, lower)
    assert factor[1] is lower
    _assert_close(
        linalg.cho_solve(factor, b), scipy.linalg.cho_solve(scipy.linalg.cho_factor(a), b)
    )
    assert linalg.cho_solve(factor, b[:, 0]).shape == (4,)


POINTS = [-30.5, -5.0, -3.0, -2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 10.0]
AT_POLES = {
    "beta": lambda x, y: (x > 0) | (y > 0) | (x != np.floor(x)) | (y != np.floor(y)),
    "poch": lambda x, y: x == x,
    "betaln": lambda x, y: x == x,
    "zeta": lambda x, y: x == x,
}


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", AT_POLES)
def test_functions_made_of_gamma_at_its_poles(name, dtype):
    # They were NaN, betaln infinite at each. Beta of two poles has no sign.
    x, y = (z.ravel() for z in np.meshgrid(POINTS, POINTS))
    x, y = (z[AT_POLES[name](x, y)].astype(dtype) for z in (x, y))
    expected = getattr(scipy.special, name)(x.astype(float), y.astype(float))
    with np.errstate(over="ignore"):
        expected = expected.astype(dtype)
    rtol, least = (2e-4, 1e-36) if dtype == "float32" else (1e-11, 0)
    least = 1e-5 if (name, dtype) == ("betaln", "float32") else least
    for function in (getattr(special, name), tracer.compile(getattr(special, name))):
        np.testing.assert_allclose(function(x, y), expected, rtol=rtol, atol=least)


@pytest.mark.xla
def test_betainc_of_small_parameters_next_to_one():
    """As one less the other tail it had no digits: off by 1e-4 for b = 1e-12."""
    a, b, rest = np.meshgrid([0.01, 0.5, 1.0, 3.0, 50.0], [1e-12, 1e-5, 0.05], [9e-3, 1e-6, 1e-15])
    found = special.betainc(a, b, 1 - rest)
    np.testing.assert_allclose(found, scipy.special.betainc(a, b, 1 - rest), rtol=1e-13)
    assert special.beta(-2.0, -1.0) == -np.inf == scipy.special.beta(-2.0, -1.0)


@pytest.mark.xla
def test_betainc_with_all_mass_at_an_end():
    # They were NaN.
    x = np.array([0.0, 1e-10, 0.3, 0.9, 1.0])
    for a, b in ((0.0, 2.0), (2.0, 0.0), (0.0, 0.0)):
        np.testing.assert_array_equal(special.betainc(a, b, x), scipy.special.betainc(a, b, x))
    assert tracer.grad(lambda x: special.betainc(0.0, 2.0, x))(0.3) == 0


@pytest.mark.parametrize("name", ["fft", "integrate", "interpolate", "spatial"])
def test_an_absent_module_says_what_to_use(name):
    with pytest.raises(tracer.MissingNameError, match=f"tracer.scipy has no {name}"):
        getattr(tracer.scipy, name)
    with pytest.raises(AttributeError, match="has no attribute 'spetial'"):
        _ = tracer.scipy.spetial
