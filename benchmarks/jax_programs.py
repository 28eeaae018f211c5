"""Small programs over JAX's primitives: what `tracer.jax` is compared with `jax.jit` on.

Each is a function of arrays and its arguments. `gradient` says whether the gradient of the sum of
its results, in all inexact arguments, is compared too.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.ad_checkpoint
import jax.numpy as jnp
import numpy as np
from jax import lax

jsp = jax.scipy.special


@dataclass(frozen=True)
class Program:
    """A function of JAX and what it is called with."""

    name: str
    kind: str
    function: Callable[..., Any]
    makers: tuple[Callable[[np.random.Generator], Any], ...]
    gradient: bool = True

    @property
    def has_gradient(self) -> bool:
        """Whether there is a gradient to compare: an argument is of floats."""
        rng = np.random.default_rng(0)
        values = [make(rng) for make in self.makers]
        return self.gradient and any(
            isinstance(x, np.ndarray) and x.dtype == np.float64 for x in values
        )

    def arguments(self, dtype: str = "float64") -> list[Any]:
        """Return the arguments, the same in every run, with floats of a dtype."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        values = [make(rng) for make in self.makers]
        return [jax.tree.map(lambda x: _as(x, dtype), value) for value in values]


def _as(x: Any, dtype: str) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    if x.dtype == np.float64:
        return jnp.asarray(x.astype(dtype))
    if x.dtype == np.complex128:
        return jnp.asarray(x.astype("complex64" if dtype == "float32" else "complex128"))
    return jnp.asarray(x)


def normal(*shape: int) -> Callable[[np.random.Generator], Any]:
    """Make normal numbers."""
    return lambda rng: rng.standard_normal(shape)


def positive(*shape: int) -> Callable[[np.random.Generator], Any]:
    """Make numbers between 0.2 and 2."""
    return lambda rng: rng.uniform(0.2, 2.0, shape)


def unit(*shape: int) -> Callable[[np.random.Generator], Any]:
    """Make numbers within (-0.9, 0.9)."""
    return lambda rng: rng.uniform(-0.9, 0.9, shape)


def integers(high: int, *shape: int, low: int = 0) -> Callable[[np.random.Generator], Any]:
    """Make integers."""
    return lambda rng: rng.integers(low, high, shape).astype(np.int32)


def bools(*shape: int) -> Callable[[np.random.Generator], Any]:
    """Make bools."""
    return lambda rng: rng.integers(0, 2, shape).astype(bool)


def complexes(*shape: int) -> Callable[[np.random.Generator], Any]:
    """Make complex numbers."""
    return lambda rng: rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def definite(n: int, *batch: int) -> Callable[[np.random.Generator], Any]:
    """Make symmetric positive definite matrices."""

    def make(rng: np.random.Generator) -> Any:
        a = rng.standard_normal((*batch, n, n))
        return a @ np.swapaxes(a, -1, -2) + n * np.eye(n)

    return make


def key(seed: int, *, raw: bool = False) -> Callable[[np.random.Generator], Any]:
    """Make a random key."""
    return lambda rng: jax.random.PRNGKey(seed) if raw else jax.random.key(seed)


PROGRAMS: list[Program] = []


def add(
    kind: str,
    name: str,
    function: Callable[..., Any],
    *makers: Callable[[np.random.Generator], Any],
    gradient: bool = True,
) -> None:
    """Enter a program."""
    PROGRAMS.append(Program(name, kind, function, makers, gradient))


def _enter_elementwise() -> None:
    kind = "element-wise"
    for name in (
        "abs sin cos tan sinh cosh tanh arctan arcsinh exp expm1 exp2 square cbrt sign floor ceil "
        "negative isfinite rint trunc positive"
    ).split():
        add(kind, name, getattr(jnp, name), normal(3, 5))
    for name in "log log1p log2 log10 sqrt reciprocal arccosh".split():
        shift = 1.5 if name == "arccosh" else 0.0
        function = getattr(jnp, name)
        add(kind, name, lambda x, f=function, s=shift: f(x + s), positive(7))
    for name in "arcsin arccos arctanh".split():
        add(kind, name, getattr(jnp, name), unit(7))
    for name in "erf erfc gammaln digamma expit log_ndtr ndtr".split():
        add(kind, name, getattr(jsp, name), positive(7))
    add(kind, "erfinv", jsp.erfinv, unit(7))
    add(kind, "polygamma", lambda x: jsp.polygamma(2, x), positive(7))
    add(kind, "zeta", lambda x: jsp.zeta(3.5, x), positive(7))
    add(kind, "Bessel functions", lambda x: jsp.i0e(x) + jsp.i1e(x) + jsp.i0(x), normal(7))
    add(kind, "xlogy entr", lambda x: jsp.xlogy(x, x) + jsp.entr(x), positive(7))
    add(kind, "logistic and relu", lambda x: jax.nn.relu(x) * jax.nn.sigmoid(x), normal(7))
    add(
        kind,
        "gelu silu softplus",
        lambda x: jax.nn.gelu(x) + jax.nn.silu(x) + jax.nn.softplus(x),
        normal(7),
    )
    for (
        name
    ) in "add subtract multiply divide maximum minimum arctan2 hypot logaddexp power".split():
        function = getattr(jnp, name)
        add(kind, f"{name} of rows", function, positive(4, 5), positive(5))
    add(
        kind,
        "remainders",
        lambda x, y: (jnp.mod(x, y), jnp.fmod(x, y), x // y),
        normal(9),
        positive(9),
    )
    add(kind, "integer powers", lambda x: x**3 + x**-2 + x**0, positive(5))
    add(kind, "power of integers", lambda x, y: x**y, integers(9, 6, low=-5), integers(5, 6))
    add(
        kind,
        "bits",
        lambda x, y: (x & y, x | y, x ^ y, ~x, x << 2, x >> 1),
        integers(99, 7),
        integers(99, 7),
    )
    add(
        kind,
        "population count and leading zeros",
        lambda x: (lax.population_count(x), lax.clz(x)),
        integers(2**30, 9),
    )
    add(
        kind,
        "comparisons",
        lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y),
        normal(5),
        normal(5),
    )
    add(kind, "logic", lambda x, y: (x & y, jnp.logical_xor(x, y), ~x), bools(9), bools(9))
    add(kind, "where", lambda p, x, y: jnp.where(p, x, y), bools(4, 3), normal(4, 3), normal(3))
    add(
        kind,
        "select of three",
        lambda i, x: lax.select_n(i, x, 2 * x, 3 * x),
        integers(3, 6),
        normal(6),
    )
    add(kind, "clip", lambda x: jnp.clip(x, -0.5, 0.5), normal(9))
    add(
        kind,
        "conversions",
        lambda x: (x.astype("int32"), x.astype("float32"), x.astype(bool)),
        normal(9),
    )
    add(
        kind,
        "bits of floats",
        lambda x: lax.bitcast_convert_type(lax.bitcast_convert_type(x, "int64") ^ 1, "float64"),
        normal(5),
        gradient=False,
    )
    add(
        kind,
        "bytes of integers",
        lambda x: lax.bitcast_convert_type(lax.bitcast_convert_type(x, "uint8"), "int32"),
        integers(10**6, 4),
    )
    add(
        kind,
        "rounding",
        lambda x: (jnp.round(x), jnp.round(x, 1), lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)),
        normal(9),
    )
    add(kind, "reduce precision", lambda x: lax.reduce_precision(x, 8, 7), normal(9))
    add(kind, "next after", jnp.nextafter, normal(5), normal(5), gradient=False)
    add(
        kind,
        "complex numbers",
        lambda z: (jnp.real(z), jnp.imag(z), jnp.abs(z), jnp.angle(z)),
        complexes(6),
    )
    add(
        kind,
        "complex functions",
        lambda z: jnp.exp(z) * jnp.conj(z) + jnp.sqrt(z) / (z + 3),
        complexes(6),
        gradient=False,
    )
    add(
        kind, "complex of parts", lambda x, y: jnp.abs(lax.complex(x, y) ** 2), normal(5), normal(5)
    )
    add(kind, "weak types", lambda x, n: x * 2 + n * 3.5 + jnp.float32(1), normal(5), lambda rng: 4)
    add(kind, "sinc, heaviside", lambda x: jnp.sinc(x) + jnp.heaviside(x, 0.5), normal(5))


def _enter_shapes() -> None:
    kind = "shapes"
    add(kind, "reshape and ravel", lambda x: x.reshape(6, 4).T.ravel(), normal(2, 3, 4))
    add(kind, "transpose", lambda x: jnp.transpose(x, (2, 0, 1)), normal(2, 3, 4))
    add(kind, "broadcast_to", lambda x: jnp.broadcast_to(x[:, None], (3, 4)), normal(3))
    add(
        kind,
        "concatenate and stack",
        lambda x, y: (jnp.concatenate([x, y], 1), jnp.stack([x, x], 1)),
        normal(2, 3),
        normal(2, 4),
    )
    add(kind, "split", lambda x: jnp.split(x, [1, 4], axis=1), normal(2, 6))
    add(
        kind,
        "pad",
        lambda x: (
            jnp.pad(x, 1),
            jnp.pad(x, ((0, 2), (1, 0)), mode="edge"),
            lax.pad(x, 2.0, ((1, -1, 2), (0, 1, 0))),
        ),
        normal(3, 4),
    )
    add(kind, "flip and roll", lambda x: jnp.flip(jnp.roll(x, 2, axis=1), 0), normal(3, 5))
    add(
        kind,
        "tile and repeat",
        lambda x: (jnp.tile(x, (2, 3)), jnp.repeat(x, 2, axis=0)),
        normal(2, 3),
    )
    add(
        kind,
        "squeeze, expand_dims, moveaxis",
        lambda x: jnp.moveaxis(jnp.expand_dims(x, 1), 0, 2).squeeze(0),
        normal(3, 4),
    )
    add(kind, "slices", lambda x: x[1:3, ::-2] + x[None, 2:0:-1, :2][0][:, :1], normal(4, 3))
    add(
        kind,
        "iota, eye, tri",
        lambda x: x @ jnp.eye(3) + jnp.tri(4, 3) * jnp.arange(3),
        normal(4, 3),
    )
    add(kind, "meshgrid", lambda x, y: jnp.meshgrid(x, y), normal(3), normal(4))
    add(kind, "triangles", lambda x: (jnp.tril(x), jnp.triu(x, 1), jnp.diagonal(x)), normal(4, 4))
    add(kind, "kron", jnp.kron, normal(2, 3), normal(3, 2))
    add(kind, "no elements", lambda x: (x[:0].sum(), jnp.concatenate([x[:0], x])), normal(4))
    add(kind, "optimization barrier", lambda x: lax.optimization_barrier((x, 2 * x)), normal(3))


def _enter_indexing() -> None:
    kind = "indexing"
    add(kind, "rows", lambda x, i: x[i], normal(5, 3), integers(5, 4))
    add(kind, "negative indices", lambda x, i: x[i], normal(5, 3), integers(5, 4, low=-5))
    add(kind, "pairs", lambda x, i, j: x[i, j], normal(5, 6), integers(5, 4), integers(6, 4))
    add(
        kind,
        "take_along_axis",
        lambda x, i: jnp.take_along_axis(x, i, axis=1),
        normal(4, 6),
        integers(6, 4, 2),
    )
    for mode in ("fill", "clip", "wrap"):
        add(
            kind,
            f"take, mode {mode}",
            lambda x, i, m=mode: jnp.nan_to_num(jnp.take(x, i, axis=0, mode=m), nan=7.0),
            normal(5, 3),
            integers(9, 6, low=-9),
        )
    add(
        kind,
        "get, mode fill",
        lambda x, i: x.at[i].get(mode="fill", fill_value=-1.0),
        normal(5, 3),
        integers(9, 6),
    )
    for method in ("set", "add", "multiply", "min", "max"):
        add(
            kind,
            f"at[].{method}",
            lambda x, i, u, m=method: getattr(x.at[i], m)(u, unique_indices=True),
            positive(6, 3),
            lambda rng: rng.permutation(6)[:4].astype("int32"),
            positive(4, 3),
            gradient=method not in ("min", "max", "multiply"),
        )
    add(
        kind,
        "at[].add, repeated",
        lambda x, i, u: x.at[i].add(u),
        normal(5),
        integers(5, 9),
        normal(9),
    )
    for mode in ("drop", "clip"):
        add(
            kind,
            f"at[].add, mode {mode}",
            lambda x, i, u, m=mode: x.at[i].add(u, mode=m),
            normal(5),
            integers(9, 7),
            normal(7),
        )
    add(kind, "windows by slices", lambda x: x.at[1:3, ::2].set(0.0).at[0].mul(2.0), normal(4, 5))
    add(
        kind,
        "dynamic slices",
        lambda x, i: lax.dynamic_update_slice(
            x, lax.dynamic_slice(x, (i, np.int32(1)), (2, 2)), (np.int32(0), i)
        ),
        normal(5, 5),
        lambda rng: np.int32(4),
    )
    add(
        kind, "one-hot product", lambda i, w: jax.nn.one_hot(i, 5) @ w, integers(5, 7), normal(5, 2)
    )
    add(
        kind,
        "segment sums",
        lambda x, i: jax.ops.segment_sum(x, i, 4),
        normal(9, 2),
        integers(4, 9),
    )
    add(kind, "batched gather", jax.vmap(lambda x, i: x[i]), normal(3, 5), integers(5, 3, 2))
    add(
        kind,
        "batched scatter",
        jax.vmap(lambda x, i, u: x.at[i].add(u)),
        normal(3, 5),
        integers(5, 3, 2),
        normal(3, 2),
    )
    add(
        kind,
        "searchsorted",
        lambda x, y: jnp.searchsorted(jnp.sort(x), y),
        normal(9),
        normal(5),
        gradient=False,
    )
    add(
        kind, "small index dtypes", lambda x, i: x[i.astype("uint8")], normal(300), integers(250, 5)
    )


def _enter_reductions() -> None:
    kind = "reductions"
    for name in "sum mean max min prod std var ptp".split():
        function = getattr(jnp, name)
        add(
            kind,
            name,
            lambda x, f=function: (f(x), f(x, axis=1), f(x, axis=(0, 2))),
            positive(3, 4, 2),
        )
    add(kind, "any, all, count", lambda x: (x.any(0), x.all(1), jnp.count_nonzero(x)), bools(4, 3))
    add(
        kind,
        "integer reductions",
        lambda x: (lax.reduce_and(x, (0,)), lax.reduce_or(x, (1,)), lax.reduce_xor(x, (0,))),
        integers(99, 5, 3),
    )
    add(kind, "arg extremes", lambda x: (x.argmax(), x.argmin(1)), normal(4, 5), gradient=False)
    add(
        kind, "logsumexp, softmax", lambda x: (jsp.logsumexp(x, 1), jax.nn.softmax(x)), normal(4, 5)
    )
    add(
        kind,
        "log_softmax, cross-entropy",
        lambda x, i: -jnp.take_along_axis(jax.nn.log_softmax(x), i[:, None], 1).mean(),
        normal(4, 5),
        integers(5, 4),
    )
    add(
        kind,
        "cumulative",
        lambda x: (
            jnp.cumsum(x, 1),
            jnp.cumprod(x, 0),
            lax.cummax(x),
            lax.cummin(x, 1, reverse=True),
        ),
        positive(4, 3),
    )
    add(kind, "cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), normal(3, 6))
    add(kind, "associative scan", lambda x: lax.associative_scan(jnp.multiply, x), positive(7))
    add(
        kind,
        "reduce with a function",
        lambda x: lax.reduce(x, 0.0, lambda a, b: a + b + 0.0, (1,)),
        normal(3, 5),
        gradient=False,
    )
    add(
        kind,
        "median, quantile",
        lambda x: (jnp.median(x), jnp.quantile(x, 0.3, axis=0)),
        normal(5, 3),
    )
    add(
        kind,
        "histogram",
        lambda x: jnp.histogram(x, 5, range=(-2, 2))[0],
        normal(20),
        gradient=False,
    )
    add(
        kind,
        "norms",
        lambda x: (jnp.linalg.norm(x), jnp.linalg.norm(x, axis=1, ord=1)),
        normal(4, 3),
    )
    kind = "sorting"
    add(kind, "sort, argsort", lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1)), normal(4, 5))
    add(kind, "sort of several", lambda x, y: lax.sort((x, y), num_keys=1), normal(6), normal(6))
    add(kind, "lexsort", lambda x, y: jnp.lexsort((x, y)), integers(3, 9), integers(3, 9))
    add(kind, "top_k", lambda x: lax.top_k(x, 2), normal(3, 6))
    add(kind, "approximate top_k", lambda x: lax.approx_max_k(x, 2), normal(3, 6), gradient=False)
    add(kind, "sort of complex numbers", jnp.sort, complexes(6), gradient=False)
    add(kind, "unique of a size", lambda x: jnp.unique(x, size=5, fill_value=0), integers(4, 9))


def _enter_products() -> None:
    kind = "products"
    add(kind, "matmul", jnp.matmul, normal(3, 4), normal(4, 2))
    add(kind, "batched matmul", jnp.matmul, normal(2, 3, 4), normal(2, 4, 5))
    add(
        kind,
        "einsum",
        lambda x, y: jnp.einsum("bij,bkj->bik", x, y),
        normal(2, 3, 4),
        normal(2, 5, 4),
    )
    add(
        kind,
        "tensordot, inner, outer, vdot",
        lambda x, y: (jnp.tensordot(x, y, 2), jnp.inner(x, y), jnp.outer(x, y), jnp.vdot(x, y)),
        normal(3, 4),
        normal(3, 4),
    )
    add(
        kind,
        "highest precision",
        lambda x, y: jnp.dot(x, y, precision="highest"),
        normal(3, 4),
        normal(4, 3),
    )
    add(
        kind,
        "sums in another dtype",
        lambda x, y: jnp.dot(
            x.astype("bfloat16"), y.astype("bfloat16"), preferred_element_type="float32"
        ),
        normal(3, 4),
        normal(4, 3),
        gradient=False,
    )
    add(kind, "integer product", lambda x, y: x @ y, integers(9, 3, 4), integers(9, 4, 2))
    add(
        kind,
        "convolution",
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        normal(2, 6, 5, 3),
        normal(3, 2, 3, 4),
    )
    add(
        kind,
        "grouped, dilated convolution",
        lambda x, w: lax.conv_general_dilated(
            x, w, (1,), [(2, 1)], lhs_dilation=(2,), rhs_dilation=(2,), feature_group_count=2
        ),
        normal(2, 4, 7),
        normal(6, 2, 3),
    )
    add(
        kind,
        "transposed convolution",
        lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"),
        normal(1, 4, 4, 2),
        normal(3, 3, 2, 3),
    )
    add(kind, "convolve", jnp.convolve, normal(7), normal(3))
    add(kind, "fft", lambda x: jnp.abs(jnp.fft.fft(x)) + jnp.fft.ifft(x).real, normal(3, 8))
    add(
        kind,
        "rfft, irfft",
        lambda x: (jnp.abs(jnp.fft.rfft(x)), jnp.fft.irfft(jnp.fft.rfft(x))),
        normal(3, 8),
    )
    add(kind, "fft2", lambda x: jnp.real(jnp.fft.fft2(x)), normal(4, 6))
    kind = "windows"
    for name, function, start in (
        ("sum", lax.add, 0.0),
        ("max", lax.max, -np.inf),
        ("min", lax.min, np.inf),
    ):
        add(
            kind,
            f"pooling by {name}",
            lambda x, f=function, s=start: lax.reduce_window(x, s, f, (1, 2, 2), (1, 2, 1), "SAME"),
            normal(2, 5, 6),
        )
    add(
        kind,
        "gradient of max pooling",
        jax.grad(
            lambda x: (lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID") ** 2).sum()
        ),
        normal(6, 6),
        gradient=False,
    )
    add(
        kind,
        "patches",
        lambda x: lax.conv_general_dilated_patches(x, (2, 2), (1, 1), "VALID"),
        normal(1, 2, 4, 4),
    )


def _enter_linear_algebra() -> None:
    kind = "linear algebra"
    la = jnp.linalg
    add(kind, "cholesky", la.cholesky, definite(4))
    add(kind, "solve", la.solve, definite(4), normal(4, 2))
    add(kind, "solve of batches", la.solve, definite(3, 2), normal(2, 3, 1))
    add(kind, "inverse", la.inv, definite(4))
    add(kind, "determinants", lambda a: (la.det(a), la.slogdet(a)), definite(4))
    add(
        kind,
        "triangular solve",
        lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True, trans=1),
        definite(4),
        normal(4, 2),
    )
    add(
        kind,
        "cho_solve",
        lambda a, b: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a), b),
        definite(4),
        normal(4),
    )
    add(kind, "lu", lambda a: jax.scipy.linalg.lu(a), definite(4))
    add(
        kind,
        "lu_factor, lu_solve",
        lambda a, b: jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(a), b),
        definite(4),
        normal(4),
    )
    add(kind, "qr", lambda a: la.qr(a)[1] ** 2, normal(5, 3))
    add(kind, "qr, full", lambda a: la.qr(a, mode="complete"), normal(5, 3), gradient=False)
    add(kind, "eigh", lambda a: (la.eigh(a)[0], la.eigh(a)[1] ** 2), definite(4))
    add(
        kind,
        "svd",
        lambda a: (la.svd(a, full_matrices=False)[1], la.svd(a, compute_uv=False)),
        normal(4, 3),
    )
    add(kind, "svd with vectors", lambda a: la.svd(a, full_matrices=False)[0] ** 2, normal(4, 3))
    add(kind, "eigvals", lambda a: jnp.sort(jnp.abs(la.eigvals(a))), definite(4), gradient=False)
    add(
        kind,
        "pinv, lstsq",
        lambda a, b: (la.pinv(a), la.lstsq(a, b)[0]),
        normal(5, 3),
        normal(5),
        gradient=False,
    )
    add(
        kind,
        "matrix_power, multi_dot",
        lambda a: la.matrix_power(a / 5, 3) + la.multi_dot([a, a, a]) / 100,
        definite(3),
    )
    add(kind, "expm", lambda a: jax.scipy.linalg.expm(a / 9), definite(3), gradient=False)
    add(
        kind,
        "conjugate gradients",
        lambda a, b: jax.scipy.sparse.linalg.cg(a.__matmul__, b, tol=1e-12)[0],
        definite(4),
        normal(4),
    )
    add(
        kind,
        "custom linear solve",
        lambda a, b: lax.custom_linear_solve(
            lambda x: a @ x,
            b,
            lambda _, y: jnp.linalg.solve(lax.stop_gradient(a), y),
            symmetric=True,
        ),
        definite(4),
        normal(4),
    )
    add(
        kind,
        "tridiagonal solve",
        lambda d, b: lax.linalg.tridiagonal_solve(
            jnp.ones(4).at[0].set(0), d + 3, jnp.ones(4).at[3].set(0), b
        ),
        positive(4),
        normal(4, 1),
        gradient=False,
    )
    add(
        kind,
        "householder product",
        lambda a, t: lax.linalg.householder_product(a, t),
        normal(4, 3),
        unit(3),
        gradient=False,
    )
    add(kind, "schur", jax.scipy.linalg.schur, definite(3), gradient=False)
    add(kind, "tridiagonal form", lax.linalg.tridiagonal, definite(3), gradient=False)
    add(
        kind,
        "qr with pivoting",
        lambda a: jax.scipy.linalg.qr(a, mode="economic", pivoting=True),
        normal(4, 3),
    )


def _step(carry: Any, x: Any) -> Any:
    carry = jnp.tanh(carry * 0.9 + x)
    return carry, (carry**2).sum()


def _newton(x: Any) -> Any:
    return lax.while_loop(
        lambda s: (s[1] < 50) & (jnp.abs(s[0] ** 2 - x).max() > 1e-12),
        lambda s: ((s[0] + x / s[0]) / 2, s[1] + 1),
        (x, 0),
    )[0]


@jax.custom_jvp
def _safe_log(x: Any) -> Any:
    return jnp.log(jnp.maximum(x, 1e-3))


@_safe_log.defjvp
def _safe_log_jvp(primals: Any, tangents: Any) -> Any:
    return _safe_log(primals[0]), tangents[0] / (primals[0] + 0.1)


@jax.custom_vjp
def _clipped(x: Any, y: Any) -> Any:
    return x * y


_clipped.defvjp(
    lambda x, y: (x * y, (x, y)), lambda r, g: (jnp.clip(g * r[1], -0.5, 0.5), g * r[0] * 2)
)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _with_function(f: Any, x: Any) -> Any:
    return f(x)


_with_function.defvjp(lambda f, x: (f(x), x), lambda f, x, g: (3 * g * f(x),))


def _enter_control() -> None:
    kind = "control flow"
    add(kind, "scan", lambda c, xs: lax.scan(_step, c, xs), normal(3), normal(6, 3))
    add(
        kind,
        "scan, reversed, unrolled",
        lambda c, xs: lax.scan(_step, c, xs, reverse=True, unroll=2),
        normal(3),
        normal(6, 3),
    )
    add(kind, "scan of no steps", lambda c, xs: lax.scan(_step, c, xs[:0]), normal(3), normal(6, 3))
    add(
        kind,
        "scan with constants",
        lambda w, xs: lax.scan(lambda c, x: (jnp.tanh(w @ c + x), c), jnp.zeros(3), xs),
        normal(3, 3),
        normal(5, 3),
    )
    add(kind, "while", _newton, positive(4), gradient=False)
    add(
        kind,
        "fori with fixed bounds",
        lambda x: lax.fori_loop(0, 5, lambda i, s: s * 0.9 + i * x, x),
        normal(3),
    )
    add(
        kind,
        "fori with computed bounds",
        lambda x, n: lax.fori_loop(0, n, lambda i, s: s * 0.9 + i, x),
        normal(3),
        lambda rng: np.int32(4),
        gradient=False,
    )
    add(
        kind,
        "cond",
        lambda x: lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: jnp.sin(y), x),
        normal(3),
    )
    add(
        kind,
        "switch",
        lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda y: 2 * y], x),
        lambda rng: np.int32(7),
        normal(3),
    )
    add(kind, "map", lambda xs: lax.map(lambda x: jnp.sin(x).sum(), xs), normal(5, 2))
    add(kind, "map in batches", lambda xs: lax.map(lambda x: x**2, xs, batch_size=2), normal(5, 2))
    add(kind, "batched cond", jax.vmap(lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x)), normal(5))
    add(
        kind,
        "batched while",
        jax.vmap(lambda x: lax.while_loop(lambda s: s < 10, lambda s: s * 1.5 + 1, x)),
        positive(5),
        gradient=False,
    )
    add(
        kind,
        "nested loops",
        lambda x: lax.fori_loop(
            0, 3, lambda i, s: lax.scan(lambda c, y: (c + y * s.sum(), c), s, x)[0] / 9, x[0]
        ),
        normal(4, 2),
    )
    kind = "derivatives"
    add(kind, "custom_jvp", lambda x: _safe_log(x) * x, positive(5))
    add(kind, "custom_vjp", lambda x, y: jnp.sin(_clipped(x, y)), normal(5), normal(5))
    add(kind, "custom_vjp with a function", lambda x: _with_function(jnp.sin, x), normal(5))
    add(kind, "jacobians", lambda x: (jax.jacfwd(jnp.tanh)(x), jax.jacrev(jnp.tanh)(x)), normal(4))
    add(kind, "hessian", jax.hessian(lambda x: jnp.prod(jnp.sin(x))), positive(4))
    add(
        kind,
        "gradient of a scan",
        jax.grad(lambda xs: lax.scan(_step, jnp.zeros(3), xs)[1].sum()),
        normal(6, 3),
    )
    add(kind, "checkpoint", jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), normal(4))
    add(
        kind,
        "gradient of a checkpoint",
        jax.grad(lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.exp(jnp.sin(y))))(x).sum()),
        normal(4),
    )
    add(
        kind,
        "checkpoint, policy dots",
        jax.checkpoint(
            lambda w, x: jnp.tanh(w @ jnp.sin(w @ x)), policy=jax.checkpoint_policies.dots_saveable
        ),
        normal(3, 3),
        normal(3),
    )
    add(
        kind,
        "checkpoint, policy names",
        jax.checkpoint(
            lambda x: jnp.sin(jax.ad_checkpoint.checkpoint_name(jnp.exp(x), "e")),
            policy=jax.checkpoint_policies.save_only_these_names("e"),
        ),
        normal(4),
    )
    add(kind, "stop_gradient", lambda x: x * lax.stop_gradient(jnp.exp(x)), normal(4))
    add(
        kind,
        "jit in vmap in grad",
        jax.grad(lambda x: jax.vmap(jax.jit(jnp.sin))(x).sum()),
        normal(5),
    )
    add(
        kind,
        "forward over reverse",
        lambda x, v: jax.jvp(jax.grad(lambda y: (jnp.sin(y) ** 3).sum()), (x,), (v,))[1],
        normal(4),
        normal(4),
    )
    add(
        kind,
        "linear transpose",
        lambda x: jax.linear_transpose(lambda y: jnp.cumsum(y) * 2, x)(x)[0],
        normal(5),
    )


def _enter_random() -> None:
    kind = "random"
    for raw in (False, True):
        form = "raw" if raw else "typed"
        add(kind, f"normal, {form} key", lambda k: jax.random.normal(k, (3, 4)), key(1, raw=raw))
        add(
            kind,
            f"split and fold in, {form} key",
            lambda k: [
                jax.random.uniform(jax.random.fold_in(s, 3), (2,)) for s in jax.random.split(k, 3)
            ],
            key(2, raw=raw),
        )
    add(
        kind,
        "random bits",
        lambda k: [jax.random.bits(k, (5,), d) for d in ("uint8", "uint16", "uint32", "uint64")],
        key(3),
    )
    add(
        kind,
        "integers, permutation, choice",
        lambda k: (
            jax.random.randint(k, (7,), -5, 99),
            jax.random.permutation(k, 9),
            jax.random.choice(k, 20, (4,), replace=False),
        ),
        key(4),
    )
    add(
        kind,
        "distributions",
        lambda k: (
            jax.random.bernoulli(k, 0.3, (9,)),
            jax.random.exponential(k, (3,)),
            jax.random.gumbel(k, (3,)),
            jax.random.laplace(k, (3,)),
            jax.random.cauchy(k, (3,)),
            jax.random.categorical(k, jnp.arange(5.0), shape=(4,)),
            jax.random.truncated_normal(k, -1, 1, (3,)),
            jax.random.logistic(k, (3,)),
        ),
        key(5),
    )
    add(
        kind,
        "seeds within",
        lambda s: jax.random.normal(jax.random.key(s), (3,)),
        lambda rng: np.int32(12),
    )
    add(kind, "keys returned", lambda k: jax.random.split(k, (2, 3)), key(6), gradient=False)
    add(
        kind,
        "batched keys",
        lambda k: jax.vmap(lambda s: jax.random.normal(s, (2,)))(jax.random.split(k, 3)),
        key(7),
    )
    add(
        kind,
        "keys in a scan",
        lambda k: lax.scan(
            lambda c, s: (jax.random.split(c)[0], jax.random.uniform(s)), k, jax.random.split(k, 4)
        )[1],
        key(8),
    )
    add(
        kind,
        "keys in cond, where, index",
        lambda k: jax.random.normal(
            lax.cond(jax.random.bernoulli(k), lambda s: s[0], lambda s: s[1], jax.random.split(k)),
            (2,),
        ),
        key(9),
    )
    add(kind, "gamma", lambda k: jax.random.gamma(k, 2.0, (3,)), key(10))
    add(
        kind,
        "dirichlet of parameters",
        lambda k, a: jax.random.dirichlet(k, jnp.exp(a)),
        key(10),
        normal(4),
    )
    add(
        kind,
        "dropout",
        lambda k, x: jnp.where(jax.random.bernoulli(k, 0.5, x.shape), 2 * x, 0.0),
        key(11),
        normal(4, 4),
    )
    add(
        kind,
        "rbg key",
        lambda k: jax.random.normal(k, (2,)),
        lambda rng: jax.random.key(1, impl="rbg"),
    )


_enter_elementwise()
_enter_shapes()
_enter_indexing()
_enter_reductions()
_enter_products()
_enter_linear_algebra()
_enter_control()
_enter_random()
