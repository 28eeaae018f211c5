"""The user's line of an equation, from JAX's own record of where it was traced."""

from __future__ import annotations

import os
import traceback
from typing import Any

import jax

from tracer.compilation.importing import is_library
from tracer.errors import Source

_JAX = os.path.dirname(os.path.abspath(jax.__file__)) + os.sep
_TRACER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def source_of(equation: Any, outer: Source | None = None) -> Source | None:
    """Return the innermost line that made an equation and is not a library's.

    JAX's record of a function that a library traces by itself ends there: then it is the line of
    the equation that calls it (`outer`). If all lines belong to libraries (flax, for one), the
    innermost that is not JAX's is taken.
    """
    record = getattr(equation.source_info, "traceback", None)
    frames = [] if record is None else record.frames
    frames = [frame for frame in frames if not _is_hidden(frame.file_name)]
    own = [frame for frame in frames if is_users(frame.file_name)]
    if not own and outer is not None and (not frames or is_users(outer.file)):
        return outer
    for frame in own or frames:
        return Source(frame.file_name, frame.line_num, frame.function_name)
    return None


def current_source() -> Source | None:
    """Return the innermost of the user's lines that run now."""
    for frame, line in traceback.walk_stack(None):
        if is_users(frame.f_code.co_filename):
            return Source(frame.f_code.co_filename, line, frame.f_code.co_name)
    return None


def is_users(file: str) -> bool:
    """Tell whether a file is no library's."""
    return not _is_hidden(file) and not is_library(file)


def _is_hidden(file: str) -> bool:
    return file.startswith((_JAX, _TRACER, "<"))
