"""Linear algebra compiled, in every dtype that it has, judged by what defines each result.

Factors are not unique, so what is compared is their product, that they are orthogonal, triangular
and in order; solutions by their residual. Errors are counted in n units of the operands' norms.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

import tracer
import tracer.numpy as tnp
from tests.sweep.compare import part_dtype
from tests.sweep.values import COMPLEX
from tracer.scipy import linalg as ours_scipy

Array = np.ndarray[Any, Any]
Errors = Callable[..., list[Any]]
DTYPES = tuple(np.dtype(name) for name in ("float32", "float64", "complex64", "complex128"))
INTEGER = np.dtype("int32")
SIZES = (1, 7, 130)
UNITS = 8.0
SOUND = ("everyday", "symmetric", "large", "small", "stack")
"""What every function is defined for."""
BROKEN = ("nan", "inf", "zero row")
"""What has no finite result, of one function or another."""
_SOLVED = ("nan", "zero row")
INTEGERS_HAVE = ("everyday", "symmetric", "stack", "zero row")


@dataclass(frozen=True)
class MatrixCase:
    """A function of a matrix and right-hand sides, and how far its results are off.

    Attributes
    ----------
    name : str
        What it is.
    ours : callable
        Of (a, b); one result or several.
    errors : callable
        Of (a, b, *results) in more digits: errors, in units of rounding for one element.
    flavours : tuple of str
        The matrices that it takes.
    broken_by : tuple of str
        The matrices that it has no finite result for.
    """

    name: str
    ours: Callable[..., Any]
    errors: Errors
    flavours: tuple[str, ...] = SOUND
    broken_by: tuple[str, ...] = ("nan",)


def make(dtype: np.dtype[Any], n: int, flavour: str) -> tuple[Array, Array]:
    """Return a matrix (n, n), or a stack of two, and right-hand sides (n, 3)."""
    rng = np.random.default_rng([n, sum(map(ord, flavour))])
    shape = (2, n, n) if flavour == "stack" else (n, n)
    a, b = _normal(dtype, shape, rng), _normal(dtype, (*shape[:-1], 3), rng)
    a = a + 2 * n**0.5 * np.eye(n) * np.where(np.arange(n) % 3 == 0, -1, 1)
    if flavour == "symmetric":
        a = a @ adjoint(a)
    if flavour in ("large", "small"):
        a = a * 10.0 ** (6 if flavour == "large" else -6)
    if flavour == "zero row":
        a[n // 2] = 0
    if flavour in ("nan", "inf"):
        middle = (n - 1) // 2
        a[middle, middle] = np.nan if flavour == "nan" else np.inf
    if dtype == INTEGER:
        a, b = np.round(a), np.round(b)
    return a.astype(dtype), b.astype(dtype)


def _normal(dtype: np.dtype[Any], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    x = rng.normal(size=shape)
    return x + 1j * rng.normal(size=shape) if dtype in COMPLEX else x


def adjoint(x: Array) -> Array:
    """Return the conjugate transpose."""
    return np.swapaxes(x, -1, -2).conj()


def size(x: Array) -> Any:
    """Return the Frobenius norm of everything."""
    return np.sqrt(np.sum(np.abs(x) ** 2))


def apart(x: Array, y: Array, *scales: Array) -> Any:
    """Return the distance of two arrays over the product of the sizes of others."""
    whole = np.prod([size(s) for s in scales]) if scales else size(y)
    return size(x - y) / whole if whole else size(x - y)


def orthogonal(q: Array) -> Any:
    """Return how far columns are from orthonormal ones."""
    identity = np.eye(q.shape[-1])
    return apart(adjoint(q) @ q, np.broadcast_to(identity, (*q.shape[:-2], *identity.shape)))


def above(x: Array) -> Any:
    """Return the size of what stands above the diagonal."""
    return size(np.triu(x, 1))


def unordered(x: Array) -> Any:
    """Return by how much values do not ascend."""
    return size(np.minimum(np.diff(x, axis=-1), 0))


def _condition(a: Array) -> Any:
    return np.max(np.linalg.cond(a.astype(np.result_type(a.dtype, np.float64))))


def _beside(oracle: Callable[..., Any], power: int = 1) -> Errors:
    """Return errors of values of an oracle that feel the condition of the matrix."""

    def errors(a: Array, b: Array, *found: Array) -> list[Any]:
        wanted = oracle(a, b)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        scale = _condition(a) ** power
        return [apart(x, y) / scale for x, y in zip(found, wanted, strict=True)]

    return errors


def _triangles() -> list[MatrixCase]:
    found = []
    for lower in (True, False):
        for trans in (0, 1, 2):
            for unit in (False, True):

                def triangle(a: Array, lower: bool = lower, unit: bool = unit) -> Array:
                    if unit:  # else the solution grows with every row
                        a = 0.1 * a / size(a) * (1 - np.eye(a.shape[-1])) + np.eye(a.shape[-1])
                    return np.tril(a) if lower else np.triu(a)

                def ours(
                    a: Any, b: Any, lower: bool = lower, trans: int = trans, unit: bool = unit
                ) -> Any:
                    if unit:
                        a = 0.1 * a / tnp.linalg.norm(a) + tnp.eye(a.shape[-1], dtype=a.dtype)
                    return ours_scipy.solve_triangular(
                        a, b, trans=trans, lower=lower, unit_diagonal=unit
                    )

                def errors(
                    a: Array, b: Array, x: Array, trans: int = trans, of: Any = triangle
                ) -> list[Any]:
                    t = of(a)
                    t = t if trans == 0 else np.swapaxes(t, -1, -2) if trans == 1 else adjoint(t)
                    return [size(t @ x - b) / (size(t) * size(x))]

                name = f"solve_triangular, lower={lower}, trans={trans}, unit={unit}"
                flavours = tuple(f for f in SOUND if f != "stack" or not unit)
                found.append(MatrixCase(name, ours, errors, flavours, () if unit else _SOLVED))
    return found


def _solutions() -> list[MatrixCase]:
    la = tnp.linalg
    # Right-hand sides of integers may be zero, and so the solution.
    tiny = float(np.finfo(np.float64).tiny)
    residual = lambda a, b, x: [size(a @ x - b) / max(size(a) * size(x), tiny)]
    two_sided = lambda a, b, x: [size(a @ x - np.eye(a.shape[-1])) / (size(a) * size(x))]
    least = lambda a, b, x: [size(adjoint(a) @ (a @ x - b)) / (size(a) ** 2 * size(x))]

    def pseudo(a: Array, b: Array, p: Array) -> list[Any]:
        scale = size(a) ** 2 * size(p)
        return [size(a @ p @ a - a) / scale, size(p @ a @ p - p) / (scale * size(p) / size(a))]

    one = ("everyday", "symmetric", "large", "small")
    return [
        MatrixCase("solve", la.solve, residual, broken_by=_SOLVED),
        MatrixCase("solve of a vector", lambda a, b: la.solve(a, b[..., 0])[..., None],
                   lambda a, b, x: residual(a, b[..., :1], x), one, broken_by=_SOLVED),
        MatrixCase("inv", lambda a, b: la.inv(a), two_sided, broken_by=_SOLVED),
        MatrixCase("pinv", lambda a, b: la.pinv(a), pseudo),
        MatrixCase("lstsq", lambda a, b: la.lstsq(a, b)[0], least, one),
        MatrixCase("lstsq, tall", lambda a, b: la.lstsq(a[:, : (a.shape[1] + 1) // 2], b)[0],
                   lambda a, b, x: least(a[:, : (a.shape[1] + 1) // 2], b, x), one),
        MatrixCase("cho_solve", lambda a, b: ours_scipy.cho_solve(ours_scipy.cho_factor(a), b),
                   residual, ("symmetric",), broken_by=_SOLVED),
        MatrixCase("lu_solve", lambda a, b: ours_scipy.lu_solve(ours_scipy.lu_factor(a), b),
                   residual, one, broken_by=_SOLVED),
        *_triangles(),
    ]  # fmt: skip


def _factors() -> list[MatrixCase]:
    la = tnp.linalg
    one = ("everyday", "symmetric", "large", "small")
    qr = lambda a, b, q, r: [apart(q @ r, a), orthogonal(q), above(adjoint(r)) / size(a)]

    def svd(a: Array, b: Array, u: Array, s: Array, vh: Array) -> list[Any]:
        k = s.shape[-1]
        back = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
        return [apart(back, a), orthogonal(u), orthogonal(adjoint(vh)), unordered(-s) / size(a),
                unordered(np.stack([np.zeros_like(s), s], -1)) / size(a)]  # fmt: skip

    def eigh(a: Array, b: Array, w: Array, v: Array) -> list[Any]:
        return [size(a @ v - v * w[..., None, :]) / size(a), orthogonal(v), unordered(w) / size(a)]

    def eig(a: Array, b: Array, w: Array, v: Array) -> list[Any]:
        lengths = np.sqrt(np.sum(np.abs(v) ** 2, -2))
        return [size(a @ v - v * w[..., None, :]) / size(a), apart(lengths, np.ones(w.shape))]

    half = lambda a: a[..., : (a.shape[-1] + 1) // 2]
    found = [
        MatrixCase("cholesky", lambda a, b: la.cholesky(a),
                   lambda a, b, c: [apart(c @ adjoint(c), a), above(c)], ("symmetric",),
                   ("nan", "zero row")),
        MatrixCase("qr", lambda a, b: la.qr(a), qr),
        MatrixCase("qr, tall", lambda a, b: la.qr(half(a)),
                   lambda a, b, q, r: qr(half(a), b, q, r)),
        MatrixCase("qr, complete", lambda a, b: la.qr(half(a), mode="complete"),
                   lambda a, b, q, r: qr(half(a), b, q, r)),
        MatrixCase("qr, wide", lambda a, b: la.qr(half(a).mT),
                   lambda a, b, q, r: qr(np.swapaxes(half(a), -1, -2), b, q, r)),
        MatrixCase("svd", lambda a, b: la.svd(a), svd),
        MatrixCase("svd, tall", lambda a, b: la.svd(half(a), full_matrices=False),
                   lambda a, b, *f: svd(half(a), b, *f)),
        MatrixCase("svd, full", lambda a, b: la.svd(half(a)),
                   lambda a, b, *f: svd(half(a), b, *f)),
        MatrixCase("eigh", lambda a, b: la.eigh(a + a.mT.conj()),
                   lambda a, b, w, v: eigh(a + adjoint(a), b, w, v)),
        MatrixCase("eigh, upper", lambda a, b: la.eigh(a, UPLO="U"), eigh, ("symmetric",)),
        MatrixCase("eig", lambda a, b: la.eig(a), eig),
        MatrixCase("lu", lambda a, b: ours_scipy.lu(a),
                   lambda a, b, p, low, u: [apart(p @ low @ u, a), above(low), above(u.T)],
                   one),
    ]  # fmt: skip
    return [replace(case, broken_by=(*case.broken_by, "inf")) for case in found]


def _values() -> list[MatrixCase]:
    la = tnp.linalg
    one = ("everyday", "symmetric", "large", "small")
    plain = ("everyday", "symmetric", "stack")
    norms = [
        MatrixCase(f"norm {kind}", lambda a, b, kind=kind: la.norm(a, kind),
                   _beside(lambda a, b, kind=kind: np.linalg.norm(a, kind),
                           power=0 if kind in ("fro", 1, -1, np.inf, -np.inf) else 1), one)
        for kind in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    ]  # fmt: skip
    shrunk = lambda a, n: a / (4 * n)
    return [
        *norms,
        MatrixCase("det", lambda a, b: la.det(shrunk(a, 0.5 * a.shape[-1] ** 0.5)),
                   _beside(lambda a, b: np.linalg.det(shrunk(a, 0.5 * a.shape[-1] ** 0.5))),
                   ("everyday", "stack")),
        MatrixCase("slogdet", lambda a, b: tuple(la.slogdet(a)),
                   _beside(lambda a, b: tuple(np.linalg.slogdet(a)))),
        MatrixCase("svdvals", lambda a, b: la.svdvals(a),
                   _beside(lambda a, b: np.linalg.svdvals(a))),
        MatrixCase("eigvalsh", lambda a, b: la.eigvalsh(a),
                   _beside(lambda a, b: np.linalg.eigvalsh(a))),
        MatrixCase("eigvals", lambda a, b: tnp.sort_complex(la.eigvals(a)),
                   _beside(lambda a, b: np.sort_complex(np.linalg.eigvals(a))),
                   ("symmetric",)),
        MatrixCase("cond", lambda a, b: la.cond(a), _beside(lambda a, b: np.linalg.cond(a))),
        MatrixCase("matrix_rank", lambda a, b: la.matrix_rank(a),
                   _beside(lambda a, b: np.linalg.matrix_rank(a)), broken_by=()),
        MatrixCase("matrix_power 3", lambda a, b: la.matrix_power(a, 3),
                   _beside(lambda a, b: np.linalg.matrix_power(a, 3)), plain),
        MatrixCase("matrix_power -2", lambda a, b: la.matrix_power(a, -2),
                   _beside(lambda a, b: np.linalg.matrix_power(a, -2), 2), plain,
                   broken_by=_SOLVED),
        MatrixCase("expm", lambda a, b: ours_scipy.expm(shrunk(a, a.shape[-1])),
                   _beside(lambda a, b: scipy.linalg.expm(shrunk(a, a.shape[-1]))), plain),
    ]  # fmt: skip


CASES = (*_solutions(), *_factors(), *_values())
_FLOATS_ONLY = ("solve_triangular", "cho_solve", "lu_solve", "lu", "expm", "det")


def chosen(dtype: np.dtype[Any], flavour: str) -> list[MatrixCase]:
    """Return the cases for matrices of a flavour."""
    if flavour in BROKEN:
        return [case for case in CASES if flavour in case.broken_by]
    if dtype == INTEGER:
        return [c for c in CASES if flavour in c.flavours and not c.name.startswith(_FLOATS_ONLY)]
    return [case for case in CASES if flavour in case.flavours]


def results(cases: list[MatrixCase], a: Array, b: Array) -> list[list[Array]]:
    """Return the results of one compiled program."""
    found = tracer.compile(lambda a, b: [case.ours(a, b) for case in cases])(a, b)
    return [[np.asarray(r) for r in (f if isinstance(f, tuple | list) else (f,))] for f in found]


def differences(
    dtype: np.dtype[Any], n: int, flavour: str, counts: list[int] | None = None
) -> list[str]:
    """Return what is off, a line for each case; `counts` gets the number of results."""
    a, b = make(dtype, n, flavour)
    cases = chosen(dtype, flavour)
    told = []
    for case, found in zip(cases, results(cases, a, b), strict=True):
        if counts is not None:
            counts.append(len(found))
        name = f"{case.name} of {dtype}, {n} x {n}, {flavour}"
        if flavour in BROKEN:
            told += [f"{name}: finite"] if _is_finite(found) else []
            continue
        told += _told(name, case, a, b, found)
    return told


def _is_finite(found: list[Array]) -> bool:
    return all(bool(np.isfinite(x).all()) for x in found)


def _told(name: str, case: MatrixCase, a: Array, b: Array, found: list[Array]) -> list[str]:
    wide = np.complex128 if a.dtype in COMPLEX else np.float64
    part = np.finfo(part_dtype(a.dtype) if a.dtype != INTEGER else np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        more = [f.astype(np.complex128 if f.dtype.kind == "c" else np.float64) for f in found]
        errors = case.errors(a.astype(wide), b.astype(wide), *more)
    units = [float(e) / (float(part.eps) * a.shape[-1]) for e in errors]
    if all(u <= UNITS for u in units):
        return []
    return [f"{name}: {', '.join(f'{u:.3g}' for u in units)} units"]


__all__ = ["BROKEN", "CASES", "DTYPES", "INTEGER", "INTEGERS_HAVE", "SIZES", "SOUND", "differences"]
