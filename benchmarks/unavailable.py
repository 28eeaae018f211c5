"""What a target raises when something that it needs is not here, such as a GPU."""

from __future__ import annotations


class Unavailable(RuntimeError):
    """A library or device is not here: the target is skipped with this message."""
