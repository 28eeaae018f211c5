"""The state of the StableHLO module that is being written. It holds no ops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tracer.ir import ShapeDtype, Stop
from tracer.lowering.emit.values import tensor_type


@dataclass(frozen=True)
class HostCall:
    """A Python function that a program calls.

    Attributes
    ----------
    run : callable
        Takes arrays and returns a tuple of arrays.
    operands : int
        How many it takes.
    stop : Stop or None
        The function raises once it is set.
    writes : bool
        The function takes the results too and writes them.
    is_in_place : bool
        Its result may have its operand's memory, and has it where XLA needs no copy for that.
    """

    run: Callable[..., tuple[Any, ...]]
    operands: int
    stop: Stop | None = None
    writes: bool = False
    is_in_place: bool = False


@dataclass(eq=False)
class ModuleContext:
    """State of one StableHLO module; ops are written at MLIR's current insertion point.

    The functions of this folder take it as their first argument `b`. What ops are given as `b` is a
    `builder.StableHloBuilder`: this, with those functions as methods.

    Attributes
    ----------
    platform : str
        The platform that the module is meant for: some ops call its libraries.
    mesh_axes : tuple of str
        The axes of the mesh that the program is meant for; empty for one device.
    devices : int
        Those of this process that run the program.
    path : str
        Name of the node that is being lowered; see `walk.node_path`.
    barriers : list
        The barriers that were emitted.
    loops : int
        How many loops the insertion point is in.
    small_calls : int
        How many small calls were emitted.
    is_in_small_call : bool
        Whether the insertion point is in the function of a small call.
    host_calls : list of HostCall
        The Python functions that the program calls, by their number in it.
    kept : list
        The program's arguments, which nothing may overwrite.
    order : Operand or None
        What the last call with an effect returned, which the next one reads: so they keep their
        order.
    """

    platform: str
    mesh_axes: tuple[str, ...] = ()
    devices: int = 1
    path: str = ""
    barriers: list[Any] = field(default_factory=list)
    loops: int = 0
    small_calls: int = 0
    is_in_small_call: bool = False
    host_calls: list[HostCall] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)
    order: Any = None
    _tensor_types: dict[ShapeDtype, Any] = field(default_factory=dict)

    def tensor_type(self, type: ShapeDtype) -> Any:
        """Return MLIR's tensor type, remembered."""
        found = self._tensor_types.get(type)
        if found is None:
            found = self._tensor_types[type] = tensor_type(type)
        return found
