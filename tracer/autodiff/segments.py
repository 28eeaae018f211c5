"""Whether scans are differentiated in segments, which keeps less and computes steps twice."""

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
        their number are kept at a time; every step is computed once more.
    """
    token = _SEGMENTED.set(on)
    try:
        yield
    finally:
        _SEGMENTED.reset(token)


__all__ = ["scans_are_segmented", "segment_scans"]
