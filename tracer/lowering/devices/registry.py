"""The devices that programs can run on, or be compiled for: found when first asked for."""

from __future__ import annotations

import copyreg
import os
import threading
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tracer.errors import DeviceError
from tracer.lowering.devices import plugins
from tracer.lowering.devices.absent import absent_devices
from tracer.lowering.devices.clients import PLATFORMS
from tracer.lowering.devices.device import Device
from tracer.lowering.devices.forks import FORKS
from tracer.lowering.shims import OneDevice
from tracer.target import ACCELERATORS, Target

_ALIASES = {"cuda": "gpu"}


class _DeviceRegistry:
    """The devices of each platform, looked for once, and why there are none."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._found: dict[str, tuple[Device, ...]] = {}
        self._absent: dict[str, tuple[Device, ...]] = {}
        self._default: Device | None = None
        self._unnamed: dict[Device, Device] = {}
        self.reasons: dict[str, DeviceError] = {}

    def on(self, platform: str) -> tuple[Device, ...]:
        """Return the devices of one platform."""
        if platform not in self._found:
            with self._lock:
                if platform not in self._found:
                    self._found[platform] = self._look(platform)
        return self._found[platform]

    def everywhere(self) -> tuple[Device, ...]:
        """Return all devices, those of the preferred platform first."""
        return tuple(device for platform in PLATFORMS for device in self.on(platform))

    def _look(self, platform: str) -> tuple[Device, ...]:
        rules = PLATFORMS[platform]
        if not rules.is_attached():
            self.reasons[platform] = DeviceError(
                f"looked for {rules.sought}, found none", mend="run on a machine that has one"
            )
            return ()
        FORKS.watch()
        try:
            raws = rules.make_client().devices()
        except (DeviceError, RuntimeError) as error:
            self._miss(platform, error)
            if not rules.sought:  # The processor is always there.
                raise self.reasons[platform] from error
            return ()
        return tuple(_device(platform, raw) for raw in raws)

    def _miss(self, platform: str, error: Exception) -> None:
        """Keep the reason why a device cannot be used; warn once of one that is attached."""
        if not isinstance(error, DeviceError):
            error = DeviceError(
                f"XLA cannot use the {platform.upper()}: {error}",
                mend="check the driver with the maker's tool (nvidia-smi, tpu-info)",
            )
        self.reasons[platform] = error
        if not PLATFORMS[platform].sought:
            return
        warnings.warn(
            f"a {platform.upper()} seems to be attached, but it is not used: {error.what}\n"
            f"  mend:  {error.mend}",
            RuntimeWarning,
            stacklevel=2,
        )

    def default(self) -> Device:
        """Return the chosen device, or the first of this process on the preferred platform."""
        if self._default is None:
            with self._lock:
                if self._default is None:
                    wanted = os.environ.get("TRACER_DEVICE")
                    self.set_default(find_device(wanted) if wanted else self._first())
        assert self._default is not None
        return self._default

    def _first(self) -> Device:
        return next(device for device in self.everywhere() if device.is_local)

    def set_default(self, device: Device | None) -> None:
        # A separate object, equal to the device: arrays there were not put there by name.
        self._default = device and self._unnamed.setdefault(device, replace(device))

    def absent(self, machine: str, plugin: plugins.Plugin, target: Target) -> tuple[Device, ...]:
        """Return the devices of a machine that is not here; the same ones every time."""
        with self._lock:
            if machine not in self._absent:
                topology = machine.split(":")[2:]
                raws = absent_devices(plugin, target, topology[0] if topology else None)
                self._absent[machine] = tuple(
                    _device(plugin.platform, raw, machine, target) for raw in raws
                )
            return self._absent[machine]


def _device(platform: str, raw: Any, machine: str = "", target: Target | None = None) -> Device:
    return Device(
        platform, raw.id, raw.device_kind, raw, OneDevice(raw), machine, target, raw.process_index
    )


_REGISTRY = _DeviceRegistry()


def devices(platform: str | None = None) -> list[Device]:
    """Return devices.

    Parameters
    ----------
    platform : str, optional
        Only those of one platform ("cpu", "gpu", "tpu"), or those of a machine that is not here
        ("tpu:v5e", "tpu:v5e:4x4", "cuda:h100:8"), for which programs can be compiled.

    Returns
    -------
    list of Device
        Of this process, and of those that work with it (`tracer.distributed`); the preferred
        platform first.

    Raises
    ------
    DeviceError
        There is no such platform or machine, or no compiler for it.
    """
    if platform is None:
        return list(_REGISTRY.everywhere())
    name = _ALIASES.get(platform, platform)
    if name in PLATFORMS:
        return list(_REGISTRY.on(name))
    found = _described(platform)
    if found is None:
        raise _unknown(platform)
    return list(found)


def default_device() -> Device:
    """Return the device that is used when none is named.

    Set by `set_default_device`, or by `TRACER_DEVICE` in the environment; else the first one of
    the preferred platform: TPU, GPU, CPU.

    It equals the device of that name and is another object, so that arrays that were put nowhere
    can be told: they follow the others (`is_uncommitted`).
    """
    return _REGISTRY.default()


def is_uncommitted(place: Any) -> bool:
    """Tell whether arrays are at a place only because no device was named.

    As in JAX, such arrays go where the others of an expression were put.
    """
    return place is _REGISTRY.default()


def set_default_device(device: Device | str | None) -> None:
    """Set the device that is used when none is named.

    Parameters
    ----------
    device : Device or str or None
        Such as "cpu:1"; None: as at the start.

    Raises
    ------
    DeviceError
        There is no such device here.
    """
    if device is None:
        _REGISTRY.set_default(None)
        return
    found = find_device(device)
    if not found.is_local:
        raise DeviceError(
            f"{found} cannot be the default device: nothing can run there from this process",
            mend="name it in tracer.compile(..., device=...)",
        )
    _REGISTRY.set_default(found)


def find_device(device: Device | str | None) -> Device:
    """Return a device by its name.

    Parameters
    ----------
    device : Device or str or None
        Such as "cpu" (the first one), "gpu:0", or "tpu:v5e", a device that is not here; None is
        the default device.

    Raises
    ------
    DeviceError
        There is no such device; says what was looked for, what was found, and what to install.
    """
    if isinstance(device, Device):
        return device
    if device is None:
        return default_device()
    if not isinstance(device, str):
        raise DeviceError(
            f"{device!r} is no device",
            mend="give a Device or its name, such as 'cpu:0'; for several devices give mesh= to "
            "tracer.compile, and arrays a NamedSharding(mesh, PartitionSpec(...))",
        )
    name, _, number = device.partition(":")
    platform = _ALIASES.get(name, name)
    if platform in PLATFORMS:
        wanted = f"{platform}:{number}" if number else None
        local = (found for found in _REGISTRY.on(platform) if wanted or found.is_local)
        for found in local:
            if wanted in (None, str(found)):
                return found
    machine, _, position = device.partition("/")
    described = _described(machine)
    if (
        described is not None
        and (position or "0").isdigit()
        and int(position or 0) < len(described)
    ):
        return described[int(position or 0)]
    raise _unknown(device)


def _by_name(device: Device) -> tuple[Any, ...]:
    """Pickle a device as its name: another process has clients of its own."""
    return find_device, (str(device),)


# Here and not as a method: a device does not know the registry.
copyreg.pickle(Device, _by_name)


def _described(machine: str) -> tuple[Device, ...] | None:
    """Return the devices of a machine that is not here; None if the name is not one."""
    name, *rest = machine.split(":")
    platform = _ALIASES.get(name, name)
    target = ACCELERATORS.get(platform, {}).get(rest[0] if rest else "")
    if target is None or len(rest) > 2:
        return None
    name = ":".join((platform, *rest))
    return _REGISTRY.absent(name, plugins.plugin_of(platform), target)


def _unknown(device: str) -> DeviceError:
    """Return the error for a missing device: what was looked for, found, and can be installed."""
    platform = _ALIASES.get(device.split(":")[0], device.split(":")[0])
    names = ", ".join(map(str, _REGISTRY.everywhere()))
    what, mends = f"there is no device {device!r}", [f"use one of {names}"]
    if platform in plugins.PLUGINS:
        what += f": {_why_none(platform)}"
        targets = ", ".join(f"{platform}:{name}" for name in ACCELERATORS[platform])
        mends = [*_installs(platform), *mends, f"compile ahead of time for one of {targets}"]
    return DeviceError(f"{what}; found: {names}", mend="; or ".join(mends))


def _why_none(platform: str) -> str:
    reasons = [_REGISTRY.reasons[platform].what] if platform in _REGISTRY.reasons else []
    try:
        plugins.plugin_of(platform)
    except DeviceError as error:
        if error.what not in reasons:
            reasons.append(error.what)
    return "; ".join(reasons) or "there is no device of that number"


def _installs(platform: str) -> Iterable[str]:
    try:
        plugins.plugin_of(platform)
    except DeviceError as error:
        yield error.mend
