"""Asks a worker process about programs, and starts it again when it dies or hangs."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.fuzz.check import CONFIGS, JUDGING
from tests.fuzz.failure import Failure
from tests.fuzz.program import Program

ROOT = Path(__file__).parents[2]
_PROGRAMS_PER_PROCESS = 150
"""Compiled programs are kept by the process, and a long-lived one would grow."""
_TICKS = os.sysconf("SC_CLK_TCK")
_STARTING = 60.0
"""Seconds that a fresh worker may take more: it imports everything first."""


@dataclass
class Answer:
    """What a worker found out about a program."""

    failures: list[Failure] = field(default_factory=list)
    fired: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


class FuzzerError(RuntimeError):
    """The fuzzer itself is broken."""


class Worker:
    """A process that checks programs.

    Parameters
    ----------
    seconds : float
        Of processor time that the package may take with one program, in one way; on a busy machine
        time passes faster. The judges, which interpret every step in float64, may take as long:
        what they do not finish is counted as not judged.
    peers : sequence of str
        Who else runs the programs: "numpy", "jax".
    """

    def __init__(self, seconds: float = 240.0, peers: Sequence[str] = ("numpy", "jax")) -> None:
        self.seconds, self.peers = seconds, list(peers)
        self.process: subprocess.Popen[bytes] | None = None
        self.asked = 0
        self.read = b""

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def ask(
        self,
        program: Program,
        configs: Sequence[str] = CONFIGS,
        peers: Sequence[str] | None = None,
    ) -> Answer:
        """Return what holds of a program; a death and a hang are failures of it."""
        process = self._process()
        assert process.stdin is not None
        asked = self.peers if peers is None else list(peers)
        request = {"program": program.text(), "configs": list(configs), "peers": asked}
        start = time.monotonic()
        limit = self.seconds + (_STARTING if self.asked == 0 else 0)
        self.asked += 1
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            answer = self._answer(process, limit)
        except BrokenPipeError:
            answer = self._death(process)
        answer.seconds = time.monotonic() - start
        return answer

    def _process(self) -> subprocess.Popen[bytes]:
        if self.asked >= _PROGRAMS_PER_PROCESS:
            self.stop()
        if self.process is None:
            self.asked, self.read = 0, b""
            paths = (str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")]))
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "TF_CPP_MIN_LOG_LEVEL": "3",
            }
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.worker"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        return self.process

    def _answer(self, process: subprocess.Popen[bytes], limit: float) -> Answer:
        """Read what the worker says until it answers, dies or takes too long with one thing."""
        work, used = "tracing", _processor_seconds(process.pid)
        while True:
            line = self._line(process, used + limit)
            if line is None:
                self.stop()
                return _too_long(work, limit)
            if not line:
                return self._death(process)
            found: dict[str, Any] = json.loads(line)
            if "doing" not in found:
                return _read(found)
            work, used = found["doing"], _processor_seconds(process.pid)

    def _line(self, process: subprocess.Popen[bytes], until: float) -> str | None:
        """Return the worker's next line; "" when it died, None when it takes too long."""
        assert process.stdout is not None
        # Not by readline: what it reads ahead, select would not know of.
        while b"\n" not in self.read:
            ready, _, _ = select.select([process.stdout], [], [], 1.0)
            if ready:
                part = os.read(process.stdout.fileno(), 1 << 16)
                if not part:
                    return ""
                self.read += part
            elif _processor_seconds(process.pid) > until:
                return None
        line, _, self.read = self.read.partition(b"\n")
        return line.decode()

    def _death(self, process: subprocess.Popen[bytes]) -> Answer:
        code = process.wait()
        self.stop()
        return Answer([Failure("death", "", f"exit status {code}", "the process died")])


def _too_long(work: str, limit: float) -> Answer:
    if work == JUDGING:
        return Answer(notes=Counter(["not judged: too large to be interpreted step by step"]))
    return Answer([Failure("hang", "", work, f"over {limit:.0f} s of processor time")])


def _read(found: dict[str, Any]) -> Answer:
    if "broken" in found:
        raise FuzzerError(found["broken"])
    failures = [Failure(**item) for item in found["failures"]]
    return Answer(failures, found["fired"], Counter(found["notes"]))


def _processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used, all threads."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:  # No such file system, or the process is gone: then nothing is known.
        return time.process_time()
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
