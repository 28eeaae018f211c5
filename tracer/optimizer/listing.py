"""Rows of a report as lines: equal ones once, the first few, and how many more there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

SHOWN = 4
"""Lines of each kind."""


def listed(title: str, rows: Iterable[object], whole: str) -> Iterator[str]:
    """Yield the first lines of a list.

    Parameters
    ----------
    title : str
        What each line begins with.
    rows : iterable
        What is printed, the most important first.
    whole : str
        Where all of them are.
    """
    counts = Counter(map(str, rows))
    more = counts.total()
    for text, times in list(counts.items())[:SHOWN]:
        more -= times
        yield f"{title}: {text}" + (f"  ({times} times)" if times > 1 else "")
    if more:
        yield f"{title}: {more} more, see {whole}"


__all__ = ["SHOWN", "listed"]
