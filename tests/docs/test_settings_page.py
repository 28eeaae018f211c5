"""docs/settings.md says what the list of settings says."""

from __future__ import annotations

import generate_settings as settings


def test_the_page_is_written_from_the_list() -> None:
    text = settings.PAGE.read_text()
    assert settings.page(text) == text


def test_a_line_that_differs_is_written_anew() -> None:
    text = settings.PAGE.read_text()
    assert settings.page(text.replace("| wide vectors |", "| narrow vectors |")) == text
