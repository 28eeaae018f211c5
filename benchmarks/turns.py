"""Time programs that live in processes of their own and take turns, call by call.

Processes keep libraries apart (thread pools, allocators), and turns let all meet the same machine:
ratios are medians over turns of two calls that followed one another, so other work on the machine
slows both. Only one program computes at a time.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.measure import _NO_MEMORY, ROOT, _from_crash, _load, _seconds
from benchmarks.watches import mapped_bytes

_PAUSE_SECONDS = 0.5
"""After a longer pause a call comes first that does not count."""


@dataclasses.dataclass
class Contender:
    """What one program took, turn by turn; `status` as in `measure.Measurement`."""

    status: str
    reason: str
    seconds: list[float]

    @property
    def median(self) -> float | None:
        """Median of the turns."""
        return statistics.median(self.seconds) if self.seconds else None


def take_turns(
    orders: Mapping[str, tuple[str, Mapping[str, Any]]],
    *,
    turns: int,
    enough_seconds: float,
    cap_bytes: int,
    timeout: float,
    pythons: Mapping[str, str] | None = None,
) -> dict[str, Contender]:
    """Start every target, let each run once to warm up, then time them in turns.

    After a pause, as where others take long, a call that does not count comes first: as in a loop
    of calls, where threads are awake and libraries have kept what they keep.

    Parameters
    ----------
    orders : mapping of str to (target, keywords)
        As `measure.measure` takes them.
    turns : int
        At most this many, and at least two.
    enough_seconds : float
        No further turn begins after this time.
    cap_bytes : int
        Address space that the calls of each process may add.
    timeout : float
        Seconds for a set-up, or one call.
    pythons : mapping of str to str, optional
        The interpreters of those that do not run in this one.
    """
    others = pythons or {}
    children = {
        name: _Child(*order, cap_bytes, timeout, others.get(name, sys.executable))
        for name, order in orders.items()
    }
    try:
        for child in children.values():
            child.set_up()
            child.call()
            child.found.seconds.clear()
        start = time.perf_counter()
        for turn in range(turns):
            if turn >= 2 and time.perf_counter() - start > enough_seconds:
                break
            for child in children.values():
                child.call()
        return {name: child.found for name, child in children.items()}
    finally:
        for child in children.values():
            child.end()


def ratio(peer: Contender, ours: Contender) -> float | None:
    """Return the median over turns of the peer's time over ours."""
    pairs = list(zip(peer.seconds, ours.seconds, strict=False))
    return statistics.median(a / b for a, b in pairs) if pairs else None


class _Child:
    def __init__(
        self,
        target: str,
        arguments: Mapping[str, Any],
        cap_bytes: int,
        timeout: float,
        python: str,
    ) -> None:
        self.order = json.dumps(
            {"target": target, "arguments": dict(arguments), "cap_bytes": cap_bytes}
        )
        self.timeout = timeout
        self.python = python
        self.found = Contender("ok", "", [])
        self.process: subprocess.Popen[str] | None = None
        # Not a pipe: a talkative library would fill it and wait.
        self.log = tempfile.TemporaryFile("w+")

    def set_up(self) -> None:
        """Start the process and wait until it is ready; they are set up one after another."""
        self.process = subprocess.Popen(
            [self.python, "-m", "benchmarks.turns", self.order],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            cwd=ROOT,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "1"},
        )
        self._answer()

    def call(self) -> None:
        """Have it run once and keep the seconds; does nothing once it failed."""
        if self.found.status != "ok":
            return
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        seconds = self._answer()
        if seconds is not None:
            self.found.seconds.append(seconds)

    def _answer(self) -> float | None:
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], self.timeout)
        if not ready:
            self._fail("timed out", f"more than {self.timeout} s")
            return None
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            crash = _from_crash(self.process.wait(), self.log.read(), capped=True)
            self._fail(crash.status, crash.reason)
            return None
        answer = json.loads(line)
        if "status" in answer:
            self._fail(answer["status"], answer["reason"])
            return None
        return float(answer["seconds"])

    def _fail(self, status: str, reason: str) -> None:
        self.found = Contender(status, reason, [])

    def end(self) -> None:
        """End the process that this object started."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.log.close()


def _serve(order: Mapping[str, Any]) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    run = _load(order["target"])(**order["arguments"])
    limit = mapped_bytes() + order["cap_bytes"]
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    print(json.dumps({"seconds": 0}), file=answers, flush=True)
    ended = time.perf_counter()
    for _ in sys.stdin:
        try:
            if time.perf_counter() - ended > _PAUSE_SECONDS:
                _seconds(run)
            answer: dict[str, Any] = {"seconds": _seconds(run)}
        except Exception as error:
            if not isinstance(error, MemoryError) and not any(t in str(error) for t in _NO_MEMORY):
                raise
            answer = {"status": "does not fit", "reason": str(error)}
        print(json.dumps(answer), file=answers, flush=True)
        ended = time.perf_counter()


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
