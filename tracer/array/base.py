"""The part of Array that the functions of this room need: type, buffer, device."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from tracer.array.evaluation import get_evaluator
from tracer.errors import DonatedArrayError
from tracer.ir import ShapeDtype


class Deleted(NamedTuple):
    """Stands in place of the buffer of an array whose memory was given away."""

    by: str
    """The call that did it."""


class ArrayBase:
    """A concrete array: a device buffer and its type.

    Users see `tracer.numpy.Array`, which adds the operators and the methods.
    """

    __slots__ = ("__weakref__", "_buffer", "_device", "_type")
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


# Under a second name it is read as quickly, and weak arrays can have another.
ArrayBase._signature = ArrayBase.__dict__["_type"]


def deleted_error(array: ArrayBase) -> DonatedArrayError:
    """Return the error for using a deleted array."""
    by = array._buffer.by if isinstance(array._buffer, Deleted) else "an earlier call"
    return DonatedArrayError(
        f"this array, {array.type}, is gone: {by} took its memory over",
        mend="use the result of that call, pass array.copy() to it, or do not donate this argument",
    )


ArrayLike: TypeAlias = ArrayBase | npt.ArrayLike
"""What NumPy-style functions take: arrays, NumPy arrays, numbers and nested lists of them."""
