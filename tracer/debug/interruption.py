"""Loops that Ctrl-C ends: a call of Python in each step asks whether to go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from tracer import ops
from tracer.debug.rewriting import rewritten
from tracer.errors import DTypeError
from tracer.ir import Builder, Graph, HostFunction, Node, Stop, Value, mapped_bodies, rebuild

P = ParamSpec("P")
R = TypeVar("R")


class _Stopped(Exception):
    """The program was asked to end."""


def interruptible(fun: Callable[P, R]) -> Callable[P, R]:
    """Make a function whose loops end when the main thread is interrupted, as by Ctrl-C.

    While a program runs, Python does not: an interrupt waits until the program has ended, and an
    endless `while_loop` cannot be left. The function that is made asks in each step of its loops
    whether to go on, and while it runs the main thread waits in Python. No signal handlers are
    installed; what the handler of the process raises is raised by the call.

    Parameters
    ----------
    fun : callable
        Takes and returns arrays in any nesting. Functions that it calls belong to it.

    Returns
    -------
    callable
        Computes what `fun` does, for `tracer.compile` too:
        `tracer.compile(tracer.debug.interruptible(f), memory_limit="1GB")`. An interrupt also ends
        runs of the same function that other threads have begun.

    Raises
    ------
    DTypeError
        `fun` is no function.
    UnsupportedError
        By the function that is made: it has loops, and is compiled for anything but one CPU.

    Notes
    -----
    A question takes about ten microseconds in each step. A step itself, and a single long operation
    (a product, a decomposition), runs to its end.

    Examples
    --------
    >>> import tracer
    >>> @tracer.compile
    ... @tracer.debug.interruptible
    ... def collatz(n):
    ...     def step(state):
    ...         n, count = state
    ...         return tracer.numpy.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1
    ...     return tracer.while_loop(lambda state: state[0] != 1, step, (n, 0))[1]
    >>> int(collatz(27))
    111
    """
    if not callable(fun):
        raise DTypeError(f"debug.interruptible: {fun!r} is no function", mend="give one")
    stop = Stop()

    def go_on() -> tuple[()]:
        if stop.is_set:
            raise _Stopped
        return ()

    question = HostFunction(go_on, "debug.interruptible", (), stop)

    return rewritten(fun, lambda graph: _asking(graph, question))


def _asking(graph: Graph, question: HostFunction) -> Graph:
    """Return the graph with a question in each step of its loops."""

    def rewrite(builder: Builder, node: Node, operands: tuple[Value, ...]) -> Any:
        changed = mapped_bodies(node, lambda body: _asking(body, question))
        if "body" in node.bodies and node.op is not None and node.op.invariants is not None:
            step = changed.get("body", node.bodies["body"])
            changed["body"] = _with_question(step, question, node)
        return builder.copy(node, operands, **changed) if changed else None

    return rebuild(graph, rewrite)


def _with_question(body: Graph, question: HostFunction, loop: Node) -> Graph:
    with Builder() as builder:
        builder.source = loop.source
        inputs = [builder.input(value.type, value.node.source) for value in body.inputs]
        ops.debug_callback(function=question, ordered=False, batch=(), batched=())
        return builder.finish(builder.inline(body, inputs))


__all__ = ["interruptible"]
