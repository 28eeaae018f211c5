"""The plan says where 64-bit floats enter a program of narrower ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracer
import tracer.numpy as tnp

pytestmark = pytest.mark.xla
POINTS = tracer.ShapeDtype((100, 3), "float32")


def scaled(x: Any) -> Any:
    weights = tnp.ones(3)
    return tnp.sin(x) * weights


def counted(x: Any) -> Any:
    return x * tnp.arange(3)


def in_a_loop(x: Any) -> Any:
    return tracer.scan(lambda total, row: (total, row * tnp.ones(3)), 0, x)[1]


WIDE = {
    scaled: "float32[100,3] meets float64[3]",
    counted: "float32[100,3] meets float64[3]",
    in_a_loop: "float32[3] meets float64[3]",
}


@pytest.mark.parametrize("function", WIDE, ids=lambda function: function.__name__)
def test_the_line_is_named(function: Callable[..., Any]) -> None:
    plan = tracer.compile(function).plan(POINTS)
    (note,) = (note for note in plan.notes if "enters" in note)
    assert note.startswith("float64 enters at test_wide_floats.py:")
    assert note.endswith(WIDE[function])
    assert note in str(plan)


NARROW: dict[str, Callable[[Any], Any]] = {
    "python numbers": lambda x: tnp.exp(x) * 0.5 + 1,
    "asked for": lambda x: x.astype("float64").sum(),
    "within a line": lambda x: (x * tnp.ones(3)).astype("float32"),
    "a function that computes so": lambda x: tnp.histogram(x)[0],
    "a number": lambda x: x.sum() * tnp.ones(3),
}


@pytest.mark.parametrize("function", NARROW.values(), ids=NARROW)
def test_what_is_not_meant(function: Callable[..., Any]) -> None:
    assert tracer.compile(function).plan(POINTS).notes == ()


def test_all_wide_programs_have_no_note() -> None:
    assert tracer.compile(scaled).plan(tracer.ShapeDtype((100, 3), "float64")).notes == ()
