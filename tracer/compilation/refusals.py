"""Errors that say why a limit cannot be met: what is in the way, and on which line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tracer import lowering
from tracer.array.trace import Traced
from tracer.compilation.changes import changes_that_fit
from tracer.compilation.task import Task
from tracer.errors import MemoryLimitError
from tracer.ir import Graph, ShapeDtype
from tracer.optimizer.budget import is_search_cut
from tracer.optimizer.model.liveness import Liveness, peak_bytes
from tracer.optimizer.model.peak_values import PeakValue, peak_values
from tracer.optimizer.model.trip_counts import fixed_bytes
from tracer.optimizer.planner import Planner
from tracer.units import format_bytes

if TYPE_CHECKING:
    from tracer.compilation.candidate_compiler import CompiledCandidate

_LARGE = 0.05
_SHOWN = 5
"""Values that are alive together, in the text of an error."""


def refuse_at_once(task: Task, find_minimum: Callable[[], int], parts: int = 1) -> None:
    """Refuse a limit below arguments and results, before anything is planned.

    Parameters
    ----------
    task : Task
        The call and its limit.
    find_minimum : callable
        Searches for the smallest limit that can be met, when the error is asked for it.
    parts : int
        Devices that share arguments and results; the limit is that of each.

    Raises
    ------
    MemoryLimitError
        The limit is below what every program for the call takes.
    """
    limit, traced = task.limit, task.traced
    fixed = -(-fixed_bytes(traced.graph, frozenset(task.donated)) // parts)
    if limit is None or fixed <= limit:
        return
    each = f" on each of {parts} devices" if parts > 1 else ""

    def bytes_with(donated: frozenset[int]) -> int:
        return -(-fixed_bytes(traced.graph, donated) // parts)

    changes = changes_that_fit(task, fixed, _fixed_types(task), bytes_with) if parts == 1 else ()
    binding = f"{_alone(traced, fixed)}{each}"
    raise MemoryLimitError(
        f"{task.name} cannot run within memory_limit {format_bytes(limit)}{each}: its arguments "
        f"and results alone are larger; nothing was planned\n  binding: {binding}",
        mend=f"memory_limit={fixed} is the least that may do, and this error's minimum_bytes "
        f"searches for the smallest limit that can be met; {_mend(task, changes, 'both')}"
        f"{_in_storage(task, limit)}",
        limit_bytes=limit,
        minimum_bytes=find_minimum,
        binding=binding,
        fixed_bytes=fixed,
        changes=changes,
    )


def _fixed_types(task: Task) -> list[ShapeDtype]:
    """Return the types of arguments and results, those that share memory once."""
    graph, free = task.traced.graph, Counter[int]()
    free.update(graph.input_types[i].nbytes for i in task.donated)
    types = [*graph.input_types]
    for type in graph.output_types:
        if free[type.nbytes]:
            free[type.nbytes] -= 1
        else:
            types.append(type)
    return types


def _in_storage(task: Task, limit: int) -> str:
    """Return what else helps: results or arguments on disk, where programs can read and write."""
    if not lowering.target_of(task.device).kernels.host_calls:
        return ""
    arguments = sum(type.nbytes for type in task.traced.graph.input_types)
    if arguments > limit:
        return "; tracer.open(path) leaves an argument on disk"
    return "; f.into(path) of the compiled f writes a result to disk as it is made"


def _mend(task: Task, changes: Sequence[str], what: str) -> str:
    """Return the end of a mend: what would fit, or what helps in general to lower `what`."""
    if changes:
        return f"within the limit, by prediction: {'; or '.join(changes)}"
    if task.options.donatable == ():
        return f"smaller arguments lower {what}"
    return (
        f"smaller arguments, or donate_argnums for arguments that may be overwritten, lower {what}"
    )


def infeasible(
    task: Task, found: CompiledCandidate, find_minimum: Callable[[], int] | None
) -> MemoryLimitError:
    """Return the error that says what is in the way of a limit, where, and what is possible.

    Parameters
    ----------
    task : Task
        The call and its limit.
    found : CompiledCandidate
        The smallest program that is known.
    find_minimum : callable or None
        Searches for a smaller one, when the error is asked for it; None if that was done.
    """
    name, limit, minimum, compiler = task.name, task.limit, found.nbytes, found.compiler
    assert limit is not None
    graph, donated = found.candidate.graph, frozenset(compiler.donated)
    values = peak_values(Liveness(graph, donated), compiler.traced.graph)

    def bytes_with(more: frozenset[int]) -> int:
        return minimum - peak_bytes(graph, donated) + peak_bytes(graph, more)

    alive = [*graph.input_types, *(value.type for value in values)]
    changes = changes_that_fit(task, minimum, alive, bytes_with)
    binding = _binding(found, values)
    largest = [value for value in values if value.nbytes == values[0].nbytes]
    reasons = (_why_not_split(compiler.planner, value) for value in largest)
    why = next(filter(None, reasons), "")
    what, met = "its smallest program", "is the smallest limit that can be met"
    if find_minimum is not None:
        what = "the smallest of the programs that were tried"
        met = "can be met, and this error's minimum_bytes searches for the smallest that can"
    if is_search_cut():
        what = "the smallest program found within planning_seconds"
        met = "can be met, and a longer search may find less"
    return MemoryLimitError(
        f"{name} cannot run within memory_limit {format_bytes(limit)}: {what} takes "
        f"{format_bytes(minimum)}\n  binding: {binding}{why}{together(values)}",
        mend=f"memory_limit={minimum} {met}; {_mend(task, changes, 'it')}",
        limit_bytes=limit,
        minimum_bytes=find_minimum or minimum,
        met_bytes=minimum,
        binding=binding,
        where=values[0].source if values else None,
        alive=tuple(map(str, values)),
        fixed_bytes=compiler.planner.fixed_bytes,
        changes=changes,
    )


def _binding(found: CompiledCandidate, values: Sequence[PeakValue]) -> str:
    """Return what is in the way."""
    if not values:
        return _alone(found.compiler.traced, found.compiler.planner.fixed_bytes)
    scratch = found.execute.memory.scratch_bytes
    if scratch <= values[0].nbytes:
        return values[0].name
    return (
        f"{format_bytes(scratch)} of library scratch (products, sorts, LAPACK) and {values[0].name}"
    )


def _why_not_split(planner: Planner, value: PeakValue) -> str:
    """Return a line that says why a value is stored whole, if that is known."""
    refusal = planner.why_not_split(value)
    if refusal is None:
        return ""
    # Passes may have put another op in the place of the user's.
    is_same = refusal.subject.startswith(f"{value.type} of ")
    what = refusal.reason if is_same else f"{refusal.subject}: {refusal.reason}"
    return f"\n  not split: {what}"


def together(values: Sequence[PeakValue]) -> str:
    """Return lines with the large values that are alive together at the peak, if several are."""
    large = [value for value in values if value.nbytes >= _LARGE * values[0].nbytes]
    if len(large) < 2:
        return ""
    lines = ["", "  alive together at the peak:", *(f"    {value}" for value in large[:_SHOWN])]
    if more := values[len(large[:_SHOWN]) :]:
        nbytes = format_bytes(sum(value.nbytes for value in more))
        lines.append(f"    {len(more)} more, {nbytes} (the error's alive has all)")
    return "\n".join(lines)


def _alone(traced: Traced, fixed: int) -> str:
    largest = _largest(traced.graph, len(traced.captured))
    return (
        f"the arguments and results alone take {format_bytes(fixed)}, the largest of them is "
        f"{largest}"
    )


def _largest(graph: Graph, captured: int) -> str:
    """Name the largest of what is there from beginning to end; captured inputs come last."""
    types = (*graph.input_types, *graph.output_types)
    if not types:
        return "nothing"
    place = max(range(len(types)), key=lambda i: types[i].nbytes)
    if len(graph.inputs) - captured <= place < len(graph.inputs):
        return (
            f"{types[place]}, which the function closes over (what NumPy computes in it is there "
            "as a whole: use tracer.numpy on arrays of tracer)"
        )
    return str(types[place])


__all__ = ["infeasible", "refuse_at_once", "together"]
