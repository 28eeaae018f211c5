"""Recording: what a trace writes into, and the stack of those that are active."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tracer import ops
from tracer.array.base import ArrayBase
from tracer.array.promotion import scalar_value
from tracer.errors import TracingError
from tracer.ir import Builder, Graph, Op, ShapeDtype, Value
from tracer.source import Source

if TYPE_CHECKING:
    from tracer.array.array import Array, TracedArray

CONSTANT_SIZE = 16
"""Concrete arrays of at most so many elements become constants, so that they can be folded."""


class _Local(threading.local):
    def __init__(self) -> None:
        self.stack: list[Recording] = []
        self.place: Any = None
        """Where arrays go for which no device is named (`following.py`); None: the default."""


_LOCAL = _Local()
_TRACED_CLASS: list[type[TracedArray]] = []


def install_traced_class(cls: type[TracedArray]) -> None:
    """Say which class wraps recorded values; called once, by the file that defines it."""
    _TRACED_CLASS[:] = [cls]


def current_recording() -> Recording | None:
    """Return the innermost active recording of this thread, or None."""
    stack = _LOCAL.stack
    return stack[-1] if stack else None


class Recording:
    """Records the ops of a function into a graph, while it is active as a context manager.

    Recordings nest. Arrays from outside, concrete ones and those of an enclosing recording,
    become inputs of the graph when they are used (*captured*).

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> from tracer.array.recording import Recording
    >>> with Recording() as recording:
    ...     x = recording.argument(tracer.ShapeDtype((3,), "float32"))
    ...     graph, captured = recording.finish([tnp.exp(x)])
    >>> len(graph.nodes), captured
    (1, [])
    """

    def __init__(self) -> None:
        self.builder = Builder()
        self._arguments: list[Value] = []
        self._captured: dict[int, tuple[Array, Value]] = {}
        self._scalars: dict[Any, Value] = {}
        self._constants: dict[int, tuple[Any, Value]] = {}
        self._wrap = _TRACED_CLASS[0]

    def __enter__(self) -> Recording:
        _LOCAL.stack.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _LOCAL.stack.remove(self)

    @property
    def is_active(self) -> bool:
        """Tell whether this thread is inside the recording."""
        return self in _LOCAL.stack

    def argument(self, type: ShapeDtype, source: Source | None = None) -> TracedArray:
        """Add an input of the graph."""
        value = self.builder.input(type, source)
        self._arguments.append(value)
        return self._wrap(value, self)

    def record(self, op: Op, arrays: Sequence[ArrayBase], params: Mapping[str, Any]) -> Any:
        """Add a node; returns its result as a TracedArray, or a tuple of them."""
        wrap = self._wrap
        values = tuple(
            [
                a._value if a.__class__ is wrap and a._recording is self else self.capture(a)
                for a in arrays
            ]
        )
        result = self.builder.add(op, values, params)
        if result.__class__ is Value:
            return wrap(result, self)
        return tuple([wrap(value, self) for value in result])

    def inline(self, graph: Graph, arrays: Sequence[ArrayBase]) -> list[Array]:
        """Add a copy of all nodes of a graph, with its inputs bound to arrays."""
        values = [self.capture(array) for array in arrays]
        return [self._wrap(value, self) for value in self.builder.inline(graph, values)]

    def adopt(self, array: ArrayBase) -> TracedArray:
        """Return the traced array that stands for an array from outside."""
        return self._wrap(self.capture(array), self)

    def capture(self, array: ArrayBase) -> Value:
        """Return the value that stands for an array in this recording.

        Raises
        ------
        TracingError
            The array belongs to a trace that is over or to an unrelated one.
        """
        if isinstance(array, self._wrap):
            if array._recording is self:
                return array._value
            if not array._recording.is_active:
                raise escaped(array)
            return self._capture(id(array._value), array)
        array._require_alive()
        if array.size <= CONSTANT_SIZE:
            return self._capture_constant(array)
        return self._capture(id(array._buffer), array)

    def _capture(self, key: int, array: ArrayBase) -> Value:
        found = self._captured.get(key)
        if found is None:
            # A snapshot: __setitem__ may rebind the user's object later. It keeps the key alive.
            found = (cast("Array", array._snapshot()), self.builder.input(array._type))
            self._captured[key] = found
        return found[1]

    def _capture_constant(self, array: ArrayBase) -> Value:
        key = id(array._buffer)
        found = self._constants.get(key)
        if found is None:
            value = self.builder.add(ops.constant, (), {"value": array._host("capture")})
            found = self._constants[key] = (array._buffer, value)
        return found[1]

    def constant(self, value: np.ndarray[Any, Any]) -> TracedArray:
        """Add a constant."""
        return self._wrap(self.builder.add(ops.constant, (), {"value": value}), self)

    def scalar(self, value: Any, dtype: np.dtype[Any]) -> TracedArray:
        """Add a 0-d constant for a Python number, once for each value and dtype."""
        key = (value.__class__, value or str(value), dtype)
        found = self._scalars.get(key)
        if found is None:
            found = self._scalars[key] = self.constant(scalar_value(value, dtype))._value
        return self._wrap(found, self)

    def finish(self, outputs: Sequence[ArrayBase]) -> tuple[Graph, list[Array]]:
        """Freeze the recording.

        Returns
        -------
        Graph
            Its inputs are the arguments, then the captured arrays.
        list of Array
            The captured arrays, in the order of their inputs.
        """
        values = [self.capture(array) for array in outputs]
        captured = list(self._captured.values())
        inputs = [*self._arguments, *[value for _, value in captured]]
        graph = Graph(inputs, values, self.builder.nodes)
        return graph, [array for array, _ in captured]


def escaped(array: TracedArray) -> TracingError:
    """Return the error for using a traced array outside of the function that made it."""
    return TracingError(
        f"a traced array, {array.type}, escaped from the function in which it was made "
        f"(made at {made_at(array)}) and is used outside of it",
        mend="return it from the traced function instead of keeping it in a variable, a list or "
        "an attribute outside; or put the whole computation into the traced function",
    )


def made_at(array: TracedArray) -> str:
    """Say where a traced array was made."""
    node = array._value.node
    if node.op is None and node.source is None:
        return "the call, as an argument of the traced function"
    return str(node.source) if node.source is not None else "an unknown line"
