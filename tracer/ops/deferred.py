"""Functions of SciPy that are imported when one is first called: SciPy takes a fifth of our import.

Programs that XLA runs need none of them; they evaluate single ops, and constants.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def of_scipy(name: str) -> Callable[..., Any]:
    """Return a function by the name of its module and its own, as "special.erf"."""
    module, function = name.split(".")

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(f"scipy.{module}"), function)(*arguments, **options)

    return call


__all__ = ["of_scipy"]
