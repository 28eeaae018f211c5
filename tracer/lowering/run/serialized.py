"""Executables as bytes, and back: for a cache that outlives the process.

XLA's own form, which holds machine code, and beside it in JSON what an `Executable` knows. Nothing
is compiled or checked again when it is read: `compile_graph` had checked the program.

XLA refuses to write a program that calls back into itself, such as a comparator of a sort, once it
has run: a program is written after it was compiled and before its first call.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tracer.ir import ShapeDtype
from tracer.lowering import shims
from tracer.lowering.cpu.vectors import cpu_features, cpu_model
from tracer.lowering.devices.device import Device
from tracer.lowering.devices.processes import process_count
from tracer.lowering.emit.host_calls import numpy_host_call
from tracer.lowering.emit.numpy_routines import NumpyCall
from tracer.lowering.memory.stats import Counts, MemoryStats
from tracer.lowering.run import xla_options
from tracer.lowering.run.executable import Executable
from tracer.lowering.run.host_calls import for_xla
from tracer.lowering.run.lanes import LanesExecutable
from tracer.lowering.run.soundness import chosen_options
from tracer.lowering.settings import switched_off
from tracer.target import xla_threads

_LENGTH = 8
_FORMAT = "tracer executable 3"


@dataclass(frozen=True)
class _Types:
    """What an executable takes and returns."""

    input_types: tuple[ShapeDtype, ...]
    output_types: tuple[ShapeDtype, ...]


def can_be_serialized(device: Device) -> bool:
    """Tell whether executables for a device can be written: a CPU of a process that is alone."""
    return device.platform == "cpu" and device.is_local and process_count() == 1


def compiler_identity(device: Device) -> dict[str, Any]:
    """Return all that an executable depends on, besides its graph and the options of its caller.

    jaxlib, the processor and its instruction sets, XLA's threads and flags, and the options that
    are ours. On a machine that has not compiled anything yet this runs the check of its vectors.
    """
    options = chosen_options(device.platform, {})
    return {
        "format": _FORMAT,
        "jaxlib": list(shims.VERSION),
        "processor": cpu_model(),
        "features": sorted(cpu_features()),
        "threads": xla_threads(),
        "flags": os.environ.get("XLA_FLAGS", ""),
        "options": sorted(options.items()),
        "backend": sorted(xla_options.loop_options(device.platform).items()),
        "settings off": sorted(switched_off()),
        "device": str(device),
    }


def serialize(executable: Executable) -> bytes | None:
    """Return an executable of `can_be_serialized` as bytes.

    None where XLA cannot write it, and for one that calls Python but NumPy's routines.
    """
    parts: Sequence[Executable] = (executable,)
    if isinstance(executable, LanesExecutable):
        parts = (*executable.lanes, executable.join)
    if any(len(_numpy_calls(part)) < len(part.host_calls) for part in parts):
        return None
    try:
        contents = [part.raw.serialize() for part in parts]
    except RuntimeError:
        return None
    heads = [_head(part, len(content)) for part, content in zip(parts, contents, strict=True)]
    head = json.dumps(heads).encode()
    return b"".join((len(head).to_bytes(_LENGTH, "little"), head, *contents))


def deserialize(content: bytes, device: Device) -> Executable | None:
    """Return the executable that was written as these bytes, for the device it was made for.

    None where they are no such bytes, or XLA cannot read them.
    """
    start = _LENGTH + int.from_bytes(content[:_LENGTH], "little")
    parts: list[Executable] = []
    try:
        for head in json.loads(content[_LENGTH:start]):
            stop = start + head["nbytes"]
            parts.append(_part(head, content[start:stop], device))
            start = stop
    except (KeyError, RuntimeError, TypeError, ValueError):
        return None
    if len(parts) < 2:
        return parts[0] if parts else None
    return LanesExecutable(parts[:-1], parts[-1])


def _numpy_calls(part: Executable) -> list[NumpyCall]:
    return [call.run for call in part.host_calls if isinstance(call.run, NumpyCall)]


def _head(part: Executable, nbytes: int) -> dict[str, Any]:
    return {
        "nbytes": nbytes,
        "input_types": _plain_types(part.input_types),
        "output_types": _plain_types(part.output_types),
        "donate": part.donate,
        "aliases": sorted(part.asked_aliases.items()),
        "large": part.large,
        "notes": part.notes,
        "counts": asdict(part.counts),
        "memory": asdict(part.memory),
        "numpy_calls": [asdict(call) for call in _numpy_calls(part)],
    }


def _part(head: dict[str, Any], content: bytes, device: Device) -> Executable:
    options = xla_options.compile_options({}, {}, [device.raw], is_partitioned=False)
    calls = [numpy_host_call(NumpyCall.of(**call)) for call in head["numpy_calls"]]
    places, run = shims.device_list(device.raw), [*map(for_xla, calls)]
    raw = device.client.deserialize_executable(content, places, options, run)
    made = Executable(
        raw,
        _Types(_types(head["input_types"]), _types(head["output_types"])),
        device,
        tuple(head["donate"]),
        dict(head["aliases"]),
        notes=tuple(head["notes"]),
        counts=Counts(**head["counts"]),
        large=tuple(head["large"]),
        host_calls=calls,
    )
    # It comes of the program's text, which takes a while to write and to read.
    made.__dict__["memory"] = MemoryStats(**head["memory"])
    return made


def _plain_types(types: Sequence[ShapeDtype]) -> list[Any]:
    return [[list(type.shape), type.dtype.name] for type in types]


def _types(plain: list[Any]) -> tuple[ShapeDtype, ...]:
    return tuple(ShapeDtype(tuple(shape), dtype) for shape, dtype in plain)


__all__ = ["can_be_serialized", "compiler_identity", "deserialize", "serialize"]
