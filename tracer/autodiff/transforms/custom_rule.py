"""What functions with custom derivative rules share: binding, depth, and tracing."""

from __future__ import annotations

import abc
import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from tracer import ops
from tracer.array.dispatch import apply_many
from tracer.array.recording import current_recording
from tracer.autodiff.transforms.arguments import (
    Traced,
    check_argnums,
    check_callable,
    resolve_argnums,
    trace_in,
)
from tracer.errors import ArgumentError
from tracer.ir import Builder, Graph, ShapeDtype
from tracer.ops.call import deferred

_ORDERS = 4
"""How often a function may be differentiated when it calls itself in its own rule."""


class _Depth(threading.local):
    """How many calls of each function in its own rule are being traced in this thread.

    Attributes
    ----------
    of : dict of object to int
        The numbers.
    rules : dict
        The rules that were traced meanwhile, by call, each with the numbers that it depends on: a
        rule that calls its function twice would be traced twice as often for each order.
    watches : list of set
        The functions that were called within each rule that is being traced.
    """

    def __init__(self) -> None:
        self.of: dict[object, int] = {}
        self.rules: dict[Any, list[tuple[dict[object, int], Any]]] = {}
        self.watches: list[set[object]] = []


_DEPTH = _Depth()


@contextlib.contextmanager
def limited_depth(function: object) -> Iterator[bool]:
    """Count a call of a function within its own rule; yields whether it may have a rule still."""
    depth = _DEPTH.of.get(function, 0)
    _seen([function])
    _DEPTH.of[function] = depth + 1
    try:
        yield depth < _ORDERS
    finally:
        if depth:
            _DEPTH.of[function] = depth
        else:
            del _DEPTH.of[function]
        if not _DEPTH.of:
            _DEPTH.rules.clear()


def _seen(functions: Iterable[object]) -> None:
    for watch in _DEPTH.watches:
        watch.update(functions)


def traced_once(key: Hashable, trace: Callable[[], tuple[Any, bool]]) -> Any:
    """Return what a call of `trace` returns, or what it returned for an equal key.

    Parameters
    ----------
    key : hashable
        What the rule is of.
    trace : callable
        Returns a rule, and whether it serves others: it closes over no array.
    """
    for depths, rule in _DEPTH.rules.get(key, ()):
        if all(_DEPTH.of.get(function, 0) == depth for function, depth in depths.items()):
            _seen(depths)
            return rule
    watch: set[object] = set()
    _DEPTH.watches.append(watch)
    try:
        rule, serves_others = trace()
    finally:
        _DEPTH.watches.pop()
    if serves_others:
        depths = {function: _DEPTH.of.get(function, 0) for function in watch}
        _DEPTH.rules.setdefault(key, []).append((depths, rule))
    return rule


def call_plain(
    name: str, fun: Callable[..., Any], args: Sequence[Any], fixed: Sequence[int]
) -> Any:
    """Emit a call without a gradient."""
    given = [i for i in range(len(args)) if i not in fixed]
    traced = trace_in(name, fun, args, given, {})
    return apply_plain(
        traced,
        "it calls itself in its own rule, and is differentiated more often than was prepared for",
    )


def apply_plain(traced: Traced, reason: str | Exception) -> Any:
    """Emit a traced function without a gradient; an error is raised where one is asked for."""
    why = deferred(reason) if isinstance(reason, Exception) else reason
    results = apply_many(ops.plain_call, *traced.arrays, body=traced.graph, reason=why)
    return traced.result(results)


class CustomRule(abc.ABC):
    """A function with its own derivative rule: what `custom_vjp` and `custom_jvp` share."""

    @abc.abstractmethod
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the function; inside of a trace, with its rule."""

    def __init__(
        self, kind: str, fun: Callable[..., Any], nondiff_argnums: int | Sequence[int]
    ) -> None:
        check_callable(kind, fun)
        functools.update_wrapper(self, fun)
        self._kind = kind
        self.fun = fun
        self.nondiff_argnums = check_argnums(kind, nondiff_argnums)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def _record(
        self, call: Callable[..., Any], rules: tuple[Any, ...], args: Any, kwargs: Any
    ) -> Any:
        """Compute the function; inside of a trace, record it with its rules through `call`."""
        if current_recording() is None:
            return self.fun(*args, **kwargs)
        positional = bind(self._kind, self.fun, args, kwargs)
        fixed = resolve_argnums(self._kind, self.nondiff_argnums, len(positional))
        with limited_depth(self) as may_differentiate:
            if not may_differentiate:
                return call_plain(self._name, self.fun, positional, fixed)
            return call(self._name, (self.fun, *rules), positional, fixed).emit()

    @property
    def _name(self) -> str:
        return getattr(self.fun, "__name__", "the function")


def with_inputs(graph: Graph, types: Sequence[ShapeDtype], positions: Sequence[int]) -> Graph:
    """Return a graph with inputs of `types`, of which those at `positions` are read."""
    with Builder() as builder:
        inputs = [builder.input(type) for type in types]
        return builder.finish(builder.inline(graph, [inputs[i] for i in positions]))


def bind(
    name: str, fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Sequence[Any]:
    """Return all arguments by position, defaults included, as the rule expects them."""
    try:
        signature = inspect.signature(fun)
    except ValueError:
        return args
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    # What has a default, or was fixed by functools.partial, stays as it is when it is not given.
    given = sorted(bound.kwargs.keys() & kwargs.keys())
    if given:
        raise ArgumentError(
            f"{name}: the arguments {given} can be given by keyword only",
            mend="make them positional: a rule takes its arguments by position",
        )
    return bound.args
