"""`tracer.bucket`: a few compiled programs for arrays of any size, padded to the next bucket."""

from __future__ import annotations

import bisect
import functools
import operator
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracer import tree
from tracer.api import CompiledFunction, compile
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import Graph, ShapeDtype
from tracer.numpy.array import Array, apply_graph
from tracer.numpy.base import ArrayBase
from tracer.numpy.convert import host_array
from tracer.numpy.dispatch import from_host
from tracer.numpy.recording import current_recording
from tracer.optimizer.expand import expand_calls
from tracer.optimizer.padding import Comparison, Masked, Use, compare, masked
from tracer.optimizer.passes import PassLog
from tracer.optimizer.plan import Plan
from tracer.trace import Traced, leaf_type, trace

_OWN_OPTIONS = ("donate_argnums", "donate_argnames", "static_argnums")


@dataclass(frozen=True)
class _Request:
    """The arguments of one call: leaves, the axis of each that is padded, and the size there."""

    leaves: tuple[Any, ...]
    structure: tree.Structure
    axes: tuple[int | None, ...]
    size: int

    def types(self, size: int) -> tuple[ShapeDtype, ...]:
        """Return the types of the leaves for another size."""
        found = []
        for leaf, axis in zip(self.leaves, self.axes, strict=True):
            type = _type(leaf)
            found.append(type if axis is None else type.resized(axis, size))
        return tuple(found)


@dataclass
class _Bucket:
    """One padded size for one kind of arguments."""

    size: int
    traced: Traced
    graph: Graph
    uses: frozenset[Use] = frozenset()
    program: Masked | None = None
    run: CompiledFunction | None = None
    known: dict[int, tuple[list[Any], list[Any]]] = field(default_factory=dict)
    """For each size that was checked, what is handed in before and after the arguments."""


class BucketedFunction:
    """A function that pads its arguments to a bucket, runs the bucket's program and cuts results.

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
        self._buckets: dict[Any, _Bucket] = {}
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
            given = self._given(bucket, request)
        assert bucket.run is not None
        assert bucket.program is not None
        results = bucket.run(*given)
        cut = [
            _cut(result, axes, request.size) if request.size < bucket.size else result
            for result, axes in zip(results, bucket.program.cut, strict=True)
        ]
        return tree.unflatten(bucket.traced.out_tree, cut)

    def plan(self, *args: Any) -> Plan:
        """Return the plan of the program that runs for these arrays; compiles, runs nothing."""
        request = self._read(args)
        bucket = self._bucket(request)
        with self._lock:
            given = self._given(bucket, request)
        assert bucket.run is not None
        plan: Plan = bucket.run.plan(*given)
        return plan

    def _given(self, bucket: _Bucket, request: _Request) -> list[Any]:
        """Return all arguments of a bucket's program; checks the size the first time."""
        before, after = self._checked(bucket, request)
        leaves = [
            _padded(leaf, axis, bucket.size)
            for leaf, axis in zip(request.leaves, request.axes, strict=True)
        ]
        return [np.int32(request.size), *before, *leaves, *after]

    def _read(self, args: tuple[Any, ...]) -> _Request:
        leaves, structure = tree.flatten(args)
        leaves = [x if isinstance(x, ArrayBase) else host_array(x) for x in leaves]
        axes = tuple(self._axes_of(args))
        found = {}
        for place, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
            if axis is not None:
                if not -leaf.ndim <= axis < leaf.ndim:
                    raise ShapeError(
                        f"axis {axis} is to be padded, and array {place} of the arguments, "
                        f"{_type(leaf)}, has no such axis",
                        mend="give None in axes for arguments that are not padded",
                    )
                found[place] = leaf.shape[axis]
        sizes = set(found.values())
        if len(sizes) != 1:
            raise ShapeError(
                f"the padded axes have sizes {sorted(sizes)}: they have to be one size",
                mend="give None in axes for arguments whose size does not vary",
            )
        positive = [
            None if axis is None else axis % leaf.ndim
            for leaf, axis in zip(leaves, axes, strict=True)
        ]
        return _Request(tuple(leaves), structure, tuple(positive), sizes.pop())

    def _axes_of(self, args: tuple[Any, ...]) -> list[int | None]:
        axes = self._axes if isinstance(self._axes, tuple) else (self._axes,) * len(args)
        try:
            return tree.broadcast_prefix(axes, args)
        except ValueError as error:
            raise ArgumentError(
                f"axes={self._axes!r} does not fit {len(args)} arguments: {error}",
                mend="give one axis for all, or a tuple with an axis or None for each argument",
            ) from error

    def _bucket(self, request: _Request) -> _Bucket:
        size = self._size_for(request.size)
        types = request.types(size)
        key = (request.structure, types, request.axes)
        bucket = self._buckets.get(key)
        if bucket is None:
            traced = self._trace(request, types)
            bucket = self._buckets[key] = _Bucket(size, traced, _expanded(traced))
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

    def _trace(self, request: _Request, types: Sequence[ShapeDtype]) -> Traced:
        return trace(self._function, tree.unflatten(request.structure, types))

    def _checked(self, bucket: _Bucket, request: _Request) -> tuple[list[Any], list[Any]]:
        """Return what is handed in for a size; the first time, check that results are exact."""
        if request.size not in bucket.known:
            # Without an element less there is nothing to compare the bucket's own size with.
            if request.size == bucket.size > 2:
                self._fit(bucket, request, bucket.size - 1)
            bucket.known[request.size] = self._fit(bucket, request, request.size)
        return bucket.known[request.size]

    def _fit(self, bucket: _Bucket, request: _Request, size: int) -> tuple[list[Any], list[Any]]:
        """Compare the function for a size with the bucket's program, and make that fit both."""
        traced = self._trace(request, request.types(size))
        found = compare(_expanded(traced), bucket.graph, size, bucket.size)
        needed = bucket.uses | found.differing
        if size != bucket.size:
            program = masked(found, needed)
            if bucket.program is None or needed != bucket.uses:
                bucket.uses, bucket.program, bucket.run = needed, program, None
                bucket.known.clear()
            elif program.graph.fingerprint != bucket.program.graph.fingerprint:
                raise ArgumentError(
                    f"the function pads other axes for {size} elements than for other sizes",
                    mend="use tracer.compile, which compiles for each size",
                )
        if bucket.run is None:
            bucket.run = self._compiled(bucket, found)
        return _handed_in(bucket, found, traced)

    def _compiled(self, bucket: _Bucket, found: Comparison) -> CompiledFunction:
        if bucket.program is None:  # No other size is padded to this one.
            bucket.program = masked(found)
        program = bucket.program

        @functools.wraps(self._function)
        def run(*arrays: Any) -> list[Array]:
            return apply_graph(program.graph, arrays)

        return compile(run, **self._options)

    def __repr__(self) -> str:
        return f"<bucketed {getattr(self._function, '__name__', repr(self._function))}>"


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
        At the first call with a size: results could hang on what was padded, or the function does
        something else for that size. The message names the line. Nothing has run then.
    ShapeError
        Padded axes of different sizes.

    Notes
    -----
    For every new size the function is traced (not compiled) and compared with the bucket's program,
    node by node; numbers that hang on the size, such as the length that a mean divides by, are
    handed in. Element-wise operations, products, reductions, argmax, top_k and cumulative functions
    along the axis can be padded; sorting, reversing, reshaping, scans over it and convolutions
    along it are refused. Results are those of `tracer.compile`, but for the order of sums.

    Padding and cutting are copies on the host. Inside of another traced function `fn` itself is
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


def _expanded(traced: Traced) -> Graph:
    return expand_calls(traced.graph, PassLog())


def _type(leaf: Any) -> ShapeDtype:
    found = leaf_type(leaf)
    assert found is not None
    return found


def _handed_in(bucket: _Bucket, found: Comparison, traced: Traced) -> tuple[list[Any], list[Any]]:
    """Return the constants and captured arrays of a size, in the types of the bucket's program."""
    assert bucket.program is not None
    types = bucket.program.graph.input_types[1:]
    values = [found.constants[use] for use in bucket.program.uses]
    inputs = bucket.graph.input_types[len(bucket.graph.inputs) - len(traced.captured) :]
    constants = [_fitted(value, type) for value, type in zip(values, types, strict=False)]
    captured = [_fitted(array, type) for array, type in zip(traced.captured, inputs, strict=True)]
    return constants, captured


def _fitted(value: Any, type: ShapeDtype) -> Any:
    """Pad an array with zeros to a type."""
    if tuple(value.shape) == type.shape:
        return value
    array = np.asarray(value)
    pairs = zip(array.shape, type.shape, strict=True)
    return np.pad(array, [(0, after - before) for before, after in pairs])


def _padded(leaf: Any, axis: int | None, size: int) -> Any:
    if axis is None or leaf.shape[axis] == size:
        return leaf
    return _fitted(leaf, _type(leaf).resized(axis, size))


def _cut(result: Array, axes: tuple[int, ...], size: int) -> Array:
    if not axes:
        return result
    kept = tuple(slice(size) if axis in axes else slice(None) for axis in range(result.ndim))
    return from_host(np.asarray(result)[kept], result.device)
