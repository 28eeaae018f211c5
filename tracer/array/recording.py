"""What a trace writes into: Recording, and TracedArray, the array inside a traced function."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from tracer import ops
from tracer.array.active import ACTIVE
from tracer.array.array import Array
from tracer.array.promotion import scalar_value
from tracer.errors import Source, TracingError
from tracer.ir import Builder, Graph, Op, ShapeDtype, Value

R = TypeVar("R")
CONSTANT_SIZE = 16
"""Concrete arrays of at most so many elements become constants, so that they can be folded."""

_MENDS: dict[str, str] = {
    "bool()": "use tracer.numpy.where(condition, x, y), tracer.cond or tracer.while_loop instead "
    "of Python's if, while, and, or; & and | for the elements",
    "int()": "keep it an array, or make the argument static (static_argnums)",
    "float()": "keep it an array: the functions of tracer.numpy take it as it is",
    "complex()": "keep it an array: the functions of tracer.numpy take it as it is",
    "an index": "index with the array itself, use tracer.fori_loop instead of range, or make the "
    "argument static (static_argnums)",
    "conversion to a NumPy array": "use the function of tracer.numpy instead of numpy's, "
    "tracer.numpy.asarray(table)[index] where a NumPy array is indexed, or make the argument "
    "static (static_argnums)",
}
_MEND = "return the value from the traced function and do this outside of it"


class TracedArray(Array):
    """An array inside a traced function: it has a shape and a dtype, and no data yet."""

    __slots__ = ("_recording", "_value")
    is_traced: ClassVar[bool] = True

    def __init__(self, value: Value, recording: Recording) -> None:
        self._value = value
        self._recording = recording
        self._type: ShapeDtype = value.node.types[value.index]

    @property
    def value(self) -> Value:
        """The value in the graph that is being recorded."""
        return self._value

    @property
    def _buffer(self) -> Any:
        raise escaped(self)

    @property
    def device(self) -> None:
        """None: the device is chosen when the program is compiled, and every part runs there.

        So `zeros(n, device=x.device)` is as good inside a traced function as outside of it.
        """
        return

    _device = device

    def _no_data(self, purpose: str) -> TracingError:
        return TracingError(
            f"{purpose} needs the value of a traced array, {self.type}, made at {made_at(self)}; "
            "inside a traced function it has none yet",
            mend=_MENDS.get(purpose, _MEND),
        )

    def _host(self, purpose: str) -> np.ndarray[Any, Any]:
        raise self._no_data(purpose)

    def _snapshot(self) -> Self:
        return self.__class__(self._value, self._recording)

    def is_deleted(self) -> bool:
        """Return False: a traced array owns no memory."""
        return False

    def delete(self) -> None:
        """Refused: a traced array owns no memory."""
        raise self._no_data("delete()")

    def copy_to_host_async(self) -> None:
        """Refused: there is no data."""
        raise self._no_data("copy_to_host_async()")

    def block_until_ready(self) -> TracedArray:
        """Return the array itself: there is nothing to wait for."""
        return self

    def _require_writable(self) -> None:
        recording = current_recording()
        if recording is not self._recording:
            if not self._recording.is_active:
                raise escaped(self)
            raise TracingError(
                f"assignment to a part of an array, {self.type}, that an enclosing function "
                f"made at {made_at(self)}: the change would be lost",
                mend="pass it as an argument and return it, or use x = x.at[index].set(value)",
            )

    def _hold(self, updated: Array) -> None:
        """Stand for the value of an array of the same type."""
        self._require_writable()
        assert isinstance(updated, TracedArray)
        self._value = updated._value

    def copy(self) -> TracedArray:
        """Return another array of the same value."""
        return self._snapshot()

    def to_device(self, device: Any, /, *, stream: Any = None) -> Array:
        """Refused unless `device` is None: the program runs on one device."""
        del stream
        if device is None:
            return self
        raise self._no_data("to_device()")

    def __dlpack__(self, **_: Any) -> Any:
        """Refused: there is no data."""
        raise self._no_data("__dlpack__()")

    def __dlpack_device__(self) -> tuple[int, int]:
        """Refused: there is no data."""
        raise self._no_data("__dlpack_device__()")

    def __reduce__(self) -> tuple[Any, ...]:
        """Refused: there is no data."""
        raise self._no_data("pickling")

    def __repr__(self) -> str:
        """Type and origin."""
        return f"TracedArray({self.type}, made at {made_at(self)})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        """Type and origin."""
        if spec:
            raise self._no_data("format()")
        return repr(self)


@dataclass(frozen=True, eq=False)
class Reading:
    """A concrete array that a trace read.

    Attributes
    ----------
    array : weak reference to Array
        An array that nobody holds any more cannot be written to.
    buffer : object
        What it had then. A write gives an array another one.
    by_value : bool
        The trace used its numbers, which are part of the graph; else it is an input.
    """

    array: weakref.ref[Array]
    buffer: Any
    by_value: bool

    @property
    def is_changed(self) -> bool:
        """Tell whether the array was written to since."""
        array = self.array()
        return array is not None and array._buffer is not self.buffer


class Recording:
    """Records the ops of a function into a graph, while `recorded` calls it.

    Recordings nest. Arrays from outside, concrete ones and those of an enclosing recording,
    become inputs of the graph when they are used (*captured*).

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> from tracer.array.recording import recorded
    >>> def body(recording):
    ...     x = recording.argument(tracer.ShapeDtype((3,), "float32"))
    ...     return recording.finish([tnp.exp(x)])
    >>> graph, captured = recorded(body)
    >>> len(graph.nodes), captured
    (1, [])
    """

    def __init__(self) -> None:
        self.builder = Builder()
        self.keeps_values = False
        """Whether arrays of NumPy, of any size, are constants: the graph gets arguments only."""
        self._arguments: list[Value] = []
        self._captured: dict[int, tuple[Array, Value]] = {}
        self._scalars: dict[Any, Value] = {}
        self._constants: dict[int, tuple[Any, Value]] = {}
        self._read: dict[int, Reading] = {}

    @property
    def is_active(self) -> bool:
        """Tell whether this thread is inside the recording."""
        return self in ACTIVE.stack

    def argument(self, type: ShapeDtype, source: Source | None = None) -> TracedArray:
        """Add an input of the graph."""
        value = self.builder.input(type, source)
        self._arguments.append(value)
        return TracedArray(value, self)

    def record(self, op: Op, arrays: Sequence[Array], params: Mapping[str, Any]) -> Any:
        """Add a node; returns its result as a TracedArray, or a tuple of them."""
        wrap = TracedArray
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

    def inline(self, graph: Graph, arrays: Sequence[Array]) -> list[Array]:
        """Add a copy of all nodes of a graph, with its inputs bound to arrays."""
        values = [self.capture(array) for array in arrays]
        return [TracedArray(value, self) for value in self.builder.inline(graph, values)]

    def adopt(self, array: Array) -> TracedArray:
        """Return the traced array for an array from outside."""
        return TracedArray(self.capture(array), self)

    def capture(self, array: Array) -> Value:
        """Return the value of an array in this recording.

        Raises
        ------
        TracingError
            The array belongs to a trace that is over or to an unrelated one.
        """
        if isinstance(array, TracedArray):
            if array._recording is self:
                return array._value
            if not array._recording.is_active:
                raise escaped(array)
            return self._capture(id(array._value), array)
        array._require_alive()
        ACTIVE.stack[0].note(array, by_value=array.size <= CONSTANT_SIZE)
        if array.size <= CONSTANT_SIZE:
            return self._capture_constant(array)
        return self._capture(id(array._buffer), array)

    def note(self, array: Array, *, by_value: bool) -> None:
        """Note that a concrete array is read in this trace, or in one inside of it."""
        known = self._read.get(id(array))
        if known is None or known.array() is None:  # None: another array, which is gone.
            self._read[id(array)] = Reading(weakref.ref(array), array._buffer, by_value)
        elif by_value and not known.by_value:
            self._read[id(array)] = replace(known, by_value=True)

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The concrete arrays that were read and are still there."""
        return tuple([known for known in self._read.values() if known.array() is not None])

    def _capture(self, key: int, array: Array) -> Value:
        found = self._captured.get(key)
        if found is None:
            # A snapshot: __setitem__ may rebind the user's object later. It keeps the key alive.
            found = (array._snapshot(), self.builder.input(array._type))
            self._captured[key] = found
        return found[1]

    def _capture_constant(self, array: Array) -> Value:
        key = id(array._buffer)
        found = self._constants.get(key)
        if found is None:
            value = self.builder.add(ops.constant, (), {"value": array._host("capture")})
            found = self._constants[key] = (array._buffer, value)
        return found[1]

    def constant(self, value: np.ndarray[Any, Any]) -> TracedArray:
        """Add a constant."""
        return TracedArray(self.builder.add(ops.constant, (), {"value": value}), self)

    def scalar(self, value: Any, dtype: np.dtype[Any]) -> TracedArray:
        """Add a 0-d constant for a Python number, once for each value and dtype."""
        key = (value.__class__, value or str(value), dtype)
        found = self._scalars.get(key)
        if found is None:
            found = self._scalars[key] = self.constant(scalar_value(value, dtype))._value
        return TracedArray(found, self)

    def finish(self, outputs: Sequence[Array]) -> tuple[Graph, list[Array]]:
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


def recorded(body: Callable[[Recording], R]) -> R:
    """Call a function with a new recording, which is active meanwhile, and never longer."""
    recording, stack = Recording(), ACTIVE.stack
    depth = len(stack)
    try:
        stack.append(recording)
        return body(recording)
    finally:
        # Python interrupts where functions are called (`__exit__` would be one), so not here.
        del stack[depth:]


def current_recording() -> Recording | None:
    """Return the innermost active recording of this thread, or None."""
    stack = ACTIVE.stack
    return stack[-1] if stack else None


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
