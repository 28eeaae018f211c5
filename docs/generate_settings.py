"""Write the table of docs/settings.md from `tracer.lowering.settings.SETTINGS`.

python docs/generate_settings.py            writes the page
python docs/generate_settings.py --check    exits with 1 when the page is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

from table_page import with_table, write_or_check

from tracer.lowering.settings import SETTINGS, Setting

PAGE = Path(__file__).parent / "settings.md"
HEAD = ("setting", "kind", "XLA's name, or what is stored", "why", "where", "certified by")


def row(setting: Setting) -> str:
    """Return the line of a setting; the test that certifies most of them is not repeated."""
    usual = setting.certified == Setting.certified
    cells = (
        setting.name,
        setting.kind,
        setting.what,
        setting.why,
        setting.acts,
        "" if usual else f"`{setting.certified}`",
    )
    return f"| {' | '.join(cells)} |"


def page(text: str) -> str:
    """Return the text of the page with its table written anew."""
    return with_table(text, HEAD, map(row, SETTINGS.values()))


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page(PAGE.read_text())}, __doc__))
