"""Write the table of docs/settings.md from `tracer.lowering.settings.SETTINGS`.

python docs/generate_settings.py            writes the page
python docs/generate_settings.py --check    exits with 1 when the page is out of date
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

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
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| setting |"))
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    rows = map(row, SETTINGS.values())
    table = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|", *rows]
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
