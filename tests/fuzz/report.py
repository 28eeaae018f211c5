"""Counts what happened, and says it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from tests.fuzz.failure import Failure
from tests.fuzz.program import Program
from tests.fuzz.supervise import Answer
from tracer.optimizer.selection import NAMES

_RARE = 0.01
_NEVER_HERE = frozenset({"shard"})
"""Passes for several devices, which no program of the fuzzer runs on."""


def option(name: str) -> str:
    """Return a pass's or rule's name as it is switched off."""
    return "-".join(name.removeprefix("rule ").split())


@dataclass
class Report:
    """The programs of a run, what fired in them and what was wrong."""

    programs: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, program: Program, answer: Answer) -> list[Failure]:
        """Count a program; returns the failures that are new."""
        self.programs += 1
        self.kinds.update([program.dtype, program.transform, program.theme])
        parts = [part for name in answer.fired for part in name.split(" and ")]
        self.fired.update({option(part) for part in parts})
        self.notes.update({re.sub(r"\d+", "N", note): n for note, n in answer.notes.items()})
        new = [item for item in answer.failures if item.signature not in self.failures]
        self.failures.update(item.signature for item in answer.failures)
        return new

    @property
    def rare(self) -> dict[str, int]:
        """The passes and rules that fired in less than one program in a hundred."""
        least = _RARE * self.programs
        names = sorted(NAMES - _NEVER_HERE)
        return {name: self.fired[name] for name in names if self.fired[name] < least}

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(self.kinds.items()) if name)
        lines = [f"{self.programs} programs in {self.seconds:.0f} s: {kinds}", "fired in programs:"]
        lines += [f"  {count:6d} {name}" for name, count in self.fired.most_common()]
        lines += ["fired in under 1 %:"]
        lines += [f"  {count:6d} {name}" for name, count in self.rare.items()]
        lines += ["notes:"] + [f"  {count:6d} {note}" for note, count in self.notes.most_common(40)]
        lines += [f"failures: {sum(self.failures.values())}"]
        lines += [f"  {count:6d} {kind}: {who}" for (kind, who), count in self.failures.items()]
        return "\n".join(lines)
