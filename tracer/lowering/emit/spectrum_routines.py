"""Eigenvalues and singular values of many matrices by NumPy, on as many threads as XLA has.

NumPy's LAPACK takes one matrix after the other without Python's lock. jaxlib's takes them on all
threads up to 0.10 only, and waits for ever where two such calls meet (`library`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tracer.ir.library_calls import SpectrumCall
from tracer.target import xla_threads

Array = np.ndarray[Any, Any]
_VALUES: dict[str, Callable[[Array], Array]] = {
    "eigvalsh": np.linalg.eigvalsh,
    "svdvals": np.linalg.svdvals,
}
SPECTRA = tuple(_VALUES)
"""The routines."""


def spectrum(kind: str, x: Array, result: Array, *_: int) -> None:
    """Write the values of the matrices in the last two axes of `x` to `result`."""
    matrices = x.reshape(-1, *x.shape[-2:])
    values = result.reshape(len(matrices), -1)
    bounds = np.linspace(0, len(matrices), xla_threads() + 1).astype(int)
    parts = [slice(*pair) for pair in itertools.pairwise(bounds)]
    with ThreadPoolExecutor(len(parts)) as pool:
        # Asking for the results raises what a part raised.
        list(pool.map(lambda part: _write(kind, matrices[part], values[part]), parts))


def _write(kind: str, matrices: Array, values: Array) -> None:
    _, rows, columns = matrices.shape
    count = SpectrumCall(rows, columns, matrices.itemsize).at_a_time
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


__all__ = ["SPECTRA", "spectrum"]
