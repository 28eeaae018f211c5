"""A line on a terminal or in a notebook that is written over and over."""

from __future__ import annotations

import shutil
from typing import Any

PATIENCE_SECONDS = 2.0
"""What takes no longer shows no line."""
_NOTEBOOK = "ipykernel."
"""The module of a notebook's stream: no terminal, and it goes back to the line's start as well."""


class TerminalLine:
    """One line of a stream.

    Parameters
    ----------
    stream : text stream or None
        A process may have no standard error.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._width = 0

    def is_seen(self) -> bool:
        """Tell whether somebody looks at the stream, and a line of it can be written over."""
        stream = self._stream
        if stream is None or getattr(stream, "closed", False):
            return False
        return type(stream).__module__.startswith(_NOTEBOOK) or stream.isatty()

    def show(self, text: str) -> None:
        """Write a text over the last one, cut to the width of the terminal."""
        text = text[: shutil.get_terminal_size().columns - 1]
        padding = " " * (self._width - len(text))
        self._width = len(text)
        self._write(f"\r{text}{padding}")

    def erase(self) -> None:
        """Leave an empty line, if there was a text."""
        if self._width:
            self._write("\r" + " " * self._width + "\r")
            self._width = 0

    def keep(self) -> None:
        """Leave the text, and go to the next line."""
        if self._width:
            self._write("\n")
            self._width = 0

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


__all__ = ["PATIENCE_SECONDS", "TerminalLine"]
