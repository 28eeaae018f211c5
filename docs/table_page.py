"""Pages of docs/ with a table that is written from the code: written anew, or checked."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path


def with_table(text: str, head: Sequence[str], rows: Iterable[str]) -> str:
    """Return a page's text with its table, the first one with this head's first cell, anew."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {head[0]} |"))
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    table = [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows]
    return "\n".join([*lines[:start], *table, *lines[end:]]) + "\n"


def write_or_check(path: Path, text: str, description: str | None) -> int:
    """Write a page; with --check return 1 where it is out of date, and write nothing."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        return 0 if path.read_text() == text else 1
    path.write_text(text)
    return 0
