"""`python -m tests.mutated.worker KIND SEED FIRST COUNT`: tries inputs, and says what came of each.

One JSON array a line: an outcome, and what was wrong.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import traceback

_ADDRESSES = 12 << 30
"""A number of elements that was changed may ask for all memory."""


def outcome(kind: str, seed: int, number: int) -> tuple[str, str]:
    """Try one input."""
    from tests.mutated.kinds import KINDS

    try:
        return KINDS[kind](random.Random(f"{kind} {seed} {number}")), ""
    except BaseException as error:  # whatever it is, it is no error of ours
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{os.path.basename(last.filename)}:{last.lineno}"
        return "wrong", f"{type(error).__name__} at {place}: {str(error)[:200]}"


def main() -> None:
    """Try inputs one after another."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What is printed meanwhile is no answer.
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kind, seed, first, count = sys.argv[1], *map(int, sys.argv[2:])
    outcome(kind, -1, 0)  # What the valid inputs are made with takes time.
    for said in [("ready", "")], (outcome(kind, seed, number) for number in range(first, count)):
        for found in said:
            answers.write(json.dumps(found) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
