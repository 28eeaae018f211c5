"""`python -m tests.interrupted --seconds 600 --seed 1`: interrupts at any moment leave nothing.

Each program of `programs.py` is interrupted in processes of its own: at calls of Python functions,
which a seed finds again, and by signals. After each interrupt nothing may be left (`state.py`), and
the same calls have the right values to the bit. The exit code is 1 if something was wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Found:
    """What came of the attempts with one program."""

    counts: Counter[str] = field(default_factory=Counter)
    bad: list[tuple[int, str]] = field(default_factory=list)

    @property
    def attempts(self) -> int:
        """How many there were."""
        return sum(self.counts.values())


def attacked(name: str, seed: int, seconds: float, first: int = 0) -> Found:
    """Interrupt a program for some seconds, in a new process after each fault."""
    found, until = Found(), time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        _attack(name, seed, first + found.attempts, left, found)
    return found


def _attack(name: str, seed: int, first: int, seconds: float, found: Found) -> None:
    given = (name, str(seed), str(first), str(seconds))
    command = [sys.executable, "-m", "tests.interrupted.worker", *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found.counts.update(outcome for outcome, _ in lines)
    bad = [(first + i, what) for i, (outcome, what) in enumerate(lines) if outcome == "wrong"]
    if done.returncode:
        found.counts["crashed or hung"] += 1
        bad.append((first + len(lines), f"status {done.returncode}\n{done.stderr[-6000:]}"))
    found.bad += bad


def main() -> None:
    """Interrupt all programs, and print what came of that."""
    from tests.interrupted.programs import PROGRAMS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first attempt")
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS))
    given = parser.parse_args()
    total: Counter[str] = Counter()
    for name in given.programs:
        share = given.seconds / len(given.programs)
        found = attacked(name, given.seed, share, given.first)
        total += found.counts
        sys.stdout.write(f"{name} {dict(found.counts)}\n")
        for number, what in found.bad:
            sys.stdout.write(f"  {name} {given.seed} {number}: {what}\n")
        sys.stdout.flush()
    sys.stdout.write(f"all {dict(total)}\n")
    sys.exit(bool(total["wrong"] or total["crashed or hung"]))


if __name__ == "__main__":
    main()
