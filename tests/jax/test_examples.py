"""The examples in the docstrings of tracer.jax, which only a machine with JAX can run."""

from __future__ import annotations

import doctest

import pytest

pytest.importorskip("jax")

from tracer.jax import imported, limited


@pytest.mark.parametrize("module", [imported, limited], ids=lambda module: module.__name__)
def test_examples(module) -> None:
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 3
    assert found.failed == 0
