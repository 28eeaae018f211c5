"""docs/jax-names.md says what is here."""

from __future__ import annotations

import re

import generate_names as names
import pytest

ROW = re.compile(r"^\| `(\w+)` \| `(tracer\.[\w.]+)` \|$", re.MULTILINE)


def test_what_the_page_says_is_here_is_here() -> None:
    rows = ROW.findall(names.PAGE.read_text())
    assert len(rows) > 800
    absent = []
    for _, place in rows:
        module, _, name = place.rpartition(".")
        if not hasattr(names.our_module(module), name):
            absent.append(place)
    assert not absent, "run docs/generate_names.py"


def test_the_page_is_written_from_the_modules() -> None:
    jax = pytest.importorskip("jax")
    text = names.PAGE.read_text()
    if f"from jax {jax.__version__}" not in text:
        pytest.skip("the page was made from another version of jax")
    assert names.page() == text, "run docs/generate_names.py"
