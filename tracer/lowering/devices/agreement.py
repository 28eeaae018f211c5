"""How processes agree before they do something together.

Programs whose parts wait for each other work only if all processes run the same one. So each
process announces what it is about to do, and reads what the others announce. A waiting process is
told if another one failed, left, died, or waits for it elsewhere. So nobody waits forever, and no
data of one program is taken for data of another.
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
from tracer.lowering.devices.processes import ENDED, Group, say_ended, working_group
from tracer.lowering.run.failures import first_line

_POLL_MILLISECONDS = 1000
"""How long to wait before checking on the others."""
_PATIENCE_SECONDS = 1800
"""Others may read data, plan and compile for that long before they come to the same point."""
_KEPT = 64
"""What was said is forgotten in blocks of so many points."""
_WAITS = "tracer/waits/"
"""Where a process says whom it waits for."""

_COUNTS: Counter[tuple[int, ...]] = Counter()
"""How many points the processes of a set have come to together."""
_ONE_POINT = threading.Lock()


def exchange(value: str, *, purpose: str, among: Iterable[int]) -> list[str]:
    """Return the values that processes give, in the order of their numbers; each must call it.

    Parameters
    ----------
    value : str
        The value of this process.
    purpose : str
        What it is for; it must be the same in all.
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
        return point.hear()


def meet(purpose: str, among: Iterable[int]) -> None:
    """Wait until all of some processes are about to do the same.

    Raises
    ------
    DeviceError
        Another process is about to do something else, or will not come.
    """
    exchange("", purpose=purpose, among=among)


class _Point:
    """A point at which some processes meet."""

    def __init__(self, joined: Group, members: tuple[int, ...], purpose: str) -> None:
        self.group, self.members, self.purpose = joined, members, purpose
        if joined.has_given_up:
            raise self._alone("were left by this one when it gave up waiting for them")
        self.number = _COUNTS[members]
        self.place = _place(members, self.number)
        self.said: dict[int, str] = {}
        _COUNTS[members] += 1

    def say(self, value: str) -> None:
        """Tell the others."""
        client, index = self.group.client, self.group.index
        self.said[index] = json.dumps([self.purpose, value])
        try:
            client.key_value_set(f"{self.place}/{index}", self.said[index])
            if self.number % _KEPT == 1 and self.number > _KEPT and index == self.members[0]:
                # All have come to the first point of this block, so none reads the block before.
                client.key_value_delete(_block(self.members, self.number - _KEPT))
        except RuntimeError as error:
            raise self._unreachable(error) from error

    def hear(self) -> list[str]:
        """Return the values of all; refuse to go on if one is about to do something else."""
        for other in self.members:
            if other not in self.said:
                self.said[other] = self._heard(other)
                if len(self.said) < len(self.members):
                    self.said.update(self._heard_by_now())
        found = {other: json.loads(self.said[other]) for other in self.members}
        for other, (purpose, _) in found.items():
            if purpose != self.purpose:
                raise self._apart(other, purpose)
        return [str(value) for _, value in found.values()]

    def _heard_by_now(self) -> dict[int, str]:
        try:
            entries = self.group.client.key_value_dir_get(f"{self.place}/")
        except RuntimeError as error:
            raise self._unreachable(error) from error
        return {int(key.rsplit("/", 1)[1]): str(value) for key, value in entries}

    def _heard(self, other: int) -> str:
        key = f"{self.place}/{other}"
        found = self._asked(key)
        return self._awaited(other, key) if found is None else found

    def _asked(self, key: str) -> str | None:
        """Return the message; None if it takes longer."""
        try:
            return str(self.group.client.blocking_key_value_get(key, _POLL_MILLISECONDS))
        except RuntimeError as error:
            if "DEADLINE_EXCEEDED" in str(error):
                return None
            raise self._unreachable(error) from error

    def _awaited(self, other: int, key: str) -> str:
        """Return the message as soon as it comes, and tell the others that it is missing."""
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
                    self.group.has_given_up = True
                    say_ended(self.group, f"has given up, as others {why}")
                    raise self._alone(why)
        finally:
            with contextlib.suppress(RuntimeError):  # the coordinator is gone: nobody reads it
                client.key_value_delete(waits)

    def _why_not(self, other: int, is_late: bool) -> str | None:
        """Return why another process will not come, if it will not."""
        client = self.group.client
        try:
            ended = dict(client.key_value_dir_get(ENDED)).get(f"{ENDED}{other}")
            waits = dict(client.key_value_dir_get(_WAITS)).get(f"{_WAITS}{other}")
        except RuntimeError as error:
            raise self._unreachable(error) from error
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

    def _apart(self, other: int, purpose: str) -> DeviceError:
        index = self.group.index
        return DeviceError(
            f"processes {index} and {other} do different things at the same point: process {index} "
            f"is to {self.purpose}, process {other} to {purpose}",
            mend="let all processes make the same calls with the same code, types, options and "
            "limits, in the same order; a program of some processes only needs a mesh of their "
            "devices",
        )

    def _unreachable(self, error: RuntimeError) -> DeviceError:
        return self._alone(
            f"are out of reach, as process 0, where all meet, is gone: {first_line(error)}"
        )

    def _alone(self, why: str) -> DeviceError:
        return DeviceError(
            f"process {self.group.index} of {self.group.count} is to {self.purpose}, and others "
            f"{why}",
            mend="let all processes make the same calls on the same meshes, in the same order; "
            "read the last messages of the others",
        )


def _place(members: tuple[int, ...], number: int) -> str:
    """Return the key under which processes communicate at a point."""
    return f"{_block(members, number)}/{number}"


def _block(members: tuple[int, ...], number: int) -> str:
    name = hashlib.blake2b(json.dumps(members).encode(), digest_size=8).hexdigest()
    return f"tracer/points/{name}/{number // _KEPT}"
