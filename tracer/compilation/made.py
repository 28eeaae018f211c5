"""What was made of a task: an executable and its plan, planned now or found in a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracer import lowering, tree
from tracer.array.trace import Traced
from tracer.compilation.alias_report import Compiled, unused_rows
from tracer.compilation.candidates import CandidateSearch, predicted_for
from tracer.compilation.retracing import Mode
from tracer.compilation.task import Choice, Task
from tracer.ir import Graph
from tracer.optimizer.alias.report import UnusedRow
from tracer.optimizer.alias.sharing import Sharing
from tracer.optimizer.budget import spending
from tracer.optimizer.candidates import CandidateRow
from tracer.optimizer.loops.split import LoopRow
from tracer.optimizer.passes import PassRow
from tracer.optimizer.plan import TimelineEntry, timeline_of


@dataclass(frozen=True)
class PlanFacts:
    """What a plan says, as it was found by planning; see `Plan`."""

    peak_bytes: int
    baseline_peak_bytes: int
    compiled_bytes: int
    argument_bytes: int
    output_bytes: int
    passes: tuple[PassRow, ...]
    loops: tuple[LoopRow, ...]
    timeline: tuple[TimelineEntry, ...]
    fixed_bytes: int
    unused: tuple[UnusedRow, ...]
    """The donated arguments that no result takes over."""
    candidates: tuple[CandidateRow, ...]
    is_search_cut: bool


@dataclass(frozen=True, eq=False)
class Made:
    """An executable for a task, and all that is known of it.

    Attributes
    ----------
    traced : Traced
        What was planned: the function as it was traced in the mode.
    mode : Mode
    limit : int or None
        The bytes that it was planned for: the task's, or those of the machine.
    execute : Executable
    find_graph : callable
        Returns what was compiled.
    facts : PlanFacts
    find_minimum : callable
        Returns the smallest limit that is known to be met.
    choice : Choice or None
        What the search chose; None for a program from a file.
    """

    traced: Traced
    mode: Mode
    limit: int | None
    execute: lowering.Executable
    find_graph: Callable[[], Graph]
    facts: PlanFacts
    find_minimum: Callable[[], int]
    choice: Choice | None = None


def make(task: Task) -> Made:
    """Plan and compile a task.

    Raises
    ------
    MemoryLimitError
        No program for it keeps the limit.
    """
    search = CandidateSearch(task)
    with spending(task.budget()) as budget:
        found = search.compile()
    candidate, graph, compiler = found.candidate, found.graph, found.compiler
    facts = PlanFacts(
        peak_bytes=candidate.peak_bytes,
        baseline_peak_bytes=search.plain.planner.baseline_peak_bytes,
        compiled_bytes=found.nbytes,
        argument_bytes=sum(type.nbytes for type in candidate.graph.input_types),
        output_bytes=sum(type.nbytes for type in candidate.graph.output_types),
        passes=candidate.rows,
        loops=candidate.loops,
        timeline=timeline_of(candidate.graph, frozenset(task.donated)),
        fixed_bytes=search.plain.planner.fixed_bytes,
        unused=unused_rows(in_users_names(task, compiler.traced, found.execute, graph))
        if task.donated
        else (),
        candidates=search.compiled,
        is_search_cut=budget.is_cut,
    )
    return Made(
        compiler.traced,
        compiler.mode,
        compiler.limit,
        found.execute,
        lambda: graph,
        facts,
        search.minimum_bytes,
        search.choice(found),
    )


def minimum_of(task: Task) -> int:
    """Plan a task to find the smallest limit that is known to be met."""
    with predicted_for(task.device):
        return CandidateSearch(task).minimum_bytes()


def in_users_names(
    task: Task, traced: Traced, execute: lowering.Executable, graph: Graph
) -> Compiled:
    """Return a program with its arguments and results as the user knows them."""
    names = task.call.names
    captured = tuple(f"the captured {type}" for type in graph.input_types[len(names) :])
    out_tree = traced.out_tree
    paths = tree.flatten_with_paths(tree.unflatten(out_tree, range(out_tree.num_leaves)))[0]
    own = out_tree.num_leaves
    more = [f"what is written into {names[i]}" for i, place in traced.written if place >= own]
    return Compiled(
        Sharing(graph, frozenset(task.donated), len(names)),
        execute,
        (*names, *captured),
        (*(f"result{path}" for path in paths), *more),
    )


__all__ = ["Made", "PlanFacts", "in_users_names", "make", "minimum_of"]
