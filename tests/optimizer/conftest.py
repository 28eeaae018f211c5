"""What the tests of the optimizer share."""

from __future__ import annotations

import pytest

from tracer.optimizer.rewrite.match import contraction, unroll


@pytest.fixture
def small_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the match passes rewrite arrays of any size, so that graphs stay small enough to read."""
    monkeypatch.setattr(contraction, "MINIMUM_ELEMENTS", 1)
    monkeypatch.setattr(unroll, "MINIMUM_ELEMENTS", 1)
