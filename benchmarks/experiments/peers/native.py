"""Hand-written C with AVX (by the compiler, -march=native) and OpenMP: what the machine can do.

Built in a temporary folder when a benchmark needs it.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments import inputs
from benchmarks.experiments.runs import Array, Run, some

FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC")
SOURCE = Path(__file__).with_name("native.c")


def library() -> ctypes.CDLL:
    """Compile and load the C; the folder is gone afterwards, the code stays mapped."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "native.so"
        subprocess.run(["gcc", *FLAGS, str(SOURCE), "-o", str(built), "-lm"], check=True)
        return ctypes.CDLL(str(built))


def _pointer(array: Array) -> Any:
    return ctypes.c_void_p(array.ctypes.data)


def kernel(n: int, device: str, cap_bytes: int) -> Run:
    """Compute exp(-|x_i - x_j|^2 / 2) @ v for three features, which lie one after another."""
    x, v = inputs.kernel(n)
    columns = np.ascontiguousarray(x.T)
    c = library()

    def call() -> Array:
        product = np.empty(n)
        c.kernel_product(ctypes.c_long(n), _pointer(columns), _pointer(v), _pointer(product))
        return product

    return Run(call, lambda found: found[some(n, 64)])


def neighbours(device: str, cap_bytes: int, **search: Any) -> Run:
    """Find the k nearest by L2 or L1: blocks of points, and an ordered list for each query."""
    asked = inputs.Search(**search)
    queries, points = asked.arrays
    columns = np.ascontiguousarray(points.T)
    c = library()

    def call() -> Array:
        found = np.empty((asked.m, asked.k), np.int64)
        sizes = (ctypes.c_long(size) for size in (asked.m, *points.shape, asked.k))
        c.nearest(
            *sizes,
            ctypes.c_int(asked.metric == "L1"),
            _pointer(queries),
            _pointer(columns),
            _pointer(found),
        )
        return found

    return Run(call, asked.checked)
