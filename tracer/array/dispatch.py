"""Apply op records to arrays: record them in a trace, or run them.

While a recording is active everything is recorded, even what could be computed at once:
`tnp.zeros((10**5, 10**5))` inside a traced function is planned, not allocated. Otherwise the
evaluator runs compiled programs.

`compound` keeps functions fast on concrete arrays: the ops that make up one NumPy function
(convert, broadcast, reduce, divide) run as one cached program.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from tracer.array.active import ACTIVE
from tracer.array.array import Array, get_evaluator
from tracer.array.evaluation import Program
from tracer.array.recording import CONSTANT_SIZE, Recording, current_recording, recorded
from tracer.errors import with_short_traceback
from tracer.ir import Graph, Op, ShapeDtype

P = ParamSpec("P")
R = TypeVar("R")
Entry = tuple[Program[Array], bool]

_CACHE_LOCK = threading.Lock()
_CACHES: list[dict[Any, Entry]] = []
"""The programs of each compound function."""
CACHE_SIZE = 2048
"""Programs kept for one function; the oldest goes first."""


class _Forgotten:
    """How often all programs were forgotten: what is traced meanwhile is not kept."""

    times = 0


def apply(op: Op, *arrays: Array, **params: Any) -> Array:
    """Apply an op that has one result.

    Parameters
    ----------
    op : Op
        The op record; it is strict about shapes and dtypes.
    *arrays : Array
        Its operands.
    **params
        Its parameters.

    Raises
    ------
    ShapeError, DTypeError
        The op does not take these operands.
    """
    return cast("Array", _apply(op, arrays, params))


def apply_many(op: Op, *arrays: Array, **params: Any) -> tuple[Array, ...]:
    """Apply an op that has several results."""
    return cast("tuple[Array, ...]", _apply(op, arrays, params))


def _apply(op: Op, arrays: Sequence[Array], params: dict[str, Any]) -> Any:
    if ACTIVE.stack:
        return ACTIVE.stack[-1].record(op, arrays, params)

    def record(recording: Recording) -> tuple[Graph, bool]:
        operands = [recording.argument(array._type) for array in arrays]
        result = recording.record(op, operands, params)
        single = isinstance(result, Array)
        return recording.finish([result] if single else result)[0], single

    graph, single = recorded(record)
    results = _run(get_evaluator().program(graph), arrays)
    return results[0] if single else tuple(results)


def _run(program: Program[Array], arrays: Sequence[Array]) -> list[Array]:
    """Run a program; results that depend on no arrays go where arrays without a device go."""
    results = program(*arrays)
    if arrays or ACTIVE.place is None:
        return results
    return [get_evaluator().to_device(result, ACTIVE.place) for result in results]


def apply_graph(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """Apply a graph: inlined into the active recording, compiled and run otherwise."""
    recording = current_recording()
    if recording is not None:
        return recording.inline(graph, arrays)
    return get_evaluator().program(graph)(*arrays)


def compound(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function of arrays as one program when nothing is being recorded.

    The function takes arrays by position and hashable, already normalised metadata by keyword; it
    returns an array or a tuple of arrays and uses no arrays from outside.
    """
    cache: dict[Any, Entry] = {}
    _CACHES.append(cache)

    @functools.wraps(function)
    def run(*arrays: Any, **static: Any) -> Any:
        if ACTIVE.stack:
            return _as_new(function(*arrays, **static), arrays)
        key = tuple([a._type for a in arrays])
        if static:
            key = (*key, *static.items())
        entry = cache.get(key)
        if entry is None:
            before = _Forgotten.times
            entry = _program(function, [a._type for a in arrays], static)
            with _CACHE_LOCK:
                if _Forgotten.times == before:
                    _keep(cache, key, entry)
        program, single = entry
        results = _run(program, arrays)
        return results[0] if single else tuple(results)

    return cast("Callable[P, R]", run)


def _keep(cache: dict[Any, Entry], key: Any, entry: Entry) -> None:
    if len(cache) >= CACHE_SIZE:
        del cache[next(iter(cache))]
    cache[key] = entry


def forget_programs() -> None:
    """Forget the programs of compound functions: what they were made with has changed."""
    with _CACHE_LOCK:
        _Forgotten.times += 1
        for cache in _CACHES:
            cache.clear()


def _as_new(result: Any, arrays: Sequence[Array]) -> Any:
    """Return another object for a result that is an argument, so that assigning spares it."""
    for array in arrays:
        if result is array:
            return array._snapshot()
    return result


@with_short_traceback
def _program(
    function: Callable[..., Any], types: Sequence[ShapeDtype], static: dict[str, Any]
) -> Entry:
    def record(recording: Recording) -> tuple[Graph, bool]:
        recording.keeps_values = True
        results = function(*[recording.argument(type) for type in types], **static)
        single = isinstance(results, Array)
        return recording.finish([results] if single else results)[0], single

    graph, single = recorded(record)
    return get_evaluator().program(graph), single


def from_host(value: np.ndarray[Any, Any], device: Any = None) -> Array:
    """Return an Array of the data of a NumPy array of a supported dtype.

    Inside a trace the result belongs to the trace.
    """
    if device is None:
        device = ACTIVE.place
    recording = current_recording()
    if recording is None:
        return get_evaluator().from_host(value, device)
    if value.size <= CONSTANT_SIZE or ACTIVE.stack[0].keeps_values:
        return recording.constant(value.copy())
    return recording.adopt(get_evaluator().from_host(value, device))
