"""Find the operation that made the first NaN: evaluate op by op, with NumPy, and look.

Source of the idea: `jax_debug_nans`, which runs a program again op by op.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import numpy as np

from tracer import tree
from tracer.array.dispatch import from_host
from tracer.array.recording import current_recording
from tracer.array.trace import trace
from tracer.array.weak import as_given
from tracer.errors import DTypeError, NanError, TracingError
from tracer.ir import Graph, Node, ShapeDtype, interpret
from tracer.ir.interpret import observed
from tracer.ops.rules import is_inexact

P = ParamSpec("P")
R = TypeVar("R")
Array = np.ndarray[Any, Any]


def nans(fun: Callable[P, R]) -> Callable[P, R]:
    """Make a function that says which operation makes the first NaN.

    It computes one operation after the other with NumPy, in the order in which they are written,
    also in loops and branches, compiled functions and gradients. That is slow, and memory limits do
    not hold: it is meant for finding a fault.

    Parameters
    ----------
    fun : callable
        Takes and returns arrays in any nesting.

    Returns
    -------
    callable
        Returns what `fun` returns, if no operation makes a NaN of operands without NaN. NaNs of
        arguments and constants may go through.

    Raises
    ------
    DTypeError
        `fun` is no function.
    NanError
        By the function that is made. It is a `FloatingPointError`, and names the operation, the
        user's line, the ranges of the operands, and in loops the step.
    TracingError
        By the function that is made: it is called where there are no values, as in a compiled
        function.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> def f(x):
    ...     return tracer.fori_loop(0, 5, lambda i, x: tnp.log(x) - 1, x)
    >>> tracer.debug.nans(f)(100.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tracer.errors.NanError: log made the first NaN: 1 of the 1 elements of float64[]
      operand 0: float64[], -2.264...
      in step 3, counted from 0, of the scan at ...
    """
    if not callable(fun):
        raise DTypeError(f"debug.nans: {fun!r} is no function", mend="give one")

    @functools.wraps(fun)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if current_recording() is not None:
            raise TracingError(
                "debug.nans needs values, and is called inside of a traced function",
                mend="put it outside: tracer.debug.nans(tracer.grad(f))(x)",
            )
        traced = trace(fun, args, kwargs, writes="refuse")
        given = [as_given(leaf) for leaf in tree.leaves((args, kwargs))]
        arrays = [np.asarray(array) for array in (*given, *traced.captured)]
        with observed(_Watch()), np.errstate(all="ignore"):
            found = interpret(traced.graph, arrays)
        result: R = traced.result([from_host(array) for array in found])
        return result

    return run


@dataclass
class _Frame:
    """A graph that is being evaluated.

    Attributes
    ----------
    name : str
        Of the parameter that holds it; empty for the whole program.
    run : int
        How often it was evaluated before, while the node that holds it runs.
    node : Node or None
        What runs.
    runs : Counter of Graph
        How often the bodies of that node began.
    """

    name: str
    run: int
    node: Node | None = None
    runs: Counter[Graph] = field(default_factory=Counter)


class _Watch:
    """Raises when a node has made a NaN."""

    def __init__(self) -> None:
        self.frames: list[_Frame] = []

    def enter(self, graph: Graph) -> None:
        """Begin a graph."""
        if not self.frames:
            self.frames.append(_Frame("", 0))
            return
        holder = self.frames[-1]
        assert holder.node is not None
        self.frames.append(_Frame(_name_of(graph, holder.node), holder.runs[graph]))
        holder.runs[graph] += 1

    def start(self, node: Node) -> None:
        """Begin a node."""
        frame = self.frames[-1]
        frame.node, frame.runs = node, Counter()

    def end(self, node: Node, operands: Sequence[Array], results: Sequence[Array]) -> None:
        """Look at what a node made."""
        if not operands or any(map(_count_nans, operands)):
            return
        for result in results:
            count = _count_nans(result)
            if count:
                raise self._error(node, operands, result, count)

    def leave(self) -> None:
        """End a graph."""
        self.frames.pop()

    def _error(self, node: Node, operands: Sequence[Array], result: Array, count: int) -> NanError:
        lines = [
            f"{node.name} made the first NaN: {count:,} of the {result.size:,} elements of "
            f"{_type(result)}",
            *(f"  operand {i}: {_range(operand)}" for i, operand in enumerate(operands)),
            *self._places(),
        ]
        return NanError(
            "\n".join(lines),
            mend="keep its operands where it is defined, such as tnp.maximum(x, 1e-9) for log(x); "
            "under tnp.where both sides are computed, so choose the operand too",
            where=node.source,
        )

    def _places(self) -> Iterator[str]:
        """Yield the loops and branches that a node is in, the innermost first."""
        for outer, inner in reversed(list(zip(self.frames, self.frames[1:], strict=False))):
            node = outer.node
            if node is None or node.op is None or node.op.invariants is None:
                continue
            what = inner.name
            if isinstance(node.bodies.get(inner.name), Graph):
                what = "step" if inner.name == "body" else f"{inner.name} of step"
                what = f"{what} {inner.run}, counted from 0,"
            yield f"  in {what} of the {node.name} at {node.source}"


def _name_of(graph: Graph, node: Node) -> str:
    """Return the name of the parameter of a node that holds a body."""
    for key, bodies in node.bodies.items():
        if bodies is graph:
            return key
        if isinstance(bodies, tuple) and any(body is graph for body in bodies):
            return f"{key}[{next(i for i, body in enumerate(bodies) if body is graph)}]"
    return ""


def _count_nans(array: Array) -> int:
    return int(np.count_nonzero(np.isnan(array))) if is_inexact(array.dtype) else 0


def _type(array: Array) -> str:
    return str(ShapeDtype(array.shape, array.dtype))


def _range(array: Array) -> str:
    """Describe the values of an operand."""
    if array.dtype.kind == "c":
        return f"{_range(array.real)}; imaginary parts: {_range(array.imag)}"
    if not array.size or array.dtype.kind == "b":
        return _type(array)
    finite = array[np.isfinite(array)] if is_inexact(array.dtype) else array.reshape(-1)
    infinite = array.size - finite.size
    more = f", {infinite:,} infinite" if infinite else ""
    if not finite.size:
        return f"{_type(array)}{more}"
    low, high = finite.min(), finite.max()
    values = f"{low}" if low == high else f"from {low} to {high}"
    return f"{_type(array)}, {values}{more}"


__all__ = ["nans"]
