"""igamma_grad_a and random_gamma_grad: mpmath's values, and what JAX does at the edges."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.lax as lax
import tracer.numpy as tnp
from tests.sampling import one_in
from tracer.errors import DTypeError, NotDifferentiableError, ShapeError

pytestmark = pytest.mark.xla

# a, x, dP/da, dx/da, by differences of mpmath's gammainc with 60 digits.
KNOWN = [
    (0.0009765625, 9.313225746154785e-10, -19.823517159794211, 1.9282155043791868e-5),
    (0.0009765625, 0.0009765625, -6.31750070949874, 6.3630406157414739),
    (0.0009765625, 0.75, -0.34087981354597566, 554.06524619205703),
    (0.0009765625, 4.0, -0.0037951799046768782, 847.10613765869837),
    (0.5, 9.313225746154785e-10, -0.0007173205465045288, 3.8800584905081215e-8),
    (0.5, 0.5, -0.64720035237775388, 1.3373525943353347),
    (0.5, 0.75, -0.50499326470352037, 1.641012976380872),
    (0.5, 4.0, -0.016565975346630366, 3.2062683672150201),
    (1.5, 9.313225746154785e-10, -4.5962475192344211e-13, 1.3347449442744928e-8),
    (1.5, 1.5, -0.3439717577563405, 1.1154852184909886),
    (1.5, 1.625, -0.32885539068093426, 1.1610522286566959),
    (1.5, 3.0, -0.15058944435108407, 1.5476127174295939),
    (7.25, 1.8125, -0.0027440012069880067, 0.47209638821155953),
    (7.25, 7.375, -0.14844573704937356, 1.0320532527551901),
    (7.25, 14.5, -0.011227722085523947, 1.4181979538699096),
    (29.5, 7.375, -9.5910005580709337e-10, 0.46455375277690988),
    (29.5, 24.0625, -0.045918897208272541, 0.90669055135317766),
    (29.5, 29.625, -0.073484198102757699, 1.0077961818629532),
    (30.5, 7.625, -4.9917265298601537e-10, 0.46447320343704188),
    (30.5, 25.0, -0.045399746920218005, 0.9088143893059231),
    (30.5, 61.0, -4.3268476556133905e-6, 1.3937819585445568),
    (100.0, 25.0, -1.7143890954734263e-29, 0.46282226078311081),
    (100.0, 90.0, -0.02461191684397991, 0.94982594980114142),
    (100.0, 100.125, -0.039899449315047125, 1.0022941067473635),
    (100.0, 200.0, -1.3050818781983821e-15, 1.388571425395741),
    (10000.0, 2500.0, 0.0, 0.46210536047058584),
    (10000.0, 9900.0, -0.0024237533683262445, 0.99499983265995214),
    (10000.0, 10009.765625, -0.003968552985668909, 1.0005047973501754),
    (10000.0, 11000.0, -1.6308824174316845e-23, 1.0484294462741095),
]
TOLERANCES = {
    "float32": (2e-5, 5e-6),
    "float64": (1e-12, 2e-14),
    "bfloat16": (4e-3, 4e-3),
}


EDGES = [-1.0, 0.0, 1.0, np.inf, np.nan]
INF, NAN = np.inf, np.nan
SLOPES_AT_EDGES = [NAN, 0, -0.4317297106348987, 0, NAN], [NAN, 0, 0, NAN, NAN]
SAMPLES_AT_EDGES = [NAN, 0, 1.1735630272247269, INF, NAN], [NAN, 0, 0, NAN, NAN]


def _columns():
    """Return a, x and both results: what is known, then all pairs of edges."""
    known = np.array(KNOWN).T
    a, x = (y.ravel() for y in np.meshgrid(EDGES, EDGES, indexing="ij"))
    nothing = [NAN] * 5
    slopes, samples = (
        np.ravel([nothing, nothing, *rows, nothing]) for rows in (SLOPES_AT_EDGES, SAMPLES_AT_EDGES)
    )
    return np.concatenate([known, [a, x, slopes, samples]], axis=1)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_values(dtype):
    *arguments, slope, sample = _columns()
    a, x = (tnp.asarray(y).astype(dtype) for y in arguments)
    same = [np.asarray(y.astype("float64")) for y in (a, x)]
    exact = np.all([(y == z) | np.isnan(z) for y, z in zip(same, arguments, strict=True)], axis=0)
    assert exact.sum() > 32
    both = tracer.compile(lambda a, x: (lax.igamma_grad_a(a, x), lax.random_gamma_grad(a, x)))
    for found, wanted, rtol in zip(both(a, x), (slope, sample), TOLERANCES[dtype], strict=True):
        assert found.dtype == a.dtype
        values, least = np.asarray(found.astype("float64")), float(tnp.finfo(a.dtype).tiny)
        np.testing.assert_allclose(values[exact], wanted[exact], rtol=rtol, atol=least)


@pytest.mark.parametrize("name", one_in(2, ["random_gamma_grad", "igamma_grad_a"]))
def test_shapes_and_refusals(name):
    function = getattr(lax, name)
    a, x = np.array([[0.5], [2.0]]), np.array([[0.1, 1.0, 5.0]])
    whole = function(a, x)
    assert whole.shape == (2, 3)
    np.testing.assert_allclose(np.asarray(function(2.0, x))[0], np.asarray(whole)[1], rtol=1e-14)
    each = tracer.vmap(tracer.vmap(function, (None, 0)), (0, None))(a[:, 0], x[0])
    np.testing.assert_allclose(np.asarray(each), np.asarray(whole), rtol=1e-14)
    assert function(a[:0], x[:, :1]).shape == (0, 1)
    with pytest.raises(ShapeError, match=name):
        function(a, x[0])
    with pytest.raises(DTypeError, match="float32"):
        function(a.astype("float32"), x)
    with pytest.raises(DTypeError, match="give floats"):
        function(2, 3)
    with pytest.raises(DTypeError, match="give floats"):
        function(1j, 1j)
    for argnum in (0, 1):
        with pytest.raises(NotDifferentiableError, match="not known"):
            tracer.grad(function, argnum)(2.0, 3.0)


def test_a_limit_is_kept_row_by_row():
    """The sum of the derivatives of half a million samples, in a tenth of their bytes."""

    def total(a, n):
        return lax.map(lambda row: lax.random_gamma_grad(a, n * row + a).sum(), n).sum()

    n = np.linspace(0.1, 2.0, 700)
    found = tracer.compile(total, memory_limit="400KB")(np.float64(1.5), n)
    np.testing.assert_allclose(float(found), 699251.6834897543, rtol=1e-12)


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax


@pytest.mark.parametrize("name", one_in(2, ["random_gamma_grad", "igamma_grad_a"]))
def test_values_are_jaxs(jax, name):
    a = np.array([0.01, 0.3, 1.0, 2.5, 20.0, 60.0])[:, None]
    # Further out JAX's random_gamma_grad goes wrong: it leaves the series out where P underflows.
    x = a * np.array([[0.0, 0.5, 0.9, 1.0, 1.5, 3.0]])
    found = getattr(lax, name)(a, x)
    wanted = getattr(jax.lax, name)(jax.numpy.asarray(a), jax.numpy.asarray(x))
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-11)
