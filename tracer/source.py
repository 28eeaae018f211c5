"""Where in the user's code something happened: file, line and function.

Every node of a graph and every error carries a `Source`. Frames inside the package, standard
library helpers and optree are skipped, because users can only fix their own lines.
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
from types import FrameType
from typing import NamedTuple

import optree

_HIDDEN = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    os.path.dirname(os.path.abspath(optree.__file__)) + os.sep,
    os.path.dirname(os.path.abspath(functools.__file__)) + os.sep + "functools.py",
    os.path.dirname(os.path.abspath(functools.__file__)) + os.sep + "contextlib.py",
    "<frozen",
)


class Source(NamedTuple):
    """A place in a Python file."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        text = linecache.getline(self.file, self.line).strip()
        place = f"{os.path.basename(self.file)}:{self.line} in {self.function}"
        return f"{place}: {text}" if text else place


@functools.lru_cache(maxsize=4096)
def _is_hidden(filename: str) -> bool:
    return filename.startswith(_HIDDEN)


def user_source() -> Source | None:
    """Return the innermost frame that belongs to the user, or None when there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        # The methods of dataclasses have no file, only the package's globals.
        is_ours = filename == "<string>" and _is_hidden(frame.f_globals.get("__file__") or "")
        if not is_ours and not _is_hidden(filename):
            return Source(filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None
