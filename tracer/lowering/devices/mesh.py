"""Meshes: devices in a grid whose axes have names, as in JAX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tracer.errors import ArgumentError, DeviceError
from tracer.lowering.devices.device import Device
from tracer.lowering.devices.registry import devices as all_devices

AxisNames = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Mesh:
    """Devices in a grid whose axes have names.

    Parameters
    ----------
    devices : ndarray of Device
        One axis for each name. Lists of devices or their names will do.
    axis_names : str or sequence of str
        The names.

    Examples
    --------
    >>> import tracer
    >>> from tracer.sharding import Mesh
    >>> Mesh(tracer.devices("cpu")[:1], "data")
    Mesh(data=1 of cpu:0)
    """

    devices: np.ndarray[Any, Any]
    axis_names: AxisNames

    def __init__(self, devices: Any, axis_names: str | Sequence[str]) -> None:
        from tracer.lowering.devices.registry import find_device

        grid = np.array(devices, dtype=object)
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        found = np.empty(grid.shape, dtype=object)
        for place, device in np.ndenumerate(grid):
            found[place] = find_device(device)
        if found.ndim != len(names) or len(set(names)) < len(names):
            raise ArgumentError(
                f"a mesh of {found.ndim} axes has the names {names}",
                mend="give each axis of the array of devices its own name",
            )
        flat = list(found.flat)
        if not flat or len(set(flat)) < len(flat):
            raise ArgumentError(
                f"a mesh needs devices, each once, not {', '.join(map(str, flat)) or 'none'}",
                mend="give tracer.devices() in the shape of the mesh",
            )
        if len({(device.platform, device.machine) for device in flat}) > 1:
            raise DeviceError(
                f"a mesh of different devices: {', '.join(map(str, flat))}",
                mend="make it of the devices of one platform: tracer.devices('cpu')",
            )
        found.flags.writeable = False
        object.__setattr__(self, "devices", found)
        object.__setattr__(self, "axis_names", names)

    @cached_property
    def flat(self) -> tuple[Device, ...]:
        """The devices in row-major order."""
        return tuple(self.devices.flat)

    @cached_property
    def shape(self) -> dict[str, int]:
        """The size of each axis, by name."""
        return dict(zip(self.axis_names, self.devices.shape, strict=True))

    @property
    def size(self) -> int:
        """How many devices there are."""
        return int(self.devices.size)

    @property
    def platform(self) -> str:
        """The platform of all its devices."""
        return self.flat[0].platform

    @property
    def is_present(self) -> bool:
        """Whether programs can run on it."""
        return self.flat[0].is_present

    @cached_property
    def local(self) -> tuple[Device, ...]:
        """The devices of this process, in row-major order."""
        return tuple(device for device in self.flat if device.is_local)

    @cached_property
    def processes(self) -> tuple[int, ...]:
        """The processes that own its devices, in their order."""
        return tuple(sorted({device.process for device in self.flat}))

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return self.flat, self.devices.shape, self.axis_names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        axes = ", ".join(f"{name}={size}" for name, size in self.shape.items())
        return f"Mesh({axes} of {_shown(self.flat)})"

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return Mesh, (np.vectorize(str, otypes=[object])(self.devices), self.axis_names)


def _shown(devices: tuple[Device, ...]) -> str:
    first, last = devices[0], devices[-1]
    in_order = [device.id for device in devices] == list(range(first.id, first.id + len(devices)))
    if len(devices) > 2 and in_order:
        return f"{first} to {last}"
    return ", ".join(map(str, devices))


def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str],
    *,
    devices: Sequence[Device] | None = None,
) -> Mesh:
    """Return a mesh of the first devices.

    Parameters
    ----------
    axis_shapes : sequence of int
        The size of each axis.
    axis_names : sequence of str
        Their names.
    devices : sequence of Device, optional
        The devices to choose from; by default those of the default device's platform.

    Raises
    ------
    DeviceError
        There are too few devices.
    """
    from tracer.lowering.devices.registry import default_device

    there = list(all_devices(default_device().platform) if devices is None else devices)
    needed = math.prod(axis_shapes)
    if needed > len(there):
        raise DeviceError(
            f"a mesh of {tuple(axis_shapes)} takes {needed} devices, there are {len(there)}",
            mend="make it smaller; on CPUs set TRACER_CPU_DEVICES in the environment to have more",
        )
    return Mesh(np.array(there[:needed], dtype=object).reshape(tuple(axis_shapes)), axis_names)
