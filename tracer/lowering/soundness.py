"""Compiles a program with our options, and checks that XLA made no program that is wrong.

Where the check finds an instruction that may read what it wrote over, the program is compiled again
with XLA's own passes: that is the setting that XLA's tests run in.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from tracer.errors import LoweringError, UnsoundProgramWarning
from tracer.lowering import xla_options
from tracer.lowering.overwrites import overwritten_while_read
from tracer.lowering.settings import is_on
from tracer.lowering.vectors import vector_notes, vector_options

_DISABLED_PASSES = "xla_disable_hlo_passes"
_REPORT = "report the program at the project's issues, please"

recompiled = 0
"""How many programs of this process were compiled again."""


def sound(
    platform: str, overrides: Mapping[str, Any], compile: Callable[[Mapping[str, Any]], Any]
) -> tuple[Any, tuple[str, ...]]:
    """Return a compiled program that passes the check, and what the plan says of it.

    Parameters
    ----------
    platform : str
        Where the program runs. XLA's buffers are known, and checked, for CPUs.
    overrides : mapping
        The options that the caller asks for.
    compile : callable
        Compiles the program with some options.

    Returns
    -------
    (jaxlib.xla_client.LoadedExecutable, tuple of str)
        The notes are empty where our options stand.

    Raises
    ------
    LoweringError
        XLA's own passes make a program that does not pass the check either.
    """
    global recompiled
    raw = compile(chosen_options(platform, overrides))
    found = overwritten_while_read(raw) if platform == "cpu" else ()
    notes = vector_notes(platform)
    if not found:
        return raw, notes
    recompiled += 1
    where = ", ".join(found[:3])
    raw = compile({**xla_options.default_options(platform), **overrides})
    if overwritten_while_read(raw):
        raise LoweringError(
            f"XLA made a program that reads what it has written over, at {where}",
            mend=f"compile with split='never', or smaller parts of it; {_REPORT}",
        )
    note = (
        f"compiled with XLA's own passes: with ours, {where} would have read what it had written "
        "over"
    )
    if recompiled == 1:
        warnings.warn(f"{note}; values are right; {_REPORT}", UnsoundProgramWarning, stacklevel=2)
    return raw, (note, *notes)


def chosen_options(platform: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Put our own options under the caller's, and our disabled passes next to them."""
    vectors = vector_options(platform) if is_on("wide vectors") else {}
    ours = {**xla_options.default_options(platform), **vectors}
    merged = {**ours, **overrides}
    passes = [merged.get(_DISABLED_PASSES), *xla_options.disabled_passes(platform)]
    merged[_DISABLED_PASSES] = ",".join(filter(None, passes))
    return merged
