"""From one traced call to a program that keeps its byte limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tracer import lowering, tree
from tracer.array.array import Array, Deleted
from tracer.array.recording import Reading
from tracer.array.trace import Traced, Written, write_back
from tracer.array.weak import as_weak
from tracer.compilation.alias_report import alias_report, warn_unused
from tracer.compilation.candidates import predicted_for
from tracer.compilation.collection import rare_collection
from tracer.compilation.made import Made, in_users_names, make
from tracer.compilation.mesh_arguments import MeshArguments
from tracer.compilation.options import CompileOptions
from tracer.compilation.signature import Call
from tracer.compilation.spmd import Spreader
from tracer.compilation.storage_notes import storage_notes
from tracer.compilation.stored.programs import found_or_compiled, found_or_made
from tracer.compilation.task import Choice, Task, read_task
from tracer.compilation.trace_notes import notes_on
from tracer.errors import DeviceError, TracingError
from tracer.ir import Graph, ShapeDtype
from tracer.optimizer.alias.report import AliasReport
from tracer.optimizer.page import LiveRanges, live_ranges
from tracer.optimizer.plan import Plan, timeline_of
from tracer.sharding import Spread


@dataclass(frozen=True, eq=False)
class Program:
    """A compiled program with everything that a call of it needs."""

    execute: lowering.Executable
    captured: tuple[Array, ...]
    output_types: tuple[ShapeDtype, ...]
    output_devices: tuple[lowering.Device | lowering.NamedSharding, ...]
    weak_outputs: tuple[int, ...]
    out_tree: tree.Structure
    is_single: bool
    donated: tuple[int, ...]
    gone: Deleted
    written: Written
    """The arguments into which the function writes, and the outputs that they hold then."""
    names: tuple[str, ...]
    device: lowering.Device
    find_graph: Callable[[], Graph]
    plan: Plan
    call: Call
    """The call that it was made for, without data."""
    readings: tuple[Reading, ...]
    """The concrete arrays that the function read."""
    arguments: MeshArguments | None = None
    """How a program on a mesh takes its arguments; None for a program on one device."""
    like: Choice | None = None
    """The way in which it was tried to make it first."""
    choice: Choice | None = None
    """The way in which it was made; None for a program on a mesh, or from a file."""

    @cached_property
    def graph(self) -> Graph:
        """What was compiled."""
        return self.find_graph()

    @cached_property
    def _followed(self) -> tuple[tuple[Reading, Array], ...]:
        """The arrays that are inputs as they are, and what replaces them in `captured`."""
        known = {id(array._buffer): array for array in self.captured}
        return tuple(
            (reading, known[id(reading.buffer)])
            for reading in self.readings
            if not reading.by_value and id(reading.buffer) in known
        )

    @cached_property
    def _frozen(self) -> tuple[Reading, ...]:
        """The arrays whose numbers are in the program, or that were moved for it."""
        followed = {reading for reading, _ in self._followed}
        return tuple(reading for reading in self.readings if reading not in followed)

    @property
    def is_outdated(self) -> bool:
        """Tell whether an array whose numbers are in the program was written to."""
        return any(reading.is_changed for reading in self._frozen)

    def follow(self) -> None:
        """Let the program read the current values of the arrays that are its inputs."""
        for reading, mine in self._followed:
            array = reading.array()
            if array is not None:
                mine._buffer = array._buffer

    def unflatten(self, outputs: list[Array]) -> Any:
        """Return the outputs in the structure the function gave them."""
        return tree.unflatten(self.out_tree, outputs)

    @cached_property
    def is_plain(self) -> bool:
        """Whether arguments and results are all that a call has to do with: most programs.

        No arrays that it closes over, or has read; no donated, weak or written ones; no mesh.
        """
        more = (self.readings, self.captured, self.donated, self.weak_outputs, self.written)
        return self.arguments is None and not any(more)

    def finish(self, arrays: Sequence[Array], outputs: list[Array]) -> None:
        """Do what is left after a call: donated arrays are gone, others have new values.

        `outputs` are the function's results afterwards, the weak ones among them as such.
        """
        for position in self.donated:
            arrays[position]._buffer = self.gone
        for position in self.weak_outputs:
            outputs[position] = as_weak(outputs[position])
        if self.written:
            self._write_back(arrays, outputs)

    def _write_back(self, arrays: Sequence[Array], outputs: list[Array]) -> None:
        """Let the arguments hold what the function wrote into them; leave the results."""
        kept = tuple(pair for pair in self.written if pair[0] not in self.donated)
        write_back(kept, arrays, outputs)
        del outputs[self.out_tree.num_leaves :]

    def stablehlo(self) -> str:
        """Return the program's StableHLO text."""
        return lowering.stablehlo(self.graph, device=self.device, placement=self.execute.placement)


def build_program(
    call: Call, options: CompileOptions, name: str, like: Choice | None = None
) -> Program:
    """Trace, plan, compile and check one signature; in a way that was chosen before, if it fits.

    Raises
    ------
    MemoryLimitError
        No program for it keeps the limit.
    """
    task = read_task(call, options, name, like)
    collection = rare_collection() if lowering.is_tuned() else nullcontext()
    with predicted_for(task.device), collection:
        return _build(task) if options.spread is None else _build_spread(task, options.spread)


def _build(task: Task) -> Program:
    made = found_or_made(task, make)
    traced, device = made.traced, task.device
    if task.limit is not None:
        lowering.use_libraries(made.execute, _tiny_program)
    execute = made.execute.with_limit(made.limit)
    if task.donated:
        warn_unused(task.name, made.facts.unused)
    return Program(
        execute=execute,
        captured=_closed_over(traced, execute, [device] * len(traced.captured), task.name),
        output_types=traced.graph.output_types,
        output_devices=(device,) * len(traced.graph.outputs),
        weak_outputs=traced.weak_outputs,
        out_tree=traced.out_tree,
        is_single=tree.is_leaf(traced.out_tree),
        donated=task.donated,
        gone=_gone(task.name),
        written=traced.written,
        names=(*task.call.names, *(f"the captured {array.type}" for array in traced.captured)),
        device=device,
        find_graph=made.find_graph,
        plan=_plan(task, made),
        call=task.call,
        readings=task.traced.readings,
        like=task.like,
        choice=made.choice,
    )


def _tiny_program(graph: Graph, device: lowering.Device) -> lowering.Executable:
    """Return a program that uses a library."""
    return found_or_compiled(
        "library", graph, device, lambda: lowering.compile_graph(graph, device=device)
    )


def _build_spread(task: Task, spread: Spread) -> Program:
    """Trace, plan, compile and check one signature for a mesh."""
    name, call, traced = task.name, task.call, task.traced
    if traced.written:
        argument = call.names[traced.written[0][0]]
        raise TracingError(
            f"{name} writes into its {argument}, and the caller's array, spread over a mesh, "
            "cannot be updated",
            mend="copy it first inside the function (x = x.copy()), or use "
            "x = x.at[index].set(value)",
        )
    spreader = Spreader(task, spread)
    found = spreader.compile()
    candidate, execute = found.candidate, found.execute
    assert execute.placement is not None
    if task.limit is not None:
        lowering.use_libraries(execute)
    outputs = tuple(filter(None, execute.placement.outputs))
    view = candidate.view
    argument_bytes = sum(type.nbytes for type in view.input_types)
    return Program(
        execute=execute,
        captured=_closed_over(traced, execute, execute.placement.inputs[len(call.names) :], name),
        output_types=traced.graph.output_types,
        output_devices=outputs,
        weak_outputs=traced.weak_outputs,
        out_tree=traced.out_tree,
        is_single=tree.is_leaf(traced.out_tree),
        donated=task.donated,
        gone=_gone(name),
        written=(),
        call=call,
        readings=traced.readings,
        names=call.names,
        device=execute.device,
        find_graph=lambda: found.graph,
        plan=Plan(
            limit_bytes=task.limit,
            peak_bytes=candidate.peak_bytes,
            baseline_peak_bytes=spreader.planner.baseline_peak_bytes,
            compiled_bytes=found.nbytes,
            argument_bytes=argument_bytes,
            output_bytes=sum(type.nbytes for type in view.output_types),
            passes=candidate.rows,
            loops=candidate.loops,
            timeline=timeline_of(view, candidate.donated),
            fixed_bytes=-(-spreader.planner.fixed_bytes // spread.mesh.size),
            find_minimum=spreader.minimum_bytes,
            devices=(str(spread.mesh), *spreader.explained(found)),
            notes=(*execute.notes, *_on_storage(task, traced, lambda: found.graph)),
        ),
        arguments=MeshArguments(
            name,
            call.names,
            execute.placement.inputs,
            spread.is_automatic,
            task.donated,
            task.limit,
            found.nbytes,
            argument_bytes,
        ),
    )


Place = lowering.Device | lowering.NamedSharding


def _closed_over(
    traced: Traced, execute: lowering.Executable, places: Sequence[Place], name: str
) -> tuple[Array, ...]:
    """Return the arrays that a function closes over, where its program needs them; moved once."""
    if not execute.is_here:
        return tuple(traced.captured)
    captured = zip(traced.captured, places, strict=True)
    return tuple(_put(array, place, name) for array, place in captured)


def _put(array: Array, place: Place, name: str) -> Array:
    """Return an array that a function closes over in its place.

    Raises
    ------
    DeviceError
        It was put elsewhere; as in JAX, only one on the same mesh is moved.
    """
    if array.device == place:
        return array
    where = place if isinstance(place, lowering.Device) else place.mesh
    on_mesh = getattr(array.device, "mesh", None) == where
    if on_mesh or lowering.is_uncommitted(array.device):
        return array.to_device(place)
    raise DeviceError(
        f"{name} runs on {where}, and closes over an array, {array.type}, that was put on "
        f"{array.device}",
        mend="put it there first, with tracer.device_put, or make it an argument",
    )


def _gone(name: str) -> Deleted:
    return Deleted(f"the call of {name} that it was donated to")


def _repeated(task: Task, made: Made) -> tuple[str, ...]:
    """Return the note that a program is made as one for larger shapes was."""
    if task.like is None or made.choice is None or not made.choice.is_like(task.like):
        return ()
    pairs = zip(task.like.types, task.call.types, strict=True)
    larger = dict.fromkeys(str(theirs) for theirs, mine in pairs if theirs != mine)
    return (f"planned as for {', '.join(larger)}",)


def _on_storage(task: Task, traced: Traced, find_graph: Callable[[], Graph]) -> tuple[str, ...]:
    if not traced.graph.calls_host:
        return ()
    return storage_notes(task.call, find_graph(), lowering.target_of(task.device).prices)


def _plan(task: Task, made: Made) -> Plan:
    facts = made.facts

    def find_aliases() -> AliasReport:
        program = in_users_names(task, made.traced, made.execute, made.find_graph())
        return alias_report(program)

    def find_live_ranges() -> tuple[LiveRanges, LiveRanges]:
        traced, donated = made.traced.graph, frozenset(task.donated)
        with predicted_for(task.device):
            graphs = (traced, made.find_graph())
            written, planned = [live_ranges(graph, traced, donated) for graph in graphs]
        return written, planned

    return Plan(
        limit_bytes=task.limit,
        peak_bytes=facts.peak_bytes,
        baseline_peak_bytes=facts.baseline_peak_bytes,
        compiled_bytes=facts.compiled_bytes,
        argument_bytes=facts.argument_bytes,
        output_bytes=facts.output_bytes,
        passes=facts.passes,
        loops=facts.loops,
        timeline=facts.timeline,
        fixed_bytes=facts.fixed_bytes,
        find_minimum=made.find_minimum,
        candidates=facts.candidates,
        is_search_cut=facts.is_search_cut,
        notes=(
            *made.execute.notes,
            *_repeated(task, made),
            *notes_on(made.traced.graph),
            *_on_storage(task, made.traced, made.find_graph),
        ),
        find_aliases=find_aliases,
        find_live_ranges=find_live_ranges,
    )
