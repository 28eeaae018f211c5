"""The exceptions of the package. Each says what happened, where, and how to fix it.

An error is also the builtin that NumPy would raise at that point (`ShapeError` is a `ValueError`),
so code written for NumPy still catches it.
"""

from __future__ import annotations

import enum
import functools
import importlib.util
import inspect
import linecache
import os
import sys
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import optree

LIBRARIES = tuple(
    os.path.dirname(os.path.abspath(found.origin)) + os.sep
    for found in map(importlib.util.find_spec, ("numpy", "scipy"))
    if found is not None and found.origin is not None
)
"""Their functions call back, and their errors are about arguments that they were given."""

# Users can mend only their own lines: frames of the package, of optree and of these parts of the
# standard library are passed over.
_HIDDEN = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    os.path.dirname(os.path.abspath(optree.__file__)) + os.sep,
    os.path.dirname(os.path.abspath(functools.__file__)) + os.sep + "functools.py",
    os.path.dirname(os.path.abspath(functools.__file__)) + os.sep + "contextlib.py",
    os.path.dirname(os.path.abspath(functools.__file__)) + os.sep + "threading.py",
    os.path.dirname(os.path.abspath(enum.__file__)) + os.sep + "enum.py",
    "<frozen",
    *LIBRARIES,
)


def printable(text: str) -> str:
    """Return a line with its control characters escaped: a terminal would obey them.

    Names of files and functions, and the user's lines, are of anybody's choosing.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Source(NamedTuple):
    """A place in the user's code; every node of a graph and every error has one."""

    file: str
    line: int
    function: str

    @property
    def place(self) -> str:
        """The file's name and the line's number."""
        return f"{printable(os.path.basename(self.file))}:{self.line}"

    @property
    def text(self) -> str:
        """What the line says."""
        return printable(linecache.getline(self.file, self.line).strip())

    def __str__(self) -> str:
        place, text = f"{self.place} in {printable(self.function)}", self.text
        return f"{place}: {text}" if text else place


@functools.lru_cache(maxsize=4096)
def is_ours(filename: str) -> bool:
    """Tell whether a file is of the package, or of a library that it uses."""
    return filename.startswith(_HIDDEN)


def is_users(frame: FrameType) -> bool:
    """Tell whether a frame is not the package's, nor of a library that it calls through."""
    filename = frame.f_code.co_filename
    # The methods of dataclasses have no file, only the package's globals.
    is_method = filename == "<string>" and is_ours(frame.f_globals.get("__file__") or "")
    return not is_method and not is_ours(filename)


def user_source() -> Source | None:
    """Return the innermost frame that belongs to the user, or None when there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users(frame):
            return Source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None


FULL_TRACEBACK = "TRACER_FULL_TRACEBACK"
"""Set in the environment, it keeps the package's frames in the tracebacks of its errors."""


def shorten(error: TracerError) -> None:
    """Take the package's frames out of an error's traceback: users cannot mend these lines."""
    if os.environ.get(FULL_TRACEBACK, "0") not in ("", "0"):
        return
    kept, found = None, error.__traceback__
    steps = []
    while found is not None:
        steps.append(found)
        found = found.tb_next
    for step in reversed(steps):
        if is_users(step.tb_frame):
            kept = TracebackType(kept, step.tb_frame, step.tb_lasti, step.tb_lineno)
    error.__traceback__ = kept


P = ParamSpec("P")
R = TypeVar("R")


def with_short_traceback(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function whose errors have no frames of the package but its own."""

    @functools.wraps(function)
    def short(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TracerError as error:
            shorten(error)
            raise

    return short


def shown(value: object) -> str:
    """Return a value as an error shows it: short, and on one line."""
    text = " ".join(repr(value).split())
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{text} (a {type(value).__name__})"


class TracerError(Exception):
    """Base of all errors of this package.

    Parameters
    ----------
    what : str
        What went wrong, in one sentence, with the values that matter.
    mend : str
        What the user can write instead.
    where : Source, optional
        The user's line. By default the innermost user frame at the time of the error.
    """

    def __init__(self, what: str, *, mend: str, where: Source | None = None) -> None:
        self.what = what
        self.mend = mend
        self.where = where if where is not None else user_source()
        super().__init__(what)

    def __str__(self) -> str:
        lines = self.what.split("\n")
        if self.where is not None:
            lines.append(f"  where: {self.where}")
        lines += f"  mend:  {self.mend}".split("\n")
        return "\n".join(map(printable, lines))

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions come back from pickles through their positional arguments alone; without
        # this, an error in a worker process would break the pool that it is reported through.
        known = inspect.signature(type(self)).parameters
        given = {name: value for name, value in vars(self).items() if name in known}
        return functools.partial(type(self), **given), (), vars(self)


class ShapeError(TracerError, ValueError):
    """Shapes, axes or sizes that do not fit together."""


class AxisError(ShapeError, np.exceptions.AxisError):
    """An axis that the array does not have."""


class DTypeError(TracerError, TypeError):
    """A dtype or an object that the function cannot take."""


class ArgumentError(TracerError, ValueError):
    """An argument whose value makes no sense here (a limit string, a mode, a flag)."""


class RangeError(TracerError, OverflowError):
    """A Python integer that the array's dtype cannot hold."""


class ArrayIndexError(TracerError, IndexError):
    """An index outside of an array, or one that NumPy would not accept either."""


class TracingError(TracerError, TypeError):
    """Something that needs a concrete value was done with a traced one, or a tracer escaped."""


class UnsupportedError(TracerError, NotImplementedError):
    """A program of another library uses something that tracer does not have."""


class MissingNameError(TracerError, AttributeError):
    """A name of another library that has no meaning here; the message gives the reason."""


def missing_name(module: str, name: str, mend: str | None, why: str = "") -> AttributeError:
    """Return the error for a name that a module lacks; `mend` is what to use instead, if known."""
    if mend is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return MissingNameError(f"{module} has no {name}{why}", mend=mend)


class NotDifferentiableError(TracerError, TypeError):
    """The requested gradient does not exist; the message gives the reason."""


class NanError(TracerError, FloatingPointError):
    """An operation made a NaN out of numbers; raised by `tracer.debug.nans` alone."""


class StorageError(TracerError, OSError):
    """An array in storage cannot be read or written: no such file, cut short, changed, no space."""


class GradientCheckError(TracerError, AssertionError):
    """A derivative differs from the finite difference that it was compared with."""


class DonatedArrayError(TracerError, RuntimeError):
    """An array was used after its memory had been donated to a compiled function."""


class DonationWarning(UserWarning):
    """Donated memory is freed after the call, but no result could take it over."""


class UnsoundProgramWarning(UserWarning):
    """XLA made a wrong program of ours, which was seen; it was compiled again in another way."""


class CacheWarning(UserWarning):
    """A file or folder of the cache of compiled programs is of no use; programs are compiled."""


class TensorCopyWarning(UserWarning):
    """A tensor of torch has gaps in its memory and is copied at each call, beside the limit."""


class WideVectorsWarning(UserWarning):
    """The machine's widest vectors compute wrong values, so programs do without them."""


class ExportError(TracerError, BufferError):
    """Memory that cannot be shared with another library as requested."""


class DeviceError(TracerError, RuntimeError):
    """A device that is not there, or arrays on different devices."""


class LinAlgError(TracerError, np.linalg.LinAlgError):
    """A matrix that the decomposition does not accept (singular, not positive definite)."""


class VerifyError(TracerError):
    """A graph that breaks the rules of the intermediate representation: a bug in a pass."""


class LoweringError(TracerError):
    """XLA refused a program that we gave it: a bug of ours or a limit of the backend."""


class ExecutionError(TracerError, RuntimeError):
    """XLA failed while it ran a program (out of memory on the device, for one)."""


class OutOfMemoryError(ExecutionError, MemoryError):
    """The device has less memory than a program needs, by its compiler or when it ran.

    Attributes
    ----------
    plan : Plan or None
        What the program was planned to take.
    """

    def __init__(
        self, what: str, *, mend: str, where: Source | None = None, plan: Any = None
    ) -> None:
        super().__init__(what, mend=mend, where=where)
        self.plan = plan

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.plan is None else f"{text}\n  plan:  {str(self.plan).splitlines()[0]}"


class MemoryBudgetError(TracerError, MemoryError):
    """`tracer.memory_budget` has no room for a call or an array; raised before it runs.

    Attributes
    ----------
    budget_bytes, needed_bytes, array_bytes : int
        What all programs share, what this one needs, and what arrays take.
    """

    def __init__(
        self,
        what: str,
        *,
        mend: str,
        where: Source | None = None,
        budget_bytes: int = 0,
        needed_bytes: int = 0,
        array_bytes: int = 0,
    ) -> None:
        super().__init__(what, mend=mend, where=where)
        self.budget_bytes, self.needed_bytes = budget_bytes, needed_bytes
        self.array_bytes = array_bytes


class MemoryLimitError(TracerError, MemoryError):
    """The byte limit cannot be met; raised before anything runs.

    Attributes
    ----------
    limit_bytes : int
        The requested limit, in bytes.
    minimum_bytes : int
        The smallest limit that the planner can meet for this program, in bytes. Where the limit is
        far below what can be met, it was not searched for: the first access does, which takes
        seconds, and so does pickling.
    minimum_bytes_bounds : tuple of int and (int or None)
        What is known of `minimum_bytes` without a search: (low, high); None where nothing is.
    binding : str
        The tensor in the way: type, op and bytes.
    alive : tuple of str
        The values that are alive together at the peak of the smallest program, the largest first:
        type, op, bytes and the user's line. Arguments are left out.
    changes : tuple of str
        Changes that keep the limit, by prediction: arguments to donate, narrower numbers.
    """

    def __init__(
        self,
        what: str,
        *,
        mend: str,
        limit_bytes: int,
        minimum_bytes: int | Callable[[], int],
        binding: str,
        where: Source | None = None,
        fixed_bytes: int = 0,
        alive: tuple[str, ...] = (),
        changes: tuple[str, ...] = (),
        met_bytes: int | None = None,
    ) -> None:
        super().__init__(what, mend=mend, where=where)
        self.changes = changes
        self._met_bytes = met_bytes
        self.limit_bytes = limit_bytes
        self.binding = binding
        self.fixed_bytes = fixed_bytes
        self.alive = alive
        if callable(minimum_bytes):
            self._find_minimum = minimum_bytes
        else:
            vars(self)["minimum_bytes"] = minimum_bytes

    @functools.cached_property
    def minimum_bytes(self) -> int:
        """The smallest limit that the planner can meet; searched for once, if need be."""
        return self._find_minimum()

    @property
    def minimum_bytes_bounds(self) -> tuple[int, int | None]:
        """What is known of `minimum_bytes` without a search: (low, high)."""
        known = vars(self).get("minimum_bytes")
        return (self.fixed_bytes, self._met_bytes) if known is None else (known, known)

    def __reduce__(self) -> tuple[Any, ...]:
        # A search cannot travel to another process, its answer can.
        assert self.minimum_bytes is not None
        vars(self).pop("_find_minimum", None)
        return super().__reduce__()
