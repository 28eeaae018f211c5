"""Products, convolutions, windows and Fourier transforms: what the sweep of rows compiles.

Each is linear in each operand. So the function of absolute values says how large an error of one
unit may be; that of a Fourier transform grows with the norm of its row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import tracer.numpy as tnp
from tests.sweep.rows import NOT_FINITE, Case, Function, Rows
from tracer import nn

_NUMBERS = "iufc"
_INFINITE = (*NOT_FINITE, "largest")
_CENTRED = "a mean that is not finite leaves nothing; sums of squares in the order of a product"
_HANGS_OVER = (
    "where the shorter operand hangs over an end its infinities meet zeros: NaN, as in JAX"
)


def _linear(name: str, of: Function, **more: Any) -> Case:
    given = {"kinds": _NUMBERS, "scale": of, "units": 8.0, "without": ("largest",)}
    return Case(name, of, **{**given, **more})


def _products() -> list[Case]:
    x, y = (lambda r: r.matrix(r.x)), (lambda r: r.matrix(r.y))
    named: dict[str, Function] = {
        "matmul, long rows": lambda m, r: m.matmul(x(r), y(r).T),
        "matmul, vector": lambda m, r: m.matmul(x(r), r.vector(r.y)),
        "matmul, of vectors": lambda m, r: m.matmul(r.vector(r.x), r.vector(r.y)),
        "matmul, few": lambda m, r: m.matmul(x(r).T[:, :2], y(r)[:2, :5]),
        "matmul, stacks": lambda m, r: m.matmul(x(r)[:, None, :], y(r)[:, :, None]),
        "dot": lambda m, r: m.dot(x(r), y(r).T),
        "inner": lambda m, r: m.inner(x(r), y(r)),
        "vdot": lambda m, r: m.vdot(r.x, r.y),
        "vecdot": lambda m, r: m.vecdot(r.x, r.y, axis=r.axis),
        "matvec": lambda m, r: m.matvec(x(r), r.vector(r.y)),
        "vecmat": lambda m, r: m.vecmat(r.vector(r.y), x(r).T),
        "outer": lambda m, r: m.outer(r.x[:2], r.y[:2, :7]),
        "tensordot": lambda m, r: m.tensordot(r.x, r.y, axes=[[r.axis], [r.axis]]),
        "tensordot, both": lambda m, r: m.tensordot(r.x, r.y, axes=2),
        "einsum ij,kj": lambda m, r: m.einsum("ij,kj->ik", x(r), y(r)),
        "einsum ij,ij->i": lambda m, r: m.einsum("ij,ij->i", x(r), y(r)),
        "einsum ij->": lambda m, r: m.einsum("ij->", x(r)),
        "einsum ij,j->ij": lambda m, r: m.einsum("ij,j->ij", x(r), r.vector(r.y)),
        "einsum ii": lambda m, r: m.einsum("ii->i", x(r)[:, :3]) if r.n >= 3 else x(r),
        "kron": lambda m, r: m.kron(r.x, r.y[:2, :2]),
        "linalg.multi_dot": lambda m, r: m.linalg.multi_dot([x(r), y(r).T, x(r)[:, :2]]),
        "cross": lambda m, r: m.cross(r.x, r.y, axis=1 - r.axis),
    }
    largest = lambda m, r: m.max(r.x, initial=0) * m.max(r.y, initial=0)
    return [
        _linear(name, of, units=24.0 if name == "linalg.multi_dot" else 8.0,
                kinds="iufc" if name in ("cross", "kron") else "biufc",
                scale=largest if name == "cross" else of)
        for name, of in named.items()
    ]  # fmt: skip


def _convolutions() -> list[Case]:
    found = []
    for mode in ("full", "same", "valid"):
        for name in ("convolve", "correlate"):
            of = lambda m, r, name=name, mode=mode: getattr(m, name)(
                r.vector(r.x), r.vector(r.y)[:9], mode=mode
            )
            without = ("largest",) if mode == "valid" else _INFINITE
            found.append(_linear(f"{name}, {mode}", of, least=1, without=without,
                                 why=_HANGS_OVER))  # fmt: skip
    long = lambda m, r: m.convolve(r.vector(r.x), r.vector(r.y))
    return [
        *found,
        _linear("convolve, long", long, least=1, units=24.0, without=_INFINITE, why=_HANGS_OVER),
        *_layers(),
    ]


def _windows(r: Rows, size: int, stride: int = 1) -> Any:
    return sliding_window_view(r.matrix(r.x), size, axis=1)[:, ::stride]


def _layers() -> list[Case]:
    """Layers of `tracer.nn` take (batch, *spatial, features)."""

    def conv(m: Any, r: Rows, stride: int = 1) -> Any:
        x, kernel = r.matrix(r.x), r.matrix(r.y)[:2, :5].T  # 5 places, 2 features
        if m is tnp:
            given = x[:, :, None], kernel[:, None, :]
            return nn.conv(*given, strides=stride, padding="VALID")
        return np.einsum("bnk,kf->bnf", _windows(r, 5, stride), kernel)

    def pooled(name: str, size: int, stride: int) -> Function:
        def of(m: Any, r: Rows) -> Any:
            if m is tnp:
                pool = getattr(nn, f"{name}_pool")
                return pool(r.matrix(r.x)[:, :, None], size, strides=stride)[:, :, 0]
            windows = _windows(r, size, stride)
            return windows.max(-1) if name == "max" else windows.mean(-1)

        return of

    strided: Callable[..., Any] = lambda m, r: conv(m, r, 3)
    return [
        _linear("conv", conv, least=7, kinds="fc"),
        _linear("conv, strided", strided, least=7, kinds="fc"),
        Case("max_pool", pooled("max", 4, 4), least=7, kinds="iuf"),
        Case("max_pool, overlapping", pooled("max", 5, 2), least=7, kinds="iuf"),
        _linear("avg_pool", pooled("avg", 4, 4), least=7, kinds="f"),
        _linear("avg_pool, overlapping", pooled("avg", 5, 2), least=7, kinds="f"),
    ]


_FINITE = "NumPy's own pattern of NaN follows from its factors: a transform of NaN has no meaning"


def _transforms() -> list[Case]:
    found = []
    for norm in ("backward", "ortho"):
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
            for more in (0, 3):
                of = lambda m, r, name=name, norm=norm, more=more: getattr(m.fft, name)(
                    r.x, r.n + more if more else None, axis=r.axis, norm=norm
                )
                # Of float16 NumPy's own make float16, ours float32 (tests/numpy/test_fft.py).
                kinds = {"rfft": "iuf", "ihfft": "iuf", "irfft": "iuc", "hfft": "iuc"}.get(
                    name, "iufc"
                )
                label = f"fft.{name}, {norm}" + (", padded" if more else "")
                found.append(_fourier(label, of, kinds))
    for name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"):
        kinds = "iuf" if name.startswith("r") else "iuc" if name.startswith("ir") else "iufc"
        found.append(
            _fourier(f"fft.{name}", lambda m, r, name=name: getattr(m.fft, name)(r.x), kinds)
        )
    for name in ("fftshift", "ifftshift"):
        shift = lambda m, r, name=name: getattr(m.fft, name)(r.x)
        found.append(Case(f"fft.{name}", shift, moves=True))
    return found


def _fourier(name: str, of: Function, kinds: str) -> Case:
    def scale(m: Any, r: Rows) -> Any:
        return m.max(m.sqrt(m.sum(r.x**2)) * _factor(name, r.n))

    return Case(
        name, of, kinds=kinds, scale=scale, without=_INFINITE, least=1, why=_FINITE, units=16.0
    )


def _factor(name: str, n: int) -> float:
    """Transforms without a factor add what inverse ones divide."""
    size = max(n, 1) * (3 if name.endswith(("2", "n")) else 1)
    inverse = ".i" in name
    if "ortho" in name:
        return 1.0
    return size**-0.5 if inverse else size**0.5


def _statistics() -> list[Case]:
    most = lambda m, r: m.max(r.x, initial=1) ** 2
    return [
        Case("cov", lambda m, r: m.cov(r.matrix(r.x)), kinds=_NUMBERS, scale=most, least=2,
             units=1024.0, without=_INFINITE, why=_CENTRED),
        Case("corrcoef", lambda m, r: m.corrcoef(r.matrix(r.x)), kinds="iuf", least=7, units=64.0,
             without=(*_INFINITE, "edges"), why=_CENTRED, scale=lambda m, r: m.ones(())),
        Case("vander", lambda m, r: m.vander(r.vector(r.x)[:5], 4), kinds="iu"),
        Case("polyval", lambda m, r: m.polyval(r.vector(r.x)[:4], r.y % 3), kinds="iuf",
             without=_INFINITE, why="inf % 3 is NaN",
             scale=lambda m, r: m.polyval(r.vector(r.x)[:4], 3)),
    ]  # fmt: skip


CASES = (*_products(), *_convolutions(), *_transforms(), *_statistics())

__all__ = ["CASES"]
