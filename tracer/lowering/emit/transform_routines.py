"""Fourier transforms by SciPy, of several lines at once and along any axis.

XLA takes one line after the other, along the last axes.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tracer.target import xla_threads

Array = np.ndarray[Any, Any]
TRANSFORMS = ("fft", "ifft", "rfft", "irfft")
"""The routines, as NumPy and SciPy call them."""


def load() -> None:
    """Import SciPy's transforms: only programs that transform do, it takes 0.1 s."""
    importlib.import_module("scipy.fft")


def transform(kind: str, x: Array, result: Array, *axes: int) -> None:
    """Write the transform of `x` along axes to `result`."""
    is_forward = kind in ("fft", "rfft")
    parts = {"fft": "c2c", "ifft": "c2c", "rfft": "r2c", "irfft": "c2r"}
    direct = _direct(parts[kind])
    if direct is None:
        _by_copy(kind, x, result, axes)
        return
    lengths = (result.shape[axes[-1]],) if kind == "irfft" else ()
    divides = 0 if is_forward else 2
    direct(x, axes, *lengths, is_forward, divides, result, xla_threads())


@functools.cache
def _direct(name: str) -> Callable[..., Any] | None:
    """Return SciPy's own function that writes to a given array; None: this SciPy has it elsewhere.

    Its public ones return a new array. The copy takes a quarter of the time.
    """
    for place in ("_pocketfft.pypocketfft", "_duccfft.pyduccfft"):
        try:
            module = importlib.import_module(f"scipy.fft.{place}")
        except ImportError:
            continue
        return getattr(module, name, None)
    return None


def _by_copy(kind: str, x: Array, result: Array, axes: tuple[int, ...]) -> None:
    transform = getattr(importlib.import_module("scipy.fft"), f"{kind}n")
    lengths = [result.shape[axis] for axis in axes] if kind == "irfft" else None
    np.copyto(result, transform(x, lengths, axes=axes, workers=xla_threads()))


__all__ = ["TRANSFORMS", "load", "transform"]
