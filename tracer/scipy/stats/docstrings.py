"""What the parameters of a distribution's functions are, said once for all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])
_WORDS = {"x": "Where.", "k": "Where.", "q": "Probabilities."}
_PLACES = ("loc", "scale")


def parameters(**shapes: str) -> Callable[[_Function], _Function]:
    """Return a decorator that writes the parameters under a function's summary.

    Parameters
    ----------
    **shapes : str
        What the distribution's own parameters mean, by name.
    """
    words = {**_WORDS, **shapes}

    def described(function: _Function) -> _Function:
        names = list(inspect.signature(function).parameters)
        entries = [(name, words[name]) for name in names if name not in _PLACES]
        places = [name for name in _PLACES if name in names]
        entries.append((", ".join(places), "Shift and scale." if len(places) > 1 else "Shift."))
        lines = [f"{name} : array_like\n    {meaning}" for name, meaning in entries]
        summary = inspect.cleandoc(function.__doc__ or "")
        function.__doc__ = "\n".join([summary, "", "Parameters", "-" * 10, *lines, ""])
        return function

    return described
