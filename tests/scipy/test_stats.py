"""Distributions against scipy.stats, and their gradients against jax."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.stats

import tracer
from tests.compare_with_jax import check
from tests.sampling import in_turn, one_in
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.scipy import stats

pytestmark = pytest.mark.xla

X = np.array([-np.inf, -3.0, -0.5, 0.0, 0.2, 0.5, 1.0, 1.5, 4.0, np.inf])
Q = np.array([0.0, 1e-10, 0.02, 0.3, 0.5, 0.9, 1.0])
K = np.array([-1.0, 0.0, 1.0, 2.0, 5.0, 9.0])
PLACE = (0.3, 1.7)
CASES = {
    "norm": ((), X, PLACE),
    "uniform": ((), X, PLACE),
    "expon": ((), X, PLACE),
    "laplace": ((), X, PLACE),
    "logistic": ((), X, PLACE),
    "cauchy": ((), X, PLACE),
    "gumbel_l": ((), X, PLACE),
    "gumbel_r": ((), X, PLACE),
    "pareto": ((2.5,), X, PLACE),
    "gamma": ((2.5,), X, PLACE),
    "chi2": ((3.5,), X, PLACE),
    "beta": ((2.5, 0.7), X, PLACE),
    "t": ((3.5,), X, PLACE),
    "gennorm": ((1.5,), X, PLACE),
    "vonmises": ((1.5,), X[1:-1], PLACE),
    "wrapcauchy": ((0.4,), X[1:-1], (0.0, 1.0)),
    "truncnorm": ((-0.8, 1.2), X, PLACE),
    "poisson": ((2.5,), K, (1.0,)),
    "bernoulli": ((0.3,), K, (1.0,)),
    "binom": ((6.0, 0.3), K, (1.0,)),
    "nbinom": ((3.0, 0.3), K, (1.0,)),
    "geom": ((0.3,), K, (1.0,)),
    "betabinom": ((6.0, 1.5, 0.7), K, (1.0,)),
}


def _functions(name):
    """Return the functions of a point; entropies have none."""
    return [function for function in getattr(stats, name).__all__ if function != "entropy"]


def _points(name, function, x):
    return Q if function in ("ppf", "isf") else x


@pytest.mark.parametrize(("name", "dtype"), in_turn(CASES, ["float32", "float64"]))
def test_distributions(name, dtype):
    shapes, x, place = CASES[name]
    module = getattr(stats, name)
    arguments = [np.asarray(p, dtype) for p in (*shapes, *place)]
    names = _functions(name)

    def program(x, q, *arguments):
        points = {"ppf": q, "isf": q}
        return [getattr(module, f)(points.get(f, x), *arguments) for f in names]

    found = tracer.compile(program)(x.astype(dtype), Q.astype(dtype), *arguments)
    for function, values in zip(names, found, strict=True):
        assert values.dtype == dtype, function
        points = _points(name, function, x).astype(dtype).astype(float)
        with np.errstate(all="ignore"):
            wanted = getattr(getattr(scipy.stats, name), function)(
                points, *[p.astype(float) for p in arguments]
            )
        # Ends of the support are in it in some of SciPy's distributions, and out in others.
        values = np.asarray(values, float)
        inside = np.isfinite(wanted) & np.isfinite(values)
        rtol = 2e-4 if dtype == "float32" else 1e-9
        np.testing.assert_allclose(
            values[inside], wanted[inside], rtol=rtol, atol=rtol * 1e-2, err_msg=function
        )
        differ = ~inside & ~((values == wanted) | (np.isnan(values) & np.isnan(wanted)))
        allowed = {"wrapcauchy": 1, "uniform": 1, "truncnorm": 2}.get(name, 0)
        assert differ.sum() <= allowed, (function, points[differ], values[differ], wanted[differ])


def test_numbers_become_floats_and_broadcast():
    found = stats.norm.logpdf(np.arange(3), np.zeros((2, 1), "float32"), 2)
    assert found.shape == (2, 3)
    assert found.dtype == np.float64
    assert stats.norm.cdf(np.float32(1.0)).dtype == np.float32
    assert stats.norm.pdf(np.zeros((0, 2))).shape == (0, 2)
    assert np.isnan(float(stats.norm.logpdf(np.nan)))
    with pytest.raises(DTypeError):
        stats.norm.pdf(1j)
    with pytest.raises(ShapeError):
        stats.norm.pdf(np.ones(2), np.ones(3))


@pytest.mark.parametrize("name", CASES)
def test_nan_is_nan(name):
    shapes = CASES[name][0]
    module = getattr(stats, name)
    for function in _functions(name):
        assert np.isnan(float(getattr(module, function)(np.nan, *shapes))), function


@pytest.mark.parametrize("name", ["poisson", "bernoulli", "binom", "nbinom", "geom", "betabinom"])
def test_only_whole_numbers_have_a_probability(name):
    points = np.array([0.5, 1.5, 6.5])
    np.testing.assert_array_equal(getattr(stats, name).pmf(points, *CASES[name][0]), 0)


@pytest.mark.parametrize("name", one_in(2, [name for name in CASES if CASES[name][0]]))
def test_defaults_keep_float32(name):
    shapes, x, _ = CASES[name]
    module = getattr(stats, name)
    for function in _functions(name):
        points = _points(name, function, x).astype("float32")
        assert getattr(module, function)(points, *shapes).dtype == "float32", function


def test_tails_keep_their_digits():
    x = np.array([-30.0, -12.0, 8.0, 40.0])
    np.testing.assert_allclose(
        np.asarray(stats.norm.logcdf(x)), scipy.stats.norm.logcdf(x), rtol=1e-10, atol=1e-300
    )
    np.testing.assert_allclose(
        np.asarray(stats.norm.isf(np.array([1e-200, 1e-20, 0.4]))),
        scipy.stats.norm.isf(np.array([1e-200, 1e-20, 0.4])),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        np.asarray(stats.truncnorm.logpdf(9.5, 9.0, 11.0)),
        scipy.stats.truncnorm.logpdf(9.5, 9.0, 11.0),
        rtol=1e-9,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_multivariate_normal(rng, dtype):
    a = rng.normal(size=(3, 3))
    cov, mean, x = a @ a.T + np.eye(3), rng.normal(size=3), rng.normal(size=(4, 3))
    module = stats.multivariate_normal
    given = [y.astype(dtype) for y in (x, mean, cov)]
    wanted = scipy.stats.multivariate_normal(mean, cov).logpdf(x)
    rtol = 1e-4 if dtype == "float32" else 1e-11
    np.testing.assert_allclose(np.asarray(module.logpdf(*given)), wanted, rtol=rtol)
    found = tracer.compile(module.pdf)(*given)
    assert found.dtype == dtype
    np.testing.assert_allclose(np.asarray(found), np.exp(wanted), rtol=10 * rtol)
    np.testing.assert_allclose(
        float(module.logpdf(0.4, 0.1, 2.0)),
        scipy.stats.norm.logpdf(0.4, 0.1, np.sqrt(2)),
        rtol=1e-12,
    )
    with pytest.raises(ShapeError):
        module.logpdf(x, mean, cov[:2])
    with pytest.raises(ArgumentError):
        module.logpdf(x, mean, cov, allow_singular=True)


@pytest.mark.xla
def test_parameters_at_and_beyond_their_ends():
    # A concentration of 0 was NaN, a negative mean a density of e.
    x = np.array([-2.0, 0.0, 3.0])
    found = stats.vonmises.logpdf(x, 0.0)
    np.testing.assert_allclose(found, scipy.stats.vonmises.logpdf(x, 0.0), rtol=1e-14)
    assert np.isnan(float(stats.poisson.pmf(0, -1.0)))
    assert float(stats.poisson.pmf(0, 0.0)) == 1.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_narrow_bounds_and_far_points_of_truncnorm(dtype):
    # Differences of tails: 0 for 8e-9 in float32, 8 % of a narrow density; NaN far out.
    rtol = 1e-5 if dtype == "float32" else 1e-11
    x, width = np.array([1e-8, 1e-3, -1e-8, 0.0], dtype), np.array(1e-6, dtype)
    half = tracer.compile(stats.truncnorm.cdf)(x[:2], 0.0, np.inf)
    wanted = scipy.special.erf(x[:2].astype(float) / np.sqrt(2))
    np.testing.assert_allclose(np.asarray(half), wanted, rtol=rtol)
    narrow = tracer.compile(stats.truncnorm.pdf)(x[[0, 2, 3]], -width, width)
    np.testing.assert_allclose(np.asarray(narrow), np.full(3, 0.5 / width.astype(float)), rtol=rtol)
    far = np.array([-1e20, 1e20] if dtype == "float32" else [-1e300, 1e300], dtype)
    assert np.asarray(stats.truncnorm.cdf(far, -np.inf, np.inf)).tolist() == [0, 1]
    assert np.asarray(stats.truncnorm.sf(far, -np.inf, np.inf)).tolist() == [1, 0]


def test_bounds_in_no_order_are_nan():
    for function in _functions("truncnorm"):
        found = getattr(stats.truncnorm, function)([-1.0, 2.0, 4.0], [3.0, 2.0, np.nan], 2.0)
        assert np.isnan(np.asarray(found)).all(), function


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_angles_close_to_the_middle(dtype):
    x, rtol = np.array([1e-5, 1e-3, 0.02], dtype), 2e-5 if dtype == "float32" else 1e-12
    for name, shape in (("vonmises", 1e4), ("wrapcauchy", 1 - 2.0**-14)):
        found = tracer.compile(getattr(stats, name).pdf)(x, np.array(shape, dtype))
        place = x.astype(float)
        if name == "vonmises":
            wanted = scipy.stats.vonmises.pdf(place, shape)
        else:
            square = (1 - shape) ** 2 + 4 * shape * np.sin(place / 2) ** 2
            wanted = (1 - shape) * (1 + shape) / (2 * np.pi * square)
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=rtol, err_msg=name)
    assert float(stats.wrapcauchy.pdf(2 * np.pi, 0.5)) > 0.4


def test_beta_tails_of_small_shapes():
    x, a, b = np.array([1e-20, 1e-300, 0.3]), np.array([1e-3, 1e-9, 5.0]), np.array([1e3, 1.0, 7.0])
    for function in ("sf", "logsf", "cdf", "logcdf"):
        found = np.asarray(tracer.compile(getattr(stats.beta, function))(x, a, b))
        np.testing.assert_allclose(
            found, getattr(scipy.stats.beta, function)(x, a, b), rtol=1e-8, err_msg=function
        )
    small = [np.float32(y) for y in (0.5, 1e-9, 1)]
    assert float(stats.beta.cdf(*small)) <= 1
    assert not np.isnan(float(stats.beta.logsf(*small)))


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 2e-4), ("float64", 1e-8)])
def test_large_parameters_of_beta_and_betabinom(dtype, rtol):
    # 0.00865 for 0.00977 in float32.
    a, b, n, k = (np.asarray(y, dtype) for y in (1e6, 1e6, 10, [0, 3, 10]))
    place = np.array([0.499, 0.5, 0.5005], dtype)
    for name, given in (
        ("beta.logpdf", (place, a, b)),
        ("betabinom.logpmf", (k, n, a, b)),
        ("betabinom.logpmf", (k * 1e5, n * 1e5, a / 1e6, b / 2e5)),
    ):
        module, function = name.split(".")
        ours, theirs = (getattr(getattr(x, module), function) for x in (stats, scipy.stats))
        wanted = theirs(*(y.astype(float) for y in given))
        np.testing.assert_allclose(np.asarray(ours(*given)), wanted, rtol=rtol, err_msg=name)
    found = tracer.grad(lambda a: stats.beta.logpdf(place[0], a, b))(a)
    digamma = scipy.special.digamma
    wanted = np.log(float(place[0])) - digamma(1e6) + digamma(2e6)
    np.testing.assert_allclose(float(found), wanted, rtol=rtol)
    found = tracer.grad(lambda a: stats.betabinom.logpmf(k, n, a, b).sum())(a)
    counts = k.astype(float)
    wanted = digamma(counts + 1e6) - digamma(2e6 + 10) - digamma(1e6) + digamma(2e6)
    np.testing.assert_allclose(float(found), wanted.sum(), rtol=0.05)


ALL_OF_PARETO = [("pareto", x) for x in ("logpdf", "cdf", "sf", "logcdf", "logsf", "ppf")]


def test_parameters_that_are_none_give_nan():
    p, k = np.array([[np.nan], [-0.5], [1.5]]), np.array([-1.0, 0.0, 0.5, 2.0, 11.0])
    for found in (
        stats.bernoulli.pmf(k, p),
        stats.binom.pmf(k, 10.0, p),
        stats.nbinom.pmf(k, 10.0, p),
        stats.geom.pmf(k, p),
        stats.poisson.pmf(k, p[:2]),
    ):
        assert np.isnan(np.asarray(found)).all()
    for name, function in (("gamma", "logpdf"), ("chi2", "logpdf"), *ALL_OF_PARETO):
        found = getattr(getattr(stats, name), function)(k, np.array([[np.nan], [-1.0]]))
        assert np.isnan(np.asarray(found)).all(), (name, function)
    for n in (np.nan, -1.0):
        assert np.isnan(float(stats.binom.pmf(-2.0, n, 0.5)))
        assert np.isnan(float(stats.nbinom.pmf(-2.0, n, 0.5)))
    assert np.isnan(np.asarray(stats.uniform.pdf(0.5, [np.nan, 0.0], [1.0, np.nan]))).all()
    for a, b in ((-1.0, 1.0), (2.0, 0.0), (np.nan, 1.0)):
        assert np.isnan(float(stats.beta.logpdf(3.0, a, b)))
        assert np.isnan(float(stats.betabinom.logpmf(3.0, 10.0, a, b)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tails_so_far_out_that_squares_overflow(dtype):
    x = np.array([-1e30, 1e25, 3.0], dtype) if dtype == "float32" else np.array([-1e200, 1e160, 3])
    far = x.astype(float)
    steep = 2 * np.log(np.hypot(1.0, far))
    for name, shapes, wanted, slope in (
        ("cauchy", (), -np.log(np.pi) - steep, -2 / (far + 1 / far)),
        ("t", (1.0,), -np.log(np.pi) - steep, -2 / (far + 1 / far)),
        ("t", (2.0,), -1.5 * np.log(2 + far[2:] ** 2), -3 / (far + 2 / far)),
    ):
        function = getattr(stats, name).logpdf
        found = np.asarray(tracer.compile(function)(x, *shapes))
        assert found.dtype == dtype
        np.testing.assert_allclose(found[-wanted.size :], wanted, rtol=1e-5)
        grad = tracer.grad(lambda x, f=function, s=shapes: f(x, *s).sum())(x)
        np.testing.assert_allclose(grad, slope, rtol=1e-5)


def test_shares():
    alpha, x = (
        np.array([1.5, 0.7, 2.0]),
        np.array([[0.2, 0.5, 0.5], [0.3, 0.3, 0.1], [0.5, 0.2, 0.4]]),
    )
    found = np.asarray(stats.dirichlet.logpdf(x, alpha))
    wanted = [scipy.stats.dirichlet.logpdf(row, alpha) for row in x.T[:2]]
    np.testing.assert_allclose(found[:2], wanted, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(stats.dirichlet.logpdf(x[:2], alpha)), found, rtol=1e-12)
    np.testing.assert_allclose(
        float(stats.dirichlet.pdf(x[:, 0], alpha)), np.exp(wanted[0]), rtol=1e-12
    )
    assert np.isneginf(float(stats.dirichlet.logpdf([0.5, 0.2, 0.2], alpha)))
    with pytest.raises(ShapeError):
        stats.dirichlet.logpdf(x[:1], alpha)
    counts, p = np.array([2.0, 1.0, 3.0]), np.array([0.2, 0.3, 0.5])
    wanted = scipy.stats.multinomial.logpmf(counts, 6, p)
    np.testing.assert_allclose(float(stats.multinomial.logpmf(counts, 6, p)), wanted, rtol=1e-12)
    assert float(stats.multinomial.pmf(counts, 5, p)) == 0.0


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax


OTHERWISE = ("gumbel_l", "gumbel_r", "gennorm", "vonmises", "wrapcauchy")
"""JAX's have no place and scale, or no gradient."""


@pytest.mark.parametrize("name", OTHERWISE)
def test_gradients_are_finite_differences(name):
    shapes, _, place = CASES[name]
    function = lambda x, *arguments: getattr(stats, name).logpdf(x, *arguments)
    arguments = [np.asarray(p) for p in (*shapes, *place)]
    tracer.check_grads(function, (np.array([0.45, 0.9, 1.3]), *arguments), order=1)


@pytest.mark.parametrize("name", one_in(2, [name for name in CASES if name not in OTHERWISE]))
def test_gradients_are_jaxs(name, jax):
    shapes, _, place = CASES[name]
    inner = (
        K[2:5] if len(place) == 1 else np.array([0.35, 0.5, 1.1]) if name != "pareto" else X[-3:-1]
    )
    if name == "bernoulli":
        inner = np.array([1.0, 2.0])
    function = next(f for f in ("logpdf", "logpmf") if f in _functions(name))
    arguments = [np.asarray(p) for p in (*shapes, *place[1:])]

    def program(module, x, *arguments):
        *shape, scale = arguments if len(place) == 2 else (*arguments, None)
        rest = (place[0], scale) if scale is not None else (place[0],)
        return getattr(getattr(module, name), function)(x, *shape, *rest)

    if len(place) == 1:  # of whole numbers
        check(lambda m, *p: program(m, inner, *p), stats, jax.scipy.stats, arguments, scale=1e4)
    else:
        check(program, stats, jax.scipy.stats, [inner, *arguments], scale=1e4)


def test_names_are_jaxs(jax):
    theirs = jax.scipy.stats
    for name in stats.__all__:
        module, mine = getattr(theirs, name), getattr(stats, name)
        if not inspect.ismodule(mine):
            continue
        missing = {f for f in dir(module) if not f.startswith("_") and callable(getattr(module, f))}
        assert missing <= set(mine.__all__), name


FAR = {
    "gamma": ((2.5,), 80.0),
    "chi2": ((3.5,), 150.0),
    "beta": ((2.5, 9.0), 0.98),
    "cauchy": ((), 1e19),
    "gumbel_l": ((), 4.1),
    "pareto": ((8.0,), 1e3),
}


@pytest.mark.parametrize("name", FAR)
def test_logarithms_of_probabilities_close_to_one(name):
    shapes, x = FAR[name]
    ours, theirs = getattr(stats, name), getattr(scipy.stats, name)
    above = theirs.sf(x, *shapes)
    assert 0 < above < 1e-12
    np.testing.assert_allclose(float(ours.logcdf(x, *shapes)), np.log1p(-above), rtol=1e-7)


def test_logarithms_of_probabilities_close_to_one_from_above():
    below = scipy.stats.gumbel_r.cdf(-4.1)
    np.testing.assert_allclose(float(stats.gumbel_r.logsf(-4.1)), np.log1p(-below), rtol=1e-10)
    below = scipy.stats.gamma.cdf(1e-9, 2.5)
    np.testing.assert_allclose(float(stats.gamma.logsf(1e-9, 2.5)), np.log1p(-below), rtol=1e-10)


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-9), ("float32", 2e-4)])
def test_entropies_of_poisson(dtype, rtol):
    mean = np.array([0.0, 1e-3, 0.5, 3.0, 60.0, 99.9, 100.0, 150.0, 1000.0, np.nan, -1.0])
    found = stats.poisson.entropy(mean.astype(dtype), 1)
    assert found.dtype == dtype
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, scipy.stats.poisson.entropy(mean), rtol=rtol)
    slope = tracer.grad(lambda mean: stats.poisson.entropy(mean).sum())(np.array([5.0, 200.0]))
    h = 1e-4
    wanted = [np.diff(scipy.stats.poisson.entropy([m - h, m + h]))[0] / (2 * h) for m in (5, 200)]
    np.testing.assert_allclose(slope, wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_middle_of_cauchys_distribution_is_zero(dtype):
    # It was 6e-17, and -4e-8 of float32; beside it digits were lost.
    q = np.array([0.5, 0.5 + 2**-20, 0.5 - 2**-20, 0.25, 0.75, 0.0, 1.0], dtype)
    step = np.tan(np.pi * 2**-20)
    expected = np.array([0, step, -step, -1, 1, -np.inf, np.inf])
    tolerance = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(stats.cauchy.ppf(q), expected, rtol=tolerance)
    np.testing.assert_allclose(stats.cauchy.isf(q), -expected, rtol=tolerance)


def test_the_least_quantile_of_bernoullis_distribution_is_below_it():
    q = np.array([0, 1e-300, 0.7, 1.0])
    np.testing.assert_array_equal(stats.bernoulli.ppf(q, 0.3, 2), [1, 2, 2, 3])
