"""Connections that carry no data: when one closes, the process at the other end is gone.

XLA's runtime declares a process dead when it has been silent for a while. The system closes the
connections of a process at once when it ends.
"""

from __future__ import annotations

import select
import socket
from typing import Any

_CONNECT_SECONDS = 5


class Lifelines:
    """The connections of a process to all others.

    Parameters
    ----------
    client : object
        XLA's connection to the coordinator, through which the processes find each other.
    coordinator_address : str
        Host and port of the coordinator.
    index, count : int
        Which process this is, and how many there are.
    seconds : float
        How long to wait for the others' addresses.
    """

    def __init__(
        self, client: Any, coordinator_address: str, index: int, count: int, seconds: float
    ) -> None:
        host, family = _own_host(coordinator_address)
        # The others' connections stay in its queue: they need not be accepted.
        self._listener = socket.create_server((host, 0), family=family, backlog=count)
        client.key_value_set(f"tracer/address/{index}", f"{host}|{self._listener.getsockname()[1]}")
        self._others: dict[int, socket.socket] = {}
        for other in set(range(count)) - {index}:
            address = client.blocking_key_value_get(f"tracer/address/{other}", int(1000 * seconds))
            host, port = str(address).split("|")
            try:
                made = socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS)
            except OSError:
                continue  # firewalls between: XLA's heartbeat reports this process' end, only later
            self._others[other] = made

    def is_cut(self, other: int) -> bool:
        """Tell whether another process has closed its end."""
        line = self._others.get(other)
        if line is None or not select.select([line], [], [], 0)[0]:
            return False
        try:
            return not line.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def close(self) -> None:
        """Close all connections."""
        for line in (self._listener, *self._others.values()):
            line.close()


def _own_host(coordinator_address: str) -> tuple[str, socket.AddressFamily]:
    """Return this machine's address on the route to another, and its family."""
    host, port = coordinator_address.rsplit(":", 1)
    family, *_, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)  # sends nothing
        return str(probe.getsockname()[0]), family
