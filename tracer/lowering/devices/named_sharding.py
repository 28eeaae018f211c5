"""How an array is spread over a mesh of devices: JAX's names and meaning.

For each axis of an array a `PartitionSpec` says along which mesh axes it is cut. An axis that is
not named is whole on every device.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tracer.errors import ArgumentError, DTypeError, ShapeError, shown
from tracer.lowering.devices.device import Device
from tracer.lowering.devices.mesh import AxisNames, Mesh

Spec = tuple[AxisNames, ...]
"""For each axis of an array the axes of the mesh that cut it, the slowest first."""


class PartitionSpec(tuple[Any, ...]):
    """Along which axes of a mesh each axis of an array is cut.

    Parameters
    ----------
    *parts : str, tuple of str or None
        For each axis of the array a name, several, or None for one that is whole. Axes that are
        left out at the end are whole.

    Examples
    --------
    >>> from tracer.sharding import PartitionSpec
    >>> PartitionSpec("data", None)
    PartitionSpec('data', None)
    """

    __slots__ = ()

    def __new__(cls, *parts: str | Sequence[str] | None) -> PartitionSpec:
        """Make a spec of its parts."""
        return super().__new__(cls, tuple(map(_plain_part, parts)))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return f"PartitionSpec({', '.join(map(repr, self))})"


def _plain_part(part: str | Sequence[str] | None) -> Any:
    """Return a part in its normal form: a single name without a tuple, no name as None."""
    if part is None or isinstance(part, str):
        return part
    try:
        names = tuple(part)
        hash(names)
    except TypeError as error:
        raise DTypeError(
            f"PartitionSpec: a part is {shown(part)}", mend="give a name, some names, or None"
        ) from error
    return None if not names else names[0] if len(names) == 1 else names


@dataclass(frozen=True, repr=False, eq=False)
class NamedSharding:
    """How an array is spread over a mesh.

    Attributes
    ----------
    mesh : Mesh
    spec : PartitionSpec
    """

    mesh: Mesh
    spec: PartitionSpec

    def __post_init__(self) -> None:
        """Check that the mesh has the axes, each used once."""
        spec = self.spec if isinstance(self.spec, PartitionSpec) else PartitionSpec(*self.spec)
        object.__setattr__(self, "spec", spec)
        used = [name for names in self._parts() for name in names]
        for name in used:
            if name not in self.mesh.shape:
                raise ArgumentError(
                    f"{spec} names the axis {name!r}, which {self.mesh} does not have",
                    mend=f"use its axes: {', '.join(self.mesh.axis_names)}",
                )
            if used.count(name) > 1:
                raise ArgumentError(
                    f"{spec} cuts along {name!r} twice",
                    mend="let each axis of the mesh cut one axis of the array",
                )

    def _parts(self) -> Spec:
        return tuple(
            () if part is None else (part,) if isinstance(part, str) else part for part in self.spec
        )

    @property
    def platform(self) -> str:
        """The platform of the mesh's devices."""
        return self.mesh.platform

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device has the whole array."""
        return all(self.mesh.shape[name] == 1 for names in self._parts() for name in names)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process owns all devices of the mesh."""
        return len(self.mesh.local) == self.mesh.size

    def parts(self, ndim: int) -> Spec:
        """Return, for each of `ndim` axes, the mesh axes that cut it."""
        found = self._parts()
        if len(found) > ndim:
            raise ShapeError(
                f"{self.spec} is for {len(found)} axes, the array has {ndim}",
                mend="give as many parts as the array has axes, or fewer",
            )
        return (*found, *[()] * (ndim - len(found)))

    def shards(self, axis_names: AxisNames) -> int:
        """Return into how many parts these mesh axes cut."""
        return math.prod(self.mesh.shape[name] for name in axis_names)

    def shard_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of each device's part of an array.

        Raises
        ------
        ShapeError
            An axis cannot be cut into equal parts.
        """
        sizes = []
        for axis, (size, names) in enumerate(zip(shape, self.parts(len(shape)), strict=True)):
            count = self.shards(names)
            if size % count:
                along = " x ".join(map(repr, names))
                more = -(-size // count) * count
                raise ShapeError(
                    f"axis {axis} of shape {tuple(shape)} has {size} elements, which {along} of "
                    f"{self.mesh} does not cut into {count} equal parts",
                    mend=f"pad the axis to {more} elements, or cut another one",
                )
            sizes.append(size // count)
        return tuple(sizes)

    def places(self, shape: Sequence[int]) -> Iterator[tuple[Device, tuple[slice, ...]]]:
        """Yield each device of the mesh with its part of an array."""
        local = self.shard_shape(shape)
        parts = self.parts(len(shape))
        for place, device in np.ndenumerate(self.mesh.devices):
            at = dict(zip(self.mesh.axis_names, place, strict=True))
            index = []
            for size, names in zip(local, parts, strict=True):
                number = 0
                for name in names:
                    number = number * self.mesh.shape[name] + at[name]
                index.append(slice(number * size, (number + 1) * size))
            yield device, tuple(index)

    def is_equivalent_to(self, other: NamedSharding, ndim: int) -> bool:
        """Tell whether arrays with `ndim` axes have the same part on each device, in one order.

        The names of the axes do not matter, nor how the devices are arranged in a grid.
        """
        if self == other:
            return True
        if self.mesh.flat != other.mesh.flat:
            return False
        shapes = [
            tuple(sharding.shards(names) for names in sharding.parts(ndim))
            for sharding in (self, other)
        ]
        if shapes[0] != shapes[1]:
            return False
        return list(self.places(shapes[0])) == list(other.places(shapes[0]))

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        parts = list(self._parts())
        while parts and not parts[-1]:  # what is left out is whole
            parts.pop()
        return self.mesh, tuple(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedSharding) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return f"{self.spec} on {self.mesh}"

    __repr__ = __str__
