"""The logger "tracer", and its line for each program that a compiled function makes.

The package installs no handler and sets no level: the lines are of level INFO, which Python shows
nobody by default. `logging.basicConfig(level="INFO")` shows them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from tracer.compilation.progress import Progress
from tracer.compilation.signature import Call
from tracer.errors import TracerError, user_source
from tracer.units import format_bytes

log = logging.getLogger("tracer")


def log_compile(
    name: str, call: Call, limit: int | str | None, why: str, progress: Progress
) -> None:
    """Log that a program was made or found: for which arguments, why, and how long it took."""
    if not log.isEnabledFor(logging.INFO):
        return
    what = f"{_what(name, call, limit)}; {why}"
    if not progress.compiled:
        _log(f"found {what}; read in {progress.seconds:.3f} s")
        return
    planning = progress.seconds - progress.compile_seconds
    count = "1 program" if progress.compiled == 1 else f"{progress.compiled} programs"
    _log(
        f"compiled {what}; planned in {planning:.3f} s, compiled in "
        f"{progress.compile_seconds:.3f} s ({count})"
    )


def log_failure(
    name: str, call: Call, limit: int | str | None, why: str, error: TracerError
) -> None:
    """Log that there is no program for a call, and the error that its caller gets."""
    if log.isEnabledFor(logging.INFO):
        kind = type(error).__name__
        _log(f"could not compile {_what(name, call, limit)}; {why}; {kind}: {error.what}")


def why_compiled(call: Call, known: Iterable[Any]) -> str:
    """Say why a call needs a program, given the keys of the programs that there are.

    It is compared with the one that differs in the fewest things, the last of these.
    """
    reasons = [_differences(call.key, key) for key in known]
    if not reasons:
        return "first call"
    fewest = min(map(len, reasons))
    return " and ".join([found for found in reasons if len(found) == fewest][-1]) or (
        "an array that it reads was written to"
    )


def _differences(key: Any, other: Any) -> list[str]:
    """Say in what the keys of two programs differ."""
    (structure, signatures, statics), (old_structure, old_signatures, old_statics) = key, other
    has_new_shapes = [type.shape for type in signatures] != [type.shape for type in old_signatures]
    has_new_dtypes = [type.dtype for type in signatures] != [type.dtype for type in old_signatures]
    differences = {
        "new structure of the arguments": structure != old_structure,
        "new shapes": has_new_shapes,
        # A weak type is a dtype of its own.
        "new dtypes": has_new_dtypes or (signatures != old_signatures and not has_new_shapes),
        "new static value": statics != old_statics,
    }
    return [reason for reason, differs in differences.items() if differs]


def _what(name: str, call: Call, limit: int | str | None) -> str:
    where = user_source()
    place = "" if where is None else f" ({where.file}:{where.line})"
    types = ", ".join(map(str, call.signatures))
    shown = format_bytes(limit) if isinstance(limit, int) else limit or "none"
    return f"{name}{place} for {types or 'no arguments'}; limit {shown}"


def _log(text: str) -> None:
    log.info("%s", text)


__all__ = ["log", "log_compile", "log_failure", "why_compiled"]
