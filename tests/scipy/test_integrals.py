"""Error functions of complex numbers, exponential and sine integrals, the dilogarithm: SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import tracer
import tracer.scipy.special as ours
from tests.compare_with_jax import check
from tracer.errors import DTypeError, NotDifferentiableError

pytestmark = pytest.mark.xla

X = np.concatenate(
    [
        np.linspace(-8, 14, 221),
        10.0 ** np.linspace(-7, 2.5, 60),
        [0.0, 1.0, 2.0, 6.0, 12.0, 0.5, 1e30, np.inf, -np.inf, np.nan],
    ]
)
"""Both sides of every border between two methods, the borders, and the ends."""
NAMES = ("dawsn", "erfcx", "fresnel", "exp1", "expi", "sici", "spence")
RTOL = {"float64": 2e-14, "float32": 6e-6}


def _all(x, orders, z):
    found = [getattr(ours, name)(x) for name in NAMES]
    return found, [ours.expn(n, x) for n in orders], ours.wofz(z), ours.erfcx(z)


def _right(name, values):
    """Put limits in place of what SciPy does not know."""
    if name == "fresnel":
        for part in values:
            part[X == 1e30] = 0.5
    return values


def _parts(values):
    return values if isinstance(values, tuple) else (values,)


def _same(found, wanted, rtol, what):
    values = np.asarray(found)
    # Zeros of the integrals are where they are within a unit of the argument.
    tiny = 1e-36 if rtol > 1e-7 else 1e-300
    scale = rtol if what in ("expi", "sici") else 0.0
    np.testing.assert_allclose(values, wanted, rtol=rtol, atol=max(tiny, scale), err_msg=what)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", RTOL)
def test_values(dtype):
    x, orders = X.astype(dtype), (0, 1, 30)
    rng = np.random.default_rng(2)
    z = (rng.normal(size=400) + 1j * rng.normal(size=400)) * np.repeat([0.1, 1, 2, 20], 100)
    z = np.concatenate([z, [0, 1e9, 1e9j, 1e12 + 1e12j, 5e5 - 5e5j]])
    z = z[(z.imag > 0) | (abs(z) < 3)].astype("complex64" if dtype == "float32" else complex)
    found, of_order, faddeeva, scaled = _all(x, orders, z)
    wide = x.astype(float)
    rtol = RTOL[dtype]
    with np.errstate(all="ignore"):
        for name, values in zip(NAMES, found, strict=True):
            wanted = _right(name, getattr(scipy.special, name)(wide))
            for part, other in zip(_parts(values), _parts(wanted), strict=True):
                assert part.dtype == dtype
                beyond = abs(other) > np.finfo(dtype).max
                limit = np.where(beyond, np.sign(other) * np.inf, other)
                _same(part, limit, rtol, name)
        for n, values in zip(orders, of_order, strict=True):
            _same(values, scipy.special.expn(n, wide), rtol, f"expn {n}")
    for values, wanted in (
        (faddeeva, scipy.special.wofz(z.astype(complex))),
        (scaled[z.real > 0], scipy.special.erfcx(z.astype(complex))[z.real > 0]),
    ):
        error = abs(np.asarray(values) - wanted) / abs(wanted)
        assert error.max() < 10 * rtol
        assert values.dtype == z.dtype


def test_orders():
    n, x = np.meshgrid([0, 1, 3, -1], [0.0, -1.0, np.inf, np.nan, 0.5])
    np.testing.assert_allclose(ours.expn(n, x), scipy.special.expn(n, x), rtol=1e-13)
    assert np.isnan(float(ours.expn(1.5, 1.0)))


def test_dtypes_and_refusals():
    assert ours.dawsn(np.float16(1)).dtype == np.float16
    assert ours.exp1(3).dtype == np.float64
    assert [y.dtype for y in ours.sici(np.zeros((0, 2), np.float16))] == [np.float16] * 2
    for name in ("dawsn", "exp1", "expi", "spence"):
        with pytest.raises(DTypeError):
            getattr(ours, name)(1j)
    with pytest.raises(NotDifferentiableError, match="with respect to n"):
        tracer.grad(lambda n: ours.expn(n, 1.0))(2.0)


def test_derivatives_keep_their_digits():
    """Far out the closed forms, 1 - 2 x dawsn(x) and 2 x erfcx(x) - 2 / sqrt(pi), have none."""
    x = np.array([0.3, 2.0, 11.9, 12.1, 50.0, 1e4, 1e9])
    slope = lambda f: tracer.grad(lambda x: f(x).sum())
    second = tracer.compile(lambda x: (slope(slope(ours.dawsn))(x), slope(slope(ours.erfcx))(x)))(x)
    first = tracer.compile(lambda x: (slope(ours.dawsn)(x), slope(ours.erfcx)(x)))(x)
    for order, found in ((1, first), (2, second)):
        wanted = _far_slopes(x, order)
        for values, expected in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(values)[3:], expected[3:], rtol=1e-11)
    d, e = scipy.special.dawsn(x), scipy.special.erfcx(x)
    np.testing.assert_allclose(first[0][:3], (1 - 2 * x * d)[:3], rtol=1e-11)
    np.testing.assert_allclose(first[1][:3], (2 * x * e - 2 / np.sqrt(np.pi))[:3], rtol=1e-11)


def _far_slopes(x, order):
    """Differentiate x^-1 sum of c_k x^-2k term by term."""
    k = np.arange(12)
    double = np.cumprod(np.concatenate([[1.0], 2 * k[1:] - 1])) / 2.0**k
    power = 2 * k + 1
    factor = -power if order == 1 else power * (power + 1)
    terms = double * factor / np.longdouble(x[:, None]) ** (power + order)
    dawson = terms.sum(1) / 2
    return dawson.astype(float), ((-1.0) ** k * terms).sum(1).astype(float) / np.sqrt(np.pi)


SLOPES = {
    "exp1": (lambda x: ours.exp1(x), lambda x: -np.exp(-x) / x),
    "expi": (lambda x: ours.expi(x), lambda x: np.exp(x) / x),
    "expn": (lambda x: ours.expn(3, x), lambda x: -scipy.special.expn(2, x)),
    "expn 0": (lambda x: ours.expn(0, x), lambda x: -np.exp(-x) * (1 / x + 1 / x**2)),
    "S": (lambda x: ours.fresnel(x)[0], lambda x: np.sin(np.pi * x**2 / 2)),
    "C": (lambda x: ours.fresnel(x)[1], lambda x: np.cos(np.pi * x**2 / 2)),
    "si": (lambda x: ours.sici(x)[0], lambda x: np.sin(x) / x),
    "ci": (lambda x: ours.sici(x)[1], lambda x: np.cos(x) / x),
    "spence": (lambda x: ours.spence(x), lambda x: np.log(x) / (1 - x)),
    "dawsn": (lambda x: ours.dawsn(x), lambda x: 1 - 2 * x * scipy.special.dawsn(x)),
    "wofz": (
        lambda x: tracer.numpy.imag(ours.wofz(x - 0.5j)),
        lambda x: np.imag(2j / np.sqrt(np.pi) - 2 * (x - 0.5j) * scipy.special.wofz(x - 0.5j)),
    ),
}


def test_derivatives():
    x = np.array([0.2, 0.9, 1.7, 5.3, 7.1, 12.5])
    slopes = lambda x: [tracer.grad(lambda x, f=f: f(x).sum())(x) for f, _ in SLOPES.values()]
    found = tracer.compile(slopes)(x)
    for (name, (_, slope)), values in zip(SLOPES.items(), found, strict=True):
        np.testing.assert_allclose(values, slope(x), rtol=1e-11, atol=1e-13, err_msg=name)
    at = {"spence": (1.0, -1.0), "si": (0.0, 1.0), "dawsn": (0.0, 1.0), "C": (0.0, 1.0)}
    for name, (place, slope) in at.items():
        assert float(tracer.grad(SLOPES[name][0])(place)) == slope


@pytest.mark.parametrize("dtype", RTOL)
def test_owens_function(dtype):
    ends = [0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    wide = np.linspace(-11, 11, 45) if dtype == "float32" else np.linspace(-30, 30, 61)
    h, a = np.meshgrid([*ends, *wide], [*ends, *np.linspace(-4, 4, 12), 1e-3, 40.0])
    h, a = h.astype(dtype), a.astype(dtype)
    found = ours.owens_t(h, a)
    assert found.dtype == dtype
    wanted = scipy.special.owens_t(h.astype(float), a.astype(float))
    _same(found, wanted, 5e-13 if dtype == "float64" else 6e-6, "owens_t")


def test_slopes_of_owens_function():
    h, a = np.array([0.3, -2.0, 1.0, 0.0]), np.array([0.5, 1.0, -3.0, 0.7])
    found = tracer.compile(tracer.grad(lambda h, a: ours.owens_t(h, a).sum(), argnums=(0, 1)))(h, a)
    density = np.exp(-h * h / 2) / np.sqrt(8 * np.pi)
    np.testing.assert_allclose(found[0], -density * scipy.special.erf(a * h / np.sqrt(2)))
    square = 1 + a * a
    np.testing.assert_allclose(found[1], np.exp(-h * h * square / 2) / (2 * np.pi * square))


def test_complex_derivatives_are_jaxs():
    jax = pytest.importorskip("jax")
    z = np.array([0.3 + 0.2j, -2 + 1j, 14 + 3j, 1 - 2j, -12.5 - 1e-3j])
    with jax.enable_x64(True):
        check(lambda s, z: s.wofz(z), ours, jax.scipy.special, [z], scale=1e3)
