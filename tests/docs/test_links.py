"""What the documentation points at is there: links, anchors, and paths in backticks."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks" / "results").rglob("*.md")),
]

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
FILE = re.compile(r"`((?:tracer|tests|benchmarks|examples|docs)/[\w./*-]*)(?:::\w+)?`")
ELSEWHERE = ("http://", "https://", "mailto:")


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    seen: Counter[str] = Counter()
    found = set()
    for title in HEADING.findall(FENCE.sub("", page.read_text())):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()
        slug = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page that lead nowhere."""
    text = CODE.sub("", FENCE.sub("", page.read_text()))
    broken = []
    for target in LINK.findall(text):
        if target.startswith(ELSEWHERE):
            continue
        name, _, anchor = target.partition("#")
        place = page.parent / name if name else page
        is_there = place.exists() and (not anchor or anchor in anchors(place))
        broken += [] if is_there else [target]
    return broken


def absent_paths(page: Path, root: Path = ROOT) -> list[str]:
    """Return the paths in backticks that are not in the repository; `*` is a pattern."""
    text = FENCE.sub("", page.read_text())
    return [path for path in FILE.findall(text) if not any(root.glob(path.rstrip("/")))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths(page: Path) -> None:
    assert broken_links(page) == []
    assert absent_paths(page) == []


def test_what_is_not_there_is_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").touch()
    (tmp_path / "other.md").write_text("# Two `words`, twice\n# Two words, twice\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n"
        "[a](other.md) [b](other.md#two-words-twice-1) [c](#here) [d](https://example.org/x)\n"
        "[e](gone.md) [f](other.md#two) [g](#there) `[h](in-code.md)`\n"
        "`tests/test_one.py::test_a` `tests/test_*.py` `tests/` `tracer/gone.py` `tests/no_*.py`\n"
        "```\n# Fenced\n[i](fenced.md) `tracer/fenced.py`\n```\n"
        "[j](#fenced)\n"
    )
    assert broken_links(page) == ["gone.md", "other.md#two", "#there", "#fenced"]
    assert absent_paths(page, tmp_path) == ["tracer/gone.py", "tests/no_*.py"]
