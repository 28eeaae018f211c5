"""Several processes that work together, through XLA's own distributed runtime.

One process is the coordinator, where all find each other's devices. Programs on CPUs move data
between processes with gloo.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import math
import os
import socket
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from tracer.errors import ArgumentError, DeviceError
from tracer.lowering.devices.lifelines import Lifelines
from tracer.lowering.shims import distributed_runtime

_DEVICES_VARIABLE = "TRACER_CPU_DEVICES"
_MOST_DEVICES = 4096  # each takes threads and memory


@dataclass
class Group:
    """The processes that work together, and which of them this one is."""

    client: Any
    service: Any
    collectives: Any
    index: int
    count: int
    cpu_devices: int
    lifelines: Lifelines
    has_given_up: bool = False


_GROUP: list[Group] = []
_LOCK = threading.Lock()
_FAILED = threading.Event()
ENDED = "tracer/ended/"
"""Where a process says how it ended."""
_LEFT = "tracer/left/"
"""Where a process says that it is done."""
_LONGEST = 1000
"""Characters that say how a process ended."""
_LINGER_SECONDS = 4
"""How long the coordinator stays after its process failed, so that waiting processes hear why."""
_STARTED = threading.Event()
"""Set when a client is made: it cannot join other processes any more."""


def process_index() -> int:
    """Return the number of this process among those that work together."""
    return _GROUP[0].index if _GROUP else 0


def process_count() -> int:
    """Return how many processes work together."""
    return _GROUP[0].count if _GROUP else 1


def distributed_client() -> Any:
    """Return XLA's connection to the other processes; None when there are none."""
    return _GROUP[0].client if _GROUP else None


def working_group() -> Group | None:
    """Return the group of this process; None if it works alone."""
    return _GROUP[0] if _GROUP else None


def cpu_client_options() -> dict[str, Any]:
    """Return how many devices the CPU client makes, and which processes it works with."""
    options: dict[str, Any] = {}
    _STARTED.set()
    # Set to nothing is not set, as a shell's `TRACER_CPU_DEVICES= python ...` means it.
    count = os.environ.get(_DEVICES_VARIABLE)
    if count:
        if not count.isdecimal() or not 1 <= int(count) <= _MOST_DEVICES:
            raise ArgumentError(
                f"{_DEVICES_VARIABLE}={count!r} is no number of devices",
                mend=f"set it to a number from 1 to {_MOST_DEVICES}, such as {_DEVICES_VARIABLE}=8",
            )
        options["num_devices"] = int(count)
    if _GROUP:
        group = _GROUP[0]
        options.update(
            distributed_client=group.client,
            node_id=group.index,
            num_nodes=group.count,
            collectives=group.collectives,
        )
        options.setdefault("num_devices", group.cpu_devices)
    return options


def initialize(
    coordinator_address: str,
    num_processes: int,
    process_id: int,
    *,
    initialization_timeout: int = 60,
    heartbeat_timeout: int = 100,
    cpu_devices: int = 1,
) -> None:
    """Join the processes that work together; call it first in each of them.

    Parameters
    ----------
    coordinator_address : str
        Host and port of process 0, such as "127.0.0.1:1234".
    num_processes : int
        How many there are.
    process_id : int
        The number of this one, from 0.
    initialization_timeout : int
        Seconds to wait for the others.
    heartbeat_timeout : int
        Seconds after which a process that has fallen silent is taken for dead; the others then
        end with a message.
    cpu_devices : int
        CPU devices of each process.

    Raises
    ------
    ArgumentError
        The numbers make no sense.
    DeviceError
        The process belongs to others already, or they did not come in time.
    """
    if num_processes < 1 or not 0 <= process_id < num_processes:
        raise ArgumentError(
            f"process_id={process_id} is not one of {num_processes} processes",
            mend="number the processes from 0 to num_processes - 1",
        )
    if ":" not in coordinator_address:
        raise ArgumentError(
            f"coordinator_address={coordinator_address!r} has no port",
            mend="give host and port of process 0, such as '127.0.0.1:1234'",
        )
    with _LOCK:
        if _GROUP:
            raise DeviceError(
                "this process already works with others",
                mend="call tracer.distributed.initialize once, or shutdown() first",
            )
        if _STARTED.is_set():
            raise DeviceError(
                "devices are already in use, so this process can no longer join others",
                mend="call tracer.distributed.initialize before anything is computed",
            )
        try:
            if process_id:
                _wait_for(coordinator_address, initialization_timeout)
            client, service, collectives = distributed_runtime(
                coordinator_address, num_processes, process_id, initialization_timeout,
                heartbeat_timeout,
            )  # fmt: skip
            lifelines = Lifelines(
                client, coordinator_address, process_id, num_processes, initialization_timeout
            )
        except (RuntimeError, OSError) as error:
            raise DeviceError(
                f"process {process_id} of {num_processes} could not join the others at "
                f"{coordinator_address} within {initialization_timeout} s: {error}",
                mend="start all processes, process 0 on the machine that the address names, with "
                "the same num_processes",
            ) from error
        _GROUP.append(
            Group(client, service, collectives, process_id, num_processes, cpu_devices, lifelines)
        )
        atexit.register(_leave)
        _note_failures()


def _wait_for(address: str, seconds: float) -> None:
    """Wait until a process listens at an address: XLA would end this one if none does."""
    host, port = address.rsplit(":", 1)
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=seconds).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


_PAUSE_SECONDS = 0.1


def _leave() -> None:
    """Leave the others at the end of the program, unless it failed: they would wait for nothing.

    They notice its closed connections or its silence, and end with a message.
    """
    if _GROUP and not _FAILED.is_set():
        shutdown()


def _note_failures() -> None:
    """Tell the others, when the program ends, that it failed."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        _FAILED.set()
        for group in _GROUP:
            # Never destroyed: on its way out the coordinator waits for those that are still there,
            # and XLA would end this process by a signal when they fall silent.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
            say_ended(group, f"failed: {kind.__name__}: {getattr(error, 'what', error)}")
        before(kind, error, trace)
        for group in _GROUP:
            _have_left(group)
            _stay(group, _LINGER_SECONDS)

    sys.excepthook = hook


def say_ended(group: Group, how: str) -> None:
    """Tell processes that wait for this one that it will not come."""
    # Without a coordinator they notice the closed connection.
    with contextlib.suppress(RuntimeError):
        group.client.key_value_set(f"{ENDED}{group.index}", how[:_LONGEST], allow_overwrite=True)


def _have_left(group: Group) -> None:
    """Tell the coordinator that this process no longer needs it."""
    with contextlib.suppress(RuntimeError):
        group.client.key_value_set(f"{_LEFT}{group.index}", "", allow_overwrite=True)


def _stay(group: Group, seconds: float = math.inf) -> None:
    """Stay as coordinator for those still at work: XLA ends them when it goes."""
    end = time.monotonic() + seconds
    others = set(range(group.count)) - {group.index} if group.service is not None else set()
    while others and time.monotonic() < end:
        left = {key for key, _ in group.client.key_value_dir_get(_LEFT)}
        others = {
            other
            for other in others
            if f"{_LEFT}{other}" not in left and not group.lifelines.is_cut(other)
        }
        time.sleep(_PAUSE_SECONDS if others else 0)


def shutdown() -> None:
    """Leave the processes that work together; process 0 waits until all leave."""
    with _LOCK:
        if not _GROUP:
            return
        group = _GROUP.pop()
        atexit.unregister(_leave)
    say_ended(group, "has left (the end of its program, or tracer.distributed.shutdown)")
    _have_left(group)
    try:
        _stay(group)
        group.client.shutdown()
    except RuntimeError as error:
        raise DeviceError(
            f"process {group.index} could not leave the others: {error}",
            mend="another process ended before: its own message says why",
        ) from error
    finally:
        group.lifelines.close()
    if group.service is not None:
        group.service.shutdown()
