"""How many threads SciPy's OpenBLAS takes while a program runs; it is XLA:CPU's LAPACK.

An OpenBLAS thread that has finished its share waits actively for more, for about 20 ms, on a core
that XLA's own threads need. If calls are shorter than that, as in loops over slices, XLA has half a
machine: the gradient of a sparse Gaussian process took three times as long as with one OpenBLAS
thread (docs/experiments.md). Large calls keep all threads.

The number of threads belongs to the whole process, so only `tracer.tune_host_allocator` asks for
this.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tracer.lowering.environment import temporary_variables
from tracer.lowering.memory.hlo_text import Array, parse

# It sets this variable for good otherwise.
with temporary_variables({"KMP_DUPLICATE_LIB_OK": "True"}):
    import threadpoolctl

LARGE_CALL = 2_000_000_000
"""Multiplications of a call that takes longer than threads wait for the next one: 40 ms or so."""


def wants_one_thread(hlo: str) -> bool:
    """Tell whether a program has calls of LAPACK, and all of them are short.

    Parameters
    ----------
    hlo : str
        Optimised HLO as text.
    """
    return 0 < largest_call(hlo) < LARGE_CALL


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
def _libraries() -> tuple[Any, ...]:
    """Return the BLAS libraries of the process that LAPACK may come from, by threadpoolctl.

    NumPy's wheels bring their own one, which XLA does not call. Called once LAPACK is
    loaded: the list is of what is loaded then.
    """
    blas = threadpoolctl.ThreadpoolController().select(user_api="blas")
    return tuple(one for one in blas.lib_controllers if "numpy.libs" not in one.filepath)


_LOCK = threading.Lock()
_running: set[object] = set()
"""A token for each program that runs now."""
_before: list[tuple[Any, int]] = []
"""How many threads each library had before the first of the programs that run now.

After an interrupt also what was not given back: the next program does that at its end.
"""


@contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS take one thread; the last of several runs at a time gives the others back."""
    program = object()
    try:  # Before anything is changed: an interrupt may come at once.
        with _LOCK:
            if not _running and not _before:
                _before[:] = [(library, library.num_threads) for library in _libraries()]
            _running.add(program)
            for library, _ in _before:
                library.set_num_threads(1)
        yield
    finally:
        with _LOCK:
            _running.discard(program)
            if not _running:
                for library, threads in _before:
                    # What somebody else has set meanwhile is theirs.
                    if library.num_threads == 1:
                        library.set_num_threads(threads)
                _before.clear()
