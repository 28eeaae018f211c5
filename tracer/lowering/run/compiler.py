"""Compile a graph to an Executable, through a cache keyed on the structure of the graph."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from tracer.errors import ArgumentError
from tracer.ir import Graph
from tracer.lowering import shims
from tracer.lowering.cpu.large_values import kernel_options
from tracer.lowering.devices.device import Device
from tracer.lowering.devices.forks import FORKS, absent_threads
from tracer.lowering.devices.placement import Placement, chosen_outputs
from tracer.lowering.devices.registry import find_device
from tracer.lowering.emit.context import HostCall
from tracer.lowering.emit.module import lower_graph
from tracer.lowering.run import xla_options
from tracer.lowering.run.executable import Executable
from tracer.lowering.run.failures import compile_failure
from tracer.lowering.run.host_calls import for_xla, require_host_calls
from tracer.lowering.run.large_arrays import large_results
from tracer.lowering.run.program_cache import ProgramCache
from tracer.lowering.run.soundness import sound
from tracer.lowering.settings import switched_off

_Aliases = tuple[tuple[int, int], ...]
_CACHE: ProgramCache[Hashable, Executable] = ProgramCache()


def compile_graph(
    graph: Graph,
    *,
    device: Device | str | None = None,
    donate: Sequence[int] = (),
    aliases: Mapping[int, int] | None = None,
    options: Mapping[str, Any] | None = None,
    placement: Placement | None = None,
) -> Executable:
    """Compile a graph, or return the executable of an equal one that was compiled before.

    Parameters
    ----------
    graph : Graph
        The program.
    device : Device or str, optional
        Where it will run; the default device when None.
    donate : sequence of int
        Inputs whose memory is given away. Their buffers cannot be used after a call.
    aliases : mapping of int to int, optional
        For donated inputs the result of as many bytes that takes over the memory. That of other
        donated inputs is freed after the call.
    options : mapping, optional
        XLA's compile options by their full names.
    placement : Placement, optional
        How inputs and outputs are spread over a mesh of devices, in place of `device`.

    Returns
    -------
    Executable
        Ready to be called with buffers.

    Raises
    ------
    LoweringError
        StableHLO or XLA does not accept the program.
    UnsupportedError
        It calls Python while it runs, and the device cannot do that.
    ArgumentError
        `donate` is no position of an input, `aliases` pairs what does not fit, or XLA has no such
        option.
    DeviceError
        There is no such device.
    """
    place = find_device(device) if placement is None else placement.mesh.flat[0]
    positions = _check_donate(graph, donate)
    pairs = _check_aliases(graph, positions, aliases or {})
    overrides = dict(options or {})
    asked = (tuple(sorted(overrides.items())), switched_off())
    key = (graph.fingerprint, place, placement, positions, pairs, asked)
    found = _CACHE.get(key)
    if found is not None:
        return found
    # Compiled outside of the cache's lock, so that threads compile side by side.
    return _CACHE.keep(key, _compile(graph, place, placement, positions, pairs, overrides))


def remembered(key: Hashable, make: Callable[[], Executable]) -> Executable:
    """Return a program that the cache knows by a key of the caller's, or make it and keep it.

    Parameters
    ----------
    key : hashable
        Unlike those of others, and of all that the program depends on.
    make : callable
        Returns the program.
    """
    found = _CACHE.get(key)
    return _CACHE.keep(key, make()) if found is None else found


def clear_cache() -> None:
    """Forget all compiled programs."""
    _CACHE.clear()


def bound_cache(most_bytes: int) -> None:
    """Set how many bytes the compiled programs may hold that are kept for equal graphs."""
    _CACHE.bound(most_bytes)


def stablehlo(
    graph: Graph, *, device: Device | str | None = None, placement: Placement | None = None
) -> str:
    """Return the StableHLO text of a graph."""
    place = find_device(device) if placement is None else placement.mesh.flat[0]
    require_host_calls(graph, place, placement)
    return str(lower_graph(graph, place.platform, placement=placement))


def _check_donate(graph: Graph, donate: Sequence[int]) -> tuple[int, ...]:
    positions = tuple(sorted(set(donate)))
    if any(not 0 <= position < len(graph.inputs) for position in positions):
        raise ArgumentError(
            f"donate={tuple(donate)} names an input that is not among {len(graph.inputs)} inputs",
            mend="give positions of inputs, from 0",
        )
    return positions


def _check_aliases(graph: Graph, donate: tuple[int, ...], aliases: Mapping[int, int]) -> _Aliases:
    pairs = tuple(sorted(aliases.items()))
    for argument, result in pairs:
        is_there = argument in donate and 0 <= result < len(graph.outputs)
        if (
            not is_there
            or graph.inputs[argument].type.nbytes != graph.outputs[result].type.nbytes
            or len(set(aliases.values())) < len(pairs)
        ):
            raise ArgumentError(
                f"aliases={dict(aliases)} pairs input {argument} with result {result}, which "
                "cannot have its memory",
                mend="pair donated inputs with results of as many bytes, each once",
            )
    return pairs


def _compile(
    graph: Graph,
    device: Device,
    placement: Placement | None,
    donate: tuple[int, ...],
    aliases: _Aliases,
    overrides: dict[str, Any],
) -> Executable:
    if FORKS.is_child:
        raise absent_threads()
    require_host_calls(graph, device, placement)
    host_calls: list[HostCall] = []
    taken = {result for _, result in aliases}
    large = large_results(graph, device, taken) if placement is None else ()
    module = lower_graph(graph, device.platform, dict(aliases), placement, host_calls, large)
    raws = [place.raw for place in ((device,) if placement is None else placement.mesh.flat)]
    backend = {
        **xla_options.loop_options(device.platform),
        **kernel_options(graph, device.platform),
    }

    def compile_with(options: Mapping[str, Any]) -> Any:
        given = xla_options.compile_options(
            options, backend, raws, is_partitioned=placement is not None
        )
        try:
            with module.context:
                compile = device.client.compile_and_load
                if not device.is_present:
                    compile = device.client.compile
                places = shims.device_list(*raws)
                if host_calls:
                    return compile(module, places, given, [*map(for_xla, host_calls)])
                return compile(module, places, given)
        except RuntimeError as error:
            raise compile_failure(error) from error

    made = sound(device.platform, overrides, compile_with, graph)
    if placement is None:
        return Executable(
            made.raw,
            graph,
            device,
            donate,
            dict(aliases),
            notes=made.notes,
            counts=made.counts.without_inputs(graph.outputs[place].type.nbytes for place in large),
            host_calls=host_calls,
            large=large,
        )
    outputs = chosen_outputs(made.raw, placement, graph.output_types)
    known = Placement(placement.mesh, placement.inputs, outputs)
    purpose = _purpose(graph, (placement, donate, aliases, sorted(overrides.items())))
    return Executable(
        made.raw,
        graph,
        device,
        donate,
        dict(aliases),
        known,
        purpose,
        made.notes,
        made.counts,
        host_calls=host_calls,
    )


def _purpose(graph: Graph, details: Any) -> str:
    """Return a process's message before it runs a program with others: equal for equal ones."""
    number = hashlib.blake2b(f"{graph.fingerprint}{details}".encode(), digest_size=8).hexdigest()
    given, made = (", ".join(map(str, types)) for types in (graph.input_types, graph.output_types))
    return f"run program {number} of ({given}), which returns ({made})"
