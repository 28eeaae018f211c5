"""JAX as it starts, with 32 bits, whatever other tests of the process have set."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _as_it_starts() -> Iterator[None]:
    if importlib.util.find_spec("jax") is None:
        yield
        return
    import jax

    with jax.enable_x64(False):
        yield
