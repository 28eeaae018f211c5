"""The programs that were wrong once, each compiled in every way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.check import CONFIGS, check
from tests.fuzz.program import parse

pytestmark = pytest.mark.xla
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.txt"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_program_is_right(path: Path) -> None:
    verdict = check(parse(path.read_text()), CONFIGS)
    assert not verdict.failures, "\n".join(map(str, verdict.failures))
    assert not any(note.startswith("refused") for note in verdict.notes), verdict.notes
