"""Names and lines of anybody's choosing come into no report as they are: a terminal would obey."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import TracerError, printable

FILE = "a\x1b[31m\x07\u202e<script>alert(1)</script>\n.py"
CODE = """
def kernel(x):
    return (tnp.exp(x[:, None] - x) @ tnp.exp(x)) # \x1b[2J </script><!--<script><img src=x>
def wrong(x):
    return x @ tnp.ones(77)  # \x1b[2J
"""


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return functions of such a file, one of them with such a name."""
    names: dict[str, Any] = {"tnp": tnp}
    exec(compile(CODE, FILE, "exec"), names)
    monkeypatch.setitem(linecache.cache, FILE, (len(CODE), None, CODE.splitlines(True), FILE))
    names["kernel"].__name__ = "k\x1b[31m\n<b>"
    return names


def is_plain(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.xla
def test_plans_pages_and_graphs(functions: dict[str, Any], tmp_path: Path) -> None:
    compiled = tracer.compile(functions["kernel"], memory_limit="1MB")
    x = np.ones(3000)
    plan = compiled.plan(x)
    plan.save(tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text()
    for text in (str(plan), page, str(compiled.graph(x)), repr(compiled), compiled.stablehlo(x)):
        assert is_plain(text), text
    assert "\\x1b[2J" in str(plan)  # it is shown, but not obeyed
    assert re.findall(r"<script|<!--|<img", page) == ["<script", "<script"]  # its own


@pytest.mark.parametrize(
    "work",
    [
        lambda f: tracer.compile(f["wrong"])(np.ones(3)),
        lambda f: tracer.compile(f["kernel"], memory_limit="1kB")(np.ones(3000)),
        lambda f: tracer.compile(f["kernel"], memory_limit="\x1b[31m4GB")(np.ones(3)),
        lambda f: tracer.open(FILE),
        lambda f: tnp.ones(3, dtype="\x1b[31m"),
        lambda f: tnp.asarray({"\x1b": 1}),
    ],
)
def test_errors(work: Callable[[dict[str, Any]], Any], functions: dict[str, Any]) -> None:
    with pytest.raises(TracerError) as caught:
        work(functions)
    assert is_plain(str(caught.value)), str(caught.value)


def test_what_may_be_printed_stays() -> None:
    for text in ("x = 'grün' # 数", "a  b"):
        assert printable(text) == text
    assert printable("a\tb\x00\ud800\xa0") == "a\\tb\\x00\\ud800\\xa0"
