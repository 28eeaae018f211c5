"""Errors that say why a limit cannot be met: what is in the way, and on which line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tracer.array.trace import Traced
from tracer.compilation.task import Task
from tracer.errors import MemoryLimitError, Source
from tracer.ir import Graph
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.model.trip_counts import fixed_bytes
from tracer.units import format_bytes

if TYPE_CHECKING:
    from tracer.compilation.candidates import CompiledCandidate


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
    binding = f"{_alone(traced, fixed)}{each}"
    raise MemoryLimitError(
        f"{task.name} cannot run within memory_limit {format_bytes(limit)}{each}: its arguments "
        f"and results alone are larger; nothing was planned\n  binding: {binding}",
        mend=f"memory_limit={fixed} is the least that may do, and this error's minimum_bytes "
        "searches for the smallest limit that can be met; smaller arguments, or donate_argnums "
        "for arguments that may be overwritten, lower both",
        limit_bytes=limit,
        minimum_bytes=find_minimum,
        binding=binding,
        fixed_bytes=fixed,
    )


def infeasible(name: str, limit: int, found: CompiledCandidate) -> MemoryLimitError:
    """Return the error that says what is in the way of a limit, where, and what is possible."""
    minimum = found.nbytes
    binding, source, why = _binding(limit, found)
    reason = f"\n  not split: {why}" if why else ""
    return MemoryLimitError(
        f"{name} cannot run within memory_limit {format_bytes(limit)}: its smallest "
        f"program takes {format_bytes(minimum)}\n  binding: {binding}{reason}",
        mend=f"memory_limit={minimum} is the smallest limit that can be met; smaller "
        "arguments, or donate_argnums for arguments that may be overwritten, lower it",
        limit_bytes=limit,
        minimum_bytes=minimum,
        binding=binding,
        where=source,
    )


def _binding(limit: int, found: CompiledCandidate) -> tuple[str, Source | None, str | None]:
    """Return what is in the way, the user's line, and why it was not split."""
    planner, graph = found.compiler.planner, found.candidate.graph
    scratch = found.execute.memory.scratch_bytes
    tensors = Liveness(graph, frozenset(found.compiler.donated)).live_at_peak()
    if not tensors:
        return _alone(found.compiler.traced, planner.fixed_bytes), None, None
    tensor = tensors[0]
    named = f"{tensor}, {format_bytes(tensor.nbytes)}"
    if scratch > tensor.nbytes:
        named = f"{format_bytes(scratch)} of library scratch (products, sorts, LAPACK) and {named}"
    return named, tensor.source, planner.why_not_split(tensor)


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


__all__ = ["infeasible", "refuse_at_once"]
