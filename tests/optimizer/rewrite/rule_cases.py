"""Programs that rules rewrite: for each rule the ways in which people write what it matches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tracer.numpy as tnp
from tracer import nn
from tracer.autodiff.transforms import grad
from tracer.ir import ShapeDtype
from tracer.numpy import linalg

Case = tuple[str, Callable[..., Any], tuple[ShapeDtype, ...]]
FLOAT = "float32"
N = 24


def floats(*shape: int) -> ShapeDtype:
    return ShapeDtype(shape, FLOAT)


def indices(*shape: int) -> ShapeDtype:
    return ShapeDtype(shape, "int32")


def factor(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give the Cholesky factor of a well conditioned matrix in place of the first argument."""
    return lambda x, *others: function(linalg.cholesky(_gram(x)), *others)


def with_cholesky(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hand a Gram matrix to a function, and return its Cholesky factor too."""

    def program(x: Any, *others: Any) -> Any:
        a = _gram(x)
        return linalg.cholesky(a), function(a, *others)

    return program


def _gram(x: Any) -> Any:
    return x @ x.T / x.shape[1] + 0.5 * tnp.eye(x.shape[0], dtype=x.dtype)


def _eye(x: Any) -> Any:
    return tnp.eye(x.shape[0], dtype=x.dtype)


SOLVING: list[Case] = [
    ("inverse-times", lambda a, b: linalg.inv(a) @ b, (floats(N, N), floats(N))),
    ("inverse-times", lambda a, b: linalg.inv(a) @ b, (floats(N, N), floats(N, 5))),
    ("inverse-times", lambda a, b: linalg.inv(a) @ b, (floats(2, N, N), floats(2, N, 5))),
    ("times-inverse", lambda b, a: b @ linalg.inv(a), (floats(N), floats(N, N))),
    ("times-inverse", lambda b, a: b @ linalg.inv(a), (floats(5, N), floats(N, N))),
    (
        "solve-then-product",
        lambda a, b, v: linalg.inv(a) @ b @ v,
        (floats(N, N), floats(N, N), floats(N)),
    ),
    (
        "solve-then-product",
        lambda a, b, c: linalg.solve(a, b) @ c,
        (floats(N, N), floats(N, N), floats(N, 2)),
    ),
    (
        "solve-with-factor",
        factor(lambda t, b: linalg.solve(t @ t.T, b)),
        (floats(N, N), floats(N)),
    ),
    (
        "solve-with-factor",
        factor(lambda t, b: linalg.inv(t @ t.T) @ b),
        (floats(N, N), floats(N, 3)),
    ),
    ("determinant-of-factors", factor(lambda t: linalg.det(t @ t.T)), (floats(N, N),)),
    ("log-determinant-of-factors", factor(lambda t: linalg.slogdet(t @ t.T)[1]), (floats(N, N),)),
    ("sign-of-factors", factor(lambda t: linalg.slogdet(t @ t.T)[0]), (floats(N, N),)),
    (
        "log-determinant-of-factors",
        lambda x: linalg.slogdet(tnp.tril(x) @ tnp.tril(x).T)[1],
        (floats(N, N),),
    ),
    ("solve-with-cholesky", with_cholesky(linalg.solve), (floats(N, 5), floats(N))),
    ("solve-with-cholesky", with_cholesky(linalg.solve), (floats(N, 5), floats(N, 3))),
    ("determinant-with-cholesky", with_cholesky(linalg.det), (floats(N, 5),)),
    (
        "log-determinant-with-cholesky",
        with_cholesky(lambda a: linalg.slogdet(a)[1]),
        (floats(N, 5),),
    ),
    ("sign-with-cholesky", with_cholesky(lambda a: linalg.slogdet(a)[0]), (floats(N, 5),)),
    (
        "log-determinant-with-cholesky",
        with_cholesky(lambda a: tnp.log(linalg.det(a))),
        (floats(N, 5),),
    ),
    ("log-of-determinant", lambda a: tnp.log(linalg.det(a)), (floats(N, N),)),
]

PRODUCTS: list[Case] = [
    ("trace-of-product", lambda a, b: tnp.trace(a @ b), (floats(N, 9), floats(9, N))),
    ("trace-of-product", lambda a, b: tnp.trace(a.T @ b), (floats(N, N), floats(N, N))),
    (
        "trace-of-product",
        lambda a, b: tnp.trace(tnp.einsum("ki,jk->ij", a, b)),
        (floats(9, N), floats(N, 9)),
    ),
    (
        "trace-of-product",
        lambda a, b: tnp.trace(a @ b, axis1=1, axis2=2),
        (floats(3, N, 9), floats(3, 9, N)),
    ),
    ("trace-of-product", lambda a, b: tnp.sum(_eye(a) * (a @ b)), (floats(N, 9), floats(9, N))),
    ("diagonal-of-product", lambda a, b: tnp.diag(a @ b), (floats(N, 9), floats(9, N))),
    ("diagonal-of-product", lambda a, b: tnp.diagonal(a.T @ b), (floats(9, N), floats(9, N))),
    (
        "kronecker-times",
        lambda a, b, v: tnp.kron(a, b) @ v,
        (floats(4, 5), floats(6, 7), floats(35)),
    ),
    (
        "diagonal-of-sum",
        lambda a, b, c: tnp.trace(a @ b + c),
        (floats(N, N), floats(N, N), floats(N, N)),
    ),
    (
        "diagonal-of-difference",
        lambda a, b, c: tnp.diag(a - b @ c),
        (floats(N, N), floats(N, N), floats(N, N)),
    ),
    (
        "diagonal-of-elementwise-product",
        lambda a, b, c: tnp.diag((a @ b) * c),
        (floats(N, 9), floats(9, N), floats(N, N)),
    ),
    (
        "diagonal-of-quotient",
        lambda a, b, c: tnp.diag((a @ b) / c),
        (floats(N, 9), floats(9, N), floats(N, N)),
    ),
    (
        "kronecker-times",
        lambda a, b, c: tnp.kron(a, b) @ c,
        (floats(4, 5), floats(6, 7), floats(35, 3)),
    ),
]

DIAGONAL: list[Case] = [
    ("diagonal-gradient", lambda x, w: gradient(tnp.diagonal)(x, w), (floats(N, N), floats(N))),
    (
        "diagonal-gradient",
        lambda x, w: gradient(lambda x: tnp.diagonal(x, axis1=1, axis2=2))(x, w),
        (floats(3, N, N), floats(3, N)),
    ),
    ("without-diagonal", lambda a: tnp.exp(a - tnp.diag(tnp.diag(a))), (floats(N, N),)),
    (
        "without-diagonal",
        lambda a: (b := a @ a.T) - tnp.diag(tnp.diagonal(b)),
        (floats(N, N),),
    ),
    ("diagonal-times", lambda w, a: tnp.diag(w) @ a, (floats(N), floats(N, 9))),
    ("diagonal-times", lambda w, a: tnp.diag(w) @ a, (floats(N), floats(N))),
    ("diagonal-times", lambda w, a: (_eye(w) * w) @ a, (floats(N), floats(N, N))),
    ("diagonal-times", lambda w, a: (w[:, None] * _eye(w)) @ a, (floats(N), floats(N, 9))),
    ("times-diagonal", lambda x, w: x.T @ tnp.diag(w) @ x, (floats(N, 9), floats(N))),
    ("times-diagonal", lambda a, w: a @ (_eye(w) * w), (floats(9, N), floats(N))),
    ("identity-times", lambda a: _eye(a) @ a, (floats(N, 9),)),
    ("identity-times", lambda a: a @ _eye(a), (floats(N, N),)),
    ("shifted-times", lambda a, b: (tnp.exp(a) + 0.1 * _eye(a)) @ b, (floats(N, N), floats(N))),
    (
        "shifted-times",
        lambda a, c, b: (c**2 * _eye(a) + tnp.exp(a)) @ b,
        (floats(N, N), floats(), floats(N, 3)),
    ),
    ("shifted-times", lambda x, b: (x @ x.T + 0.1 * _eye(x)) @ b, (floats(N, 9), floats(N))),
    (
        "shifted-times",
        lambda a, c, b: (a + c * _eye(a)) @ b,
        (indices(N, N), indices(), indices(N, 3)),
    ),
]


def _codes(i: Any, m: Any) -> Any:
    return (i[:, None] == tnp.arange(m.shape[0])).astype(m.dtype)


SELECTION: list[Case] = [
    (
        "one-hot-times",
        lambda i, m: nn.one_hot(i, N, dtype=m.dtype) @ m,
        (indices(40), floats(N, 9)),
    ),
    ("one-hot-times", lambda i, m: nn.one_hot(i, N, dtype=m.dtype) @ m, (indices(40), floats(N))),
    ("one-hot-times", lambda i, m: _codes(i, m) @ m, (indices(40), floats(N, 9))),
    ("rows-of-identity-times", lambda i, m: _eye(m)[i] @ m, (indices(40), floats(N, 9))),
    (
        "one-hot-transposed-times",
        lambda i, g: nn.one_hot(i, N, dtype=g.dtype).T @ g,
        (indices(40), floats(40, 9)),
    ),
    (
        "one-hot-transposed-times",
        lambda i, g: nn.one_hot(i, N, dtype=g.dtype, axis=0) @ g,
        (indices(40), floats(40)),
    ),
    ("largest-of-sorted", lambda x: tnp.sort(x)[..., -3:], (floats(4, 99),)),
    ("largest-of-sorted", lambda x: tnp.sort(x)[-3:], (floats(99),)),
    ("largest-of-sorted", lambda x: tnp.sort(x)[..., -1:], (indices(4, 999),)),
    ("largest-of-sorted-descending", lambda x: tnp.sort(x)[..., ::-1][..., :3], (floats(4, 99),)),
    (
        "largest-of-sorted-descending",
        lambda x: tnp.flip(tnp.sort(x)[..., -3:], -1),
        (floats(9, 99),),
    ),
    ("smallest-of-sorted", lambda x: tnp.sort(x)[..., :3], (floats(4, 99),)),
    ("smallest-of-sorted", lambda x: tnp.sort(x)[:3], (floats(99),)),
    ("smallest-of-sorted", lambda x: tnp.sort(x)[..., :1], (indices(4, 999),)),
    ("places-of-smallest", lambda x: tnp.argsort(x)[..., :3], (floats(4, 99),)),
    ("places-of-smallest", lambda x: tnp.argsort(-x)[..., :3], (floats(4, 99),)),
    ("places-of-smallest", lambda x: tnp.argsort(x)[..., :1], (indices(4, 999),)),
]


def _naive_softmax(x: Any, axis: int) -> Any:
    return tnp.exp(x) / tnp.sum(tnp.exp(x), axis=axis, keepdims=True)


STABLE: list[Case] = [
    ("log1p", lambda x: tnp.log(1 + x * x), (floats(N),)),
    ("log1p", lambda x: tnp.log(x * x + 1.0), (floats(4, N),)),
    ("log1p-of-negative", lambda x: tnp.log(1 - tnp.tanh(x)), (floats(4, N),)),
    ("expm1", lambda x: tnp.exp(x) - 1, (floats(4, N),)),
    ("expm1", lambda x: tnp.exp(x) + -1.0, (floats(N),)),
    ("softplus", lambda x: tnp.log(1 + tnp.exp(x)), (floats(4, N),)),
    ("softplus", lambda x: tnp.log1p(tnp.exp(x)), (floats(N),)),
    ("log-sigmoid", lambda x: tnp.log(nn.sigmoid(x)), (floats(4, N),)),
    ("log-sigmoid", lambda x: tnp.log(1 / (1 + tnp.exp(-x))), (floats(N),)),
    ("log-sum-exp", lambda x: tnp.log(tnp.sum(tnp.exp(x))), (floats(N),)),
    ("log-sum-exp", lambda x: tnp.log(tnp.sum(tnp.exp(x), axis=1)), (floats(4, N),)),
    ("log-sum-exp", lambda x: tnp.log(tnp.sum(tnp.exp(x), axis=0, keepdims=True)), (floats(4, N),)),
    ("softmax", lambda x: _naive_softmax(x, 1), (floats(4, N),)),
    ("softmax", lambda x: tnp.exp(x) / tnp.sum(tnp.exp(x)), (floats(N),)),
    ("log-softmax", lambda x: tnp.log(nn.softmax(x, axis=-1)), (floats(4, N),)),
    ("log-softmax", lambda x: tnp.log(_naive_softmax(x, 0)), (floats(4, N),)),
]


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the gradient of a weighed sum of a function's results."""
    return lambda x, w: grad(lambda x: tnp.sum(w * function(x)))(x)


GRADIENTS: list[Case] = [
    (
        "softplus-gradient",
        gradient(lambda x: tnp.log(1 + tnp.exp(x))),
        (floats(4, N), floats(4, N)),
    ),
    (
        "log-sum-exp-gradient",
        gradient(lambda x: tnp.log(tnp.sum(tnp.exp(x), axis=1))),
        (floats(4, N), floats(4)),
    ),
    (
        "log-sum-exp-gradient",
        gradient(lambda x: tnp.log(tnp.sum(tnp.exp(x), axis=0, keepdims=True))),
        (floats(4, N), floats(1, N)),
    ),
    (
        "softmax-gradient",
        gradient(lambda x: _naive_softmax(x, 1)),
        (floats(4, N), floats(4, N)),
    ),
    (
        "log-softmax-gradient",
        gradient(lambda x: tnp.log(_naive_softmax(x, 0))),
        (floats(4, N), floats(4, N)),
    ),
]

POWERS: list[Case] = [
    ("power-by-multiplication", lambda x: x**4, (floats(N),)),
    ("power-by-multiplication", lambda x: tnp.power(x, 7.0), (floats(4, N),)),
    ("power-by-multiplication", lambda x: (1 + x * x) ** -0.5, (floats(4, N),)),
    ("power-by-multiplication", lambda x: (x * x) ** 1.5, (floats(N),)),
    ("power-by-multiplication", lambda x: (x * x) ** 2.5, (floats(),)),
]

CASES: list[Case] = SOLVING + PRODUCTS + DIAGONAL + SELECTION + STABLE + GRADIENTS + POWERS


def sample_arrays(types: tuple[ShapeDtype, ...], seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Return random arrays of these types; square matrices with a heavy positive diagonal."""
    random = np.random.default_rng(seed)
    arrays = []
    for type in types:
        if type.dtype.kind == "i":
            arrays.append(random.integers(-2, N + 2, type.shape).astype(type.dtype))
            continue
        array = random.standard_normal(type.shape)
        if type.ndim >= 2 and type.shape[-1] == type.shape[-2]:
            array = array / 8 + np.eye(type.shape[-1])
        arrays.append(array.astype(type.dtype))
    return arrays
