"""Tracebacks of our errors have the user's frames, and none of the package's."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import FULL_TRACEBACK, ShapeError, TracerError

PACKAGE = str(Path(tracer.__file__).parent)
pytestmark = pytest.mark.xla

X, W = np.ones((5, 3), np.float32), np.ones((4, 2), np.float32)


def wrong(x: Any, w: Any = W) -> Any:
    return (x @ tnp.asarray(w)).sum()


CALLS: dict[str, Callable[[], Any]] = {
    "a compiled call": lambda: tracer.compile(wrong)(X),
    "by name": lambda: tracer.compile(wrong)(x=X),
    "a plan": lambda: tracer.compile(wrong, memory_limit="1MB").plan(X),
    "a check": lambda: tracer.compile(wrong).check(X),
    "text": lambda: tracer.compile(wrong).stablehlo(X),
    "compiled in compiled": lambda: tracer.compile(tracer.compile(wrong))(X),
    "grad": lambda: tracer.grad(wrong)(X),
    "hessian": lambda: tracer.hessian(wrong)(X),
    "vmap of grad": lambda: tracer.vmap(tracer.grad(wrong))(X[None]),
    "vjp": lambda: tracer.vjp(wrong, X),
    "jvp": lambda: tracer.jvp(wrong, (X,), (X,)),
    "checkpoint": lambda: tracer.checkpoint(wrong)(X),
    "scan": lambda: tracer.scan(lambda c, x: (c, wrong(x)), 0, X[None]),
    "cond": lambda: tracer.cond(True, wrong, lambda x: x.sum(), X),
    "while_loop": lambda: tracer.while_loop(lambda x: wrong(x) > 0, lambda x: x, X),
    "map": lambda: tracer.map(wrong, X[None]),
}


def frames(call: Callable[[], Any]) -> list[str]:
    """Return the files of the traceback of a call that fails."""
    with pytest.raises(ShapeError, match="do not fit") as caught:
        call()
    return [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]


@pytest.mark.parametrize("name", CALLS)
def test_no_frame_is_ours(name: str) -> None:
    files = frames(CALLS[name])
    assert not [file for file in files if file.startswith(PACKAGE)]
    assert files[-1] == __file__, "the line that is to be mended comes last"


def test_they_are_there_for_those_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FULL_TRACEBACK, "1")
    assert any(file.startswith(PACKAGE) for file in frames(CALLS["vmap of grad"]))
    monkeypatch.setenv(FULL_TRACEBACK, "0")
    assert not any(file.startswith(PACKAGE) for file in frames(CALLS["vmap of grad"]))


def test_a_limit_that_cannot_be_met_names_the_call() -> None:
    with pytest.raises(tracer.MemoryLimitError) as caught:
        tracer.compile(lambda x: x + 1, memory_limit=10)(X)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert files == [__file__]


def test_what_caused_an_error_stays_with_it() -> None:
    def converted(x: Any) -> Any:
        try:
            return wrong(x)
        except ShapeError as error:
            raise TracerError("no", mend="give others") from error

    with pytest.raises(TracerError) as caught:
        tracer.grad(converted)(X)
    assert isinstance(caught.value.__cause__, ShapeError)


def test_other_errors_keep_their_frames() -> None:
    """A bug of ours has to be seen."""

    def failing(x: Any) -> Any:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine") as caught:
        tracer.grad(failing)(X)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert any(file.startswith(PACKAGE) for file in files)
