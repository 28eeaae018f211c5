"""Ctrl-C while a program waits for a routine of NumPy or SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tracer.lowering.emit import numpy_routines


def assert_ends_the_call(
    monkeypatch: pytest.MonkeyPatch, routine: str, program: Callable[[Any], Any], x: Any
) -> None:
    """Check that an interrupt inside of a routine is raised, and that the next call is right."""
    wanted = program(x)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(numpy_routines._ROUTINES, routine, interrupted)
        with pytest.raises(KeyboardInterrupt):
            program(x)
    np.testing.assert_array_equal(program(x), wanted)
