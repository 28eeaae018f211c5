"""linalg, fft and nn."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.jax_behaviours.comparing import Behaviour, Program
from tests.jax_behaviours.reducers import Programs, array, labelled

FLOATS = ("float32", "float64", "complex128")


def matrix(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(shape)
    values = rng.normal(size=shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.normal(size=shape)
    return values.astype(dtype)


def definite(dtype: str, shape: tuple[int, ...] = (3, 3)) -> np.ndarray[Any, Any]:
    a = matrix(dtype, shape)
    return (a @ a.conj().swapaxes(-1, -2) + 3 * np.eye(shape[-1])).astype(dtype)


SQUARE = {dtype: [matrix(dtype, (3, 3)), matrix(dtype, (2, 4, 4))] for dtype in FLOATS}
DEFINITE = {dtype: [definite(dtype), definite(dtype, (2, 3, 3))] for dtype in FLOATS}
TALL = {dtype: [matrix(dtype, (4, 3)), matrix(dtype, (2, 3, 4))] for dtype in FLOATS}
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])


def systems() -> Programs:
    for dtype, n in itertools.product(FLOATS, (0, 1)):
        a, d = SQUARE[dtype][n], DEFINITE[dtype][n]
        for name in ("det", "slogdet", "inv", "cond", "matrix_rank", "pinv"):
            yield labelled(f"np.linalg.{name}", a)
        for power in (-2, 0, 1, 5):
            yield labelled("np.linalg.matrix_power", a, power)
        for b in (
            a[..., 0],
            a[..., :2],
            matrix(dtype, (a.shape[-1],)),
            matrix(dtype, a.shape[-1:] * 2),
        ):
            yield labelled("np.linalg.solve", a, b)
        for trans, lower in itertools.product((0, 1, 2), (False, True)):
            yield labelled("sp.linalg.solve_triangular", a, a[..., :2], trans=trans, lower=lower)
        yield labelled("sp.linalg.solve_triangular", a, a[..., :2], unit_diagonal=True)
        yield labelled("sp.linalg.cho_solve", (np.linalg.cholesky(d), True), d[..., :2])
        yield labelled("sp.linalg.expm", a)
        yield labelled("sp.linalg.lu", SQUARE[dtype][0])
        yield labelled("np.linalg.lstsq", TALL[dtype][0], matrix(dtype, (4,)))
        for name in ("cholesky",):
            yield labelled(f"np.linalg.{name}", d)
            yield labelled(f"sp.linalg.{name}", d, lower=True)
    stack = np.tril(matrix("float64", (3, 4, 4))) + 3 * np.eye(4)
    yield labelled("sp.linalg.solve_triangular", stack, stack[:, 0], lower=True)
    yield labelled("sp.linalg.cho_solve", (stack, True), stack[:, 0])
    yield labelled("sp.linalg.toeplitz", stack[:, 0], stack[:, 1, :2])
    yield labelled("sp.linalg.block_diag", SINGULAR, np.ones((1, 3)), 2.0)
    for name in ("det", "matrix_rank", "pinv"):
        yield labelled(f"np.linalg.{name}", SINGULAR)
        yield labelled(f"np.linalg.{name}", np.zeros((3, 3)))
    yield labelled("np.linalg.lstsq", np.zeros((3, 2)), np.ones(3))
    yield labelled("np.linalg.det", np.zeros((0, 0)))
    yield labelled("np.linalg.inv", np.arange(4).reshape(2, 2))
    for name in ("tensorsolve", "tensorinv"):
        args = (
            (matrix("float64", (2, 3, 6)), np.ones((2, 3)))
            if name[-1] == "e"
            else (matrix("float64", (6, 2, 3)),)
        )
        yield labelled(f"np.linalg.{name}", *args, **({} if name[-1] == "e" else {"ind": 1}))
    for name, args in (
        ("sqrtm", (definite("float64"),)),
        ("schur", (SQUARE["float64"][0],)),
        ("polar", (SQUARE["float64"][0],)),
        ("hilbert", (3,)),
        ("hankel", (np.arange(3.0),)),
        ("circulant", (np.arange(3.0),)),
        ("dft", (3,)),
        ("pascal", (3,)),
        ("hadamard", (4,)),
        ("helmert", (3,)),
        ("leslie", (np.ones(3), np.ones(2))),
        ("companion", (np.arange(1.0, 4.0),)),
        ("fiedler", (np.arange(3.0),)),
        ("hessenberg", (SQUARE["float64"][0],)),
        ("rsf2csf", (np.triu(SQUARE["float64"][0]), np.eye(3))),
        ("funm", (definite("float64"), np.exp)),
        ("expm_frechet", (SQUARE["float64"][0], SQUARE["float64"][0])),
        ("eigh_tridiagonal", (np.ones(3), np.ones(2))),
        ("solve_sylvester", (definite("float64"), definite("float64"), SQUARE["float64"][0])),
        ("invhilbert", (3,)),
        ("convolution_matrix", (np.ones(2), 3)),
    ):
        yield labelled(f"sp.linalg.{name}", *args)


def norms() -> Programs:
    for x in (array("float64", (4,)), array("complex64", (3, 4)), array("float32", (2, 3, 3))):
        for order in (None, 0, 1, 2, 3, -1, -2, np.inf, -np.inf, "fro", "nuc", "inf"):
            yield labelled("np.linalg.norm", x, order)
            yield labelled("np.linalg.norm", x, order, axis=-1, keepdims=True)
            yield labelled("np.linalg.norm", x, order, axis=(-1, 0))
        for order in (0, 1, 2, 2.5, np.inf, -np.inf):
            yield labelled("np.linalg.vector_norm", x, ord=order, axis=0)
            yield labelled("np.linalg.vector_norm", np.zeros((0, 2)), ord=order, axis=0)
            yield labelled("np.linalg.vector_norm", x, ord=order, keepdims=True)
    for order in ("fro", "nuc", 1, 2, np.inf, -1):
        for shape in ((0, 3), (3, 0), (0, 0)):
            yield labelled("np.linalg.matrix_norm", np.zeros(shape), ord=order)


def _factors(name: str, a: Any, **keywords: Any) -> Program:
    """Return a program that is free of the signs and phases that decompositions leave open."""

    def program(m: Any) -> Any:
        found = getattr(m.np.linalg, name)(a, **keywords)
        if name == "qr":
            return found[0] @ found[1], m.np.abs(found[1])
        if name == "svd":
            u, s, vh = found
            k = s.shape[-1]
            return (
                (u[..., :k] * s[..., None, :]) @ vh[..., :k, :],
                s,
                m.np.abs(u).shape[-1] * s[..., 0],
            )
        values, vectors = found
        order = m.np.argsort(values.real, -1)
        residual = m.np.abs(a @ vectors - vectors * values[..., None, :])
        return residual < 1e-4, m.np.take_along_axis(values.real, order, -1)

    return program


def decompositions() -> Programs:
    for dtype, n in itertools.product(FLOATS, (0, 1)):
        for full in (False, True):
            yield f"svd {dtype} {n} {full}", _factors("svd", TALL[dtype][n], full_matrices=full)
        yield labelled("np.linalg.svdvals", TALL[dtype][n])
        yield f"qr {dtype} {n}", _factors("qr", TALL[dtype][n])
        yield f"eigh {dtype} {n}", _factors("eigh", DEFINITE[dtype][n])
        yield f"eig {dtype} {n}", _factors("eig", SQUARE[dtype][n])
        yield labelled("np.linalg.eigvalsh", DEFINITE[dtype][n])
        yield (
            f"eigvals {dtype} {n}",
            lambda m, a=SQUARE[dtype][n]: m.np.sort(m.np.abs(m.np.linalg.eigvals(a)), axis=-1),
        )
    for mode in ("reduced", "complete", "r", "raw"):
        yield (
            f"qr {mode}",
            lambda m, k=mode: [
                m.np.abs(x)
                for x in (
                    m.np.linalg.qr(TALL["float64"][0], k)
                    if k != "r"
                    else [m.np.linalg.qr(TALL["float64"][0], k)]
                )
            ],
        )


def gradients_of_algebra() -> Programs:
    scalars: dict[str, Any] = {
        "det": lambda m, a: m.np.linalg.det(a),
        "slogdet": lambda m, a: m.np.linalg.slogdet(a)[1],
        "inv": lambda m, a: (m.np.linalg.inv(a) * C).real.sum(),
        "solve": lambda m, a: (m.np.linalg.solve(a, C[:, 0]) * C[0]).real.sum(),
        "lstsq": lambda m, a: (m.np.linalg.lstsq(a, C[:, 0])[0] ** 2).real.sum(),
        "pinv": lambda m, a: (m.np.linalg.pinv(a) * C).real.sum(),
        "qr": lambda m, a: (m.np.abs(m.np.linalg.qr(a)[1]) * C.real).sum(),
        "svd values": lambda m, a: (m.np.linalg.svd(a, compute_uv=False) ** 3).sum(),
        "polar factor": lambda m, a: (
            (lambda u, s, vh: u @ vh)(*m.np.linalg.svd(a)) * C
        ).real.sum(),
        "nuclear norm": lambda m, a: m.np.linalg.norm(a, "nuc"),
        "norm 2": lambda m, a: m.np.linalg.norm(a, 2),
        "expm": lambda m, a: (m.sp.linalg.expm(a) * C).real.sum(),
        "matrix_power": lambda m, a: (m.np.linalg.matrix_power(a, 3) * C).real.sum(),
        "eigvals": lambda m, a: (m.np.linalg.eigvals(a) ** 2).real.sum(),
    }
    symmetric: dict[str, Any] = {
        "cholesky": lambda m, a: (m.np.linalg.cholesky(a) * C).real.sum(),
        "eigvalsh": lambda m, a: (m.np.linalg.eigvalsh(a) ** 3).sum(),
        "eigh": lambda m, a: (
            (lambda w, v: (v * m.np.exp(w / 9)) @ v.conj().T)(*m.np.linalg.eigh(a)) * C
        ).real.sum(),
        "cho_solve": lambda m, a: (
            m.sp.linalg.cho_solve(m.sp.linalg.cho_factor(a), C[:, 0]) * C[0]
        ).real.sum(),
    }
    for dtype in ("float64", "complex128"):
        for cases, a in ((scalars, SQUARE[dtype][0]), (symmetric, DEFINITE[dtype][0])):
            for name, f in cases.items():
                yield (
                    f"grad of {name}, {dtype}",
                    lambda m, f=f, a=a: m.jit(m.grad(lambda x: f(m, x)))(a),
                )
                if dtype == "float64":
                    yield (
                        f"second derivative of {name}",
                        lambda m, f=f, a=a: m.grad(
                            lambda x: (m.grad(lambda y: f(m, y))(x) * C.real).sum()
                        )(a),
                    )


C = matrix("complex128", (3, 3))


def ffts() -> Programs:
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        for dtype in ("int32", "float32", "float64") + (
            () if name in ("rfft", "ihfft") else ("complex64", "complex128")
        ):
            yield labelled(f"np.fft.{name}", array(dtype, (3, 6)))
        for keywords in (
            {"n": 4},
            {"n": 9, "axis": 0},
            {"norm": "ortho"},
            {"norm": "forward"},
            {"n": 0},
            {"axis": 2},
            {"norm": "other"},
        ):
            yield labelled(f"np.fft.{name}", array("float64", (3, 6)), **keywords)
        yield labelled(f"np.fft.{name}", np.zeros((0, 4)))
    for name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"):
        for keywords in (
            {},
            {"s": (4, 3)},
            {"axes": (0, 1)},
            {"axes": (0, 0)},
            {"s": (2, 3), "axes": (1, 2), "norm": "ortho"},
        ):
            yield labelled(f"np.fft.{name}", array("float64", (2, 3, 4)), **keywords)
    for n in (1, 4, 7, 0):
        yield labelled("np.fft.fftfreq", n, 0.5)
        yield labelled("np.fft.rfftfreq", n, 0.5)
    for axes in (None, 0, (0, 1)):
        yield labelled("np.fft.fftshift", array("float32"), axes=axes)
        yield labelled("np.fft.ifftshift", array("float32"), axes=axes)
    x = array("float64", (2, 6))
    for name in ("fft", "rfft", "ihfft"):
        yield (
            f"grad of {name}",
            lambda m, n=name: m.grad(lambda v: (m.np.abs(getattr(m.np.fft, n)(v)) ** 3).sum())(x),
        )
    yield "grad of irfft", lambda m: m.grad(lambda v: (m.np.fft.irfft(v) ** 3).sum())(x + 1j * x)


def networks() -> Programs:
    x = np.array([-np.inf, -50.0, -3.0, -0.0, 0.0, 1e-30, 0.5, 3.0, 50.0, np.inf, np.nan])
    activations = (
        "relu relu6 sigmoid softplus silu swish log_sigmoid leaky_relu elu selu celu gelu glu "
        "hard_sigmoid hard_silu hard_tanh tanh soft_sign mish squareplus sparse_plus "
        "sparse_sigmoid log1mexp"
    ).split()
    for name in activations:
        for dtype in ("float32", "float64"):
            yield labelled(
                f"nn.{name}", x[3:9].astype(dtype) if name in ("glu",) else x.astype(dtype)
            )
        yield f"grad of {name}", lambda m, n=name: m.vmap(m.grad(getattr(m.nn, n)))(x)
        yield labelled(f"nn.{name}", np.array([-2, 0, 3]))
    yield labelled("nn.gelu", x, approximate=False)
    for name in ("softmax", "log_softmax", "standardize", "logsumexp", "logmeanexp"):
        for axis in (-1, 0, (0, 1)):
            yield labelled(f"nn.{name}", array("float32"), axis=axis)
        yield labelled(f"nn.{name}", array("float32"), axis=-1, where=array("bool"))
        yield labelled(f"nn.{name}", np.zeros((0, 3)), axis=-1)
        yield (
            f"grad of {name}",
            lambda m, n=name: m.grad(lambda v: (getattr(m.nn, n)(v, axis=-1) ** 2).sum())(
                array("float64")
            ),
        )
    for classes, keywords in itertools.product(
        (np.array([0, 2, 5, -1]), 1, np.array([[0.5]])), ({}, {"dtype": "float32"}, {"axis": 0})
    ):
        yield labelled("nn.one_hot", classes, 3, **keywords)
    q = array("float32", (2, 5, 4, 8))
    for keywords in (
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"mask": array("bool", (2, 4, 5, 5))},
        {"bias": array("float32", (1, 4, 5, 5))},
    ):
        yield labelled("nn.dot_product_attention", q, q * 0.5, q + 1, **keywords)
    yield labelled("nn.dot_product_attention", q, q[:, :, :2], q[:, :, 2:])
    yield labelled(
        "sp.special.logsumexp", array("float64"), axis=1, b=array("float64"), return_sign=True
    )


BEHAVIOURS = [
    Behaviour(
        "linalg",
        "systems, inverses, determinants, special matrices",
        systems,
        missing=("linalg.funm(", "linalg.expm_frechet(", "linalg.eigh_tridiagonal("),
    ),
    Behaviour("linalg", "norms of vectors and matrices, of nothing too", norms),
    Behaviour(
        "linalg",
        "decompositions, up to the signs that they leave open",
        decompositions,
        missing=("qr raw",),
    ),
    Behaviour(
        "linalg",
        "first and second derivatives",
        gradients_of_algebra,
        differs={
            "second derivative of qr": "0 up to rounding, both",
            "grad of polar factor, float64": "0 up to rounding, both",
            "second derivative of polar factor": "0 up to rounding, both",
            "cho_solve": "the gradient by a symmetric matrix is symmetric, as of cholesky; JAX's "
            "cho_factor does not make it so, and only the symmetric part is the same",
        },
    ),
    Behaviour("fft", "transforms of all kinds and lengths, and their derivatives", ffts),
    Behaviour(
        "nn",
        "activations, softmax, one_hot, attention",
        networks,
        differs={
            "grad of relu": "1 at NaN, where JAX has 0",
            "grad of hard_sigmoid": "at NaN, where JAX has 0",
            "grad of log1mexp": "NaN at -inf, where the value is NaN; JAX has -1",
            "nn.squareplus(float": "0 at -inf, where JAX has NaN",
            "nn.standardize(float32[2, 3, 4], axis=-1, where=": "a row of one element has the "
            "variance 0 up to rounding, which the division makes large",
        },
    ),
]
