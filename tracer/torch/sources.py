"""The user's line of a node, from torch's own record of where it was traced."""

from __future__ import annotations

import os
import re
import sys
import traceback
from types import FrameType
from typing import Any

import torch

from tracer.compilation.importing import is_library
from tracer.errors import Source

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_TRACER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_FRAME = re.compile(r'^ *File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)$', re.M)


def source_of(node: Any) -> Source | None:
    """Return the innermost line that made a node and is not a library's.

    If all lines belong to libraries, the innermost that is not torch's is taken.
    """
    text = node.meta.get("stack_trace") or ""
    frames = [
        Source(found["file"], int(found["line"]), found["function"])
        for found in _FRAME.finditer(text)
    ]
    return _chosen(frames)


def source_of_error(error: BaseException) -> Source | None:
    """Return the innermost of the user's lines that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    return _chosen([Source(f.filename, f.lineno or 0, f.name) for f in frames])


def current_source() -> Source | None:
    """Return the innermost of the user's lines that run now."""
    frames = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        source = Source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        if _is_users(source):
            frames = [source]
            break
        frames.insert(0, source)
        frame = frame.f_back
    return _chosen(frames)


def current_line() -> str | None:
    """Return the line that runs now, in the form of torch's records."""
    found = current_source()
    if found is None:
        return None
    return f'  File "{found.file}", line {found.line}, in {found.function}\n'


def _is_users(frame: Source) -> bool:
    return not _is_hidden(frame) and not is_library(frame.file)


def _is_hidden(frame: Source) -> bool:
    return frame.file.startswith((_TORCH, _TRACER, "<"))


def _chosen(frames: list[Source]) -> Source | None:
    seen = [frame for frame in frames if not _is_hidden(frame)]
    own = [frame for frame in seen if _is_users(frame)]
    return next(reversed(own or seen), None)
