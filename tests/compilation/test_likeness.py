"""Which results are taken to return as which arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tracer.compilation.returned_arguments import returned_arguments
from tracer.compilation.signature import read_call
from tracer.compilation.statics import Statics


def pairs(function: Callable[..., Any], *args: Any, donated: Any = (), **kwargs: Any) -> Any:
    call = read_call(function, Statics(), args, kwargs)
    return returned_arguments(call, donated)


A, B = np.ones(3), np.ones((2, 3))
STATE = {"m": {"w": A, "v": A}, "p": {"w": A, "v": A}}


@pytest.mark.parametrize(
    ("function", "args", "donated", "wanted"),
    [
        (lambda w, b, x: (w + 1, b + x), (B, A, 2.0), (), {0: 0, 1: 1}),
        # In another order, with a loss in front that no argument is like.
        (lambda w, b: (b.sum(), b * 2, w * 2), (B, A), (), {1: 1, 2: 0}),
        # One array and data of the same type: the first, or the one that is donated.
        (lambda x, w: w + x, (A, A), (), {0: 0}),
        (lambda x, w: w + x, (A, A), (1,), {0: 1}),
        # The place in the containers decides: leaves are m.v, m.w, p.v, p.w.
        (lambda s: {"p": s["m"], "m": s["p"]}, (STATE,), (), {0: 0, 1: 1, 2: 2, 3: 3}),
        (lambda p, m: ({"m": m}, p), (STATE["p"], STATE["m"]), (), {0: 0, 1: 1, 2: 2, 3: 3}),
        (lambda p, q: (q, {"w": p["v"]}), ({"v": A}, {"w": A}), (), {0: 0, 1: 1}),
        # Another dtype or shape is another array; there may be fewer arguments than results.
        (lambda x: (x > 0, x[None]), (A,), (), {}),
        (lambda x: (x, x + 1), (A,), (), {0: 0}),
    ],
)
def test_results_are_paired(function: Any, args: Any, donated: Any, wanted: Any) -> None:
    assert pairs(function, *args, donated=donated) == wanted


def test_keywords_are_arguments_too() -> None:
    found = pairs(lambda *, x, state: ({"x": x}, {"state": state}), x=A, state=A)
    assert found == {0: 1, 1: 0}  # keywords are in the order of their names


def test_many_leaves_of_one_type() -> None:
    layers = [{"w": A, "b": A} for _ in range(300)]
    found = pairs(lambda p, q: (q, p), layers, layers)
    assert found == {i: i for i in range(1200)}
