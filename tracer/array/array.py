"""Array, the array that users hold: a device buffer and its type, and what needs no functions.

`tracer.numpy` installs the operators and the methods that are functions (`installed.pyi` has their
types). So functions import Array, and Array imports no function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from tracer.array.active import ACTIVE
from tracer.array.evaluation import Evaluator
from tracer.array.interchange import device_code, exported_memory, refuse_stream
from tracer.errors import (
    ArrayIndexError,
    DonatedArrayError,
    DTypeError,
    ExecutionError,
    ShapeError,
    TracingError,
    shown,
)
from tracer.ir import ShapeDtype

if TYPE_CHECKING:
    from tracer.array.installed import Installed

    class _Installed(Installed["Array"]):
        """The operators and methods of `tracer.numpy`."""
else:
    _Installed = object


class Deleted(NamedTuple):
    """Replaces the buffer of an array whose memory was given away."""

    by: str
    """The call that did it."""


class Array(_Installed):
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

    __slots__ = ("__weakref__", "_buffer", "_device", "_type")
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment] # `==` compares elements
    is_traced: ClassVar[bool] = False
    weak_type: ClassVar[bool] = False
    """Whether it came of Python numbers and takes the dtype of what it meets, as in JAX."""
    _signature: ShapeDtype
    """What a compiled function tells arguments apart by; that of a weak array is another."""

    def __init__(self, buffer: Any, type: ShapeDtype, device: Any) -> None:
        self._buffer = buffer
        self._type = type
        self._device = device

    @property
    def type(self) -> ShapeDtype:
        """Shape and dtype."""
        return self._type

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes along the axes."""
        return self._type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self._type.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._type.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._type.size

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._type.nbytes

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._type.dtype.itemsize

    @property
    def device(self) -> Any:
        """The device that holds the data."""
        return self._device

    def _host(self, purpose: str) -> np.ndarray[Any, Any]:
        """Return the data as a read-only NumPy array; `purpose` is for the error of a tracer."""
        del purpose
        self._require_alive()
        if ACTIVE.stack:
            ACTIVE.stack[0].note(self, by_value=True)
        return get_evaluator().to_host(self)

    def _snapshot(self) -> Self:
        """Return another array of the same data that rebinding this one leaves alone."""
        return self.__class__(self._buffer, self._type, self._device)

    def _require_alive(self) -> None:
        if self.is_deleted():
            raise deleted_error(self)

    def is_deleted(self) -> bool:
        """Tell whether the memory was donated to a compiled function or deleted."""
        return self._buffer.__class__ is Deleted or bool(self._buffer.is_deleted())

    def delete(self) -> None:
        """Free the memory now; using the array afterwards raises `DonatedArrayError`."""
        self._require_alive()
        self._buffer.delete()
        self._buffer = Deleted("delete()")

    def copy_to_host_async(self) -> None:
        """Start to copy the data to the host, so that `numpy.asarray` of it waits less.

        Returns at once, also while the data is still computed; what is computed next does not wait
        for the copy. On CPU the host has the data already.
        """
        self._require_alive()
        get_evaluator().start_to_host(self)

    def block_until_ready(self) -> Any:
        """Wait until the data is computed; returns the array itself."""
        self._require_alive()
        get_evaluator().wait(self)
        return self

    def _require_writable(self) -> None:
        if ACTIVE.stack:
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
        """Return a copy with its own memory."""
        self._require_alive()
        if ACTIVE.stack:
            traced: Array = ACTIVE.stack[-1].adopt(self)
            return traced
        return get_evaluator().copy(self)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Array:
        """Return a copy on a device (a Device or its name), itself when it was put there before.

        An array that is there only because no device was named shares its memory with the result.
        """
        self._require_alive()
        refuse_stream(stream)
        return get_evaluator().to_device(self, device)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a DLPack capsule that shares the memory, or that of a copy."""
        # The data is awaited, so that every stream of the caller may read it at once.
        del stream
        self.block_until_ready()
        memory = exported_memory(self._device, dl_device, copy)
        if memory == "host":
            # A capsule of NumPy's is a versioned one; ours are version 0, which everyone takes.
            host = self._host("__dlpack__()").copy()
            return host.__dlpack__(max_version=max_version, copy=False)
        return get_evaluator().to_dlpack(self.copy() if memory == "copied" else self)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack code of the device and its number."""
        return device_code(self._device)

    def __copy__(self) -> Array:
        """Return a copy."""
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Array:
        """Return a copy."""
        return self.copy()

    def item(self, *index: Any) -> Any:
        """Return the only element, or the one at an index, as a Python number."""
        host = self._host("item()")
        try:
            return host.item(*index)
        except (IndexError, TypeError, ValueError, OverflowError) as error:
            is_index = isinstance(error, IndexError | OverflowError)
            ours = ArrayIndexError if is_index else ShapeError
            raise (DTypeError if isinstance(error, TypeError) else ours)(
                f"item of an array of shape {host.shape} at {shown(index)}: {error}",
                mend="give no index for the only element, one, or one for each axis",
            ) from error

    def tolist(self) -> Any:
        """Return the elements as nested lists of Python numbers."""
        return self._host("tolist()").tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """Return the bytes of the elements."""
        return self._host("tobytes()").tobytes(order)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return the data as a NumPy array; read-only unless it had to be copied."""
        host = self._host("conversion to a NumPy array")
        if dtype is not None and np.dtype(dtype) != host.dtype:
            return host.astype(dtype)
        return host.copy() if copy else host


# Under a second name it is read as quickly, and weak arrays can have another.
Array._signature = Array.__dict__["_type"]

ArrayLike: TypeAlias = Array | npt.ArrayLike
"""What NumPy-style functions take: arrays, NumPy arrays, numbers and nested lists of them."""


def deleted_error(array: Array) -> DonatedArrayError:
    """Return the error for using a deleted array."""
    by = array._buffer.by if isinstance(array._buffer, Deleted) else "an earlier call"
    return DonatedArrayError(
        f"this array, {array.type}, is gone: {by} took over its memory",
        mend="use the result of that call, pass array.copy() to it, or do not donate this argument",
    )


def install(cls: type[Array], members: Mapping[str, Any]) -> None:
    """Give the arrays of a class operators, methods and properties.

    Parameters
    ----------
    cls : type
        Array, or one of its subclasses.
    members : mapping
        Functions and properties by the names that they get; all else is passed over, so that the
        names of a class (`vars`) will do.
    """
    for name, member in members.items():
        function = member.fget if isinstance(member, property) else member
        if isinstance(function, FunctionType):
            function.__qualname__ = f"{cls.__name__}.{name}"
            setattr(cls, name, member)


_EVALUATORS: list[Evaluator[Array]] = []


def set_evaluator(evaluator: Evaluator[Array]) -> None:
    """Install the evaluator that all concrete arrays use."""
    _EVALUATORS[:] = [evaluator]


def get_evaluator() -> Evaluator[Array]:
    """Return the installed evaluator."""
    if not _EVALUATORS:
        raise ExecutionError(
            "no evaluator is installed, so concrete arrays cannot be computed",
            mend="import tracer (which installs one) before tracer.numpy is used",
        )
    return _EVALUATORS[0]
