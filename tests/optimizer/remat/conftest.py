"""Programs with a limit and without one are compared here: the same library multiplies in both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tracer.lowering.settings import without


@pytest.fixture(autouse=True)
def one_library() -> Iterator[None]:
    """Leave products to YNNPACK: Eigen packs more, and rounds otherwise."""
    with without("products by Eigen"):
        yield
