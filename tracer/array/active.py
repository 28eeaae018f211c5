"""What is active in a thread: its recordings, and the device for arrays that name none."""

from __future__ import annotations

import threading
from typing import Any


class Active(threading.local):
    """The state of one thread."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        """The active `Recording`s, the innermost last."""
        self.place: Any = None
        """Where arrays go that name no device (`placement.py`); None: the default."""


ACTIVE = Active()
