"""One bucket of `tracer.bucket`: a program for padded arrays, and the sizes it is right for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer import tree
from tracer.array.array import Array
from tracer.array.dispatch import apply_graph, from_host
from tracer.array.promotion import weak_class
from tracer.array.trace import Traced, leaf_type, trace
from tracer.array.weak import Signature, WeakType
from tracer.compilation.function import CompiledFunction, compile
from tracer.errors import ArgumentError
from tracer.ir import Graph, ShapeDtype
from tracer.optimizer.passes import PassLog
from tracer.optimizer.rewrite.expand import expand_calls
from tracer.optimizer.rewrite.padding import Comparison, Masked, Use, compare, masked


@dataclass(frozen=True)
class Request:
    """The arguments of one call: leaves, the padded axis of each, and its size."""

    leaves: tuple[Any, ...]
    structure: tree.Structure
    axes: tuple[int | None, ...]
    size: int

    def types(self, size: int) -> tuple[Signature, ...]:
        """Return the types of the leaves for another size."""
        found: list[Signature] = []
        for leaf, axis in zip(self.leaves, self.axes, strict=True):
            type = type_of(leaf)
            type = type if axis is None else type.resized(axis, size)
            found.append(type if weak_class(leaf) is None else WeakType(type))
        return tuple(found)


class Bucket:
    """One padded size for one kind of arguments.

    Parameters
    ----------
    function : callable
    request : Request
        A call that belongs to the bucket.
    size : int
        What it is padded to.
    options : dict
        Those of `tracer.compile`.
    """

    def __init__(
        self, function: Callable[..., Any], request: Request, size: int, options: dict[str, Any]
    ) -> None:
        self.function = function
        self.size = size
        self.options = options
        self.traced = self._trace(request, size)
        self.graph = _expanded(self.traced)
        self.uses: frozenset[Use] = frozenset()
        self.program: Masked | None = None
        self.run: CompiledFunction | None = None
        self.known: dict[int, tuple[list[Any], list[Any]]] = {}
        """For each size that was checked, what is passed before and after the arguments."""

    def given(self, request: Request) -> list[Any]:
        """Return all arguments of the program; checks the size the first time."""
        before, after = self._checked(request)
        leaves = [
            _padded(leaf, axis, self.size)
            for leaf, axis in zip(request.leaves, request.axes, strict=True)
        ]
        return [np.int32(request.size), *before, *leaves, *after]

    def unflatten(self, results: Sequence[Array], size: int) -> Any:
        """Return the results cut to a size, in the function's own structure."""
        assert self.program is not None
        if size < self.size:
            pairs = zip(results, self.program.cut, strict=True)
            results = [_cut(result, axes, size) for result, axes in pairs]
        return self.traced.result(results)

    def _trace(self, request: Request, size: int) -> Traced:
        arguments = tree.unflatten(request.structure, request.types(size))
        return trace(self.function, arguments, writes="refuse")

    def _checked(self, request: Request) -> tuple[list[Any], list[Any]]:
        """Return what is passed in for a size; the first time, check that results are exact."""
        if request.size not in self.known:
            # The bucket's own size is no guide to what is padded: one less is.
            if request.size == self.size > 2:
                self._fit(request, self.size - 1)
            self.known[request.size] = self._fit(request, request.size)
        return self.known[request.size]

    def _fit(self, request: Request, size: int) -> tuple[list[Any], list[Any]]:
        """Compare the function for a size with the program, and make that fit both."""
        traced = self._trace(request, size)
        found = compare(_expanded(traced), self.graph, size, self.size)
        needed = self.uses | found.differing
        if size != self.size:
            program = masked(found, needed)
            if self.program is None or needed != self.uses:
                self.uses, self.program, self.run = needed, program, None
                self.known.clear()
            elif program.graph.fingerprint != self.program.graph.fingerprint:
                raise ArgumentError(
                    f"for {size} elements the function pads different axes than for other sizes",
                    mend="use tracer.compile, which compiles for each size",
                )
        if self.program is None:  # No other size is padded to this one.
            self.program = masked(found)
        if self.run is None:
            self.run = self._compiled(self.program)
        return self._handed_in(self.program, found, traced)

    def _compiled(self, program: Masked) -> CompiledFunction:
        @functools.wraps(self.function)
        def run(*arrays: Any) -> list[Array]:
            return apply_graph(program.graph, arrays)

        return compile(run, **self.options)

    def _handed_in(
        self, program: Masked, found: Comparison, traced: Traced
    ) -> tuple[list[Any], list[Any]]:
        """Return the constants and captured arrays of a size, in the types of the program."""
        types = program.graph.input_types[1:]
        values = [found.constants[use] for use in program.uses]
        constants = [_fitted(value, type) for value, type in zip(values, types, strict=False)]
        first = len(self.graph.inputs) - len(traced.captured)
        inputs = zip(traced.captured, self.graph.input_types[first:], strict=True)
        return constants, [_fitted(array, type) for array, type in inputs]


def _expanded(traced: Traced) -> Graph:
    return expand_calls(traced.graph, PassLog())


def type_of(leaf: Any) -> ShapeDtype:
    """Return the type of an array."""
    found = leaf_type(leaf)
    assert found is not None
    return found


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
    return _fitted(leaf, type_of(leaf).resized(axis, size))


def _cut(result: Array, axes: tuple[int, ...], size: int) -> Array:
    if not axes:
        return result
    kept = tuple(slice(size) if axis in axes else slice(None) for axis in range(result.ndim))
    return from_host(np.asarray(result)[kept], result.device)
