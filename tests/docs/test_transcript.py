"""docs/what-you-see.md shows the mistakes as they are, and what they print."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.xla
@pytest.mark.process
def test_the_page_shows_what_the_mistakes_print() -> None:
    spec = importlib.util.spec_from_file_location(
        "generate_transcript", ROOT / "docs" / "generate_transcript.py"
    )
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    text = generator.PAGE.read_text()
    blocks = dict(re.findall(r"<!-- run: (\S+) -->\n(.*?)<!-- end -->", text, re.DOTALL))
    mistakes = {path.stem for path in generator.MISTAKES.glob("*.py")}
    assert set(blocks) == {*mistakes, *generator.COMMANDS}
    for name in mistakes:
        # Byte counts depend on the machine's cores, and how a line is marked on Python.
        shown, printed = (_without_numbers(x) for x in (blocks[name], generator.mistake(name)))
        assert shown == printed, name


def _without_numbers(text: str) -> str:
    lines = [line for line in text.splitlines() if set(line) - set(" ^~")]
    return re.sub(r"\d+(\.\d+)?( [kMG]?B)?", "0", "\n".join(lines))
