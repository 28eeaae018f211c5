"""Which argument of a call was wrong: asked only when a call has failed with an error not ours.

Functions check what they read, and many things are read by Python and NumPy: the truth of a flag,
the index of an integer, the items of a sequence. Their errors name no argument. `explained` looks
for one that is not what the signature says, and raises an error of ours that names it. An error
for which it finds none is a fault of the package, and goes on as it is.
"""

from __future__ import annotations

import collections.abc
import functools
import importlib
import inspect
import math
import operator
import os
import sys
import sysconfig
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, SupportsIndex, TypeGuard, TypeVar

import numpy as np
import optree

from tracer.errors import (
    LIBRARIES,
    ArgumentError,
    ArrayIndexError,
    AxisError,
    DTypeError,
    TracerError,
    is_users,
    shorten,
    shown,
)

P = ParamSpec("P")
R = TypeVar("R")

_OPTREE = os.path.dirname(os.path.abspath(optree.__file__)) + os.sep
_STANDARD = sysconfig.get_path("stdlib") + os.sep
_NO_SEQUENCES = (str, bytes, bytearray, Mapping, collections.abc.Set)


def explain(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Let the public functions of a module name the argument that was wrong."""
    done: dict[Any, Any] = {}
    for name in names:
        function = namespace[name]
        # Functions that remember results are no functions to Python.
        if isinstance(function, types.FunctionType) or hasattr(function, "cache_info"):
            if function not in done:
                done[function] = explained(function)
                # Pickles refer to functions by the module in which they are found.
                done[function].__module__ = namespace["__name__"]
            namespace[name] = done[function]


def explained_methods(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a class; methods with public names name the argument that was wrong."""
    return {
        name: explained(member)
        if isinstance(member, types.FunctionType) and not name.startswith("_")
        else member
        for name, member in members.items()
    }


def explained(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that names the argument that was wrong, where Python's error does not.

    What NumPy's function of the name has by default, such as `out=None`, it takes and leaves out.
    The tracebacks of our errors have no frames of the package but its own, as those of
    `errors.with_short_traceback`.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TracerError as error:
            shorten(error)
            raise
        except Exception as error:
            rest = _without_numpys_defaults(run, args, kwargs)
            if rest is None:
                wrong = _explanation(function, args, kwargs, error)
                if wrong is None:
                    raise
                raise wrong from error
        return run(*rest[0], **rest[1])

    return run


def _explanation(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    error: Exception,
) -> TracerError | None:
    """Return what to raise: nothing where the user's own function failed, or we called it."""
    caller: types.FrameType | None = sys._getframe(2)
    while caller is not None and caller.f_code.co_filename == __file__:
        caller = caller.f_back  # Called again, without NumPy's defaults.
    # NumPy's functions come here too, through its protocol.
    if caller is None or not (
        is_users(caller) or caller.f_code.co_name in ("__array_function__", "__array_ufunc__")
    ):
        return None
    if passed_through_the_user(error):
        return None
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return None
    wanted = _annotations(function)
    for name, value in _given(bound):
        kind = wanted.get(name, Any)
        if not is_a(value, kind):
            return DTypeError(
                f"{function.__name__}: {name} is {shown(value)}, which is not {in_words(kind)}",
                mend=f"give {in_words(kind)}",
            )
    return _of_its_values(function.__name__, bound, wanted, error)


_Unfit = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a call."""
_OF_UFUNCS = {
    "out": None,
    "where": True,
    "dtype": None,
    "casting": "same_kind",
    "signature": None,
    "order": "K",
    "subok": True,
}
"""The arguments that all of NumPy's ufuncs take, and their defaults."""
_CONVERT = "convert with astype: what the function is given, or its result"
_INSTEAD = {
    "out": "use the result: arrays are not written in place",
    "where": "choose with tracer.numpy.where(condition, {call}, other)",
    "dtype": _CONVERT,
    "casting": _CONVERT,
    "signature": _CONVERT,
    "order": "leave it out: arrays have no order in memory",
    "subok": "leave it out: arrays have no subclasses",
}
"""What to write for arguments of NumPy's functions that ours do not have."""


def _without_numpys_defaults(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> _Unfit | None:
    """Return a call without what its function does not have and NumPy's has, where that is none.

    Returns
    -------
    tuple and dict, or None
        The arguments to call with; None where the call fits, or not even NumPy's function.

    Raises
    ------
    ArgumentError
        An argument that ours does not have is not NumPy's default.
    """
    own = inspect.signature(function)
    theirs = None if _fits(own, args, kwargs) else _parameters_of_numpy(function)
    if theirs is None:
        return None
    names, defaults = theirs
    kinds = [one.kind for one in own.parameters.values()]
    takes_any = inspect.Parameter.VAR_POSITIONAL in kinds
    room = len(args) if takes_any else sum(kind in _POSITIONAL for kind in kinds)
    late = dict(zip(names[room:], args[room:], strict=False))
    given = {**late, **kwargs}
    if len(args) > max(room, len(names)) or len(given) < len(late) + len(kwargs):
        return None
    extra = [name for name in given if name not in own.parameters]
    if not extra or any(name not in defaults for name in extra):
        return None
    for name in extra:
        if not _is_default(given[name], defaults[name]):
            raise _not_taken(function, name, defaults[name], names[:room])
    return args[:room], {name: given[name] for name in given if name not in extra}


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _fits(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _parameters_of_numpy(
    function: Callable[..., Any],
) -> tuple[list[str], dict[str, Any]] | None:
    """Return NumPy's positional parameters, and all its defaults, for a function of its name."""
    namesake = _namesake(function)
    if isinstance(namesake, np.ufunc):
        # Before NumPy 2.4 ufuncs have no signature.
        operands = [f"x{number + 1}" for number in range(namesake.nin)]
        return [*operands, "out"], _OF_UFUNCS
    try:
        parameters = inspect.signature(namesake).parameters.values()
    except (TypeError, ValueError):
        return None  # There is no such function, or it has no signature.
    return (
        [one.name for one in parameters if one.kind in _POSITIONAL],
        {one.name: one.default for one in parameters if one.default is not one.empty},
    )


def _namesake(function: Callable[..., Any]) -> Any:
    """Return NumPy's ufunc of the name; for what answers NumPy or SciPy, their own."""
    name, place = function.__name__, function.__module__.split(".")[1:]
    ufunc = getattr(np, name, None)
    if isinstance(ufunc, np.ufunc) or not place or place[0] not in ("numpy", "scipy"):
        return ufunc if isinstance(ufunc, np.ufunc) else None
    if "." in function.__qualname__:
        return getattr(np.ndarray, name, None)
    return getattr(importlib.import_module(".".join(place)), name, None)


def _is_default(value: Any, default: Any) -> bool:
    if isinstance(value, tuple) and default is None:
        return all(one is None for one in value)
    if isinstance(default, bool):
        return isinstance(value, bool | np.bool_) and bool(value) is default
    return value is default or (isinstance(value, type(default)) and bool(value == default))


def _not_taken(
    function: Callable[..., Any], name: str, default: Any, operands: list[str]
) -> ArgumentError:
    own, library = function.__name__, "scipy" if ".scipy" in function.__module__ else "numpy"
    call = f"{own}({', '.join('xy'[: len(operands)])})"
    otherwise = f"leave it out, or give {default!r}"
    return ArgumentError(
        f"{own} takes no {name}=, unlike {library}.{own}",
        mend=_INSTEAD.get(name, otherwise).format(call=call),
    )


def _given(bound: inspect.BoundArguments) -> Iterator[tuple[str, Any]]:
    """Yield the arguments, each of several by itself, without keywords that have no annotation."""
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            yield from ((name, one) for one in value)
        elif kind is not inspect.Parameter.VAR_KEYWORD:
            yield name, value


def _of_its_values(
    function: str, bound: inspect.BoundArguments, wanted: dict[str, Any], error: Exception
) -> TracerError | None:
    """Return the error for an argument of the right kind whose value cannot be meant."""
    unlike = _unlike_the_rest(bound, wanted, error)
    if unlike is not None:
        name, why = unlike
        return DTypeError(
            f"{function}: {name} is {shown(bound.arguments[name])}, {why}",
            mend="see its documentation for what it can be",
        )
    if isinstance(error, np.exceptions.AxisError):
        return AxisError(f"{function}: {error}", mend="give an axis that the array has")
    for name, value in _given(bound):
        if _is_about_sizes(error) and _is_no_size(value):
            return ArgumentError(
                f"{function}: {name} is {shown(value)}, which no array has elements of",
                mend="give a number that is smaller, and not negative",
            )
        if isinstance(error, RecursionError) and isinstance(value, list | tuple | dict):
            return ArgumentError(
                f"{function}: {name} is {shown(value)}, nested too deeply, or within itself",
                mend="give a container of arrays",
            )
    return _of_the_namesake(function, error)


def _unlike_the_rest(
    bound: inspect.BoundArguments, wanted: dict[str, Any], error: Exception
) -> tuple[str, str] | None:
    """Return the one argument that is an array, or no key, where one was asked to be."""
    others = [name for name in bound.arguments if wanted.get(name, Any) is not _Arrays]
    if isinstance(error, ValueError) and "truth value" in str(error):
        found = [name for name in others if _has_items(bound.arguments[name])]
        return (found[0], "an array where one value is meant") if len(found) == 1 else None
    if isinstance(error, TypeError) and "unhashable" in str(error):
        found = [name for name in others if not _is_hashable(bound.arguments[name])]
        found = [name for name in found if wanted.get(name, Any) is Any] or found
        return (found[0], "which is not hashable") if len(found) == 1 else None
    return None


def _has_items(value: Any) -> bool:
    return getattr(value, "ndim", 0) > 0


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _is_about_sizes(error: Exception) -> bool:
    words = ("aximum", "too big", "won't fit", "negative dimensions", "unknown dimension")
    is_said = isinstance(error, ValueError) and any(text in str(error) for text in words)
    return is_said or isinstance(error, OverflowError | MemoryError)


def _is_no_size(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return len(value) > 64 or any(map(_is_no_size, value))
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, int | np.integer) and not 0 <= int(value) < 2**31


def _of_the_namesake(function: str, error: Exception) -> TracerError | None:
    """Return the error of a library's function that got the arguments as they are.

    That is NumPy's or SciPy's function of the name, or one of optree's that looks at containers.
    """
    codes = [code for code in _codes(error) if code.co_filename.startswith(LIBRARIES)]
    is_of_container = _codes(error)[-1].co_filename.startswith(_OPTREE)
    if not is_of_container and function not in [code.co_name for code in codes]:
        return None
    kind = next((ours for theirs, ours in _OURS if isinstance(error, theirs)), None)
    text = str(error).split(" (#define")[0]
    mend = "give what its documentation says"
    return None if kind is None else kind(f"{function}: {text}", mend=mend)


def _codes(error: Exception) -> list[types.CodeType]:
    found, step = [], error.__traceback__
    while step is not None:
        found.append(step.tb_frame.f_code)
        step = step.tb_next
    return found


_OURS: tuple[tuple[type[Exception], type[TracerError]], ...] = (
    (np.exceptions.AxisError, AxisError),
    (IndexError, ArrayIndexError),
    (TypeError, DTypeError),
    (ValueError, ArgumentError),
    (ArithmeticError, ArgumentError),
    (MemoryError, ArgumentError),
    (RuntimeError, ArgumentError),
)


def passed_through_the_user(error: Exception) -> bool:
    """Tell whether an error was raised in a function of the user's, or behind one."""
    step = error.__traceback__
    while step is not None:
        if is_users(step.tb_frame) and not _is_standard(step.tb_frame.f_code.co_filename):
            return True
        step = step.tb_next
    return False


def _is_standard(filename: str) -> bool:
    # Packages are installed in a folder of the standard library, where there is no environment.
    # SciPy's compiled functions name files that nobody has.
    in_standard = filename.startswith(_STANDARD) and "-packages" not in filename
    return in_standard or filename.endswith(".pyx")


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, localns={"ArrayLike": _Arrays})
    except NameError:
        # A name that is imported for type checkers only.
        return {}


def is_index(value: Any) -> TypeGuard[SupportsIndex]:
    """Tell whether a value is one integer; arrays have `__index__`, and most cannot answer it."""
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def is_a(value: Any, kind: Any) -> bool:
    """Tell whether a value is what an annotation says; annotations not known here hold anything."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in _BY_ORIGIN:
        return _BY_ORIGIN[origin](value, parts)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    if kind in _TESTS:
        return _TESTS[kind](value)
    return not _is_class(kind) or isinstance(value, kind)


def _is_class(kind: Any) -> bool:
    """Tell whether an annotation is a plain class, which means its instances."""
    own = isinstance(kind, type) and kind.__module__.startswith(("tracer.", "optree"))
    return own or kind in (slice, bytes, bytearray, memoryview)


def _is_real(value: Any) -> bool:
    # Strings have a float, decimal numbers and fractions, which nothing here computes with.
    if not isinstance(value, int | float) and not hasattr(value, "__array__"):
        return False
    try:
        float(value)
    except TracerError:
        return True
    except (TypeError, ValueError, OverflowError):
        return False
    return True


class _Arrays:
    """Stands for `ArrayLike`, which is a union with strings among its members."""


def is_array_like(value: Any) -> bool:
    """Tell whether a value is an array, or what one can be made of."""
    if isinstance(value, bytes | bytearray | memoryview):
        return False
    dtype = value.dtype if hasattr(value, "__array__") and hasattr(value, "dtype") else None
    try:
        kind = (np.asarray(value).dtype if dtype is None else np.dtype(dtype)).kind
    except TracerError:
        return True  # An array of ours, in a list.
    except (TypeError, ValueError, RecursionError):
        return False
    return kind in "biufcV"


def _is_flag(value: Any) -> bool:
    return is_index(value) or isinstance(value, np.bool_)


def _is_sequence(value: Any, parts: Sequence[Any]) -> bool:
    if isinstance(value, _NO_SEQUENCES) or not hasattr(value, "__getitem__"):
        return False
    try:
        items = list(value)
    except (TypeError, ValueError, LookupError):
        return False
    if len(parts) == 2 and parts[1] is ...:
        parts = parts[:1]
    if len(parts) > 1:
        pairs = zip(items, parts, strict=False)
        return len(items) == len(parts) and all(is_a(item, part) for item, part in pairs)
    return not parts or all(is_a(item, parts[0]) for item in items)


_TESTS: dict[Any, Callable[[Any], bool]] = {
    None: lambda value: value is None,
    types.NoneType: lambda value: value is None,
    int: is_index,
    float: _is_real,
    bool: _is_flag,
    str: lambda value: isinstance(value, str),
    collections.abc.Hashable: _is_hashable,
    _Arrays: is_array_like,
}


def _is_one_of(value: Any, kinds: Sequence[Any]) -> bool:
    return any(is_a(value, kind) for kind in kinds)


def _is_collection(value: Any, parts: Sequence[Any]) -> bool:
    del parts
    is_number = getattr(value, "ndim", 1) == 0
    return isinstance(value, Iterable) and not isinstance(value, str | bytes) and not is_number


_BY_ORIGIN: dict[Any, Callable[[Any, Sequence[Any]], bool]] = {
    typing.Union: _is_one_of,
    types.UnionType: _is_one_of,
    typing.Literal: lambda value, parts: isinstance(value, str) and value in parts,
    collections.abc.Callable: lambda value, parts: callable(value),
    collections.abc.Collection: _is_collection,
    collections.abc.Iterable: _is_collection,
    collections.abc.Sequence: _is_sequence,
    tuple: _is_sequence,
    list: _is_sequence,
    np.ndarray: lambda value, parts: isinstance(value, np.ndarray),
}


_WORDS = {
    int: "an integer",
    float: "a real number",
    bool: "True or False",
    str: "a string",
    types.NoneType: "None",
    collections.abc.Hashable: "something hashable",
}


def in_words(kind: Any) -> str:
    """Return what an annotation asks for, in English."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        words = dict.fromkeys(in_words(part) for part in parts)
        return " or ".join(words)
    if kind in _WORDS:
        return _WORDS[kind]
    if origin is collections.abc.Callable:
        return "a function"
    if origin in (collections.abc.Collection, collections.abc.Iterable):
        return "a collection"
    if origin in (collections.abc.Sequence, tuple, list):
        return _sequence_in_words(parts)
    if origin is np.ndarray:
        return "an array"
    if origin is typing.Literal:
        return " or ".join(map(repr, parts))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a dictionary"
    return kind.__name__ if _is_class(kind) and kind is not _Arrays else "array_like"


def _sequence_in_words(parts: Sequence[Any]) -> str:
    items = dict.fromkeys(in_words(part) for part in parts if part is not ...)
    if len(parts) > 1 and parts[1] is not ...:
        return f"a sequence of {len(parts)}: {' and '.join(items)}"
    return f"a sequence, each item {' and '.join(items)}" if items else "a sequence"
