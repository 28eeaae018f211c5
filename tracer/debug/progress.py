"""How far the loops of a function are, told while it runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np

from tracer import ops
from tracer.debug.rewriting import rewritten
from tracer.errors import ArgumentError, DTypeError
from tracer.ir import Builder, Graph, HostFunction, Node, ShapeDtype, Value, mapped_bodies, rebuild
from tracer.ops.helpers import scalar
from tracer.terminal import TerminalLine

P = ParamSpec("P")
R = TypeVar("R")
Operands = tuple[Value, ...]
_COUNT = ShapeDtype((), np.int32)
_SECONDS_BETWEEN = 0.2


class Report(Protocol):
    """What is told of a loop; see `progress`."""

    def __call__(self, loop: str, done: int, total: int | None) -> None: ...


def progress(
    fun: Callable[P, R], *, every: int = 1, report: Report | None = None
) -> Callable[P, R]:
    """Make a function that tells how far its loops are while they run.

    Parameters
    ----------
    fun : callable
        Takes and returns arrays in any nesting. Functions that it calls belong to it. Its outermost
        `scan`, `map`, `fori_loop` and `while_loop` are counted, not the loops inside of them.
    every : int
        Tell each so many steps.
    report : callable, optional
        ``(loop, done, total) -> None`` is called instead of showing a line: where the loop stands
        in your program, how many steps are done, and how many there will be, None
        for a `while_loop` that still runs. When a loop has ended, `done` and `total` are the same.

    Returns
    -------
    callable
        Computes what `fun` does, for `tracer.compile` too:
        ``tracer.compile(tracer.progress(f), memory_limit="1GB")``. It shows one line of each loop
        on standard error, at most five times a second, if that is a terminal or a notebook;
        the line stays with the number of steps and the seconds. A gradient has a second loop, for
        its way back: `tracer.progress(tracer.grad(f))` shows both.

    Raises
    ------
    ArgumentError
        `every` is not a positive number.
    DTypeError
        `fun` or `report` is no function.
    UnsupportedError
        By the function that is made: it has loops, and is compiled for anything but one CPU.

    Notes
    -----
    A report takes about seven microseconds: for steps that are shorter, give `every`. It takes no
    memory. As with other callbacks a plan leaves the loop's steps as they are.

    Examples
    --------
    >>> import tracer
    >>> def show(loop, done, total):
    ...     print(done, "of", total)
    >>> def total(x):
    ...     return tracer.scan(lambda carry, row: (carry + row, None), 0.0, x)[0]
    >>> f = tracer.compile(tracer.progress(total, every=2, report=show))
    >>> float(f(tracer.numpy.arange(5.0)))
    0 of 5
    2 of 5
    4 of 5
    5 of 5
    10.0
    """
    for name, given in (("fun", fun), ("report", report)):
        if (given is not None and not callable(given)) or fun is None:
            raise DTypeError(f"progress: {name} {given!r} is no function", mend="give one")
    if not isinstance(every, int) or every < 1:
        raise ArgumentError(f"progress: every={every!r}", mend="give a number of steps, 1 or more")
    counter = _Counter(every, report)

    return rewritten(fun, lambda graph: counter.counting(graph, []))


class _Counter:
    """Makes graphs whose loops count their steps, with one host function for each loop."""

    def __init__(self, every: int, report: Report | None) -> None:
        self._every = every
        self._report = report
        self._told: dict[Any, tuple[HostFunction, HostFunction]] = {}

    def counting(self, graph: Graph, loops: list[Node]) -> Graph:
        """Return the graph with counters in its outermost loops."""

        def rewrite(builder: Builder, node: Node, operands: Operands) -> Any:
            if node.op is ops.scan or node.op is ops.while_:
                loops.append(node)
                begin, end = self._functions(node, len(loops))
                counted = _counted_scan if node.op is ops.scan else _counted_while
                results, count = counted(node, operands, self._step(begin))
                _call(end, count)
                return results
            changed = mapped_bodies(node, lambda body: self.counting(body, loops))
            return builder.copy(node, operands, **changed) if changed else None

        return rebuild(graph, rewrite)

    def _functions(self, loop: Node, number: int) -> tuple[HostFunction, HostFunction]:
        """Return what is called in a step and at the end; the same for a loop traced again."""
        where = loop.source
        name = f"loop at {where.place}" if where else "loop"
        total = loop.params.get("length")
        key = number, name, total
        if key not in self._told:
            show = _Shown() if self._report is None else self._report

            def step(done: Any) -> tuple[()]:
                show(name, int(done), total)
                return ()

            def end(done: Any) -> tuple[()]:
                show(name, int(done), int(done))
                return ()

            self._told[key] = (
                HostFunction(step, "progress", (step,)),
                HostFunction(end, "progress", (end,)),
            )
        return self._told[key]

    def _step(self, function: HostFunction) -> Callable[[Value], Value]:
        """Return what a step does with the number of steps before it: it gives the next one."""

        def step(count: Value) -> Value:
            if self._every == 1:
                _call(function, count)
            else:
                rest = ops.remainder(count, scalar(self._every, _COUNT.dtype))
                is_due = ops.compare(rest, scalar(0, _COUNT.dtype), direction="EQ")
                ops.case(
                    ops.convert(is_due, dtype=_COUNT.dtype),
                    count,
                    branches=(_branch(None), _branch(function)),
                )
            return ops.add(count, scalar(1, _COUNT.dtype))  # type: ignore[no-any-return]

        return step


def _call(function: HostFunction, count: Value) -> Any:
    return ops.debug_callback(count, function=function, ordered=False, batch=(), batched=())


def _branch(function: HostFunction | None) -> Graph:
    with Builder() as builder:
        count = builder.input(_COUNT)
        if function is not None:
            _call(function, count)
        return builder.finish([count])


def _counted_scan(
    loop: Node, operands: Operands, step: Callable[[Value], Value]
) -> tuple[list[Value], Value]:
    """Return the results of the loop with one more carry, and the last count."""
    start = loop.params["num_consts"] + loop.params["num_carry"]
    params = {**loop.params, "num_carry": loop.params["num_carry"] + 1}
    body: Graph = loop.params["body"]
    with Builder() as builder:
        before = [builder.input(value.type) for value in body.inputs[:start]]
        count = builder.input(_COUNT)
        after = [builder.input(value.type) for value in body.inputs[start:]]
        results = builder.inline(body, [*before, *after])
        carry = loop.params["num_carry"]
        params["body"] = builder.finish([*results[:carry], step(count), *results[carry:]])
    found = list(ops.scan(*operands[:start], _zero(), *operands[start:], **params))
    return found, found.pop(loop.params["num_carry"])


def _counted_while(
    loop: Node, operands: Operands, step: Callable[[Value], Value]
) -> tuple[list[Value], Value]:
    """Return the results of the loop with one more carry, and the last count."""
    bodies: dict[str, Graph] = {}
    for key, body in loop.params.items():
        with Builder() as builder:
            *inputs, count = [builder.input(t) for t in (*body.input_types, _COUNT)]
            extra = [step(count)] if key == "body" else []
            bodies[key] = builder.finish([*builder.inline(body, inputs), *extra])
    *results, count = ops.while_(*operands, _zero(), **bodies)
    return results, count


def _zero() -> Value:
    return scalar(0, _COUNT.dtype)


class _Shown:
    """Shows a loop on standard error."""

    def __init__(self) -> None:
        self._start = self._last = time.perf_counter()
        self._line = TerminalLine(sys.stderr)

    def __call__(self, loop: str, done: int, total: int | None) -> None:
        """Show how far it is, if a while has passed since."""
        now = time.perf_counter()
        if not done and total != 0:
            self._start, self._line = now, TerminalLine(sys.stderr)
        has_ended = done == total
        if not self._line.is_seen() or (now - self._last < _SECONDS_BETWEEN and not has_ended):
            return
        self._last = now
        seconds = now - self._start
        if has_ended:
            self._line.show(f"{loop}: {done:,} steps, {seconds:.1f} s")
            self._line.keep()
        else:
            self._line.show(f"{loop}: {_steps(done, total, seconds)}")


def _steps(done: int, total: int | None, seconds: float) -> str:
    if total is None:
        return f"{done:,} steps, {seconds:.0f} s"
    left = f", {seconds * (total - done) / done:.0f} s left" if done else ""
    return f"{done:,} of {total:,} steps, {seconds:.0f} s{left}"


__all__ = ["progress"]
