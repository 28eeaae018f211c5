"""What the tests of the optimizer share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tracer.target import Sizes, Target, planned_for


@pytest.fixture
def small_matches() -> Iterator[None]:
    """Let the match passes rewrite arrays of any size, so that graphs stay small enough to read."""
    with planned_for(Target(sizes=Sizes(match_elements=1))):
        yield
