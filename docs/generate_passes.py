"""Write the table of docs/passes.md from `tracer.optimizer.pipeline.TABLE`.

python docs/generate_passes.py            writes the page
python docs/generate_passes.py --check    exits with 1 when the page is out of date
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tracer.optimizer.pipeline import TABLE, PassEntry

PAGE = Path(__file__).parent / "passes.md"
HEAD = ("name", "stage", "what it does", "why here", "runs", "exact")


def row(entry: PassEntry) -> str:
    """Return the line of a pass; names that cannot be switched off are in italics."""
    name = f"`{entry.option}`" if entry.is_optional else f"*{entry.option}*"
    cells = (name, entry.stage.value, entry.what, entry.why_here, entry.when, entry.exact)
    return f"| {' | '.join(cells)} |"


def page(text: str) -> str:
    """Return the text of the page with its first table written anew."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| name |"))
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    table = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|", *map(row, TABLE)]
    return "\n".join([*lines[:start], *table, *lines[end:]]) + "\n"


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    before = PAGE.read_text()
    text = page(before)
    if parser.parse_args().check:
        return 0 if before == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
