"""Functions that compute what others do, by another graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tracer import tree
from tracer.array.dispatch import apply_graph
from tracer.array.trace import trace
from tracer.array.weak import as_given
from tracer.ir import Graph

P = ParamSpec("P")
R = TypeVar("R")


def rewritten(fun: Callable[P, R], rewrite: Callable[[Graph], Graph]) -> Callable[P, R]:
    """Return a function that traces `fun`, and applies its graph as `rewrite` makes it."""

    @functools.wraps(fun)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        traced = trace(fun, args, kwargs, writes="refuse")
        given = [as_given(leaf) for leaf in tree.leaves((args, kwargs))]
        result: R = traced.result(apply_graph(rewrite(traced.graph), [*given, *traced.captured]))
        return result

    return run


__all__ = ["rewritten"]
