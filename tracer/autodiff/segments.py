"""How scans are differentiated when memory is short: in segments, without large residuals.

Both options keep less and compute more. They hold for a whole trace, so they are context variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_SEGMENTED: ContextVar[bool] = ContextVar("segmented scans", default=False)


def scans_are_segmented() -> bool:
    """Tell whether scans that are differentiated now should be cut into segments."""
    return _SEGMENTED.get()


@contextmanager
def segment_scans(on: bool = True) -> Iterator[None]:
    """Differentiate the scans that are met within the context in segments, or as a whole.

    Parameters
    ----------
    on : bool
        In segments: instead of the residuals of all steps, those of about the square root of
        their number are kept at a time; every step is computed twice.
    """
    token = _SEGMENTED.set(on)
    try:
        yield
    finally:
        _SEGMENTED.reset(token)


_LARGE: ContextVar[int | None] = ContextVar("large bytes", default=None)


def large_bytes() -> int | None:
    """Return the bytes above which scans that are differentiated now compute values again."""
    return _LARGE.get()


@contextmanager
def recompute_large(threshold: int | None) -> Iterator[None]:
    """Differentiate the scans that are met within the context without keeping large values.

    Parameters
    ----------
    threshold : int or None
        In bytes. The steps compute larger invariants themselves (`ops.sink`), so that cotangents
        of these are not summed over the steps but pulled back in each; and the backward steps
        compute larger residuals again. None keeps them all.
    """
    token = _LARGE.set(threshold)
    try:
        yield
    finally:
        _LARGE.reset(token)


__all__ = ["large_bytes", "recompute_large", "scans_are_segmented", "segment_scans"]
