"""Some of many alike cases for the CI; the others are marked `sweep`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def one_in(number: int, names: Iterable[Any], first: int = 0) -> list[Any]:
    """Return names, or tuples of several arguments, as parameters; marked where the CI leaves out.

    `pytest -m peer FOLDER` and `pytest -m "" FOLDER` run all.
    """
    marks = pytest.mark.sweep
    return [
        pytest.param(
            *(name if isinstance(name, tuple) else (name,)),
            marks=marks if (i - first) % number else (),
        )
        for i, name in enumerate(names)
    ]


def in_turn(names: Iterable[Any], kinds: Sequence[Any]) -> list[Any]:
    """Return each name with each kind; the CI takes one kind for each name, in turn."""
    return [
        pytest.param(name, kind, marks=pytest.mark.sweep if (i - j) % len(kinds) else ())
        for i, name in enumerate(names)
        for j, kind in enumerate(kinds)
    ]
