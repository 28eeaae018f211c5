"""`python -m tests.mutated --count 1000 --seed 1`: inputs of every kind, in a process of their own.

A process that dies or is silent for ten seconds is started again behind the input that it had.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field

SECONDS = 10.0
"""What one input may take."""
_STARTING = 120.0


@dataclass
class Found:
    """What came of the inputs of one kind."""

    counts: Counter[str] = field(default_factory=Counter)
    bad: list[tuple[int, str]] = field(default_factory=list)


def tried(kind: str, seed: int, count: int) -> Found:
    """Try inputs of a kind, each of which is known by its number."""
    found, done = Found(), 0
    while done < count:
        done = _tried_from(kind, seed, done, count, found)
    return found


def _tried_from(kind: str, seed: int, first: int, count: int, found: Found) -> int:
    """Try inputs in one process, from a number on; return the number behind the last."""
    command = [
        sys.executable,
        "-m",
        "tests.mutated.worker",
        kind,
        str(seed),
        str(first),
        str(count),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        done, pending, wait, hung = first, b"", _STARTING, False
        while select.select([process.stdout], [], [], wait)[0]:
            read = os.read(process.stdout.fileno(), 1 << 16)
            if not read:
                break
            wait = SECONDS
            *lines, pending = (pending + read).split(b"\n")
            for line in lines:
                outcome, what = json.loads(line)
                if outcome == "ready":
                    continue
                found.counts[outcome] += 1
                if outcome == "wrong":
                    found.bad.append((done, what))
                done += 1
        else:
            hung = True
        if not hung:
            process.wait(SECONDS)
        process.kill()
    if done >= count:
        return done
    outcome = "hung" if hung else "crashed"
    found.counts[outcome] += 1
    found.bad.append((done, f"{outcome} with status {process.returncode}"))
    return done + 1


def main() -> None:
    """Try inputs, and print what came of them."""
    from tests.mutated.kinds import KINDS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="inputs of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="*", default=sorted(KINDS))
    given = parser.parse_args()
    is_bad = False
    for kind in given.kinds:
        found = tried(kind, given.seed, given.count)
        sys.stdout.write(f"{kind} {dict(found.counts)}\n")
        for number, what in found.bad:
            sys.stdout.write(f"  {kind} {given.seed} {number}: {what}\n")
        sys.stdout.flush()
        is_bad |= bool(found.bad)
    sys.exit(is_bad)


if __name__ == "__main__":
    main()
