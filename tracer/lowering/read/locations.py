"""The user's line, from the location of an operation.

jaxlib's bindings do not take locations apart on all versions, so their printed form is read:
`loc("name"(callsite("f"("/a.py":3:8) at "/b.py":1:1)))`. The first place is the innermost.
"""

from __future__ import annotations

from typing import Any

from tracer.errors import Source

_TEXT = "-"
"""The file of what was parsed from a string."""


def source_of(location: Any, origin: str) -> Source | None:
    """Return the innermost line that a location names, or None.

    Parameters
    ----------
    location : jaxlib.mlir.ir.Location
        The location of an operation.
    origin : str
        What the module's own text is called.
    """
    text = str(location)
    name, position = "", 0
    while (start := text.find('"', position)) >= 0:
        end = _end_of_quote(text, start)
        quoted, position = text[start + 1 : end], end + 1
        line = _leading_number(text[position + 1 :]) if text[position : position + 1] == ":" else ""
        if line:
            file = origin if quoted == _TEXT else quoted
            return Source(file, int(line), name or "module")
        name = quoted
    return None


def _end_of_quote(text: str, start: int) -> int:
    end = start + 1
    while end < len(text) and text[end] != '"':
        end += 2 if text[end] == "\\" else 1
    return end


def _leading_number(text: str) -> str:
    return text[: len(text) - len(text.lstrip("0123456789"))]
