"""Eigenvalues and singular values of many matrices by NumPy, on as many threads as XLA has.

NumPy's LAPACK takes one matrix after the other without Python's lock. jaxlib's takes them on all
threads up to 0.10 only, and waits for ever where two such calls meet (`library`).
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tracer.target import xla_threads

Array = np.ndarray[Any, Any]
AT_A_TIME = 1 << 16
"""Bytes of the matrices of a call, or one matrix: NumPy copies narrow ones to double precision."""


def _eigvalsh(matrices: Array) -> Array:
    return np.linalg.eigvalsh(matrices)


def _svdvals(matrices: Array) -> Array:
    return np.linalg.svd(matrices, compute_uv=False)


_VALUES = {"eigvalsh": _eigvalsh, "svdvals": _svdvals}
SPECTRA = tuple(_VALUES)
"""The routines."""


def spectrum(kind: str, x: Array, result: Array, *_: int) -> None:
    """Write the values of the matrices in the last two axes of `x` to `result`."""
    matrices = x.reshape(-1, *x.shape[-2:])
    values = result.reshape(len(matrices), -1)
    bounds = np.linspace(0, len(matrices), xla_threads() + 1).astype(int)
    parts = [slice(*pair) for pair in itertools.pairwise(bounds)]
    _side_by_side([partial(_write, kind, matrices[part], values[part]) for part in parts])


def wide_bytes(itemsize: int, shape: Sequence[int]) -> int:
    """Return the bytes of a matrix in double precision, complex or real: twice a narrow one's."""
    return 2 * itemsize * math.prod(shape)


def _write(kind: str, matrices: Array, values: Array) -> None:
    count = max(1, AT_A_TIME // max(1, wide_bytes(matrices.itemsize, matrices.shape[1:])))
    for start in range(0, len(matrices), count):
        part = slice(start, start + count)
        try:
            values[part] = _VALUES[kind](matrices[part])
        except np.linalg.LinAlgError:
            _write_each(kind, matrices[part], values[part])


def _write_each(kind: str, matrices: Array, values: Array) -> None:
    """Write NaN for those for which LAPACK does not converge, as if they had NaN."""
    for matrix, found in zip(matrices, values, strict=True):
        try:
            found[...] = _VALUES[kind](matrix)
        except np.linalg.LinAlgError:
            found[...] = np.nan


def _side_by_side(calls: Sequence[Callable[[], None]]) -> None:
    """Call functions on threads of their own, the first one on this one."""
    raised: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:  # raised again by the thread that waits
            raised.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls[1:]]
    for thread in threads:
        thread.start()
    run(calls[0])
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


__all__ = ["AT_A_TIME", "SPECTRA", "spectrum", "wide_bytes"]
