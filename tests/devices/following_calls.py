"""A call of every public function that takes arrays, for `on_two_devices.py`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

import tracer.image
import tracer.nn
import tracer.numpy as tnp
import tracer.random as random
import tracer.scipy.linalg
import tracer.scipy.ndimage
import tracer.scipy.optimize
import tracer.scipy.signal
import tracer.scipy.special

Call = Callable[[SimpleNamespace], Any]

_RNG = np.random.default_rng(7)
_HALF = _RNG.normal(size=(4, 4))
HOST: dict[str, np.ndarray[Any, Any]] = {
    "x": _HALF @ _HALF.T + np.eye(4),
    "v": np.array([0.5, -1.5, 2.0, 0.25]),
    "w": np.array([0.1, 0.2, 0.3, 0.4]),
    "z": np.array([1 + 2j, 0.5, -1j, 2.0]),
    "i": np.array([2, 0, 3, 2]),
    "u": np.array([7, 1, 0, 255], np.uint8),
    "b": np.array([True, False, True, True]),
    "image": _RNG.normal(size=(2, 3, 8, 8)),
    "filter": _RNG.normal(size=(4, 3, 3, 3)),
    "pixels": _RNG.normal(size=(2, 8, 8, 3)),
    "kernel": _RNG.normal(size=(2, 2, 3, 4)),
    "key": np.array([0, 5], np.uint32),
}
"""The arrays of the calls: a symmetric positive definite matrix, vectors, indices, truths, ..."""

MODULES: dict[str, ModuleType] = {
    "numpy": tnp,
    "linalg": tnp.linalg,
    "fft": tnp.fft,
    "image": tracer.image,
    "nn": tracer.nn,
    "random": random,
    "scipy.linalg": tracer.scipy.linalg,
    "scipy.ndimage": tracer.scipy.ndimage,
    "scipy.signal": tracer.scipy.signal,
    "scipy.optimize": tracer.scipy.optimize,
    "scipy.special": tracer.scipy.special,
}

WITHOUT_ARRAYS = frozenset(
    """
    numpy.arange numpy.bartlett numpy.blackman numpy.broadcast_shapes numpy.can_cast
    numpy.diag_indices numpy.empty numpy.eye numpy.finfo numpy.from_dlpack numpy.fromfunction
    numpy.hamming numpy.hanning numpy.identity numpy.iinfo numpy.indices numpy.isdtype
    numpy.isscalar numpy.issubdtype numpy.iterable numpy.kaiser numpy.mask_indices
    numpy.min_scalar_type numpy.ones numpy.promote_types numpy.result_type numpy.tri
    numpy.tril_indices numpy.triu_indices numpy.zeros numpy.__array_namespace_info__
    numpy.common_type numpy.ndim numpy.shape numpy.size numpy.iscomplexobj numpy.isrealobj
    numpy.errstate numpy.frombuffer numpy.fromiter numpy.get_printoptions numpy.load
    numpy.ndenumerate numpy.ndindex numpy.printoptions numpy.save numpy.savez
    numpy.set_printoptions fft.fftfreq fft.rfftfreq random.PRNGKey random.key
    scipy.linalg.dft scipy.linalg.hadamard scipy.linalg.helmert scipy.linalg.hilbert
    scipy.linalg.invhilbert scipy.linalg.invpascal scipy.linalg.pascal scipy.special.bernoulli
    """.split()
)
"""They take no arrays, or return none."""

CALLS: dict[str, Call] = {
    "numpy.angle": lambda a: tnp.angle(a.z),
    "numpy.append": lambda a: (tnp.append(a.v, [1.0, 2.0]), tnp.append(a.v, np.ones(2))),
    "numpy.apply_along_axis": lambda a: tnp.apply_along_axis(lambda r: r * 2, 0, a.x),
    "numpy.apply_over_axes": lambda a: tnp.apply_over_axes(tnp.sum, a.x, [0]),
    "numpy.argpartition": lambda a: tnp.argpartition(a.v, 2),
    "numpy.array_equal": lambda a: (tnp.array_equal(a.v, HOST["v"]), tnp.array_equal(a.v, a.x)),
    "numpy.array_equiv": lambda a: (tnp.array_equiv(a.v, HOST["v"]), tnp.array_equiv(a.v, [1, 2])),
    "numpy.array_split": lambda a: tnp.array_split(a.v, 3),
    "numpy.astype": lambda a: tnp.astype(a.v, "float32"),
    "numpy.average": lambda a: (
        tnp.average(a.x, axis=0, weights=HOST["w"]),
        tnp.average(a.v, weights=[1, 2, 3, 4]),
    ),
    "numpy.bincount": lambda a: (tnp.bincount(a.i), tnp.bincount(a.i, HOST["w"], 6)),
    "numpy.bitwise_and": lambda a: tnp.bitwise_and(a.i, 3),
    "numpy.bitwise_count": lambda a: tnp.bitwise_count(a.i),
    "numpy.bitwise_invert": lambda a: tnp.bitwise_invert(a.i),
    "numpy.bitwise_left_shift": lambda a: tnp.bitwise_left_shift(a.i, HOST["i"]),
    "numpy.bitwise_not": lambda a: tnp.bitwise_not(a.i),
    "numpy.bitwise_or": lambda a: tnp.bitwise_or(a.i, a.i),
    "numpy.bitwise_right_shift": lambda a: tnp.bitwise_right_shift(a.i, [1, 1, 1, 2]),
    "numpy.bitwise_xor": lambda a: tnp.bitwise_xor(a.i, 5),
    "numpy.block": lambda a: tnp.block([[a.x, a.x], [np.ones((1, 4)), np.ones((1, 4))]]),
    "numpy.broadcast_arrays": lambda a: tnp.broadcast_arrays(a.x, a.v),
    "numpy.broadcast_to": lambda a: tnp.broadcast_to(a.v, (3, 4)),
    "numpy.choose": lambda a: tnp.choose(a.i, [a.v, np.ones(4), 2.0, [1.0, 2.0, 3.0, 4.0]]),
    "numpy.clip": lambda a: (tnp.clip(a.v, 0, 1), tnp.clip(a.v, np.zeros(4), None)),
    "numpy.column_stack": lambda a: tnp.column_stack([a.v, HOST["v"]]),
    "numpy.compress": lambda a: tnp.compress([True, False, True, False], a.x, axis=0),
    "numpy.concat": lambda a: tnp.concat([a.v, np.ones(2)]),
    "numpy.concatenate": lambda a: tnp.concatenate([a.v, a.v]),
    "numpy.convolve": lambda a: tnp.convolve(a.v, [1.0, 2.0]),
    "numpy.copyto": lambda a: _changed(a.v, lambda v: tnp.copyto(v, np.ones(4), where=a.b)),
    "numpy.correlate": lambda a: tnp.correlate(a.v, np.ones(2)),
    "numpy.cross": lambda a: tnp.cross(a.v[:3], [1.0, 2.0, 3.0]),
    "numpy.cov": lambda a: tnp.cov(a.x, aweights=HOST["w"]),
    "numpy.cumulative_prod": lambda a: tnp.cumulative_prod(a.v),
    "numpy.cumulative_sum": lambda a: tnp.cumulative_sum(a.v, include_initial=True),
    "numpy.delete": lambda a: (tnp.delete(a.v, 1), tnp.delete(a.x, [0, 2], axis=1)),
    "numpy.diag_indices_from": lambda a: tnp.diag_indices_from(a.x),
    "numpy.diff": lambda a: tnp.diff(a.v, prepend=0.0, append=[1.0]),
    "numpy.digitize": lambda a: tnp.digitize(a.v, [-1.0, 0.0, 1.0]),
    "numpy.dsplit": lambda a: tnp.dsplit(a.x.reshape(2, 2, 4), 2),
    "numpy.dstack": lambda a: tnp.dstack([a.v, HOST["v"]]),
    "numpy.ediff1d": lambda a: tnp.ediff1d(a.v, to_begin=[1.0], to_end=[2.0, 3.0]),
    "numpy.einsum": lambda a: tnp.einsum("ij,j->i", a.x, HOST["v"]),
    "numpy.expand_dims": lambda a: tnp.expand_dims(a.v, 0),
    "numpy.extract": lambda a: tnp.extract(HOST["b"], a.v),
    "numpy.fill_diagonal": lambda a: _changed(a.x, lambda x: tnp.fill_diagonal(x, [1.0, 2.0])),
    "numpy.frexp": lambda a: tnp.frexp(a.v),
    "numpy.full": lambda a: tnp.full((4, 4), a.v),
    "numpy.full_like": lambda a: (tnp.full_like(a.v, 3), tnp.full_like(a.v, HOST["w"])),
    "numpy.gcd": lambda a: tnp.gcd(a.i, 6),
    "numpy.geomspace": lambda a: tnp.geomspace(a.w, 10.0 * a.w, 3),
    "numpy.gradient": lambda a: (tnp.gradient(a.v), tnp.gradient(a.v, HOST["w"])),
    "numpy.histogram": lambda a: (
        tnp.histogram(a.v, 3),
        tnp.histogram(a.v, [-2.0, 0.0, 2.0], weights=HOST["w"]),
    ),
    "numpy.histogram2d": lambda a: tnp.histogram2d(a.v, HOST["w"], 2),
    "numpy.histogram_bin_edges": lambda a: tnp.histogram_bin_edges(a.v, 3),
    "numpy.histogramdd": lambda a: tnp.histogramdd(a.x[:, :2], (2, 3)),
    "numpy.hsplit": lambda a: tnp.hsplit(a.x, 2),
    "numpy.hstack": lambda a: tnp.hstack([a.v, HOST["v"]]),
    "numpy.insert": lambda a: (tnp.insert(a.v, 1, 5.0), tnp.insert(a.x, [1, 2], 7, axis=1)),
    "numpy.interp": lambda a: tnp.interp(a.v, [0.0, 1.0, 2.0], [1.0, 2.0, 5.0]),
    "numpy.invert": lambda a: tnp.invert(a.i),
    "numpy.ix_": lambda a: tnp.ix_(a.i, [0, 1]),
    "numpy.lcm": lambda a: tnp.lcm(a.i, 6),
    "numpy.ldexp": lambda a: tnp.ldexp(a.v, HOST["i"]),
    "numpy.left_shift": lambda a: tnp.left_shift(a.i, 2),
    "numpy.lexsort": lambda a: tnp.lexsort((a.v, a.i)),
    "numpy.linspace": lambda a: tnp.linspace(a.v, 3.0, 5, retstep=True),
    "numpy.logspace": lambda a: tnp.logspace(a.v, 3.0, 5),
    "numpy.matvec": lambda a: tnp.matvec(a.x, HOST["v"]),
    "numpy.meshgrid": lambda a: tnp.meshgrid(a.v, np.ones(2)),
    "numpy.moveaxis": lambda a: tnp.moveaxis(a.x, 0, 1),
    "numpy.packbits": lambda a: tnp.packbits(a.b),
    "numpy.pad": lambda a: (tnp.pad(a.v, 2), tnp.pad(a.v, 2, mode="reflect")),
    "numpy.partition": lambda a: tnp.partition(a.v, 2),
    "numpy.percentile": lambda a: (tnp.percentile(a.x, 30, axis=0), tnp.percentile(a.v, [5, 9])),
    "numpy.nanpercentile": lambda a: tnp.nanpercentile(a.x, [20, 30], axis=0),
    "numpy.quantile": lambda a: tnp.quantile(a.v, HOST["w"]),
    "numpy.nanquantile": lambda a: tnp.nanquantile(a.v, 0.3),
    "numpy.permute_dims": lambda a: tnp.permute_dims(a.x, (1, 0)),
    "numpy.piecewise": lambda a: tnp.piecewise(a.v, [a.v < 0, HOST["v"] > 1], [1.0, 2.0, 3.0]),
    "numpy.place": lambda a: _changed(a.v, lambda v: tnp.place(v, HOST["b"], [1.0, 2.0])),
    "numpy.poly": lambda a: (tnp.poly(a.v), tnp.poly(a.x)),
    "numpy.polydiv": lambda a: tnp.polydiv(a.v, [1.0, 2.0]),
    "numpy.polyfit": lambda a: tnp.polyfit(a.w, HOST["v"], 2),
    "numpy.polyval": lambda a: (tnp.polyval([1.0, 2.0], a.v), tnp.polyval(a.v, [1, 2])),
    "numpy.polyadd": lambda a: tnp.polyadd(a.v, [1.0, 2.0]),
    "numpy.polymul": lambda a: tnp.polymul(a.v, [1.0, 2.0]),
    "numpy.put": lambda a: _changed(a.v, lambda v: tnp.put(v, [0, 2], [9.0])),
    "numpy.put_along_axis": lambda a: _changed(
        a.x, lambda x: tnp.put_along_axis(x, HOST["i"][None], 9.0, 0)
    ),
    "numpy.putmask": lambda a: _changed(a.v, lambda v: tnp.putmask(v, HOST["b"], [1.0, 2.0])),
    "numpy.ravel_multi_index": lambda a: tnp.ravel_multi_index((a.i, HOST["i"]), (4, 4)),
    "numpy.repeat": lambda a: (tnp.repeat(a.v, 2), tnp.repeat(a.v, [1, 2, 0, 1])),
    "numpy.reshape": lambda a: tnp.reshape(a.x, (2, 8)),
    "numpy.resize": lambda a: (tnp.resize(a.v, (3, 3)), tnp.resize(a.v[:0], 3)),
    "numpy.right_shift": lambda a: tnp.right_shift(a.i, 1),
    "numpy.roll": lambda a: (tnp.roll(a.v, 1), tnp.roll(a.x, (1, 2), (0, 1))),
    "numpy.rollaxis": lambda a: tnp.rollaxis(a.x, 1),
    "numpy.searchsorted": lambda a: tnp.searchsorted([-1.0, 0.0, 1.0], a.v),
    "numpy.select": lambda a: tnp.select([HOST["b"], a.v > 0], [a.v, np.ones(4)], 7.0),
    "numpy.split": lambda a: tnp.split(a.v, [1, 3]),
    "numpy.stack": lambda a: tnp.stack([a.v, HOST["v"]]),
    "numpy.swapaxes": lambda a: tnp.swapaxes(a.x, 0, 1),
    "numpy.take": lambda a: (tnp.take(a.v, [0, 2]), tnp.take(a.x, HOST["i"], axis=1)),
    "numpy.take_along_axis": lambda a: tnp.take_along_axis(a.x, HOST["i"][None], 0),
    "numpy.tensordot": lambda a: tnp.tensordot(a.x, HOST["x"], 1),
    "numpy.tile": lambda a: tnp.tile(a.v, 2),
    "numpy.top_k": lambda a: tnp.top_k(a.v, 2),
    "numpy.tril_indices_from": lambda a: tnp.tril_indices_from(a.x),
    "numpy.triu_indices_from": lambda a: tnp.triu_indices_from(a.x),
    "numpy.trim_zeros": lambda a: tnp.trim_zeros(tnp.concatenate([[0.0], a.v])),
    "numpy.unique": lambda a: (tnp.unique(a.i), tnp.unique(a.i, True, True, True)),
    "numpy.unpackbits": lambda a: tnp.unpackbits(a.u),
    "numpy.unravel_index": lambda a: tnp.unravel_index(a.i, (2, 2)),
    "numpy.vander": lambda a: tnp.vander(a.v, 3),
    "numpy.vecmat": lambda a: tnp.vecmat(HOST["v"], a.x),
    "numpy.vectorize": lambda a: tnp.vectorize(lambda s: s * 2)(a.v),
    "numpy.vsplit": lambda a: tnp.vsplit(a.x, 2),
    "numpy.vstack": lambda a: tnp.vstack([a.v, HOST["v"]]),
    "numpy.where": lambda a: (tnp.where(a.b, a.v, HOST["w"]), tnp.where(a.b)),
    "linalg.cross": lambda a: tnp.linalg.cross(a.v[:3], [1.0, 2.0, 3.0]),
    "linalg.lstsq": lambda a: tnp.linalg.lstsq(a.x, HOST["v"]),
    "linalg.matrix_power": lambda a: [tnp.linalg.matrix_power(a.x, n) for n in (0, 1, 3, -2)],
    "linalg.multi_dot": lambda a: tnp.linalg.multi_dot([a.x, HOST["x"], a.v]),
    "linalg.solve": lambda a: tnp.linalg.solve(a.x, HOST["v"]),
    "linalg.tensorinv": lambda a: tnp.linalg.tensorinv(a.x, 1),
    "linalg.tensorsolve": lambda a: tnp.linalg.tensorsolve(a.x, HOST["v"]),
    "image.resize": lambda a: [
        tracer.image.resize(a.x, (6, 3), method) for method in ("nearest", "cubic", "cubic-pytorch")
    ],
    "image.scale_and_translate": lambda a: (
        tracer.image.scale_and_translate(a.x, (4, 4), (0,), a.w[:1], HOST["v"][:1], "linear"),
        tracer.image.scale_and_translate(HOST["x"], (4, 4), (0,), [2.0], a.v[:1], "area"),
    ),
    "nn.avg_pool": lambda a: tracer.nn.avg_pool(a.image, (2, 2)),
    "nn.batch_norm": lambda a: tracer.nn.batch_norm(a.x, np.ones(4), np.zeros(4)),
    "nn.conv": lambda a: tracer.nn.conv(a.pixels, HOST["kernel"]),
    "nn.conv_general_dilated": lambda a: tracer.nn.conv_general_dilated(
        a.image, HOST["filter"], (1, 1), "SAME"
    ),
    "nn.dot_product_attention": lambda a: tracer.nn.dot_product_attention(
        a.image, a.image, HOST["image"]
    ),
    "nn.dropout": lambda a: tracer.nn.dropout(random.key(1), a.v),
    "nn.layer_norm": lambda a: tracer.nn.layer_norm(a.x, np.ones(4), np.zeros(4)),
    "nn.max_pool": lambda a: tracer.nn.max_pool(a.image, (2, 2)),
    "nn.one_hot": lambda a: tracer.nn.one_hot(a.i, 4),
    "scipy.optimize.minimize": lambda a: tracer.scipy.optimize.minimize(
        lambda x, v: ((x - v) ** 2).sum(), a.v, (HOST["w"],), method="BFGS"
    ),
    "random.ball": lambda a: random.ball(a.key, 3, 2, (2,)),
    "random.bernoulli": lambda a: random.bernoulli(a.key, HOST["w"]),
    "random.beta": lambda a: random.beta(a.key, 2.0, a.w),
    "random.binomial": lambda a: random.binomial(a.key, HOST["w"] + 20, 0.5),
    "random.categorical": lambda a: random.categorical(random.key(3), a.x),
    "random.chisquare": lambda a: random.chisquare(a.key, HOST["w"]),
    "random.choice": lambda a: (random.choice(a.key, a.v, (2,)), random.choice(a.key, 9, (3,))),
    "random.dirichlet": lambda a: random.dirichlet(a.key, HOST["w"]),
    "random.double_sided_maxwell": lambda a: random.double_sided_maxwell(
        a.key, a.w, HOST["w"], (2,)
    ),
    "random.f": lambda a: random.f(a.key, a.w + 1, HOST["w"] + 2),
    "random.fold_in": lambda a: random.fold_in(a.key, 3),
    "random.gamma": lambda a: random.gamma(a.key, HOST["w"]),
    "random.generalized_normal": lambda a: random.generalized_normal(a.key, 3.0, (4,)),
    "random.geometric": lambda a: random.geometric(a.key, HOST["w"]),
    "random.loggamma": lambda a: random.loggamma(random.key(2), a.w),
    "random.lognormal": lambda a: random.lognormal(a.key, a.w),
    "random.maxwell": lambda a: random.maxwell(a.key, (4,)),
    "random.multinomial": lambda a: random.multinomial(a.key, 9, a.w),
    "random.multivariate_normal": lambda a: random.multivariate_normal(a.key, a.v, a.x),
    "random.orthogonal": lambda a: random.orthogonal(a.key, 3),
    "random.pareto": lambda a: random.pareto(a.key, HOST["w"]),
    "random.permutation": lambda a: (random.permutation(a.key, 5), random.permutation(a.key, a.v)),
    "random.poisson": lambda a: random.poisson(a.key, HOST["w"]),
    "random.randint": lambda a: random.randint(a.key, (4,), 0, a.i + 1),
    "random.rayleigh": lambda a: random.rayleigh(random.key(2), a.w),
    "random.t": lambda a: random.t(a.key, HOST["w"] + 1),
    "random.triangular": lambda a: random.triangular(a.key, -a.w, 0.0, HOST["w"]),
    "random.truncated_normal": lambda a: random.truncated_normal(a.key, -1.0, HOST["w"]),
    "random.uniform": lambda a: random.uniform(a.key, (4,), minval=-a.w, maxval=HOST["w"]),
    "random.wald": lambda a: random.wald(a.key, HOST["w"]),
    "random.weibull_min": lambda a: random.weibull_min(a.key, a.w, 2.0, (4,)),
    "scipy.linalg.block_diag": lambda a: tracer.scipy.linalg.block_diag(a.x, [[1.0]]),
    "scipy.linalg.cho_solve": lambda a: tracer.scipy.linalg.cho_solve(
        tracer.scipy.linalg.cho_factor(a.x), HOST["v"]
    ),
    "scipy.linalg.companion": lambda a: tracer.scipy.linalg.companion(a.v),
    "scipy.linalg.convolution_matrix": lambda a: tracer.scipy.linalg.convolution_matrix(a.v, 3),
    "scipy.linalg.eigh_tridiagonal": lambda a: tracer.scipy.linalg.eigh_tridiagonal(
        a.v, HOST["w"][:3], eigvals_only=True
    ),
    "scipy.linalg.fiedler_companion": lambda a: tracer.scipy.linalg.fiedler_companion(a.v),
    "scipy.linalg.funm": lambda a: tracer.scipy.linalg.funm(a.x, tnp.exp),
    "scipy.linalg.fiedler": lambda a: tracer.scipy.linalg.fiedler(a.v),
    "scipy.linalg.hankel": lambda a: tracer.scipy.linalg.hankel(a.v, HOST["w"]),
    "scipy.linalg.leslie": lambda a: tracer.scipy.linalg.leslie(a.v, HOST["w"][:3]),
    "scipy.linalg.lu_solve": lambda a: tracer.scipy.linalg.lu_solve(
        tracer.scipy.linalg.lu_factor(a.x), HOST["v"]
    ),
    "scipy.linalg.solve_sylvester": lambda a: tracer.scipy.linalg.solve_sylvester(
        a.x, HOST["x"], HOST["x"]
    ),
    "scipy.linalg.toeplitz": lambda a: tracer.scipy.linalg.toeplitz(a.v),
    "scipy.ndimage.map_coordinates": lambda a: tracer.scipy.ndimage.map_coordinates(
        a.x, [HOST["w"], a.v], 1
    ),
    "scipy.signal.welch": lambda a: tracer.scipy.signal.welch(a.x, window=HOST["w"]),
    "scipy.signal.stft": lambda a: tracer.scipy.signal.stft(a.x, nperseg=4),
    "scipy.special.bessel_jn": lambda a: tracer.scipy.special.bessel_jn(a.v, v=2),
    "scipy.special.sph_harm_y": lambda a: tracer.scipy.special.sph_harm_y(2, 1, a.v, HOST["w"]),
    "scipy.special.multigammaln": lambda a: tracer.scipy.special.multigammaln(a.w + 2, 3),
    "scipy.special.hyp1f1": lambda a: tracer.scipy.special.hyp1f1(a.w, 1.5, a.v),
    "scipy.special.hyp2f1": lambda a: tracer.scipy.special.hyp2f1(a.w, 0.5, 1.5, a.w),
    "scipy.special.betainc": lambda a: tracer.scipy.special.betainc(a.w, HOST["w"], 0.5),
}
"""The functions that one or two matrices or vectors do not serve."""

METHODS: dict[str, Call] = {
    "x + ndarray": lambda a: a.x + HOST["v"],
    "ndarray @ x": lambda a: HOST["x"] @ a.x,
    "x + list": lambda a: a.v + [1, 2, 3, 4],
    "x + made here": lambda a: a.v + tnp.arange(4) * tnp.ones((2, 1)),
    "x += ndarray": lambda a: _changed(a.v, lambda v: v.__iadd__(HOST["v"])),
    "x < ndarray": lambda a: a.v < HOST["w"],
    "x[slice]": lambda a: (a.x[1:3, ::2], a.x[1], a.x[-1, 2], a.v[:0]),
    "x[list]": lambda a: (a.v[[0, 1]], a.x[[0, 1], [1, 2]], a.x[1:, HOST["i"]]),
    "x[mask]": lambda a: (a.v[a.v > 0], a.x[HOST["b"]]),
    "x[array]": lambda a: (a.v[a.i], a.v[tnp.array([0, 1])], tnp.ones(4)[a.i]),
    "x[slice] = number": lambda a: _changed(a.v, lambda v: v.__setitem__(slice(2, 4), 7)),
    "x[list] = ndarray": lambda a: _changed(a.v, lambda v: v.__setitem__([0, 3], np.ones(2))),
    "x[mask] = number": lambda a: _changed(a.v, lambda v: v.__setitem__(v > 0, 0.5)),
    "x[mask] = list": lambda a: _changed(a.v, lambda v: v.__setitem__(HOST["b"], [1, 2, 3])),
    "x.at": lambda a: [
        getattr(a.v.at[index], name)(value)
        for index in (1, slice(1, 3), [0, 0], HOST["b"])
        for name in "set add subtract multiply divide min max".split()
        for value in (2.0, np.array(3.0), tnp.array(4.0))
    ],
    "methods": lambda a: [
        a.x.sum(0),
        a.x.mean(),
        a.x.std(1),
        a.v.argmax(),
        a.v.argsort(),
        a.x.T,
        a.x.diagonal(),
        a.v.nonzero(),
        a.v.repeat(2),
        a.v.take([1, 1]),
        a.v.clip(0, 1),
        a.v.round(1),
        a.x.ravel(),
        a.v.searchsorted(0.3),
        a.x.trace(),
        a.v.astype(int),
        a.v.copy(),
    ],
    "iteration": lambda a: [list(a.v), [row * 2 for row in a.x]],
}
"""What arrays do without a function's name."""

_VECTORS = frozenset(
    "outer trim_zeros polyder polyint polysub roots intersect1d setdiff1d setxor1d union1d".split()
)


def calls() -> Iterator[tuple[str, Call]]:
    """Yield a call of every public name that stands in neither table's exceptions."""
    yield from METHODS.items()
    for home, module in MODULES.items():
        for name in module.__all__:
            function, full = getattr(module, name), f"{home}.{name}"
            if inspect.isfunction(function) and full not in WITHOUT_ARRAYS:
                yield full, CALLS.get(full) or _plain(function, home)


def _plain(function: Callable[..., Any], home: str) -> Call:
    """Return a call with as many arrays as the function needs; the second one is NumPy's."""
    given = "v" if function.__name__ in _VECTORS else "x"
    parameters = inspect.signature(function).parameters.values()
    first, *others = [one for one in parameters if one.default is inspect.Parameter.empty]
    if first.name in ("key", "keys", "key_bits_array"):
        return lambda a: function(a.key)
    if not others:
        return lambda a: function(getattr(a, given))
    return lambda a: (
        function(getattr(a, given), HOST[given]),
        function(HOST[given], getattr(a, given)),
    )


def _changed(array: Any, change: Callable[[Any], Any]) -> Any:
    array = array.copy()
    change(array)
    return array
