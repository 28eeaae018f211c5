"""All behaviours, and what the page docs/jax-behaviours.md says of each.

`python -m tests.jax_behaviours.catalogue` runs every program (an hour on a busy machine, minutes
else) with jax installed, and writes the page.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from tests.jax_behaviours import algebra, arrays, programs, reducers
from tests.jax_behaviours.comparing import Behaviour, verdict

BEHAVIOURS: list[Behaviour] = [
    *arrays.BEHAVIOURS,
    *reducers.BEHAVIOURS,
    *programs.BEHAVIOURS,
    *algebra.BEHAVIOURS,
]
PAGE = Path(__file__).parents[2] / "docs" / "jax-behaviours.md"
START, END = "<!-- table -->", "<!-- end of the table -->"


def table() -> str:
    """Run every program and return the table of the page."""
    rows = [
        "| JAX's suite | behaviour | programs | as JAX | as NumPy, not JAX | here only | "
        "differs on purpose | missing |",
        "|---|---|---|---|---|---|---|---|",
    ]
    total: Counter[str] = Counter()
    for behaviour in BEHAVIOURS:
        found: Counter[str] = Counter()
        for label, program in behaviour.programs():
            kind = verdict(program)
            wanted = behaviour.expected(label)
            if kind != wanted if wanted else kind in ("wrong", "refused"):
                sys.stderr.write(f"{kind} for {wanted}: {behaviour.text}: {label}\n")
            found[kind] += 1
        total += found
        rows.append(f"| {behaviour.suite} | {behaviour.text} | {_numbers(found)} |")
    return "\n".join([*rows, f"| | all | {_numbers(total)} |"])


def _numbers(found: Counter[str]) -> str:
    kinds = ("jax", "numpy", "more", "wrong", "refused")
    return " | ".join(map(str, [sum(found.values()), *(found[kind] for kind in kinds)]))


def exceptions() -> str:
    """Return what is missing and what differs, one line each."""
    lines = []
    for behaviour in BEHAVIOURS:
        lines += [f"- {behaviour.text}: `{part}`: missing" for part in behaviour.missing]
        lines += [f"- {behaviour.text}: `{part}`: {why}" for part, why in behaviour.differs.items()]
    return "\n".join(lines)


def main() -> None:
    """Write the table and the list into the page, between its marks."""
    text = PAGE.read_text()
    before, after = text[: text.index(START)], text[text.index(END) :]
    PAGE.write_text(f"{before}{START}\n{table()}\n\n{exceptions()}\n{after}")


if __name__ == "__main__":
    main()
