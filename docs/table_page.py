"""What is written from the code, pages of docs/ and lists of exports: written anew, or checked."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def with_table(text: str, head: Sequence[str], rows: Iterable[str]) -> str:
    """Return a page's text with its table, the first one with this head's first cell, anew."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {head[0]} |"))
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    table = [f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows]
    return "\n".join([*lines[:start], *table, *lines[end:]]) + "\n"


def write_or_check(texts: Mapping[Path, str], description: str | None) -> int:
    """Write files; with --check return 1 where one is out of date, and write nothing."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        return int(any(path.read_text() != text for path, text in texts.items()))
    for path, text in texts.items():
        path.write_text(text)
    return 0
