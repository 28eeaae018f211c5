"""Guess which results of a function are passed back to it as arguments, as in a training loop.

A function does not say so. A result is matched with an argument of its type: donated arguments
first, then those at the most similar position in their containers, then in order.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Collection, Sequence

from tracer import tree
from tracer.compilation.signature import Call
from tracer.ir import ShapeDtype

_STEP = re.compile(r"\[.*?\]|\.\w+")
Leaf = tuple[ShapeDtype, tuple[str, ...]]
"""A type, and the steps to it from the outermost container."""


def returned_arguments(call: Call, donated: Collection[int]) -> dict[int, int]:
    """Return the position of the argument for each result that is taken to return as one.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> from tracer.compilation.signature import read_call
    >>> from tracer.compilation.statics import Statics
    >>> def step(state, x):
    ...     return x.sum(), {"a": state["a"] + x, "b": state["b"] * x}
    >>> call = read_call(step, Statics(), ({"b": tnp.ones(3), "a": tnp.ones(3)}, tnp.ones(3)), {})
    >>> returned_arguments(call, ())
    {1: 0, 2: 1}
    """
    arguments = _leaves(call.structure, call.types)
    results = _leaves(call.traced.out_tree, call.traced.graph.output_types)
    found: dict[int, int] = {}
    for chosen in (donated, range(len(arguments))):
        _match(arguments, results, chosen, found)
    return dict(sorted(found.items()))


def _leaves(structure: tree.Structure, types: Sequence[ShapeDtype]) -> list[Leaf]:
    paths = tree.flatten_with_paths(tree.unflatten(structure, types))[0]
    return [(type, tuple(_STEP.findall(path))) for type, path in zip(types, paths, strict=True)]


def _match(
    arguments: Sequence[Leaf],
    results: Sequence[Leaf],
    chosen: Collection[int],
    found: dict[int, int],
) -> None:
    """Pair what is left: the longer the steps that both end with, the earlier."""
    longest = max((len(steps) for _, steps in arguments), default=0)
    for length in range(longest, -1, -1):
        taken = set(found.values())
        waiting = defaultdict[Leaf, deque[int]](deque)
        for position in chosen:
            type, steps = arguments[position]
            if position not in taken and len(steps) >= length:
                waiting[type, steps[len(steps) - length :]].append(position)
        for number, (type, steps) in enumerate(results):
            if number in found or len(steps) < length:
                continue
            like = waiting.get((type, steps[len(steps) - length :]))
            if like:
                found[number] = like.popleft()
