"""Move the arguments of a program on a mesh to where the program takes them.

As in `jax.jit`, arrays that are spread differently over the mesh are moved at the call, except
those whose place the user has stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracer import lowering
from tracer.array.array import Array
from tracer.compilation.donation import given_twice
from tracer.errors import DeviceError, MemoryLimitError
from tracer.lowering import NamedSharding, absent
from tracer.units import format_bytes


@dataclass(frozen=True)
class MeshArguments:
    """How a program on a mesh takes its arguments and captured arrays.

    Attributes
    ----------
    function : str
    names : tuple of str
        The arguments as the user knows them; the rest is captured.
    places : tuple of NamedSharding
    is_automatic : bool
        Whether the planner has chosen how the arguments are spread.
    donated : tuple of int
    limit_bytes : int or None
        For each device.
    program_bytes, argument_bytes : int
        What each device needs while the program runs; what the arguments take of that.
    """

    function: str
    names: tuple[str, ...]
    places: tuple[NamedSharding, ...]
    is_automatic: bool
    donated: tuple[int, ...]
    limit_bytes: int | None
    program_bytes: int
    argument_bytes: int

    def buffers(self, arrays: Sequence[Array]) -> list[Any]:
        """Return the buffers of arrays, spread as the program takes them.

        Arrays of one device are spread, and parts that are elsewhere on the same devices are moved.

        Raises
        ------
        DeviceError
            An array is not spread as the user has said, or is on devices outside the mesh.
        DonatedArrayError
            A donated array that must be moved is passed twice.
        MemoryLimitError
            There is no room for arrays in addition to their copies that are spread differently.
        """
        found: list[Any] = [array._buffer for array in arrays]
        elsewhere = [i for i, array in enumerate(arrays) if not self._lies_right(i, array)]
        moved = [i for i in elsewhere if isinstance(arrays[i].device, NamedSharding)]
        if moved:
            # XLA does not see it in copies of them.
            twice = given_twice(self.function, self.names, self.donated, arrays)
            if twice is not None:
                raise twice
            self._check_room(moved, arrays)
        for position in elsewhere:
            found[position] = arrays[position].to_device(self.places[position])._buffer
        for position in set(moved).intersection(self.donated):
            # The program is given the copy: what was donated is free before it runs.
            arrays[position]._buffer.delete()
        return found

    def _lies_right(self, position: int, array: Array) -> bool:
        """Tell whether an array is where the program takes it; refuse one that cannot be moved."""
        place, lies = self.places[position], array.device
        if lies == place or array.is_deleted():
            return True
        if not place.mesh.local:
            raise absent(place.mesh)
        if not isinstance(lies, NamedSharding):
            if lies in place.mesh.flat:
                return False
        elif lies.is_equivalent_to(place, array.ndim):
            return True
        elif set(lies.mesh.flat) == set(place.mesh.flat):
            if self.is_automatic or position >= len(self.names):
                return False
            raise DeviceError(
                f"in_shardings of {self.function} take {self._name(position)}, {array.type}, as "
                f"{place}, but it is {lies}",
                mend=f"move it with x.to_device(NamedSharding(mesh, {place.spec})), let a program "
                "that returns it say so in out_shardings, or leave in_shardings out: arrays are "
                "then moved at the call",
            )
        raise DeviceError(
            f"{self.function} runs on {place.mesh}, and {self._name(position)}, {array.type}, is "
            f"on {lies}",
            mend=f"move it with x.to_device(NamedSharding(mesh, {place.spec})), with the program's "
            f"mesh, or compile with {options_for(lies)}",
        )

    def _name(self, position: int) -> str:
        return self.names[position] if position < len(self.names) else "a captured array"

    def _check_room(self, moved: Sequence[int], arrays: Sequence[Array]) -> None:
        """Refuse what does not fit into the limit: arrays as they were, plus those for the program.

        The former are the user's arguments, the latter temporaries. Donated ones
        are gone when the program runs.
        """
        if self.limit_bytes is None:
            return
        parts = {i: _part_bytes(arrays[i], arrays[i].device) for i in moved}
        kept = sum(nbytes for i, nbytes in parts.items() if i not in self.donated)
        moving = sum(parts.values()) + max(self._temporary_bytes(i, arrays[i]) for i in moved)
        needed = max(self.program_bytes + kept, self.argument_bytes + moving)
        if needed <= self.limit_bytes:
            return
        first = max(moved, key=parts.__getitem__)
        binding = (
            f"{self._name(first)}, {arrays[first].type}, as {arrays[first].device}, and its "
            f"copy as {self.places[first]}"
        )
        raise MemoryLimitError(
            f"{self.function} cannot move its arguments within memory_limit "
            f"{format_bytes(self.limit_bytes)} on each of {self.places[first].mesh}: they are "
            f"spread differently, and both copies take {format_bytes(needed)}\n"
            f"  binding: {binding}",
            mend=f"memory_limit={needed} has room; or donate these arguments, or place them first "
            "and keep no other copy: x = x.to_device(sharding)",
            limit_bytes=self.limit_bytes,
            minimum_bytes=needed,
            binding=binding,
        )

    def _temporary_bytes(self, position: int, array: Array) -> int:
        """Return what each device needs to move an array, apart from its parts before and after."""
        program = lowering.resharding(array.type, array.device, self.places[position])
        if program is None:
            return 0  # through the host
        memory = program.memory
        return max(0, memory.peak_bytes - memory.argument_bytes - memory.output_bytes)


def options_for(place: Any) -> str:
    """Return the options of `compile` for arrays in a place, as the user writes them."""
    if isinstance(place, NamedSharding):
        return "mesh=x.device.mesh (the planner spreads the arrays, unless you state in_shardings=)"
    return f"device='{place}'"


def _part_bytes(array: Array, place: NamedSharding) -> int:
    return array.type.with_shape(place.shard_shape(array.shape)).nbytes
