"""The process that runs programs: it may die or hang, the one that asks it does not.

Reads one JSON object a line and answers with one, after others that say what it is doing; whatever
else the process prints goes to its standard error.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any, TextIO


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer requests until there are no more."""
    from tests.fuzz.check import check
    from tests.fuzz.program import parse

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    for line in requests:
        request = json.loads(line)
        try:
            verdict = check(
                parse(request["program"]),
                request["configs"],
                request["peers"],
                lambda work: say({"doing": work}),
            )
            answer: dict[str, Any] = {
                "failures": [vars(failure) for failure in verdict.failures],
                "fired": sorted(verdict.fired),
                "notes": dict(verdict.notes),
            }
        except Exception:
            answer = {"broken": traceback.format_exc()}
        say(answer)


def main() -> None:
    """Serve on the standard streams."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # XLA's own messages must not come between the answers.
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
