"""Other libraries' functions on our arrays, unchanged: as on NumPy's, and the result is ours.

The table of what runs is in docs/third-party.md.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import TracingError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 4))
V = RNG.normal(size=30)
LABELS = np.arange(20) % 2


def _check(function, *arrays, traced=True):
    expected = function(*[array.copy() for array in arrays])
    found = [function(*map(tnp.asarray, arrays))]
    if traced:
        found.append(tracer.compile(function)(*arrays))
    for result in found:
        assert isinstance(result, tracer.Array)
        np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-9, atol=1e-10)


COMPAT = {
    "array_namespace": lambda c, a: c.array_namespace(a).sum(a, axis=0),
    "size, device": lambda c, a: c.to_device(a, c.device(a)) * c.size(a),
}


@pytest.mark.parametrize("name", COMPAT)
def test_array_api_compat(name):
    compat = pytest.importorskip("array_api_compat")
    assert compat.is_array_api_obj(tnp.asarray(X))
    assert compat.array_namespace(tnp.asarray(X)) is tnp
    _check(lambda a: COMPAT[name](compat, a), X)


EXTRA = {
    "atleast_nd": (lambda e, a: e.atleast_nd(a, ndim=3), True),
    "cov": (lambda e, a: e.cov(a), True),
    "create_diagonal": (lambda e, a: e.create_diagonal(a), True),
    "kron": (lambda e, a: e.kron(a[:3], a[:4]), True),
    "pad": (lambda e, a: e.pad(a, 2), True),
    "sinc": (lambda e, a: e.sinc(a), True),
    "at": (lambda e, a: e.at(a, slice(1, 3)).add(3.0), True),
    "argpartition": (lambda e, a: a[e.argpartition(a, 3)][3], True),
    "setdiff1d": (lambda e, a: e.setdiff1d(a, a[:5]), False),
    "isclose": (lambda e, a: e.isclose(a, a + 1e-9), False),
    "apply_where": (lambda e, a: e.apply_where(a > 0, a, lambda v: v**2, fill_value=0.0), False),
}


@pytest.mark.parametrize("name", EXTRA)
def test_array_api_extra(name):
    extra = pytest.importorskip("array_api_extra")
    function, traced = EXTRA[name]
    _check(lambda a: function(extra, a), V, traced=traced)


EINOPS = {
    "rearrange": lambda e, a: e.rearrange(a, "(a b) c -> b (a c)", a=4),
    "reduce": lambda e, a: e.reduce(a, "(a b) c -> a c", "mean", a=4),
    "repeat": lambda e, a: e.repeat(a, "a b -> a k b", k=2),
}


@pytest.mark.parametrize("name", EINOPS)
def test_einops(name):
    einops = pytest.importorskip("einops.array_api")
    _check(lambda a: EINOPS[name](einops, a), X)


def test_einops_differentiates():
    einops = pytest.importorskip("einops.array_api")
    gradient = tracer.grad(lambda a: einops.reduce(a**2, "a b -> ", "sum"))(X)
    np.testing.assert_allclose(np.asarray(gradient), 2 * X)


def _estimators():
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import Ridge
    from sklearn.metrics.pairwise import rbf_kernel

    return {
        "StandardScaler": lambda a, _: preprocessing.StandardScaler().fit_transform(a),
        "MinMaxScaler": lambda a, _: preprocessing.MinMaxScaler().fit_transform(a),
        "Normalizer": lambda a, _: preprocessing.Normalizer().fit_transform(a),
        "PolynomialFeatures": lambda a, _: preprocessing.PolynomialFeatures().fit_transform(a),
        "PCA": lambda a, _: abs(PCA(2, svd_solver="full").fit_transform(a)),
        "LDA": lambda a, y: LinearDiscriminantAnalysis().fit(a, y).predict_proba(a),
        "Ridge": lambda a, y: Ridge(solver="svd").fit(a, y * 1.0).predict(a),
        "rbf_kernel": lambda a, _: rbf_kernel(a, a[:3]),
    }


NAMES = "StandardScaler MinMaxScaler Normalizer PolynomialFeatures PCA LDA Ridge rbf_kernel"


# scikit-learn insists on SCIPY_ARRAY_API=1 from the start of the process.
SKLEARN = """
import sklearn
from tests.numpy import test_third_party as tests

with sklearn.config_context(array_api_dispatch=True):
    estimators = tests._estimators()
    assert list(estimators) == tests.NAMES.split()
    for name, function in estimators.items():
        tests._check(function, tests.X, tests.LABELS, traced=False)
        print(name)
"""
SCIPY = """
import scipy.cluster.vq, scipy.fft, scipy.integrate, scipy.optimize, scipy.signal, scipy.special
import scipy.stats
from tests.numpy import test_third_party as tests

for name, (function, traced) in tests.SCIPY_FUNCTIONS.items():
    tests._check(lambda a: function(scipy, a), abs(tests.X), traced=traced)
    print(name)
"""
SCIPY_FUNCTIONS = {
    "special.logsumexp": (lambda s, a: s.special.logsumexp(a, axis=0), True),
    "special.softmax": (lambda s, a: s.special.softmax(a, axis=1), True),
    "special.xlogy": (lambda s, a: s.special.xlogy(a, a), True),
    "special.gammaln": (lambda s, a: s.special.gammaln(a), False),
    "special.ndtr": (lambda s, a: s.special.ndtr(a), False),
    "stats.skew": (lambda s, a: s.stats.skew(a), True),
    "stats.kurtosis": (lambda s, a: s.stats.kurtosis(a), True),
    "stats.zscore": (lambda s, a: s.stats.zscore(a), True),
    "stats.gmean": (lambda s, a: s.stats.gmean(a), True),
    "stats.trim_mean": (lambda s, a: s.stats.trim_mean(a, 0.1), True),
    "stats.iqr": (lambda s, a: s.stats.iqr(a, axis=0), False),
    "stats.ttest_ind": (lambda s, a: s.stats.ttest_ind(a[:, 0], a[:, 1]).pvalue, False),
    "stats.pearsonr": (lambda s, a: s.stats.pearsonr(a[:, 0], a[:, 1]).statistic, False),
    "fft.fft": (lambda s, a: s.fft.fft(a), True),
    "fft.rfft": (lambda s, a: s.fft.rfft(a), True),
    "fft.dct": (lambda s, a: s.fft.dct(a), False),
    "signal.fftconvolve": (lambda s, a: s.signal.fftconvolve(a, a[:5]), True),
    "signal.hilbert": (lambda s, a: s.signal.hilbert(a), True),
    "signal.detrend": (lambda s, a: s.signal.detrend(a, axis=0), False),
    "integrate.trapezoid": (lambda s, a: s.integrate.trapezoid(a), True),
    "integrate.cumulative_simpson": (lambda s, a: s.integrate.cumulative_simpson(a), True),
    "optimize.rosen": (lambda s, a: s.optimize.rosen(a), True),
    "cluster.vq.whiten": (lambda s, a: s.cluster.vq.whiten(a), True),
    "cluster.vq.vq": (lambda s, a: s.cluster.vq.vq(a, a[:3])[1], False),
}


def _run(script):
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.split()


@pytest.mark.process
def test_scipy():
    pytest.importorskip("scipy", minversion="1.17")
    assert _run(SCIPY) == list(SCIPY_FUNCTIONS)


@pytest.mark.process
def test_scikit_learn():
    pytest.importorskip("sklearn", minversion="1.9")
    assert _run(SKLEARN) == NAMES.split()


def test_what_looks_at_values_says_so_in_a_trace():
    extra = pytest.importorskip("array_api_extra")
    with pytest.raises(TracingError, match="the shape of the result would depend on values"):
        tracer.compile(lambda a: extra.setdiff1d(a, a[:5]))(V)


@pytest.mark.parametrize(
    "dtype",
    "float16 bfloat16 float32 float64 int32 int64 uint8 bool complex64 complex128".split(),
)
def test_dlpack_with_torch_both_ways(dtype) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    ours = tnp.from_dlpack(theirs)
    assert str(ours.dtype) == dtype
    assert bool((torch.from_dlpack(ours) == theirs).all())
    theirs[0, 0] = 1  # ours is a copy: never memory that its owner may change
    assert not bool(np.asarray(ours.astype("bool"))[0, 0])
