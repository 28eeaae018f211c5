"""A function of a script, and the types of its arguments, from the command line."""

from __future__ import annotations

import inspect
import re
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracer.errors import ArgumentError
from tracer.ir import ShapeDtype, as_dtype

_MOST_DIGITS = 1000
_TYPE = re.compile(r"([a-z]\w*)(?:\[([\d,\s]*)\])?")
_SHORT = {
    "pred": "bool",
    "bf16": "bfloat16",
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"{letter}{bits}": f"int{bits}" for letter in "is" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"c{bits}": f"complex{bits}" for bits in (64, 128)},
}
"""XLA's short names of dtypes."""


def is_script(text: str) -> bool:
    """Tell whether a word of the command line is SCRIPT.py:FUNCTION."""
    return ".py:" in text


def load_function(text: str) -> Callable[..., Any]:
    """Run a script, not as the main program, and return a function of it.

    Parameters
    ----------
    text : str
        SCRIPT.py:FUNCTION. Of a compiled function the function that was compiled is taken.

    Raises
    ------
    ArgumentError
        There is no such file, or no such function in it.
    """
    path, _, name = text.rpartition(":")
    if not Path(path).is_file():
        raise ArgumentError(
            f"there is no script {path!r}",
            mend="write PATH/SCRIPT.py:FUNCTION, as in model.py:loss",
        )
    names = runpy.run_path(path, run_name="__tracer__")
    found = names.get(name)
    if not callable(found):
        functions = [key for key, value in names.items() if _is_own(value)]
        raise ArgumentError(
            f"{path} has no function {name!r}",
            mend=f"it has {', '.join(functions)}" if functions else "define one at the top level",
        )
    function: Callable[..., Any] = getattr(found, "__wrapped__", found)
    return function


def _is_own(value: Any) -> bool:
    return callable(value) and getattr(value, "__module__", None) == "__tracer__"


def check_arguments(function: Callable[..., Any], types: Sequence[ShapeDtype]) -> None:
    """Raise unless a function takes so many arguments.

    Raises
    ------
    ArgumentError
        It takes more or fewer.
    """
    signature = inspect.signature(function)
    try:
        signature.bind(*types)
    except TypeError as error:
        raise ArgumentError(
            f"{function.__name__}{signature}: {error}",
            mend='give a type for each argument, such as --args "f32[20000,3]" "f32[]"',
        ) from error


def parse_type(text: str) -> ShapeDtype:
    """Read the type of an array, such as "f32[20000,3]" or "float64[]".

    Raises
    ------
    ArgumentError
        It is none.

    Examples
    --------
    >>> parse_type("f32[20000,3]"), parse_type("int64")
    (ShapeDtype((20000, 3), 'float32'), ShapeDtype((), 'int64'))
    """
    found = _TYPE.fullmatch(text.strip())
    if found is None:
        raise ArgumentError(
            f"{text!r} is no type of an array",
            mend='write a dtype and a shape, such as "f32[20000,3]" or "float64[]"',
        )
    sizes = [size.strip() for size in (found[2] or "").split(",") if size.strip()]
    if any(len(size) > _MOST_DIGITS for size in sizes):
        raise ArgumentError(f"{text[:80]!r}... has a size of too many digits", mend="give less")
    return ShapeDtype(tuple(map(int, sizes)), as_dtype(_SHORT.get(found[1], found[1])))


def sample_arguments(types: Sequence[ShapeDtype]) -> list[np.ndarray[Any, Any]]:
    """Return arrays of the types to try a program with: normal numbers, integers from 0 to 9."""
    rng = np.random.default_rng(0)
    return [_sample(rng, type) for type in types]


def _sample(rng: np.random.Generator, type: ShapeDtype) -> np.ndarray[Any, Any]:
    if type.dtype.kind in "biu":
        return rng.integers(0, 2 if type.dtype.kind == "b" else 10, type.shape).astype(type.dtype)
    numbers: np.ndarray[Any, Any] = rng.normal(size=type.shape)
    return numbers.astype(type.dtype)


__all__ = ["check_arguments", "is_script", "load_function", "parse_type", "sample_arguments"]
