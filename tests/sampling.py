"""Some of many alike cases for the CI; the others are marked `sweep`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(number: int, names: Iterable[Any], first: int = 0) -> list[Any]:
    """Return names as parameters, those that the CI leaves out with a mark.

    `pytest -m peer FOLDER` and `pytest -m "" FOLDER` run all.
    """
    marks = pytest.mark.sweep
    return [
        pytest.param(name, marks=marks if (i - first) % number else ())
        for i, name in enumerate(names)
    ]
