"""What the array API standard lets a library query: kinds of dtypes, capabilities, devices.

References
----------
https://data-apis.org/array-api/2024.12/API_specification/inspection.html
"""

from __future__ import annotations

from typing import Any

from tracer.array.array import get_evaluator
from tracer.array.promotion import Dtype
from tracer.errors import ArgumentError
from tracer.ir import DTYPES_BY_NAME, as_dtype

_KIND_CODES = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "fV",
    "complex floating": "c",
    "numeric": "iufVc",
}
"""The standard's names of kinds; the extension floats (bfloat16, float8) have NumPy's kind V."""
_STANDARD = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"
).split()


def isdtype(dtype: Any, kind: Any) -> bool:
    """Tell whether a dtype is of a kind.

    Parameters
    ----------
    dtype : dtype
        A supported dtype.
    kind : str or dtype or tuple of these
        "bool", "signed integer", "unsigned integer", "integral", "real floating",
        "complex floating", "numeric", or a dtype.

    Returns
    -------
    bool
        Whether it is of any of the kinds; bfloat16 and float8 are real floating.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> tnp.isdtype(tnp.bfloat16, "real floating"), tnp.isdtype(tnp.int8, ("bool", tnp.int16))
    (True, False)
    """
    wanted = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(wanted, one) for one in kind)
    if not isinstance(kind, str):
        return wanted == as_dtype(kind)
    if kind not in _KIND_CODES:
        raise ArgumentError(
            f"kind {kind!r} is not known", mend=f"use one of {', '.join(_KIND_CODES)}, or a dtype"
        )
    return wanted.kind in _KIND_CODES[kind]


class ArrayNamespaceInfo:
    """What `tracer.numpy` offers, in the words of the array API standard."""

    def capabilities(self) -> dict[str, Any]:
        """Return what is supported.

        Boolean masks and shapes that depend on data work on concrete arrays; on traced ones they
        raise `TracingError` unless a `size=` is given.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """Return the device on which arrays are made."""
        return get_evaluator().devices()[0]

    def devices(self) -> list[Any]:
        """Return the devices of this process."""
        return get_evaluator().devices()

    def default_dtypes(self, *, device: Any = None) -> dict[str, Dtype]:
        """Return the dtypes of results when none is asked for; the same on all devices."""
        del device
        classes = {
            "real floating": float,
            "complex floating": complex,
            "integral": int,
            "indexing": int,
        }
        return {kind: as_dtype(python) for kind, python in classes.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Dtype]:
        """Return the standard's dtypes by name, of one kind or of all; see `isdtype`."""
        del device
        found = {name: DTYPES_BY_NAME[name] for name in _STANDARD}
        if kind is None:
            return found
        return {name: dtype for name, dtype in found.items() if isdtype(dtype, kind)}


def __array_namespace_info__() -> ArrayNamespaceInfo:  # noqa: N807 - the standard's name
    """Return what `tracer.numpy` offers: capabilities, devices, dtypes."""
    return ArrayNamespaceInfo()
