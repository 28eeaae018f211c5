"""`tracer.bucket`: a few compiled programs for arrays of any size, padded to the next bucket."""

from __future__ import annotations

import bisect
import functools
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tracer import tree
from tracer.array.array import Array
from tracer.array.convert import host_array
from tracer.array.promotion import weak_class
from tracer.array.recording import current_recording
from tracer.array.weak import as_given
from tracer.compilation.buckets import Bucket, Request, type_of
from tracer.errors import ArgumentError, ShapeError
from tracer.optimizer.plan import Plan

_OWN_OPTIONS = ("donate_argnums", "donate_argnames", "static_argnums", "static_argnames")


class BucketedFunction:
    """A function that pads its arguments to a bucket, runs its program and cuts the results.

    Made by `tracer.bucket`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        axes: Any,
        sizes: tuple[int, ...] | None,
        options: dict[str, Any],
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._axes = axes
        self._sizes = sizes
        self._options = options
        self._buckets: dict[Any, Bucket] = {}
        self._lock = threading.RLock()

    @property
    def compiled_sizes(self) -> tuple[int, ...]:
        """The sizes for which there is a program, in order."""
        return tuple(sorted(b.size for b in self._buckets.values() if b.run is not None))

    def __call__(self, *args: Any) -> Any:
        """Run on arrays (or anything array-like) of any size."""
        if current_recording() is not None:
            return self._function(*args)
        request = self._read(args)
        bucket = self._bucket(request)
        with self._lock:
            given = bucket.given(request)
        assert bucket.run is not None
        return bucket.unflatten(bucket.run(*given), request.size)

    def plan(self, *args: Any) -> Plan:
        """Return the plan of the program that runs for these arrays; compiles, runs nothing."""
        request = self._read(args)
        bucket = self._bucket(request)
        with self._lock:
            given = bucket.given(request)
        assert bucket.run is not None
        plan: Plan = bucket.run.plan(*given)
        return plan

    def _read(self, args: tuple[Any, ...]) -> Request:
        leaves, structure = tree.flatten(args)
        leaves = [_read(leaf) for leaf in leaves]
        axes = tuple(self._axes_of(args))
        found = {}
        for place, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
            if axis is not None:
                if not -leaf.ndim <= axis < leaf.ndim:
                    raise ShapeError(
                        f"axis {axis} is to be padded, but array {place} of the arguments, "
                        f"{type_of(leaf)}, has no such axis",
                        mend="give None in axes for arguments that are not padded",
                    )
                found[place] = leaf.shape[axis]
        sizes = set(found.values())
        if len(sizes) != 1:
            raise ShapeError(
                f"the padded axes have sizes {sorted(sizes)}: they must be equal",
                mend="give None in axes for arguments whose size does not vary",
            )
        positive = [
            None if axis is None else axis % leaf.ndim
            for leaf, axis in zip(leaves, axes, strict=True)
        ]
        return Request(tuple(leaves), structure, tuple(positive), sizes.pop())

    def _axes_of(self, args: tuple[Any, ...]) -> list[int | None]:
        axes = self._axes if isinstance(self._axes, tuple) else (self._axes,) * len(args)
        try:
            return tree.broadcast_prefix(axes, args)
        except ValueError as error:
            raise ArgumentError(
                f"axes={self._axes!r} does not fit {len(args)} arguments: {error}",
                mend="give one axis for all, or a tuple with an axis or None for each argument",
            ) from error

    def _bucket(self, request: Request) -> Bucket:
        size = self._size_for(request.size)
        key = (request.structure, request.types(size), request.axes)
        bucket = self._buckets.get(key)
        if bucket is None or any(reading.is_changed for reading in bucket.traced.readings):
            bucket = Bucket(self._function, request, size, self._options)
            self._buckets[key] = bucket
        return bucket

    def _size_for(self, size: int) -> int:
        if size <= 1:  # NumPy's functions do something else for these: broadcast, or fail.
            return size
        if self._sizes is None:
            return 1 << (size - 1).bit_length()
        place = bisect.bisect_left(self._sizes, size)
        if place == len(self._sizes):
            raise ArgumentError(
                f"the arrays have {size} elements along the padded axis, and the largest bucket "
                f"has {self._sizes[-1]}",
                mend="add a larger size, or leave sizes out: powers of two",
            )
        return self._sizes[place]

    def __repr__(self) -> str:
        return f"<bucketed {getattr(self._function, '__name__', repr(self._function))}>"


def _read(leaf: Any) -> Any:
    """Return a leaf as an array on the host or a device; a weak one for a Python number."""
    if isinstance(leaf, Array) or weak_class(leaf) is not None:
        return as_given(leaf)
    return host_array(leaf)


def bucket(
    fn: Callable[..., Any],
    *,
    axes: Any = 0,
    sizes: Sequence[int] | None = None,
    **options: Any,
) -> BucketedFunction:
    """Compile a function of arrays of varying size for a few sizes only.

    Arguments are padded along one axis to the next of some sizes, the program of that size runs,
    and the results are cut back. The size is given to the program when it runs: sums and other
    reductions along the axis leave out what was padded.

    Parameters
    ----------
    fn : callable
        A function of arrays and nested containers of them, as for `tracer.compile`.
    axes : int, None or tuple of these
        The axis that varies: one for all arguments, or a tuple with an axis or None (not padded)
        for each, nested like the argument where its arrays differ, as for `tracer.vmap`.
    sizes : sequence of int, optional
        The sizes to compile for, as they are needed. By default the powers of two. Arrays of one
        element and of none are not padded.
    **options
        Those of `tracer.compile`, without donation and static arguments.

    Returns
    -------
    BucketedFunction
        Call it like `fn`, with arguments by position.

    Raises
    ------
    ArgumentError
        At the first call with a size: results could depend on what was padded, or the function does
        something else for that size. The message names the line. Nothing has run then.
    ShapeError
        Padded axes of different sizes.

    Notes
    -----
    For every new size the function is traced (not compiled) and compared with the bucket's program,
    node by node. Numbers that depend on the size, such as the length that a mean divides by, are
    passed in. Element-wise operations, products, reductions, argmax, top_k and cumulative functions
    along the axis can be padded; sorting, reversing, reshaping, scans over it and convolutions
    along it are refused. Results are those of `tracer.compile`, except for the order of
    sums.

    Padding and cutting are copies on the host. Inside another traced function `fn` itself is
    recorded.

    Examples
    --------
    >>> import numpy as np, tracer, tracer.numpy as tnp
    >>> def standardised(x):
    ...     return (x - x.mean()) / x.std()
    >>> f = tracer.bucket(standardised, sizes=(64, 256))
    >>> for n in (40, 50, 200):
    ...     x = np.arange(n, dtype=np.float64)
    ...     assert np.allclose(f(x), (x - x.mean()) / x.std())
    >>> f.compiled_sizes
    (64, 256)
    """
    if not callable(fn):
        raise ArgumentError(
            f"tracer.bucket takes a function, not {type(fn).__name__}", mend="pass the function"
        )
    wrong = [name for name in _OWN_OPTIONS if name in options]
    if wrong:
        raise ArgumentError(
            f"tracer.bucket has no {wrong[0]}: it runs on padded copies of its arguments",
            mend="use tracer.compile, or bind the static argument with functools.partial",
        )
    return BucketedFunction(fn, axes, None if sizes is None else _checked_sizes(sizes), options)


def _checked_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    try:
        found = tuple(sorted({operator.index(size) for size in sizes}))
    except TypeError:
        found = ()
    if not found or found[0] < 1:
        raise ArgumentError(
            f"sizes are positive integers, not {sizes!r}", mend="give sizes such as (64, 256, 1024)"
        )
    return found
