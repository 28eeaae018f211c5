"""Array, the array that users hold, and TracedArray, the one inside a traced function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self, cast

import numpy as np

from tracer.array.base import ArrayLike
from tracer.array.dispatch import apply, apply_graph, apply_many, from_host
from tracer.array.evaluation import get_evaluator
from tracer.array.interchange import device_code, export, refuse_stream
from tracer.array.recording import (
    Recording,
    current_recording,
    escaped,
    install_traced_class,
    made_at,
)
from tracer.errors import DTypeError, ShapeError, TracingError
from tracer.ir import ShapeDtype, Value
from tracer.numpy import indexing
from tracer.numpy.methods import ArrayMethods
from tracer.numpy.operators import ArrayOperators
from tracer.numpy.protocols import NumpyProtocols


class Array(ArrayOperators, ArrayMethods, NumpyProtocols):
    """An array on a device that behaves like a NumPy array.

    Made by `tracer.numpy.array`, `zeros`, ... and returned by every function. Assigning to a part,
    `x[i] = y`, makes a new buffer and lets this object hold it, under all its names; other arrays
    that shared the old data (views, as NumPy calls them) do not change. Results lie where the
    arrays were put; arrays made without `device=` follow the others. A pickled array comes back on
    the default device.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> x = tnp.array([1.0, 2.0, 3.0])
    >>> x[0] = 5.0
    >>> (x + 1) * 2
    Array([12.,  6.,  8.])
    """

    __slots__ = ()

    def __getitem__(self, index: Any) -> Array:
        """Return a part; see `numpy.ndarray.__getitem__`."""
        return indexing.get_item(self, index)

    def __setitem__(self, index: Any, value: ArrayLike) -> None:
        """Replace a part: this object then holds a new buffer with the update."""
        self._require_writable()
        self._hold(indexing.update_item(self, index, value))

    def _require_writable(self) -> None:
        if current_recording() is not None:
            raise TracingError(
                f"assignment to a part of an array, {self.type}, that was made outside of the "
                "traced function: the change would be lost",
                mend="copy it first inside the function (x = tracer.numpy.array(x)), pass it as an "
                "argument, or use x = x.at[index].set(value)",
            )

    def _hold(self, updated: Array) -> None:
        """Take over the data of an array of the same type."""
        self._require_writable()
        self._buffer, self._device = updated._buffer, updated._device

    def __len__(self) -> int:
        """Size of the first axis."""
        if not self.ndim:
            raise DTypeError("len() of a 0-d array", mend="use x.size, or x.item() for the number")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        """Iterate over the first axis."""
        if not self.ndim:
            raise DTypeError("iteration over a 0-d array", mend="use x.item() for the number")
        return (self[position] for position in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        """Tell whether any element equals `value`."""
        return bool((self == value).any())

    def _scalar(self, purpose: str) -> Any:
        if self.size != 1:
            raise ShapeError(
                f"{purpose} of an array of shape {self.shape}, which has {self.size} elements",
                mend="use x.any(), x.all() or an index that leaves one element",
            )
        return self._host(purpose).reshape(()).item()

    def __bool__(self) -> bool:
        """Truth of the only element."""
        return bool(self._scalar("bool()"))

    def __int__(self) -> int:
        """Return the only element as an int."""
        return int(self._scalar("int()"))

    def __float__(self) -> float:
        """Return the only element as a float."""
        return float(self._scalar("float()"))

    def __complex__(self) -> complex:
        """Return the only element as a complex number."""
        return complex(self._scalar("complex()"))

    def __round__(self, decimals: int | None = None) -> Any:
        """Round the only element to an int, or all elements to a number of decimals."""
        if decimals is None:
            return round(self._scalar("round()"))
        return self.round(decimals)

    def __index__(self) -> int:
        """Return the only element as an index: an integer of no axes."""
        if self.ndim or self.dtype.kind not in "iu":
            raise DTypeError(
                f"only 0-d integer arrays can be an index, not {self.type}",
                mend="convert with int(x)",
            )
        return int(self._scalar("an index"))

    def __format__(self, spec: str) -> str:
        """Format the only element by `spec`, or the array as text."""
        return format(self._host("format()").item(), spec) if spec and not self.ndim else str(self)

    def __repr__(self) -> str:
        """Text as NumPy's."""
        if self.is_deleted():
            return f"Array(deleted, {self.type})"
        here = get_evaluator().parts_here(self)
        if here is not None:
            return f"Array({self.type}, {self._device}, here: {here})"
        # "Array(" is as long as "array(", so NumPy's line breaks and indents stay right.
        return "Array" + np.array_repr(self._host("repr()")).removeprefix("array")

    def __str__(self) -> str:
        """Text as NumPy's."""
        if self.is_deleted() or get_evaluator().parts_here(self) is not None:
            return repr(self)
        return str(self._host("str()"))

    def copy(self) -> Array:
        """Return a copy with memory of its own."""
        self._require_alive()
        if current_recording() is not None:
            return cast("Recording", current_recording()).adopt(self)
        return get_evaluator().copy(self)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Array:
        """Return a copy on a device (a Device or its name), itself when it was put there before.

        An array that is there only as no device was named shares its memory with the result.
        """
        self._require_alive()
        refuse_stream(stream)
        return get_evaluator().to_device(self, device)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return `tracer.numpy`."""
        del api_version
        import tracer.numpy as namespace

        return namespace

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule that shares the memory, or that of a copy."""
        self._require_alive()
        return export(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack code of the device and its number."""
        return device_code(self._device)

    def __copy__(self) -> Array:
        """Return a copy."""
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Array:
        """Return a copy."""
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a NumPy array."""
        return from_host, (np.array(self._host("pickling")),)


_MENDS: dict[str, str] = {
    "bool()": "use tracer.numpy.where(condition, x, y), tracer.cond or tracer.while_loop instead "
    "of Python's if, while, and, or; & and | for the elements",
    "int()": "keep it an array, or make the argument static (static_argnums)",
    "float()": "keep it an array: the functions of tracer.numpy take it as it is",
    "complex()": "keep it an array: the functions of tracer.numpy take it as it is",
    "an index": "index with the array itself, use tracer.fori_loop instead of range, or make the "
    "argument static (static_argnums)",
    "conversion to a NumPy array": "use the function of tracer.numpy instead of numpy's, or make "
    "the argument static (static_argnums)",
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

    def __setitem__(self, index: Any, value: ArrayLike) -> None:
        """Replace a part: this object then stands for the updated value."""
        self._require_writable()
        self._hold(indexing.update_item(self, index, value))

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
        self._value = cast("TracedArray", updated)._value

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


install_traced_class(TracedArray)

__all__ = [
    "Array",
    "ArrayLike",
    "TracedArray",
    "apply",
    "apply_graph",
    "apply_many",
]
