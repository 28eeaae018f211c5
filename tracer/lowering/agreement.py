"""What processes tell each other before they do something together.

Each of them says what it is about to do, and hears what the others are: programs whose parts wait
for each other run only where all run the same one. Who waits hears of a process that failed, left,
died, or waits for this one elsewhere, so that nobody waits for ever, and no data of one program is
taken for data of another.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterable

from tracer.errors import DeviceError
from tracer.lowering.processes import ENDED, Group, working_group

_POLL_MILLISECONDS = 1000
"""For how long to wait before a look at what has become of the others."""
_PATIENCE_SECONDS = 1800
"""Others may read data, plan and compile for that long before they come to the same point."""
_KEPT = 64
"""What was said is forgotten in blocks of so many points, or more."""
_WAITS = "tracer/waits/"
"""Where a process says whom it waits for."""

_COUNTS: Counter[tuple[int, ...]] = Counter()
"""How many points the processes of a set have come to together."""
_ONE_POINT = threading.Lock()


def exchange(value: str, *, purpose: str, among: Iterable[int]) -> list[str]:
    """Return the values that processes give, in the order of their numbers; each has to call it.

    Parameters
    ----------
    value : str
        This process' value.
    purpose : str
        What it is for: the others have to say the same.
    among : iterable of int
        The processes; this is one of them.

    Raises
    ------
    DeviceError
        Another process is at another point of the program, or will not come to this one.
    """
    members = tuple(sorted(among))
    joined = working_group()
    if joined is None or len(members) < 2:
        return [value]
    with _ONE_POINT:
        point = _Point(joined, members, purpose)
        point.say(value)
        return [value if other == joined.index else point.hear(other) for other in members]


def meet(purpose: str, among: Iterable[int]) -> None:
    """Wait until the next and the previous of some processes are about to do the same as this one.

    So all of them are, and no one has to hear of more than two.

    Raises
    ------
    DeviceError
        Another process is about to do something else, or will not come.
    """
    members = tuple(sorted(among))
    joined = working_group()
    if joined is None or len(members) < 2:
        return
    with _ONE_POINT:
        point = _Point(joined, members, purpose)
        point.say("")
        place = members.index(joined.index)
        for other in {members[place - 1], members[(place + 1) % len(members)]}:
            point.hear(other)


class _Point:
    """A point at which some processes meet."""

    def __init__(self, joined: Group, members: tuple[int, ...], purpose: str) -> None:
        self.group, self.members, self.purpose = joined, members, purpose
        self.number = _COUNTS[members]
        _COUNTS[members] += 1

    def say(self, value: str) -> None:
        """Tell the others."""
        client, index = self.group.client, self.group.index
        kept = _kept(self.members)
        try:
            client.key_value_set(
                _key(self.members, index, self.number), json.dumps([self.purpose, value])
            )
            if self.number > kept and self.number % kept == kept - 1:
                # Who hears its neighbours is ahead of others by as many points as there are
                # members, at most: all have heard the block before.
                client.key_value_delete(_block(self.members, index, self.number - kept))
        except RuntimeError as error:
            raise self._alone(f"cannot be told: {error}") from error

    def hear(self, other: int) -> str:
        """Return what another process gives."""
        found = self._heard(other)
        purpose, value = json.loads(found)
        if purpose != self.purpose:
            raise DeviceError(
                f"processes {self.group.index} and {other} do different things at the same point: "
                f"process {self.group.index} is to {self.purpose}, process {other} to {purpose}",
                mend="let all processes make the same calls with the same code, types, options "
                "and limits, in the same order; what only some do takes a mesh of their devices",
            )
        return str(value)

    def _heard(self, other: int) -> str:
        key = _key(self.members, other, self.number)
        found = self._asked(key)
        return self._awaited(other, key) if found is None else found

    def _asked(self, key: str) -> str | None:
        """Return what was said; None when that takes longer."""
        try:
            return str(self.group.client.blocking_key_value_get(key, _POLL_MILLISECONDS))
        except RuntimeError as error:
            if "DEADLINE_EXCEEDED" in str(error):
                return None
            raise self._alone(f"were not heard: {error}") from error

    def _awaited(self, other: int, key: str) -> str:
        """Return what was said as soon as it is, and have the others know that it is missed."""
        client, waits = self.group.client, f"{_WAITS}{self.group.index}"
        end = time.monotonic() + _PATIENCE_SECONDS
        missed = json.dumps([other, self.members, self.number, self.purpose])
        client.key_value_set(waits, missed, allow_overwrite=True)
        try:
            while True:
                why = self._why_not(other, time.monotonic() > end)
                # It may have been said just before.
                found = self._asked(key)
                if found is not None:
                    return found
                if why is not None:
                    raise self._alone(why)
        finally:
            with contextlib.suppress(RuntimeError):  # the meeting point is gone: nobody reads it
                client.key_value_delete(waits)

    def _why_not(self, other: int, is_late: bool) -> str | None:
        """Return why another process will not come, if it will not."""
        client = self.group.client
        try:
            ended = dict(client.key_value_dir_get(ENDED)).get(f"{ENDED}{other}")
            waits = dict(client.key_value_dir_get(_WAITS)).get(f"{_WAITS}{other}")
        except RuntimeError as error:
            raise self._alone(f"were not heard: {error}") from error
        if ended is not None:
            return f"will not come: process {other} {ended}"
        if self.group.lifelines.is_cut(other):
            return f"will not come: process {other} is gone"
        if waits is not None:
            awaited, members, number, purpose = json.loads(waits)
            if awaited == self.group.index and _COUNTS[tuple(members)] <= number:
                named = ", ".join(map(str, members))
                return (
                    f"will not come: process {other} waits for this one, to {purpose} with "
                    f"processes {named}"
                )
        return f"did not come in {_PATIENCE_SECONDS} s" if is_late else None

    def _alone(self, why: str) -> DeviceError:
        return DeviceError(
            f"process {self.group.index} of {self.group.count} is to {self.purpose}, and others "
            f"{why}",
            mend="let all processes make the same calls on the same meshes, in the same order; "
            "read what the others say last",
        )


def _key(members: tuple[int, ...], index: int, number: int) -> str:
    return f"{_block(members, index, number)}/{number}"


def _block(members: tuple[int, ...], index: int, number: int) -> str:
    name = hashlib.blake2b(json.dumps(members).encode(), digest_size=8).hexdigest()
    return f"tracer/points/{name}/{index}/{number // _kept(members)}"


def _kept(members: tuple[int, ...]) -> int:
    return max(_KEPT, len(members))
