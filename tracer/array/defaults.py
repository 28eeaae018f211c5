"""The dtype of floats that nobody gave one: `tracer.config(default_float=...)`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import numpy as np

from tracer.array.convert import forget_scalars
from tracer.array.dispatch import forget_programs
from tracer.array.promotion import forget_dtypes
from tracer.errors import ArgumentError, TracerError
from tracer.ir import as_dtype
from tracer.ir.types import default_float, set_default_float

_ALLOWED = tuple(map(np.dtype, ("float32", "float64")))
_TOLD: list[Callable[[], None]] = [forget_dtypes, forget_scalars, forget_programs]
"""What has programs or dtypes that were made with the old default.

Dtypes first: other threads may make a program before the last of these is called.
"""


def tell_of_defaults(forget: Callable[[], None]) -> None:
    """Have a function called whenever the default changes."""
    _TOLD.append(forget)


def config(*, default_float: Any = None) -> AbstractContextManager[object]:
    """Set what holds for the whole process.

    Parameters
    ----------
    default_float : {"float32", "float64"}, optional
        The dtype of floats that nobody gave one; float64 at first, as in NumPy, or
        ``TRACER_DEFAULT_FLOAT`` of the environment. With float32, as in JAX:

        - `tnp.zeros(3)`, `tnp.linspace(0, 1, 3)`, `tracer.random.normal(key)`, lists of Python
          floats and the dtypes `float` and `complex` are float32 (complex64);
        - integers beside float32 stay float32, and integers that become floats (`/`, `sqrt`,
          `mean`) become float32.

        NumPy's own arrays and scalars keep their dtypes, as does what names float64.

    Returns
    -------
    context manager
        ``with tracer.config(...):`` takes the settings back at its end.

    Raises
    ------
    ArgumentError
        Another dtype.

    Notes
    -----
    Compiled functions trace again after a change. Threads that trace meanwhile see either default.

    Examples
    --------
    >>> import tracer, tracer.numpy as tnp
    >>> with tracer.config(default_float="float32"):
    ...     tnp.ones(3).dtype, (tnp.arange(3) / 2).dtype
    (dtype('float32'), dtype('float32'))
    >>> tnp.ones(3).dtype
    dtype('float64')
    """
    before = as_dtype(float)
    if default_float is not None:
        _set(_checked(default_float))
    settings = ExitStack()
    settings.callback(_set, before)
    return settings


def read_default_float(text: str) -> None:
    """Set the default that the environment names."""
    _set(_checked(text))


def _checked(dtype: Any) -> np.dtype[Any]:
    try:
        found = as_dtype(dtype)
    except TracerError:
        found = None
    if found is None or found not in _ALLOWED:  # None equals float64 to NumPy.
        raise ArgumentError(
            f"default_float is float32 or float64, not {dtype!r}",
            mend="arrays of other dtypes are made by naming them: tnp.zeros(3, 'bfloat16')",
        )
    return found


def _set(dtype: np.dtype[Any]) -> None:
    if dtype != default_float():
        set_default_float(dtype)
        for forget in _TOLD:
            forget()


__all__ = ["config", "read_default_float", "tell_of_defaults"]
