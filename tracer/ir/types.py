"""Types of values, axis rules and costs: the data that every room shares."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from tracer.errors import DTypeError, ShapeError, shown
from tracer.ir.library_calls import LibraryCall

_EXTENSION_NAMES = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
SUPPORTED_DTYPES: dict[np.dtype[Any], str] = {
    np.dtype(name): name
    for name in (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
        "float16 float32 float64 complex64 complex128"
    ).split()
} | {np.dtype(getattr(ml_dtypes, name)): name for name in _EXTENSION_NAMES}
DTYPES_BY_NAME: dict[str, np.dtype[Any]] = {name: dtype for dtype, name in SUPPORTED_DTYPES.items()}

MOST_AXES = 64
"""NumPy, which arguments and results are given to, has no more."""
_FLOATS = {float: np.dtype("float64"), complex: np.dtype("complex128")}
"""What Python's two classes stand for; `set_default_float` changes it."""


def default_float() -> np.dtype[Any]:
    """Return the dtype of floats that nobody gave one."""
    return _FLOATS[float]


def set_default_float(dtype: np.dtype[Any]) -> None:
    """Set the dtype of floats that nobody gave one: float32 or float64."""
    _FLOATS[float] = dtype
    _FLOATS[complex] = np.result_type(dtype, 1j)


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """Return `dtype` as a supported NumPy dtype in native byte order, or raise `DTypeError`.

    Python's `float` and `complex` are the default ones.
    """
    if isinstance(dtype, np.dtype) and dtype in SUPPORTED_DTYPES:
        return dtype
    if dtype is float or dtype is complex:
        return _FLOATS[dtype]
    if isinstance(dtype, str) and dtype in DTYPES_BY_NAME:
        return DTYPES_BY_NAME[dtype]
    try:
        result: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise DTypeError(f"{shown(dtype)} is not a dtype", mend=_dtype_mend()) from error
    if result.byteorder == ">":
        result = result.newbyteorder("=")
    if result not in SUPPORTED_DTYPES:
        raise DTypeError(f"dtype {result} is not supported", mend=_dtype_mend())
    return result


def _dtype_mend() -> str:
    return "use one of " + ", ".join(SUPPORTED_DTYPES.values())


class ShapeDtype:
    """Shape and dtype of an array, without its data.

    Instances are interned: equal ones are the same object, so comparing is `is` and hashing is
    free. That keeps the look-up of a compiled function cheap.

    Parameters
    ----------
    shape : tuple of int
        Non-negative sizes.
    dtype : dtype
        One of the supported dtypes.

    Raises
    ------
    ShapeError
        A size is negative or no integer, or the bytes of all elements are 2**63 or more.
    DTypeError
        The dtype is not supported.

    Examples
    --------
    >>> import tracer
    >>> t = tracer.ShapeDtype((2, 3), "float32")
    >>> t.nbytes
    24
    >>> t is tracer.ShapeDtype([2, 3], "float32")
    True
    """

    __slots__ = ("dtype", "nbytes", "ndim", "shape", "size")
    _interned: ClassVar[dict[tuple[tuple[int, ...], np.dtype[Any]], ShapeDtype]] = {}

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    ndim: int
    size: int
    nbytes: int

    def __new__(cls, shape: Iterable[int] | int, dtype: Any) -> ShapeDtype:
        """Return the one instance with this shape and dtype."""
        sizes = _as_shape(shape)
        kind = as_dtype(dtype)
        key = (sizes, kind)
        found = cls._interned.get(key)
        if found is not None:
            return found
        self = object.__new__(cls)
        self.shape, self.dtype, self.ndim = sizes, kind, len(sizes)
        self.size = math.prod(sizes)
        self.nbytes = self.size * kind.itemsize
        require_countable(sizes, kind)
        return cls._interned.setdefault(key, self)

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> ShapeDtype:
        """Return the type of an array of NumPy's: found sooner, as its shape is known to be one."""
        found = cls._interned.get((array.shape, array.dtype))
        return cls(array.shape, array.dtype) if found is None else found

    def __reduce__(self) -> tuple[Any, ...]:
        return (ShapeDtype, (self.shape, self.dtype))

    def __str__(self) -> str:
        return f"{SUPPORTED_DTYPES[self.dtype]}[{','.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        return f"ShapeDtype({self.shape}, {SUPPORTED_DTYPES[self.dtype]!r})"

    def with_shape(self, shape: Iterable[int]) -> ShapeDtype:
        """Return the type with another shape and the same dtype."""
        return ShapeDtype(tuple(shape), self.dtype)

    def with_dtype(self, dtype: Any) -> ShapeDtype:
        """Return the type with another dtype and the same shape."""
        return ShapeDtype(self.shape, dtype)

    def resized(self, axis: int, size: int) -> ShapeDtype:
        """Return the type with `size` elements along `axis`."""
        return ShapeDtype((*self.shape[:axis], size, *self.shape[axis + 1 :]), self.dtype)


def require_countable(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse what XLA would end the process for: it counts in 64 bits, and empty arrays, too.

    Raises
    ------
    ShapeError
        No memory has an array of this shape and dtype.
    """
    if len(shape) > MOST_AXES:
        raise ShapeError(
            f"an array of {len(shape)} axes", mend=f"join some: an array has at most {MOST_AXES}"
        )
    if math.prod(size for size in shape if size) * dtype.itemsize >= 2**63:
        raise ShapeError(
            f"an array of shape {shape} and dtype {dtype} is larger than any memory",
            mend="make it smaller: its bytes must be below 2**63",
        )


def _as_shape(shape: Iterable[int] | int) -> tuple[int, ...]:
    if isinstance(shape, tuple) and all(n.__class__ is int and n >= 0 for n in shape):
        return shape
    given: Any = shape
    try:
        sizes = tuple(map(operator.index, given if np.ndim(given) else (given,)))
    except TypeError as error:
        raise ShapeError(
            f"a shape is a tuple of integers, not {shape!r}", mend="give integers, such as (3, 4)"
        ) from error
    if any(n < 0 for n in sizes):
        raise ShapeError(f"negative size in shape {sizes}", mend="sizes are zero or more")
    return sizes


Label = str | int
"""Name of an axis within one axis rule."""


@dataclass(frozen=True)
class AxisRule:
    """How the axes of an op's operands and results correspond, like the subscripts of an einsum.

    A label that occurs in a result is *parallel*: slices of the operands along it (of those that
    have it) give the slice of the result. A label that occurs in operands only is *reduced* with
    the named op, its combiner or the one whose `merge` says how, or *whole*: the op needs that axis
    entire. A label in a result only is generated (broadcast, iota) and parallel, unless it is
    listed as whole. A label of a result that is also listed as reduced is parallel in this result,
    and the results without it are joined.

    Parameters
    ----------
    operands, results : tuple of tuple of label
        One label for each axis.
    reduced : mapping of label to str
        What joins partial results: the name of an associative op ("add", "maximum", ...), or of
        an op that states a `Merge` ("argmax", "top_k", ...).
    whole : frozenset of label
        Axes that must not be cut.
    steps : mapping of label to int
        For a label whose axes differ in size, as where a reshape merges or splits them: into how
        many blocks each is cut, of which the first has the same elements in all of them, and so
        on. Slices hold whole blocks. Other labels take an element per step.
    """

    operands: tuple[tuple[Label, ...], ...]
    results: tuple[tuple[Label, ...], ...]
    reduced: Mapping[Label, str] = field(default_factory=dict)
    whole: frozenset[Label] = frozenset()
    steps: Mapping[Label, int] = field(default_factory=dict)

    def is_parallel(self, label: Label) -> bool:
        """Tell whether slices along `label` can be computed one by one."""
        return label not in self.whole and label not in self.reduced


@dataclass(frozen=True)
class Cost:
    """What one op costs.

    Attributes
    ----------
    flops : int
        Floating-point operations.
    bytes : int
        Bytes read and written.
    scratch : int
        Hidden bytes that a library takes while the op runs, on any device.
    product_flops : int
        Those of `flops` that run at the speed of matrix products.
    packing : int
        Those of `scratch` that a library allocates itself: no count of XLA's has them, and ops
        that run at the same time have them together.
    steps : int
        Scalar steps that one core takes one after the other, as comparisons in a heap: neither
        vectors nor other cores help. They are the target's: no op's own record has them.
    calls : tuple of LibraryCall
        Calls of libraries whose memory the target tells, one at a time; see `ir.library_calls`.
    """

    flops: int = 0
    bytes: int = 0
    scratch: int = 0
    product_flops: int = 0
    packing: int = 0
    steps: int = 0
    calls: tuple[LibraryCall, ...] = ()
