"""Arguments belong to the caller: nothing that is compiled for them keeps them in memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp


def step(state: Any, x: Any) -> Any:
    return state * 0.9 + (x @ x).sum()


WAYS: dict[str, Callable[[], Callable[..., Any]]] = {
    "compiled": lambda: tracer.compile(step),
    "with a limit": lambda: tracer.compile(step, memory_limit="8MB"),
    "gradient": lambda: tracer.compile(tracer.grad(lambda s, x: step(s, x).sum())),
    "for any size": lambda: tracer.bucket(step, axes=(0, None), sizes=(64, 256)),
    "eager": lambda: step,
    "eager gradient": lambda: tracer.grad(lambda s, x: step(s, x).sum()),
}


PLANNED = [(way, True) for way in WAYS if not way.startswith("eager")]


@pytest.mark.xla
@pytest.mark.parametrize(("way", "planned"), [*[(way, False) for way in WAYS], *PLANNED])
def test_arguments_are_freed_when_the_caller_drops_them(way: str, planned: bool) -> None:
    run = WAYS[way]()
    state = tnp.asarray(np.ones((200, 200), np.float32))
    buffer = weakref.ref(state._buffer)
    if planned:
        assert run.plan(state, state).minimum_bytes > 0
    results = run(state, state)
    del state
    gc.collect()
    assert buffer() is None
    assert results is not None
