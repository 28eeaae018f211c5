"""docs/settings.md says what the list of settings says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("settings", ROOT / "docs" / "generate_settings.py")
assert _SPEC is not None
assert _SPEC.loader is not None
PAGES = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(PAGES)


def test_the_page_is_written_from_the_list() -> None:
    text = PAGES.PAGE.read_text()
    assert PAGES.page(text) == text


def test_a_line_that_differs_is_written_anew() -> None:
    text = PAGES.PAGE.read_text()
    assert PAGES.page(text.replace("| wide vectors |", "| narrow vectors |")) == text
