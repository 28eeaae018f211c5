"""`limited.check(*args)`: compare results with those of `jax.jit`.

How far rounding may move a result is measured by how far that of `jax.jit` moves when the inexact
arguments move by their last digit, up and down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from tracer.compilation.comparison import Check, Evidence
from tracer.compilation.importing import named
from tracer.compilation.statics import Arguments, Statics, joined
from tracer.jax.handover import words_of
from tracer.jax.tracing import jitted_with


def compare(
    function: Callable[..., Any],
    statics: Statics,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    results: Any,
) -> Check:
    """Compare results with those of `jax.jit` of the function on these arguments."""
    jitted = jitted_with(statics, function)
    wanted = jitted(*args, **kwargs)
    moved = []
    for step in (1, -1):
        other_args, other_kwargs = _moved(statics, args, kwargs, step)
        moved.append(_hosts(jitted(*other_args, **other_kwargs)))
    evidence = Evidence(written=_hosts(wanted), moved=moved)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(wanted)]
    outputs = tuple(
        evidence.checked(f"result{path}", position, found)
        for position, (path, found) in enumerate(zip(paths, _hosts(results), strict=True))
    )
    return Check(named(function), outputs, "jax.jit", "tracer or jax.jit is wrong")


def _hosts(tree: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(words_of(leaf)) for leaf in jax.tree.leaves(tree)]


def _moved(statics: Statics, args: tuple[Any, ...], kwargs: dict[str, Any], step: int) -> Arguments:
    """Move the inexact arguments by their last digit."""

    def move(leaf: Any) -> Any:
        x = jax.numpy.asarray(leaf)
        if not jax.numpy.issubdtype(x.dtype, np.inexact):
            return leaf
        return x * (1 + step * float(jax.numpy.finfo(x.dtype).eps))

    dynamic, values = statics.split(args, kwargs)
    return joined(values, len(args), *jax.tree.map(move, dynamic))
