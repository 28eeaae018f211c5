"""Routines of NumPy that programs call: well-kept libraries where XLA is far behind.

NumPy sorts with the processor's vectors (x86-simd-sort, Highway); XLA:CPU compares element by
element. NumPy's running sums and extremes read each element once; XLA makes trees of windows.
SciPy's transforms are in `transform_routines`, the values of many matrices in `spectrum_routines`.
Routines are known by name, so that a program that calls them can be kept in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tracer.ir.library_calls import ORDERED_AT_A_TIME
from tracer.lowering.emit.spectrum_routines import SPECTRA, spectrum
from tracer.lowering.emit.transform_routines import TRANSFORMS, load, transform

Array = np.ndarray[Any, Any]

NUMPY_ROUTINE = "numpy"
"""The attribute of a call, as "sort 1": the routine and its axis."""
_BITS = 63


@dataclass(frozen=True)
class NumpyCall:
    """A call of one of NumPy's routines, which writes its result to a given array.

    Attributes
    ----------
    routine : str
        "sort": the array sorted along an axis. "argsort": int64 places along the last axis in the
        order of the elements, equal ones in that of their places; NaNs, which are equal, come last.
        "add", "multiply", "maximum" and "minimum": all elements up to each one, combined.
        Those of `transform_routines`: the discrete Fourier transform. Those of
        `spectrum_routines`: eigenvalues and singular values.
    axes : tuple of int
        Along which; all but transforms of complex numbers go along one.
    is_reversed : bool
        From the end on; of what combines.
    """

    routine: str
    axes: tuple[int, ...]
    is_reversed: bool = False

    def __post_init__(self) -> None:
        """Load the library while the program is compiled: its memory is in no program's count."""
        if self.routine in TRANSFORMS:
            load()

    @classmethod
    def of(cls, routine: str, axes: Sequence[int], is_reversed: bool) -> NumpyCall:
        """Return the call that plain values describe (`dataclasses.asdict`, as JSON keeps it)."""
        return cls(routine, tuple(axes), is_reversed)

    @property
    def is_in_place(self) -> bool:
        """Whether the result may have the operand's memory."""
        return self.routine not in _ELSEWHERE

    def __call__(self, x: Array, result: Array) -> tuple[()]:
        """Write the routine's result for `x`."""
        if self.is_reversed:
            x, result = np.flip(x, self.axes), np.flip(result, self.axes)
        _ROUTINES[self.routine](x, result, *self.axes)
        return ()


def _sort(x: Array, result: Array, axis: int) -> None:
    if result.ctypes.data != x.ctypes.data:
        np.copyto(result, x)
    # Of a byte in long lines the stable sort counts how often there is each (a radix sort).
    is_counted = result.dtype.itemsize == 1 and result.shape[axis] > 1 << 8
    result.sort(axis=axis, kind="stable" if is_counted else None)


def _argsort(x: Array, result: Array, axis: int) -> None:
    line = x.shape[axis]
    lines, orders = x.reshape(-1, line), result.reshape(-1, line)
    step = max(1, ORDERED_AT_A_TIME // line)
    for start in range(0, len(lines), step):
        _order(lines[start : start + step], orders[start : start + step])


def _order(x: Array, order: Array) -> None:
    """Write the places of lines in their order. NumPy's own stable sorts have no vectors.

    Integers of a small range are sorted with their places below them. Others are sorted in any
    order of equal ones; where there are such, what numbers their values is sorted in the same way.
    """
    bits = (x.shape[-1] - 1).bit_length()
    if x.dtype.kind in "iu":
        smallest = x.min()
        if (int(x.max()) - int(smallest)).bit_length() + bits <= _BITS:
            np.subtract(x, smallest, out=order, dtype=np.int64, casting="unsafe")
            _sort_places(order, np.arange(x.shape[-1]), bits)
            return
    order[...] = np.argsort(x, axis=-1)
    found = np.take_along_axis(x, order, -1)
    is_new = found[:, 1:] != found[:, :-1]
    if x.dtype.kind == "f":
        is_new &= ~np.isnan(found[:, :-1])  # NaNs are last, so that the next one is another.
    if not is_new.all():
        places = order.copy()
        order[:, :1] = 0
        np.cumsum(is_new, axis=-1, out=order[:, 1:])
        _sort_places(order, places, bits)


def _sort_places(keys: Array, places: Array, bits: int) -> None:
    """Write the places in the order of keys, and of themselves where keys are equal, over keys."""
    keys <<= bits
    keys |= places
    keys.sort(axis=-1)
    keys &= (1 << bits) - 1


def _running(combine: np.ufunc) -> Callable[[Array, Array, int], None]:
    def run(x: Array, result: Array, axis: int) -> None:
        # Its own dtype: NumPy would add narrow integers in wider ones.
        combine.accumulate(x, axis=axis, dtype=x.dtype, out=result)

    return run


_ROUTINES: dict[str, Callable[..., None]] = {
    "sort": _sort,
    "argsort": _argsort,
    "add": _running(np.add),
    "multiply": _running(np.multiply),
    "maximum": _running(np.maximum),
    "minimum": _running(np.minimum),
    **{name: partial(transform, name) for name in TRANSFORMS},
    **{name: partial(spectrum, name) for name in SPECTRA},
}
_ELSEWHERE = {"argsort", "rfft", "irfft", *SPECTRA}
"""Routines whose result is of another dtype or shape than the operand."""
