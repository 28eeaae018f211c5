"""What the rooms share that import programs of other libraries (tracer.jax, tracer.torch)."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tracer.array.recording import current_recording
from tracer.compilation.donation import Donatable
from tracer.compilation.function import CompiledFunction, compile
from tracer.errors import Source, TracerError

_INSTALLED = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
_STANDARD = sysconfig.get_path("stdlib")


def is_library(file: str) -> bool:
    """Tell whether a file belongs to an installed package or to Python, not to the user."""
    return file.startswith((*_INSTALLED, _STANDARD, "<"))


def named(function: Callable[..., Any]) -> str:
    """Return a function's name for messages and plans."""
    return getattr(function, "__name__", None) or type(function).__name__


def compile_imported(
    function: Callable[..., Any], donatable: Sequence[Donatable], **options: Any
) -> CompiledFunction:
    """Compile a function whose arguments are the leaves of another one's call.

    `donatable` are the arguments of that one which its caller may donate: a refused limit proposes
    them.
    """
    checked = compile(function, **options)._options
    return CompiledFunction(function, replace(checked, donatable=tuple(donatable)))


@contextmanager
def at_source(source: Source | None) -> Iterator[None]:
    """Give the nodes that are recorded, and the errors that are raised, the user's line."""
    recording = current_recording()
    assert recording is not None
    builder = recording.builder
    previous, builder.source = builder.source, source
    try:
        yield
    except TracerError as error:
        if source is not None and not hasattr(error, "_is_placed"):
            error.where = source
            error._is_placed = True  # type: ignore[attr-defined] # the innermost op's line
        raise
    finally:
        builder.source = previous
