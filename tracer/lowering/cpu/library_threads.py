"""How many threads SciPy's OpenBLAS, whose LAPACK XLA:CPU's custom calls are, takes for a program.

A thread of OpenBLAS that has done its share waits actively for more, for about 20 ms, on a core
that XLA's own threads want. Where calls take less than that, and loops over slices are made of such
calls, XLA has half a machine: the gradient of a sparse Gaussian process took three times as long
as with one thread for OpenBLAS (docs/experiments.md). Large calls have all threads.
"""

from __future__ import annotations

import ctypes
import functools
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import scipy

from tracer.lowering.memory.hlo_text import Array, parse
from tracer.lowering.shims import Buffer

LARGE_CALL = 2_000_000_000
"""Multiplications of a call that takes longer than threads wait for the next one: 40 ms or so."""


class Run:
    """Runs a program for one CPU device, with threads for LAPACK as its calls want.

    Parameters
    ----------
    raw : jaxlib's executable
    """

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __call__(self, buffers: Sequence[Buffer]) -> Any:
        """Run the program; the client is a synchronous one, so it has run when this returns."""
        if self._wants_one_thread:
            with one_thread():
                return self._raw.execute_sharded(buffers)
        return self._raw.execute_sharded(buffers)

    @functools.cached_property
    def _wants_one_thread(self) -> bool:
        """Read at the first run: programs that are only planned need not know."""
        return 0 < largest_call(str(self._raw.hlo_modules()[0].to_string())) < LARGE_CALL


def largest_call(hlo: str) -> int:
    """Bound the multiplications of the largest call of LAPACK in an optimised program.

    Parameters
    ----------
    hlo : str
        Optimised HLO as text.

    Returns
    -------
    int
        0 where there is no call: the smaller side of the matrix times the largest operand.
    """
    if 'custom_call_target="lapack_' not in hlo:
        return 0
    return max(
        _multiplications(computation.arrays(found))
        for computation in parse(hlo).values()
        for found in computation.instructions
        if 'custom_call_target="lapack_' in found.attributes
    )


def _multiplications(operands: Sequence[Array]) -> int:
    sizes = [math.prod(array.shape[-2:]) for array in operands]
    return min(operands[0].shape[-2:]) * max(sizes)


@functools.cache
def _openblas() -> Any | None:
    """Return the library that SciPy's wheels bring along; None where SciPy has another one."""
    folder = Path(scipy.__file__).parent.with_name("scipy.libs")
    for path in sorted(folder.glob("libscipy_openblas*.so")):
        library = ctypes.CDLL(str(path))
        if hasattr(library, "scipy_openblas_set_num_threads"):
            return library
    return None


_LOCK = threading.Lock()
_runs = {"count": 0, "threads": 1}
"""Programs that run with one thread now, and how many threads there were before."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Let OpenBLAS take one thread; the last of several runs at a time gives the others back."""
    library = _openblas()
    if library is None:
        yield
        return
    with _LOCK:
        if _runs["count"] == 0:
            _runs["threads"] = library.scipy_openblas_get_num_threads()
            library.scipy_openblas_set_num_threads(1)
        _runs["count"] += 1
    try:
        yield
    finally:
        with _LOCK:
            _runs["count"] -= 1
            # What somebody else has set meanwhile is theirs.
            if _runs["count"] == 0 and library.scipy_openblas_get_num_threads() == 1:
                library.scipy_openblas_set_num_threads(_runs["threads"])
