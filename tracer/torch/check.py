"""`limited.check(*args)`: compare results with those of eager torch.

How far rounding may move a result is measured by how far that of torch moves when the inexact
arguments move by their last digit, up and down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from tracer.compilation.comparison import Check, Evidence
from tracer.compilation.importing import named


def compare(
    function: Callable[..., Any],
    limited: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    written: Sequence[torch.Tensor],
) -> Check:
    """Compare results with those of eager torch on the same arguments and random numbers.

    `written` are the tensors that the function closes over and writes to: they are put back.
    """
    state = torch.default_generator.get_state()
    before = [x.detach().clone() for x in written]

    def run(f: Callable[..., Any], step: int) -> Any:
        torch.default_generator.set_state(state)
        moved_args, moved_kwargs = _copied((args, kwargs), step)
        result = f(*moved_args, **moved_kwargs)
        with torch.no_grad():
            for x, old in zip(written, before, strict=True):
                x.copy_(old)
        return result

    found = run(limited, 0)
    wanted = run(function, 0)
    moved = [_hosts(run(function, step)) for step in (1, -1)]
    evidence = Evidence(written=_hosts(wanted), moved=moved)
    paths = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(wanted)]
    outputs = tuple(
        evidence.checked(f"result{path}", position, host)
        for position, (path, host) in enumerate(zip(paths, _hosts(found), strict=True))
    )
    return Check(named(function), outputs, "eager torch", "tracer or torch is wrong")


def _hosts(tree: Any) -> list[np.ndarray[Any, Any]]:
    return [_host(leaf) for leaf in pytree.tree_leaves(tree)]


def _host(leaf: Any) -> np.ndarray[Any, Any]:
    if not isinstance(leaf, torch.Tensor):
        return np.asarray(leaf)
    value = leaf.detach().resolve_conj().resolve_neg()
    return np.asarray(value.float() if value.dtype is torch.bfloat16 else value)


def _copied(tree: Any, step: int) -> Any:
    """Copy tensors, the inexact ones moved by their last digit."""

    def move(x: torch.Tensor) -> torch.Tensor:
        value = x.detach().clone()
        if step and (x.is_floating_point() or x.is_complex()):
            value = value * (1 + step * torch.finfo(x.dtype).eps)
        return value.requires_grad_(x.requires_grad)

    return pytree.tree_map_only(torch.Tensor, move, tree)
