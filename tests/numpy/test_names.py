"""Names beyond the standard: as NumPy's eagerly and traced, on several dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same, interpreted, quietly
from tracer.errors import ArgumentError, DTypeError, ShapeError, TracerError, TracingError

RNG = np.random.default_rng(3)
X = RNG.normal(size=(4, 6))
V = RNG.normal(size=12)
SORTED = np.sort(RNG.normal(size=9))
N = RNG.integers(0, 5, (3, 4))
J = RNG.integers(1, 40, (3, 4))
Z = X + 1j * RNG.normal(size=(4, 6))
HOLES = np.where(RNG.random((4, 6)) < 0.3, np.nan, X)
HOLES[1] = np.nan
B = RNG.random((3, 4)) < 0.5
F32 = X.astype(np.float32)
SPECIAL = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-300, 3e300])

# name: (function of the module and the arrays, arrays)
CASES = {
    "digitize": (lambda n, x, b: n.digitize(x, b), (X, SORTED)),
    "digitize right": (lambda n, x, b: n.digitize(x, b, right=True), (SORTED, SORTED)),
    "digitize downward": (lambda n, x, b: n.digitize(x, b[::-1]), (SORTED, SORTED)),
    "histogram": (lambda n, x: n.histogram(x), (X,)),
    "histogram edges": (lambda n, x, b: n.histogram(x, b), (X, SORTED)),
    "histogram density": (lambda n, x: n.histogram(x, 5, (-1, 2), density=True), (X,)),
    "histogram weights": (lambda n, x, w: n.histogram(x, 4, weights=w), (X, X**2)),
    "histogram ints": (lambda n, x: n.histogram(x, 5), (N,)),
    "histogram_bin_edges": (lambda n, x: n.histogram_bin_edges(x, 7), (F32,)),
    "histogram2d": (lambda n, x, y: n.histogram2d(x, y, 4), (V, V[::-1].copy())),
    "histogramdd": (lambda n, x: n.histogramdd(x, (2, 3), density=True)[0], (X[:, :2],)),
    "interp": (lambda n, x, p, f: n.interp(x, p, f), (X, SORTED, SORTED**2)),
    "interp ends": (lambda n, x, p, f: n.interp(x, p, f, -1.0, 7.0), (X, SORTED, SORTED**2)),
    "interp period": (lambda n, x, p, f: n.interp(x, p, f, period=1.5), (X, V, V**2)),
    "interp at points": (lambda n, p, f: n.interp(p, p, f), (SORTED, SORTED**2)),
    "interp complex": (lambda n, x, p, f: n.interp(x, p, f), (X, SORTED, SORTED * 1j)),
    "trapezoid": (lambda n, y: n.trapezoid(y), (X,)),
    "trapezoid x": (lambda n, y, x: n.trapezoid(y, x, axis=0), (X, SORTED[:4])),
    "trapezoid of fewer axes": (lambda n, y, x: n.trapezoid(y, x), (X[0], X)),
    "trapezoid dx": (lambda n, y: n.trapezoid(y, dx=0.5, axis=0), (X,)),
    "gradient": (lambda n, x: n.gradient(x), (X,)),
    "gradient axis": (lambda n, x: n.gradient(x, 2.0, axis=1), (X,)),
    "gradient places": (lambda n, x, p: n.gradient(x, p, axis=0), (X, SORTED[:4])),
    "gradient axes in another order": (
        lambda n, x, p: list(n.gradient(x, p, 2.0, axis=(1, 0))),
        (X, SORTED[:6]),
    ),
    "gradient order": (lambda n, x: n.gradient(x, axis=1, edge_order=2), (X,)),
    "gradient places order": (
        lambda n, x, p: n.gradient(x, p, axis=0, edge_order=2),
        (X, SORTED[:4]),
    ),
    "unwrap": (lambda n, x: n.unwrap(5 * x), (X,)),
    "unwrap period": (lambda n, x: n.unwrap(x, period=1.0, axis=0), (X,)),
    "ediff1d": (lambda n, x: n.ediff1d(x, to_begin=[1.0], to_end=[2.0, 3.0]), (X,)),
    "select": (lambda n, x: n.select([x > 1, x > 0], [x, -x], 7.0), (X,)),
    "choose": (lambda n, i: n.choose(i % 3, [i, i * 10, i * 100]), (N,)),
    "choose wrap": (lambda n, i: n.choose(i, [i, -i], mode="wrap"), (N,)),
    "choose clip": (lambda n, i: n.choose(i - 2, [i, -i], mode="clip"), (N,)),
    "piecewise": (lambda n, x: n.piecewise(x, [x < 0, x > 1], [-1.0, n.sin, 5.0]), (X,)),
    "piecewise one": (lambda n, x: n.piecewise(x, x > 0, [lambda v: 2 * v]), (V,)),
    "resize": (lambda n, x: n.resize(x, (5, 7)), (X,)),
    "indices": (lambda n: n.indices((2, 3)), ()),
    "indices sparse": (lambda n: n.indices((2, 3), sparse=True, dtype=float), ()),
    "ix_": (lambda n, x: x[n.ix_([0, 2], [True] * 3 + [False] * 3)], (X,)),
    "mgrid": (lambda n: n.mgrid[0:3, 0:2:0.5], ()),
    "ogrid": (lambda n: n.ogrid[0:3, 1:2:4j], ()),
    "diag_indices": (lambda n: n.diag_indices(3), ()),
    "tril_indices": (lambda n: n.tril_indices(3, 1, 5), ()),
    "triu_indices_from": (lambda n, x: n.triu_indices_from(x, -1), (X,)),
    "unravel_index by columns": (
        lambda n, i: n.unravel_index(i, (5, 4, 3), order="F"),
        (np.array([[0, 7], [59, 31]]),),
    ),
    "unravel_index": (lambda n, i: n.unravel_index(i, (5, 8)), (J - 1,)),
    "ravel_multi_index": (lambda n, i: n.ravel_multi_index((i, i + 1), (6, 7)), (N,)),
    "ravel_multi_index F": (
        lambda n, i: n.ravel_multi_index((i, i), (3, 4), mode=("wrap", "clip"), order="F"),
        (N,),
    ),
    "fromfunction": (lambda n: n.fromfunction(lambda i, j: i * 10 + j, (3, 2)), ()),
    "logspace": (lambda n: n.logspace(0, 3, 5), ()),
    "geomspace": (lambda n: n.geomspace(1, 1000, 4), ()),
    "vander": (lambda n, x: n.vander(x, 4), (SORTED,)),
    "vander ints": (lambda n, x: n.vander(x, increasing=True), (N[0],)),
    "polyval": (lambda n, p, x: n.polyval(p, x), (SORTED, X)),
    "polyadd": (lambda n, p, q: n.polyadd(p, q), (SORTED, V)),
    "polysub": (lambda n, p, q: n.polysub(p, q), (SORTED, V)),
    "polymul": (lambda n, p, q: n.polymul(p, q), (SORTED, V)),
    "polyder": (lambda n, p: n.polyder(p, 2), (SORTED,)),
    "polyint": (lambda n, p: n.polyint(p, 2, [1.0, 2.0]), (SORTED,)),
    "gcd": (lambda n, i, j: n.gcd(i, j), (N, J)),
    "lcm": (lambda n, i, j: n.lcm(i, j), (-N, J)),
    "bitwise_count": (lambda n, i: n.bitwise_count(i - 2), (N,)),
    "heaviside": (lambda n, x: n.heaviside(x, 0.5), (SPECIAL,)),
    "logaddexp2": (lambda n, x, y: n.logaddexp2(x, y), (SPECIAL, SPECIAL)),
    "ldexp": (lambda n, x, i: n.ldexp(x, i), (SPECIAL[:4], np.array([3, -4, 1000, -1070]))),
    "frexp": (lambda n, x: n.frexp(x), (SPECIAL[:4],)),
    "frexp float32": (lambda n, x: n.frexp(x), (F32,)),
    "modf": (lambda n, x: n.modf(x), (SPECIAL,)),
    "spacing": (lambda n, x: n.spacing(x), (X,)),
    "packbits": (lambda n, x: n.packbits(x, axis=1), (B,)),
    "packbits flat": (lambda n, x: n.packbits(x, bitorder="little"), (B,)),
    "unpackbits": (lambda n, x: n.unpackbits(x, axis=0), (N.astype(np.uint8),)),
    "unpackbits count": (lambda n, x: n.unpackbits(x, count=5), (N.astype(np.uint8),)),
    "iscomplex": (lambda n, x: n.iscomplex(x), (Z,)),
    "isreal": (lambda n, x: n.isreal(x), (X,)),
    "isposinf": (lambda n, x: n.isposinf(x), (SPECIAL,)),
    "isneginf": (lambda n, x: n.isneginf(x), (SPECIAL,)),
    "delete": (lambda n, x: n.delete(x, [1, -1], 1), (X,)),
    "delete slice": (lambda n, x: n.delete(x, slice(0, 9, 2)), (X,)),
    "insert": (lambda n, x: n.insert(x, 2, 5.0, 1), (X,)),
    "insert rows": (lambda n, x, v: n.insert(x, [0, 4], v, 0), (X, X[:2])),
    "insert flat": (lambda n, x: n.insert(x, 1, [7.0, 8.0]), (V,)),
    "rollaxis": (lambda n, x: n.rollaxis(x.reshape(2, 3, 4), 2), (V.repeat(2),)),
    "rollaxis start": (lambda n, x: n.rollaxis(x.reshape(2, 3, 4), 0, 2), (V.repeat(2),)),
    "dsplit": (lambda n, x: n.dsplit(x.reshape(2, 3, 4), 2), (V.repeat(2),)),
    "block": (lambda n, x: n.block([[x, x[:, :1]], [n.ones((2, 7))]]), (X,)),
    "block flat": (lambda n, x: n.block([x, x]), (V,)),
    "partition": (lambda n, x: n.sort(n.partition(x, 2)[:, :3], 1), (X,)),
    "argpartition": (lambda n, x: n.sort(n.argpartition(x, 2)[:, :3], 1), (X,)),
    "sort complex": (lambda n, x: n.sort(x.round(), 0), (Z,)),
    "argsort complex": (lambda n, x: n.argsort(x.round(), kind="stable"), (Z,)),
    "sort_complex": (lambda n, x: n.sort_complex(x.round()), (Z,)),
    "kron": (lambda n, x, y: n.kron(x, y), (X, N)),
    "kron axes": (lambda n, x, y: n.kron(x, y), (V, X)),
    "cross": (lambda n, x: n.cross(x[:, :3], x[:, 3:]), (X,)),
    "cross axis": (lambda n, x: n.cross(x[:3], x[1:], axis=0), (X,)),
    "matvec": (lambda n, x, y: n.matvec(x, y), (Z, Z[0])),
    "vecmat": (lambda n, x, y: n.vecmat(y, x), (Z, Z[:, 0])),
    "cov": (lambda n, x: n.cov(x), (X,)),
    "cov y": (lambda n, x, y: n.cov(x, y, rowvar=False), (X, Z.real)),
    "cov weights": (
        lambda n, x, f, a: n.cov(x, fweights=f, aweights=a),
        (X, np.arange(1, 7), np.arange(6) + 0.5),
    ),
    "cov float32": (lambda n, x: n.cov(x, dtype=np.float32), (F32,)),
    "corrcoef": (lambda n, x: n.corrcoef(x), (X,)),
    "corrcoef vectors": (lambda n, x, y: n.corrcoef(x, y), (V, V**2)),
    "apply_along_axis": (lambda n, x: n.apply_along_axis(n.cumsum, 0, x), (X,)),
    "apply_along_axis scalar": (lambda n, x: n.apply_along_axis(n.sum, 1, x), (X,)),
    "apply_along_axis of nothing": (lambda n: n.apply_along_axis(n.sum, 0, n.ones((0, 3))), ()),
    "apply_along_axis matrix": (lambda n, x: n.apply_along_axis(n.diag, 1, x), (X,)),
    "apply_over_axes": (lambda n, x: n.apply_over_axes(n.sum, x, [0, 1]), (X,)),
    "vectorize": (lambda n, x, y: n.vectorize(lambda a, b: a * b + 1)(x, y), (X, X[0])),
    "vectorize signature": (
        lambda n, x: n.vectorize(lambda a, b: (a * b).sum(), signature="(n),(n)->()")(x, x[0]),
        (X,),
    ),
    "vectorize several": (lambda n, x: n.vectorize(lambda a: (a + 1, -a))(x), (X,)),
    "quantile": (lambda n, x: n.quantile(x, [0.1, 0.5, 0.9]), (X,)),
    "quantile axis": (lambda n, x: n.quantile(x, [[0.0, 1.0]], axis=1, keepdims=True), (X,)),
    "average returned": (lambda n, x: n.average(x, 1, returned=True), (X,)),
    "average weights returned": (
        lambda n, x, w: n.average(x, 1, w, True, keepdims=True),
        (X, V[:6] ** 2),
    ),
    "pinv tolerances": (lambda n, x, r: n.linalg.pinv(x, r), (X.reshape(2, 3, 4), V[:2] ** 2)),
    "pinv rtol": (lambda n, x, r: n.linalg.pinv(x, rtol=r), (Z, np.array(0.3))),
    "matrix_rank tolerances": (
        lambda n, x, r: n.linalg.matrix_rank(x, rtol=r),
        (X.reshape(2, 3, 4), np.array([0.5, 1e-3])),
    ),
    "percentile": (lambda n, x: n.percentile(x, [5, 50], axis=0), (X,)),
    "percentile float32": (lambda n, x: n.percentile(x, 30, axis=0), (F32,)),
    "percentile nan": (lambda n, x: n.percentile(x, 30, axis=0), (HOLES,)),
    "nanmedian": (lambda n, x: n.nanmedian(x, axis=1), (HOLES,)),
    "nanquantile": (lambda n, x: n.nanquantile(x, [0.2, 0.7], axis=1), (HOLES,)),
    "nanpercentile": (lambda n, x: n.nanpercentile(x, 40, keepdims=True), (HOLES,)),
    "nanargmax": (lambda n, x: n.nanargmax(x, axis=0), (HOLES,)),
    "nanargmin": (lambda n, x: n.nanargmin(x), (HOLES,)),
    "nancumsum": (lambda n, x: n.nancumsum(x, axis=1), (HOLES,)),
    "nancumprod": (lambda n, x: n.nancumprod(x), (HOLES,)),
    "hanning": (lambda n: n.hanning(7), ()),
    "kaiser": (lambda n: n.kaiser(7, 3.0), ()),
    "linspace step": (lambda n: n.linspace(0, 10, 4, retstep=True, axis=0, dtype=int), ()),
    "linspace arrays": (lambda n, x: n.linspace(x[0], x[1], 5, axis=1), (X,)),
    "linspace ints": (lambda n, x: n.linspace(x[0], x[1], 5, dtype=np.int32), (X,)),
    "diff ends": (lambda n, x: n.diff(x, 2, 0, prepend=0.0, append=x[:2]), (X,)),
    "searchsorted sorter": (lambda n, x, v: n.searchsorted(x, v, sorter=n.argsort(x)), (V, X)),
    "cumulative_sum": (lambda n, x: n.cumulative_sum(x, axis=1, include_initial=True), (X,)),
    "cumulative_prod": (lambda n, x: n.cumulative_prod(x, include_initial=True), (V,)),
    "isin": (lambda n, x, y: n.isin(x, y, invert=True), (N, np.arange(0, 60, 2))),
    "isin of signed and unsigned": (
        lambda n, x, y: (n.isin(x, y), n.isin(y, x)),
        (
            np.array([2**53, 2**53 + 1, -1, 2**63 - 1]),
            np.array([2**64 - 1, 2**53 + 1, 2**63], "uint64"),
        ),
    ),
    "isin floats": (lambda n, x, y: n.isin(x, y), (SPECIAL, np.r_[SPECIAL, V, V])),
}
METHODS = [
    "lower",
    "higher",
    "nearest",
    "midpoint",
    "weibull",
    "hazen",
    "median_unbiased",
    "normal_unbiased",
    "interpolated_inverted_cdf",
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
]


def _flat(result):
    return list(result) if isinstance(result, tuple | list) else [result]


@pytest.mark.xla
@pytest.mark.parametrize("name", CASES)
def test_as_numpy(name):
    function, arrays = CASES[name]
    expected = _flat(quietly(function, np, *arrays))
    eager = _flat(function(tnp, *map(tnp.asarray, arrays)))
    assert len(eager) == len(expected)
    for got, want in zip(eager, expected, strict=True):
        assert_same(got, want, name)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][1]])
def test_as_numpy_when_traced(name):
    function, arrays = CASES[name]
    expected = _flat(quietly(function, np, *arrays))
    traced = interpreted(lambda *args: _flat(function(tnp, *args)), *arrays)
    assert len(traced) == len(expected)
    for got, want in zip(traced, expected, strict=True):
        assert_same(got, want, name)


@pytest.mark.xla
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("function", ["quantile", "nanquantile"])
def test_methods_of_quantiles(function, method):
    levels = np.array([0.0, 0.13, 0.5, 0.77, 1.0])
    found = getattr(tnp, function)(tnp.asarray(X), levels, axis=1, method=method)
    assert_same(found, getattr(np, function)(X, levels, axis=1, method=method))
    for data in (N, N.astype("int8"), HOLES[0, :4], F32):
        for q in (0.5, 0.25, np.linspace(0, 1, 9)):
            expected = quietly(getattr(np, function), data, q, axis=-1, method=method)
            (traced,) = interpreted(
                lambda x, q=q: getattr(tnp, function)(x, q, axis=-1, method=method), data
            )
            assert np.asarray(traced).dtype == np.asarray(expected).dtype
            # NumPy subtracts neighbours in the dtype of the data.
            tolerance = 1e-6 if data.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(traced, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", METHODS)
def test_quantiles_at_elements_are_those_elements(method, dtype):
    """0.15 of 101 is the element 15, not a place between it and 14."""
    levels = np.array([k / 20 for k in range(21)] + [1 / 3, 0.99], dtype)
    compiled = tracer.compile(lambda x: tnp.quantile(x, levels, method=method))
    for n in (6, 101):
        x = np.arange(n).astype(dtype)
        expected = np.quantile(x, levels, method=method)
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.xla
def test_percentiles_at_elements_are_those_elements():
    """Levels are divided by 100 in a program of their own."""
    for x in (np.arange(7.0), np.arange(7, dtype=np.float32)):
        levels = np.arange(7) / 6 * 100
        assert_same(
            tnp.percentile(x, levels, method="lower"), np.percentile(x, levels, method="lower")
        )


@pytest.mark.xla
def test_the_middle_of_more_places_than_float32_has_halves_for():
    x = np.zeros(2**24 + 2, np.float32)
    x[2**23 + 1 :] = 1
    assert tnp.median(x) == tnp.quantile(x, 0.5) == 0.5


def exactly(found, expected):
    """Tell whether arrays, or tuples of them, are equal in every digit and dtype."""
    for one, other in zip(_flat(found), _flat(expected), strict=True):
        assert np.asarray(one).dtype == other.dtype
        np.testing.assert_array_equal(np.asarray(one), other)


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_numbers_at_edges_of_bins_are_counted_where_numpy_counts_them(dtype):
    thirds = np.linspace(0, 10, 4).astype(dtype)
    exactly(tracer.compile(lambda x: tnp.histogram(x, 3))(thirds), np.histogram(thirds, 3))
    x = np.arange(0, 22).astype(dtype)
    for limits in (None, (0.0, 0.7), (0.0, np.float64(21))):
        seven = x if limits is None or limits[1] > 1 else (x / 30).astype(dtype)
        functions = (
            lambda n, x, r: n.histogram(x, 7, r),
            lambda n, x, r: n.histogramdd(x[:, None], [7], r if r is None else [r])[0],
            lambda n, x, r: n.histogramdd(x[:, None], [7], r if r is None else [r])[1][0],
        )
        for function in functions:
            expected = function(np, seven, limits)
            exactly(function(tnp, tnp.asarray(seven), limits), expected)
            exactly(tracer.compile(lambda x, f=function, r=limits: f(tnp, x, r))(seven), expected)


@pytest.mark.xla
def test_columns_of_a_histogram_are_of_one_dtype():
    x, y = (np.arange(22) / 30).astype("float32"), np.arange(22) / 7
    exactly(tnp.histogram2d(tnp.asarray(x), tnp.asarray(y), 7), np.histogram2d(x, y, 7))


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_digit_of_spaced_numbers_is_numpys(dtype):
    ends = np.array([-0.7, 0.7, 0.1, 3], dtype)
    for kwargs in ({"num": 7}, {"num": 8, "endpoint": False}, {"num": 7, "dtype": int}):
        found = tracer.compile(lambda x, k=kwargs: tnp.linspace(x[::2], x[1::2], **k))(ends)
        exactly(found, np.linspace(ends[::2], ends[1::2], **kwargs))


@pytest.mark.xla
def test_each_digit_of_counted_numbers_is_numpys():
    """Compiled as one by one: 1.2 was 1.2000000000000002 in one of them."""
    for numbers in ((1, 2, 0.1), (0.1, 1.0, 0.1), (0, -1, -0.3), (0.6, 9, 0.7), (1, 9, 3)):
        for dtype in (None, "float16", "float32", "int64"):
            expected = np.arange(*numbers, dtype=dtype)
            exactly(tnp.arange(*numbers, dtype=dtype), expected)
            exactly(tracer.compile(lambda a=numbers, d=dtype: tnp.arange(*a, dtype=d))(), expected)


@pytest.mark.xla
def test_interpolation_beside_infinities():
    x, points = np.arange(7) / 2, np.arange(4.0)
    for values in ([np.inf, 1, 1, -np.inf], [np.inf, np.inf, 0, np.nan], [1, np.inf, 1, 2]):
        exactly(tnp.interp(x, points, np.array(values)), np.interp(x, points, values))
    slopes = tracer.grad(lambda x: tnp.interp(x, points, np.array([0.0, 5, 5, 6])).sum())
    assert slopes(x[:6]).tolist() == [5, 5, 0, 0, 1, 1]


@pytest.mark.xla
def test_integers_are_unwrapped_as_integers():
    x = np.array([0, 1, 2, -1, 0, 3, 7, 1, 5, 20, 0], np.int32)
    for period in (4, 5, 4.0):
        exactly(tnp.unwrap(tnp.asarray(x), period=period), np.unwrap(x, period=period))
        truth = x > 1
        exactly(tnp.unwrap(tnp.asarray(truth), period=period), np.unwrap(truth, period=period))


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_gcd_of_every_width(dtype):
    limits = np.iinfo(dtype)
    pairs = RNG.integers(limits.min // 2, limits.max // 2, (2, 30)).astype(dtype)
    assert_same(tnp.gcd(*map(tnp.asarray, pairs)), np.gcd(*pairs))


@pytest.mark.xla
def test_polyfit():
    x, y = np.linspace(-1, 2, 12), V
    for kwargs in ({}, {"w": np.arange(1, 13.0)}):
        found = tnp.polyfit(tnp.asarray(x), tnp.asarray(y), 3, **kwargs)
        np.testing.assert_allclose(found, np.polyfit(x, y, 3, **kwargs), rtol=1e-8)
    coefficients, spread = tnp.polyfit(x, y, 2, cov=True)
    expected = np.polyfit(x, y, 2, cov=True)
    np.testing.assert_allclose(coefficients, expected[0], rtol=1e-8)
    np.testing.assert_allclose(spread, expected[1], rtol=1e-8)


@pytest.mark.xla
def test_roots_and_poly():
    p = np.array([1.0, -6.0, 11.0, -6.0])
    np.testing.assert_allclose(np.sort(tnp.roots(p)), [1, 2, 3], rtol=1e-10)
    np.testing.assert_allclose(tnp.poly([1.0, 2.0, 3.0]), p)
    quotient, rest = tnp.polydiv(p, [1.0, -1.0])
    np.testing.assert_allclose(quotient, [1, -5, 6])
    np.testing.assert_allclose(rest, [0.0])
    with pytest.raises(TracingError, match="strip_zeros"):
        tracer.compile(tnp.roots)(p)


WRITES = {
    "put_along_axis": (lambda n, x: n.put_along_axis(x, n.argmax(x, 1, keepdims=True), 9.0, 1)),
    "put_along_axis flat": (lambda n, x: n.put_along_axis(x, n.asarray([1, 5]), 9.0, None)),
    "fill_diagonal": (lambda n, x: n.fill_diagonal(x, 5.0)),
    "fill_diagonal values": (lambda n, x: n.fill_diagonal(x, [1.0, 2.0, 3.0, 4.0])),
    "fill_diagonal tall": (lambda n, x: n.fill_diagonal(x, 5.0, wrap=True)),
    "put": (lambda n, x: n.put(x, [0, -1, 3], [5.0, 6.0])),
    "put clip": (lambda n, x: n.put(x, [0, 100], 7.0, mode="clip")),
    "putmask": (lambda n, x: n.putmask(x, x > 0, [1.0, 2.0, 3.0])),
    "place": (lambda n, x: n.place(x, x > 0, [1.0, 2.0, 3.0])),
    "copyto": (lambda n, x: n.copyto(x, 3.0, where=x > 0)),
}


@pytest.mark.xla
@pytest.mark.parametrize("name", WRITES)
def test_writes(name):
    write = WRITES[name]
    start = X.T.copy() if "tall" in name else X.copy()
    expected, ours = start.copy(), tnp.array(start)
    write(np, expected)
    write(tnp, ours)
    assert_same(ours, expected)

    def traced(x):
        copy = tnp.array(x)
        write(tnp, copy)
        return copy

    assert_same(interpreted(traced, start)[0], expected)


SIZED = {
    "nonzero": lambda x: tnp.nonzero(x, size=5, fill_value=-1)[0],
    "flatnonzero": lambda x: tnp.flatnonzero(x, size=2),
    "argwhere": lambda x: tnp.argwhere(x, size=5, fill_value=7)[:, 0],
    "where": lambda x: tnp.where(x, size=5, fill_value=9)[0],
    "unique": lambda x: tnp.unique(x, size=4),
    "unique fill": lambda x: tnp.unique(x, size=7, fill_value=-5),
    "unique_values": lambda x: tnp.unique_values(x, size=3),
    "compress": lambda x: tnp.compress(x > 1, x, size=4, fill_value=-1),
    "extract": lambda x: tnp.extract(x > 1, x, size=4),
    "union1d": lambda x: tnp.union1d(x, tnp.asarray([9, 8]), size=8),
    "intersect1d": lambda x: tnp.intersect1d(x, tnp.asarray([1, 3, 8]), size=3, fill_value=-1),
    "setdiff1d": lambda x: tnp.setdiff1d(x, tnp.asarray([1, 3, 8]), size=3, fill_value=-1),
    "setxor1d": lambda x: tnp.setxor1d(x, tnp.asarray([1, 3, 8]), size=4, fill_value=-1),
}
SIZED_EXPECTED = {
    "nonzero": [0, 1, 3, 5, -1],
    "flatnonzero": [0, 1],
    "argwhere": [0, 1, 3, 5, 7],
    "where": [0, 1, 3, 5, 9],
    "unique": [0, 1, 2, 3],
    "unique fill": [0, 1, 2, 3, -5, -5, -5],
    "unique_values": [0, 1, 2],
    "compress": [3, 3, 2, -1],
    "extract": [3, 3, 2, 0],
    "union1d": [0, 1, 2, 3, 8, 9, 0, 0],
    "intersect1d": [1, 3, -1],
    "setdiff1d": [0, 2, -1],
    "setxor1d": [0, 2, 8, -1],
}


@pytest.mark.xla
@pytest.mark.parametrize("name", SIZED)
def test_sizes_stated(name):
    x = np.array([3, 1, 0, 3, 0, 2])
    function = SIZED[name]
    assert np.asarray(function(tnp.asarray(x))).tolist() == SIZED_EXPECTED[name]
    assert interpreted(function, x)[0].tolist() == SIZED_EXPECTED[name]


def test_unique_parts_in_a_trace():
    x = np.array([[3.0, 1, np.nan], [3, 0, np.nan]])
    found = interpreted(lambda v: tnp.unique(v, True, True, True, size=4), x)
    for got, want in zip(found, np.unique(x, True, True, True), strict=True):
        assert_same(got, want)
    single = interpreted(lambda v: tnp.unique_counts(v, size=5)[1], x)[0]
    assert single.tolist() == [1, 1, 2, 1, 1]


@pytest.mark.parametrize(
    "function",
    [
        tnp.nonzero,
        tnp.unique,
        tnp.argwhere,
        lambda x: tnp.union1d(x, x),
        lambda x: tnp.compress(x > 0, x),
        lambda x: tnp.delete(x, tnp.argsort(x)),
        tnp.trim_zeros,
        lambda x: tnp.histogram(x, "auto"),
    ],
)
def test_shapes_that_depend_on_values_are_refused_in_a_trace(function):
    with pytest.raises(TracingError):
        tracer.compile(function)(tnp.asarray(V))


@pytest.mark.xla
@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: tnp.quantile(X, 1.5), ArgumentError),
        (lambda: tnp.quantile(X, 0.5, method="none"), ArgumentError),
        (lambda: tnp.quantile(Z, 0.5), DTypeError),
        (lambda: tnp.nanpercentile(X, 50, weights=X), ArgumentError),
        (lambda: tnp.interp(X, SORTED, V), ShapeError),
        (lambda: tnp.select([X > 0], []), ArgumentError),
        (lambda: tnp.choose(N, [N]), ArgumentError),
        (lambda: tnp.piecewise(X, [X > 0], [1, 2, 3]), ArgumentError),
        (lambda: tnp.gradient(X, 1.0, 2.0, 3.0), ArgumentError),
        (lambda: tnp.gradient(X[:1]), ShapeError),
        (lambda: tnp.gcd(X, X), DTypeError),
        (lambda: tnp.cross(X, X), ShapeError),
        (lambda: tnp.cov(X[None]), ShapeError),
        (lambda: tnp.histogram(X, 0), ArgumentError),
        (lambda: tnp.unravel_index(99, (3, 4)), ArgumentError),
        (lambda: tnp.ravel_multi_index((9,), (3,)), ArgumentError),
        (lambda: tnp.block([[X], V]), ShapeError),
        (lambda: tnp.put(X, 0, 1), DTypeError),
        (lambda: tnp.fill_diagonal(tnp.ones(3), 1), ArgumentError),
        (lambda: tnp.copyto(tnp.ones(3, int), X[0, :3]), DTypeError),
        (lambda: tnp.partition(V, 50), ArgumentError),
        (lambda: tnp.polyfit(V, X, 1), ShapeError),
        (lambda: tnp.nanargmax(HOLES, 1), ArgumentError),
        (lambda: tnp.isdtype("float32", "floating"), ArgumentError),
        (lambda: tnp.nonzero(V, size=-1), ArgumentError),
        (lambda: tnp.cumulative_sum(X), ArgumentError),
        (lambda: tnp.vectorize(lambda a: a, signature="n")(X), ArgumentError),
    ],
)
def test_refusals(call, error):
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, TracerError)


@pytest.mark.xla
def test_questions():
    assert tnp.shape([[1, 2]]) == (1, 2)
    assert tnp.ndim(3) == 0
    assert tnp.size(X, 1) == 6
    assert tnp.iscomplexobj(Z)
    assert not tnp.isrealobj(Z)
    assert tnp.isscalar(tnp.asarray(1))
    assert not tnp.iterable(tnp.asarray(1))
    assert tnp.issubdtype(tnp.bfloat16, np.floating)
    assert tnp.issubdtype("int8", np.integer)
    assert tnp.common_type(tnp.asarray(F32)) is np.float32
    assert tnp.min_scalar_type(300) == np.uint16
    assert_same(tnp.real_if_close(tnp.asarray(X + 1e-17j)), X)
    assert tnp.trim_zeros([0, 1, 2, 0]).tolist() == [1, 2]


@pytest.mark.xla
def test_truth_values_as_indices():
    for index in (True, False, (True, slice(1, 3)), (0, True), np.bool_(True)):
        assert_same(tnp.asarray(X)[index], X[index])
    x, ours = X.copy(), tnp.array(X)
    x[True] = 3.0
    ours[True] = 3.0
    assert_same(ours, x)
    assert_same(tnp.asarray(X)[np.zeros((0, 6), bool)], X[np.zeros((0, 6), bool)])
    assert tnp.zeros(0)[np.zeros(0, int)].shape == (0,)
    with pytest.raises(IndexError):
        tnp.zeros(0)[np.zeros(1, int)]
