"""Environment variables that a library reads while it is loaded, and that are gone afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def temporary_variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables while the block runs; what the user has set stays as it is.

    Child processes would inherit what is left behind. The environment is one for all threads: those
    that look while the block runs see the variables.
    """
    ours = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
