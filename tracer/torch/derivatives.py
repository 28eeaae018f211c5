"""Derivatives by torch's own rules, traced; each op gets the line of the one that it belongs to."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx.traceback import set_stack_trace


class _State(threading.local):
    is_backward = False


_STATE = _State()


def is_backward() -> bool:
    """Tell whether torch goes backward in this thread for us."""
    return _STATE.is_backward


@contextmanager
def recording_lines() -> Iterator[None]:
    """Have torch remember where each op was called, and record gradients."""
    with torch.enable_grad(), torch.autograd.detect_anomaly(check_nan=False):
        yield


def gradients(
    outputs: Sequence[torch.Tensor],
    targets: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor] | None = None,
) -> tuple[torch.Tensor | None, ...]:
    """Return the gradients by some tensors; None for those that are not used."""
    outputs = [x for x in outputs if x.requires_grad]
    if not outputs or not targets:
        return (None,) * len(targets)
    _give_lines(outputs)
    _STATE.is_backward = True
    try:
        found = torch.autograd.grad(outputs, targets, cotangents, allow_unused=True)
    finally:
        _STATE.is_backward = False
    return tuple(found)


def _give_lines(outputs: Sequence[torch.Tensor]) -> None:
    """Before each step backward, say which line it belongs to."""
    waiting: list[Any] = [x.grad_fn for x in outputs]
    seen: set[Any] = {None}
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        lines = node.metadata.get("traceback_")
        if lines:
            node.register_prehook(_line_setter(lines))
        waiting += [other for other, _ in node.next_functions]


def _line_setter(lines: list[str]) -> Any:
    def set_line(_: Any) -> None:
        set_stack_trace(lines)

    return set_line
