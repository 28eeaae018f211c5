"""Write the table of docs/passes.md from `tracer.optimizer.pipeline.TABLE`.

python docs/generate_passes.py            writes the page
python docs/generate_passes.py --check    exits with 1 when the page is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

from table_page import with_table, write_or_check

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
    return with_table(text, HEAD, map(row, TABLE))


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page(PAGE.read_text())}, __doc__))
