"""Weak arrays: they come from Python numbers, and take the dtype of the arrays they meet.

A Python number has no value in a trace if it is an argument, the carry of a loop or an operand of a
branch. It must still count as a Python number: `x * 0.1` is float32 for a float32 `x`, whether 0.1
is written in the function or passed to it. So it becomes a weak array: of int64, or of the default
float or complex (Python's own precision unless `tracer.config` says otherwise). Python's operators
on weak arrays and numbers give weak arrays, by Python's rules: the sum of two bools is an integer.
Functions give strong arrays, as NumPy's do: `np.sin(0.1)` is a float64. Results of transformations
are weak where the function's results are, as in JAX; NumPy has no rule for these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from tracer.array import promotion
from tracer.array.array import Array
from tracer.array.convert import as_array
from tracer.array.dispatch import from_host
from tracer.array.promotion import weak_class
from tracer.array.recording import Recording, TracedArray
from tracer.array.stored import StoredType, stored_argument
from tracer.errors import Source
from tracer.ir import ShapeDtype

_INT64 = np.dtype("int64")


@dataclass(frozen=True, slots=True)
class WeakType:
    """The type of a weak array, beside `ShapeDtype`, which is that of a strong one.

    Attributes
    ----------
    type : ShapeDtype
        Its shape, and the dtype of a Python number on its own.
    """

    type: ShapeDtype

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of a Python number on its own."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes along the axes."""
        return self.type.shape

    def with_shape(self, shape: tuple[int, ...]) -> WeakType:
        """Return the weak type of another shape."""
        return WeakType(self.type.with_shape(shape))

    def __str__(self) -> str:
        return f"weak {self.type}"


Signature = ShapeDtype | WeakType
"""All that a trace knows of an array."""
ArgumentType = Signature | StoredType
"""All that a trace knows of an argument."""


def strong_type(signature: ArgumentType) -> ShapeDtype:
    """Return shape and dtype of what a program is given for an argument, be it weak or not."""
    if isinstance(signature, StoredType):
        return signature.number
    return signature.type if isinstance(signature, WeakType) else signature


class Weak(Array):
    """What weak arrays do otherwise than other arrays."""

    __slots__ = ()
    weak_type: ClassVar[bool] = True

    @property
    def _signature(self) -> WeakType:  # type: ignore[override] # in place of a ShapeDtype
        return WeakType(self._type)


class WeakArray(Weak):
    """A concrete weak array."""

    __slots__ = ()

    def _snapshot(self) -> Array:  # type: ignore[override] # not weak
        """Return a strong array of the same data."""
        return Array(self._buffer, self._type, self._device)

    def __copy__(self) -> Array:
        """Return a copy, weak as well."""
        return as_weak(self.copy())

    def __deepcopy__(self, memo: Any) -> Array:
        """Return a copy, weak as well."""
        return as_weak(self.copy())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a NumPy array."""
        return _weak_from_host, (np.array(self._host("pickling")),)

    def __repr__(self) -> str:
        """Text as NumPy's, and that it is weak."""
        return f"{super().__repr__()[:-1]}, weak_type=True)"


class WeakTracedArray(Weak, TracedArray):
    """A weak array inside a traced function."""

    __slots__ = ()

    def _snapshot(self) -> TracedArray:  # type: ignore[override] # not weak
        """Return a strong array of the same value."""
        return TracedArray(self._value, self._recording)

    def __repr__(self) -> str:
        """Type and origin."""
        return TracedArray.__repr__(self).replace("TracedArray(", "TracedArray(weak ", 1)

    __str__ = __repr__


def as_weak(array: Array) -> Array:
    """Return a weak array of the same data, or the same value in a trace."""
    assert array._type.dtype in promotion.CLASSES
    if isinstance(array, TracedArray):
        return WeakTracedArray(array._value, array._recording)
    return WeakArray(array._buffer, array._type, array._device)


def as_given(leaf: Any) -> Array:
    """Return an argument as an Array: a weak one of a Python number, or of a weak array.

    Raises
    ------
    RangeError
        A Python integer has more than 64 bits.
    DTypeError
        What `as_array` raises.
    """
    if isinstance(leaf, Array):
        return leaf
    cls = weak_class(leaf)
    if cls is None:
        return as_array(leaf)
    return as_weak(from_host(promotion.scalar_value(leaf, promotion.default_dtype(cls))))


def weak_positions(leaves: Iterable[Any]) -> tuple[int, ...]:
    """Return which leaves are weak."""
    return tuple(i for i, leaf in enumerate(leaves) if weak_class(leaf) is not None)


def weakened(arrays: Iterable[Array], positions: Collection[int]) -> list[Array]:
    """Return arrays of which those at some positions are weak."""
    return [as_weak(array) if i in positions else array for i, array in enumerate(arrays)]


def argument(
    recording: Recording, signature: ArgumentType, source: Source | None = None
) -> TracedArray:
    """Add an input of the graph that is recorded; a weak array for a weak type."""
    if isinstance(signature, WeakType):
        return cast("TracedArray", as_weak(recording.argument(signature.type, source)))
    if isinstance(signature, StoredType):
        return stored_argument(recording, signature, source)
    return recording.argument(signature, source)


def _weak_from_host(value: np.ndarray[Any, Any]) -> Array:
    return as_weak(from_host(value))


__all__ = [
    "ArgumentType",
    "Signature",
    "WeakArray",
    "WeakTracedArray",
    "WeakType",
    "argument",
    "as_given",
    "as_weak",
    "strong_type",
    "weak_positions",
    "weakened",
]
