"""Every public function, with one argument after the other replaced by everything that it is not.

What comes back must be a result, or an error of ours whose place is this file: no error from the
package's insides, no wait. `make test` takes a part of the cases, another one each day;
`TRACER_ARGUMENTS_PART=3 python -m pytest tests/arguments` runs those of a part again, and
`make sweep` all.
"""

from __future__ import annotations

import datetime
import inspect
import itertools
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.arguments.right_calls import METHODS, MODULES, RESULTS, Right, right_calls, unknown
from tests.arguments.values import WRONG
from tracer.errors import ExecutionError, LoweringError, TracerError, VerifyError

pytestmark = pytest.mark.xla
PARTS = 120
_BUGS = (VerifyError, LoweringError, ExecutionError)
_TODAY = str(datetime.date.today().toordinal())
PART = int(os.environ.get("TRACER_ARGUMENTS_PART", _TODAY)) % PARTS

Case = tuple[Right, str, int | None, int]
"""A right call, the argument that is replaced (of several, which one), and by what of WRONG."""


def wrong_calls(module: str) -> Iterator[Case]:
    """Yield calls with one wrong argument."""
    for right in right_calls(module):
        signature = inspect.signature(right.function)
        bound = signature.bind(*right.call.args, **right.call.kwargs)
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD or name == "self":
                continue
            several = parameter.kind is parameter.VAR_POSITIONAL
            for place in range(len(bound.arguments.get(name, ())) if several else 1):
                for i in range(len(WRONG)):
                    yield right, name, place if several else None, i


def _replaced(case: Case) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """Return what a case shows, and the arguments."""
    right, name, place, number = case
    value = WRONG[number]()
    bound = inspect.signature(right.function).bind(*right.call.args, **right.call.kwargs)
    shown = f"{right.name}: {name}{'' if place is None else place} = WRONG[{number}] = {value!r}"
    if place is not None:
        given = list(bound.arguments[name])
        given[place] = value
        bound.arguments[name] = tuple(given)
    elif name in bound.arguments:
        bound.arguments[name] = value
    else:
        return shown[:200], bound.args, {**bound.kwargs, name: value}
    return shown[:200], bound.args, bound.kwargs


def traced(right: Right, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Call a function in a trace: nothing is compiled."""

    def program() -> Any:
        right.function(*args, **kwargs)
        return tnp.zeros(())

    tracer.make_graph(program)()


def called(right: Right, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Call a function."""
    right.function(*args, **kwargs)


Way = Callable[[Right, tuple[Any, ...], dict[str, Any]], None]


def fault(case: Case, way: Way = traced) -> str | None:
    """Return what is wrong with the answer to a wrong call, if anything is."""
    right = case[0]
    shown, args, kwargs = _replaced(case)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            way(right, args, kwargs)
    except TracerError as error:
        if isinstance(error, _BUGS) and not isinstance(error, tracer.OutOfMemoryError):
            return f"{shown}: {error!r}"
        return None if _is_here(error) else f"{shown}: the place is {error.where}"
    except Exception as error:
        return None if _is_the_users(error) else f"{shown}: {error!r}"
    return None


_NUMPY = os.path.dirname(np.__file__)
_PYTHONS = ("positional argument", "takes 1 or 3 arguments", "int() can't")
"""What Python says of functions that are called with too much or too little."""


def _is_here(error: TracerError) -> bool:
    where = error.where
    return where is not None and where.file.startswith(os.path.dirname(__file__))


def _is_the_users(error: Exception) -> bool:
    """Tell whether a function failed that the call was given, or NumPy's that it called."""
    steps = traceback.extract_tb(error.__traceback__)
    last = [step for step in steps if not step.filename.startswith(_NUMPY)][-1]
    return os.path.dirname(last.filename) == os.path.dirname(__file__) or (
        isinstance(error, TypeError) and any(text in str(error) for text in _PYTHONS)
    )


@pytest.mark.parametrize("module", [*MODULES, METHODS, RESULTS])
def test_wrong_arguments_are_named(module: str) -> None:
    found = [fault(case) for case in itertools.islice(wrong_calls(module), PART, None, PARTS)]
    faults = [text for text in found if text is not None]
    assert not faults, "\n".join([f"TRACER_ARGUMENTS_PART={PART}:", *faults])


def test_wrong_arguments_of_results_are_named_outside_of_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cases = itertools.islice(wrong_calls(RESULTS), PART, None, PARTS)
    faults = [text for case in cases if (text := fault(case, called)) is not None]
    assert not faults, "\n".join([f"TRACER_ARGUMENTS_PART={PART}:", *faults])


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("module", [*MODULES, METHODS, RESULTS])
def test_all_wrong_arguments_are_named(module: str) -> None:
    faults = [text for text in map(fault, wrong_calls(module)) if text is not None]
    assert not faults, "\n".join(faults)


@pytest.mark.sweep
@pytest.mark.slow
def test_all_wrong_arguments_of_results_are_named_outside_of_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cases = wrong_calls(RESULTS)
    faults = [text for case in cases if (text := fault(case, called)) is not None]
    assert not faults, "\n".join(faults)


def test_too_few_and_too_many_arguments_are_named() -> None:
    faults = []
    for right in right_calls(RESULTS):
        args, kwargs = right.call
        for given, more in ((args[:-1], {}), ((*args, *args, 1.0), {}), (args, {"odd": 1.0})):
            try:
                traced(right, given, {**kwargs, **more})
            except TracerError as error:
                faults += [] if _is_here(error) else [f"{right.name}: {error.where}"]
            except TypeError as error:
                faults += [] if "argument" in str(error) else [f"{right.name}: {error!r}"]
    assert not faults, "\n".join(faults)


def test_every_function_has_a_right_call() -> None:
    assert unknown() == []


@pytest.mark.parametrize("module", [*MODULES, METHODS, RESULTS])
def test_right_calls_are_right(module: str) -> None:
    for right in right_calls(module):
        try:
            traced(right, *right.call)
        except tracer.TracingError:  # it looks at values
            right.function(*right.call.args, **right.call.kwargs)
