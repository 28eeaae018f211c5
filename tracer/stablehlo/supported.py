"""Whether a module can be taken: everything that cannot is said at once."""

from __future__ import annotations

import graphlib
from collections.abc import Iterator

from tracer.errors import Source, UnsupportedError
from tracer.ir import SUPPORTED_DTYPES, ShapeDtype
from tracer.lowering import Module, Operation, read_module
from tracer.stablehlo.table import CALLS, REASONS, REFUSALS, RULES, Instruction, target_of

_CUSTOM_CALL = "stablehlo.custom_call"
_UNKNOWN = (
    "has no rule in tracer",
    "write it with other ops of StableHLO; docs/stablehlo.md lists what is known",
)
_TYPES = (
    "is no array with fixed sizes and a dtype of tracer's",
    "use fixed sizes (jax.export without symbolic dimensions), and the dtypes "
    + ", ".join(SUPPORTED_DTYPES.values()),
)


def supported_module(program: str | bytes, origin: str) -> Module:
    """Read a module, all of which has rules; `origin` is what its lines are called."""
    module = read_module(program, origin)
    check_supported(module)
    return module


def check_supported(module: Module) -> None:
    """Raise `UnsupportedError` with everything that is not supported, and where it is used."""
    found: dict[str, tuple[Source | None, tuple[str, str]]] = {}
    if module.partitions > 1:
        devices = f"is written for {module.partitions} devices", "lower it for one device"
        found[f"module {module.name}"] = None, devices
    for type in module.functions[module.entry].types:
        if not isinstance(type, ShapeDtype):
            found.setdefault(f"a value {type}", (None, _TYPES))
    names = _called(module)
    found.update(_circles(names, module))
    for name in names:
        for operation in module.functions[name].all_operations():
            for what, why in _complaints(operation, module):
                found.setdefault(what, (operation.source, why))
    if not found:
        return
    (first, (where, (reason, mend))), *rest = found.items()
    others = "".join(_also(what, place, why[0]) for what, (place, why) in rest)
    raise UnsupportedError(f"{first} {reason}{others}", mend=mend, where=where)


def _also(what: str, place: Source | None, reason: str) -> str:
    return f"; also {what} {reason}{f' ({place})' if place else ''}"


def _called(module: Module) -> list[str]:
    """Return the functions that the entry calls, itself first."""
    names = [module.entry]
    for name in names:
        for operation in module.functions[name].all_operations():
            for callee in callees(operation):
                if callee in module.functions and callee not in names:
                    names.append(callee)
    return names


def _circles(
    names: list[str], module: Module
) -> Iterator[tuple[str, tuple[Source | None, tuple[str, str]]]]:
    """Yield functions that call themselves."""
    calls = {
        name: {c for op in module.functions[name].all_operations() for c in callees(op)}
        for name in names
    }
    try:
        tuple(graphlib.TopologicalSorter(calls).static_order())
    except graphlib.CycleError as error:
        circle = " -> ".join(error.args[1])
        yield f"a function that calls itself ({circle})", (None, _UNKNOWN)


def callees(operation: Operation) -> Iterator[str]:
    """Yield the functions that an operation names."""
    for attribute in ("callee", "decomposition"):
        if attribute in operation.attributes:
            yield operation.attributes[attribute]


def _complaints(operation: Operation, module: Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield what is not supported, why, and how to mend it."""
    name, table = operation.name, operation.name
    if name == _CUSTOM_CALL:
        table = target_of(operation)
        name = f"{_CUSTOM_CALL} @{operation.attributes.get('call_target_name', '')}"
    known = CALLS if operation.name == _CUSTOM_CALL else RULES
    is_constant = bool(operation.results) and operation.results[0] in module.constants
    if is_constant:
        return
    if table not in known:
        yield name, REFUSALS.get(table, _UNKNOWN)
        return
    for callee in callees(operation):
        if callee not in module.functions:
            yield f"{name} @{callee}", ("has no body", "give the module that defines it too")
    types = (*operation.operand_types, *operation.result_types)
    strange = [type for type in types if not isinstance(type, ShapeDtype)]
    if strange:
        yield f"a value {strange[0]}", _TYPES
    elif table in REASONS and (reason := REASONS[table](Instruction(operation, module))):
        yield f"{name} {reason}", ("is not supported", _UNKNOWN[1])
