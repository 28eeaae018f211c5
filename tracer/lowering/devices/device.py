"""A device, as the rest of the package sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tracer.lowering.devices import processes
from tracer.lowering.shims import OneDevice
from tracer.target import Target


@dataclass(frozen=True)
class Device:
    """One device that programs can run on, or be compiled for.

    Attributes
    ----------
    platform : str
        "cpu", "gpu" or "tpu".
    id : int
        Its number on the platform.
    kind : str
        The maker's name for it.
    machine : str
        Empty, or the name of a machine that is not here, such as "tpu:v5e": programs are compiled
        for its devices and cannot run.
    process : int
        The process that the device belongs to, of several that work together.

    Examples
    --------
    >>> from tracer import lowering
    >>> str(lowering.devices("cpu")[0])
    'cpu:0'
    """

    platform: str
    id: int
    kind: str = field(compare=False)
    raw: Any = field(compare=False, repr=False)
    sharding: OneDevice = field(compare=False, repr=False)
    machine: str = ""
    target: Target | None = field(compare=False, repr=False, default=None)
    process: int = field(compare=False, default=0)

    @property
    def client(self) -> Any:
        """The XLA client that owns the device."""
        return self.raw.client

    @property
    def is_present(self) -> bool:
        """Whether programs can run on it, rather than be compiled for it only."""
        return not self.machine

    @property
    def is_local(self) -> bool:
        """Whether this process owns it."""
        return self.is_present and self.process == processes.process_index()

    def __str__(self) -> str:
        if self.machine:
            return f"{self.machine}/{self.id}" if self.id else self.machine
        return f"{self.platform}:{self.id}"
