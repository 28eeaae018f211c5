"""What the user says about a program on a mesh: how arguments and results are placed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracer import tree
from tracer.errors import ArgumentError
from tracer.lowering import Mesh, NamedSharding, PartitionSpec

_PLACES = (NamedSharding, PartitionSpec)


@dataclass(frozen=True)
class Spread:
    """A program's mesh, and shardings as the user gave them.

    Attributes
    ----------
    mesh : Mesh
    arguments, results : object
        None; a sharding for all; or containers of shardings and None, as deep as the user liked.
    """

    mesh: Mesh
    arguments: Any = None
    results: Any = None

    @property
    def is_automatic(self) -> bool:
        """Whether the planner chooses how the arguments are spread."""
        return self.arguments is None

    def of_arguments(self, arguments: Sequence[Any]) -> list[NamedSharding]:
        """Return one sharding for each array among the positional arguments."""
        found = self._each(self.arguments, tuple(arguments), "in_shardings")
        whole = NamedSharding(self.mesh, PartitionSpec())
        return [whole if sharding is None else sharding for sharding in found]

    def of_results(self, results: Any) -> list[NamedSharding | None]:
        """Return one sharding for each array of the results; None where XLA may choose."""
        return self._each(self.results, results, "out_shardings")

    def _each(self, given: Any, values: Any, name: str) -> list[NamedSharding | None]:
        if given is None or isinstance(given, _PLACES):
            return [self._on_mesh(given)] * len(tree.leaves(values))
        if isinstance(values, (tuple, list)) and isinstance(given, (tuple, list)):
            keys: Sequence[Any] = range(len(values))
            is_alike = len(given) == len(values)
        else:
            is_alike = isinstance(values, dict) and isinstance(given, dict)
            is_alike = is_alike and given.keys() == values.keys()
            # Dictionaries are flattened in the order of their keys.
            keys = sorted(values) if is_alike else ()
        if not is_alike:
            raise ArgumentError(
                f"{name} has {_shown(given)} where the arrays are {_shown(values)}",
                mend="give one sharding for all, or containers like those of the arrays; None "
                "for an array that is whole on every device",
            )
        return [found for key in keys for found in self._each(given[key], values[key], name)]

    def _on_mesh(self, given: Any) -> NamedSharding | None:
        if isinstance(given, PartitionSpec):
            return NamedSharding(self.mesh, given)
        if given is not None and given.mesh != self.mesh:
            raise ArgumentError(
                f"the shardings use two meshes: {given.mesh} and {self.mesh}",
                mend="use one mesh for a program",
            )
        return given  # type: ignore[no-any-return]


def _shown(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a dict of {sorted(value)}" if isinstance(value, dict) else type(value).__name__


def resolve_spread(mesh: Any, arguments: Any, results: Any) -> Spread | None:
    """Check the sharding options of `compile`; None if the program is for one device.

    Raises
    ------
    ArgumentError
        There is no mesh, or it is not a mesh.
    """
    if mesh is None:
        mesh = next(_meshes(arguments), None) or next(_meshes(results), None)
    if mesh is None:
        if arguments is None and results is None:
            return None
        raise ArgumentError(
            "in_shardings and out_shardings of PartitionSpec need a mesh",
            mend="give mesh=, or NamedSharding(mesh, PartitionSpec(...))",
        )
    if not isinstance(mesh, Mesh):
        raise ArgumentError(
            f"mesh is a tracer.sharding.Mesh, not {type(mesh).__name__}",
            mend="make one: Mesh(tracer.devices(), 'data')",
        )
    return Spread(mesh, arguments, results)


def _meshes(given: Any) -> Any:
    """Yield the meshes of all shardings in nested containers."""
    if isinstance(given, NamedSharding):
        yield given.mesh
    elif isinstance(given, (tuple, list)) and not isinstance(given, PartitionSpec):
        for item in given:
            yield from _meshes(item)
    elif isinstance(given, dict):
        for item in given.values():
            yield from _meshes(item)
