"""Compile a program with our options, and check that XLA's result is not a wrong program.

If the check finds an instruction that may read what it has overwritten, the program is compiled
again with XLA's own passes, the setting in which XLA's tests run.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tracer.errors import LoweringError, UnsoundProgramWarning
from tracer.ir import Graph
from tracer.lowering.cpu.vectors import vector_notes, vector_options
from tracer.lowering.emit.walk import node_path
from tracer.lowering.memory.overwrites import overwritten_while_read
from tracer.lowering.memory.stats import Counts
from tracer.lowering.run import xla_options
from tracer.lowering.settings import is_on

_DISABLED_PASSES = "xla_disable_hlo_passes"
_REPORT = "report the program at the project's issues, please"

recompiled = 0
"""How many programs of this process were compiled again."""


@dataclass(frozen=True)
class Sound:
    """A compiled program that passed the check.

    Attributes
    ----------
    raw : jaxlib.xla_client.LoadedExecutable
        The program.
    counts : Counts
        XLA's count of its bytes, which comes with the buffer assignment.
    notes : tuple of str
        The plan's notes on how it was compiled; empty if our options were kept.
    """

    raw: Any
    counts: Counts
    notes: tuple[str, ...]


def sound(
    platform: str,
    overrides: Mapping[str, Any],
    compile: Callable[[Mapping[str, Any]], Any],
    graph: Graph,
) -> Sound:
    """Return a compiled program that passes the check, and the plan's notes on it.

    Parameters
    ----------
    platform : str
        Where the program runs. XLA's buffers are known, and checked, for CPUs.
    overrides : mapping
        The options that the caller asks for.
    compile : callable
        Compiles the program with some options.
    graph : Graph
        What is compiled: an error names a line of it.

    Returns
    -------
    Sound
        The program.

    Raises
    ------
    LoweringError
        XLA's own passes make a program that does not pass the check either.
    """
    global recompiled
    raw = compile(chosen_options(platform, overrides))
    counts, found = _checked(raw, platform)
    notes = vector_notes(platform)
    if not found:
        return Sound(raw, counts, notes)
    recompiled += 1
    where = ", ".join(found[:3])
    raw = compile({**xla_options.default_options(platform), **overrides})
    counts, found = _checked(raw, platform)
    if found:
        raise _refusal(raw, graph, found)
    note = (
        f"compiled with XLA's own passes: with ours, {where} would have read what it had written "
        "over"
    )
    if recompiled == 1:
        warnings.warn(f"{note}; values are right; {_REPORT}", UnsoundProgramWarning, stacklevel=2)
    return Sound(raw, counts, (note, *notes))


def _checked(raw: Any, platform: str) -> tuple[Counts, tuple[str, ...]]:
    """Return XLA's count of a program's bytes, and the instructions that do not pass the check."""
    stats = raw.get_compiled_memory_stats()
    return Counts.of(stats), overwritten_while_read(raw, stats) if platform == "cpu" else ()


def _refusal(raw: Any, graph: Graph, found: tuple[str, ...]) -> LoweringError:
    """Return the error that names the user's line of the first instruction."""
    text = raw.hlo_modules()[0].to_string()
    stated = re.search(rf'%{re.escape(found[0])} = .*op_name="([^"]*)"', text)
    path = node_path(stated[1]) if stated else ()
    return LoweringError(
        f"XLA made a program that reads memory it has overwritten, at {', '.join(found[:3])}",
        mend=f"compile with split='never', or smaller parts of it; {_REPORT}",
        where=graph.nodes[int(path[0])].source if path else None,
    )


def chosen_options(platform: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Put our own options under the caller's, and our disabled passes next to them."""
    vectors = vector_options(platform) if is_on("wide vectors") else {}
    ours = {**xla_options.default_options(platform), **vectors}
    merged = {**ours, **overrides}
    passes = [merged.get(_DISABLED_PASSES), *xla_options.disabled_passes(platform)]
    merged[_DISABLED_PASSES] = ",".join(filter(None, passes))
    return merged
