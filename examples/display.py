"""A table on standard output and a progress line on standard error, with or without rich."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Sequence


class Progress:
    """One line that says what is going on: rewritten on a terminal, one line each in a log."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()

    def say(self, text: str) -> None:
        """Show what begins now."""
        print(f"\r\033[K{text}" if self._is_terminal else text, end="", file=sys.stderr)
        print("", end="" if self._is_terminal else "\n", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self._is_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; a cell may have several lines.

    Parameters
    ----------
    title : str
        Printed above.
    header : sequence of str
        One for each column; the columns after the first are aligned to the right.
    rows : sequence of sequence of str
        The cells.
    """
    if sys.stdout.isatty() and importlib.util.find_spec("rich") is not None:
        _print_with_rich(title, header, rows)
    else:
        print("\n".join([title, "", *plain_table(header, rows)]))


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = (header, ("---",) * len(header), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table of aligned text."""
    blocks = [[cell.splitlines() or [""] for cell in row] for row in (header, *rows)]
    widths = [
        max(len(line) for cell in column for line in cell) for column in zip(*blocks, strict=True)
    ]
    lines = []
    for block in blocks:
        for parts in itertools.zip_longest(*block, fillvalue=""):
            first, *others = zip(parts, widths, strict=True)
            cells = [first[0].ljust(first[1]), *(part.rjust(width) for part, width in others)]
            lines.append("  ".join(cells).rstrip())
        if block is blocks[0]:
            lines.append("-" * (sum(widths) + 2 * len(widths) - 2))
        elif len(block[0]) > 1:
            lines.append("")
    return lines


def _print_with_rich(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, show_lines=True)
    for position, name in enumerate(header):
        table.add_column(name, justify="right" if position else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)
