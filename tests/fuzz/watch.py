"""Listens to the compiler: every graph that a pass, a rule or another trace makes of a graph.

There are several doors through which graphs are rewritten; all passes, wherever they are called
from (the pipeline, splitting, the planner's last passes, recomputation, order), go through
`PassManager`. Beside it: single rules, tracing again to keep less, and lanes.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from tests.fuzz.evaluate import values
from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild

_PASSES = importlib.import_module("tracer.optimizer.passes")
_RULES = importlib.import_module("tracer.optimizer.rewrite.match.rules")
_FINAL_PASSES = importlib.import_module("tracer.optimizer.final_passes")
_SIGNATURE = importlib.import_module("tracer.compilation.signature")

Array = np.ndarray[Any, Any]
Evaluate = Callable[[Sequence[Array]], list[Array]]
LEAVE_OUT_ZEROS = frozenset(
    "diagonal-times times-diagonal identity-times one-hot-times rows-of-identity-times "
    "one-hot-transposed-times".split()
)
"""Rules without the products with zeros: numbers where 0 * inf is NaN (docs/rules.md, note 1)."""
KEEP_FROM_OVERFLOW = frozenset(
    "softplus softplus-gradient log-sigmoid log-sum-exp log-sum-exp-gradient softmax "
    "softmax-gradient log-softmax log-softmax-gradient log-of-determinant".split()
)
"""Rules whose form does not overflow, nor take the logarithm of what underflowed."""


@dataclass(frozen=True)
class Step:
    """One rewrite: what did it, and the programs before and after it."""

    name: str
    before: Graph
    after: Graph
    lanes: Any = None

    @property
    def key(self) -> str:
        """Equal for steps with the same result."""
        return f"{self.name}|{self.before.fingerprint}|{self.after.fingerprint}|{id(self.lanes)}"

    def results(self, arrays: Sequence[Array]) -> list[Array]:
        """Return what the program computes after the step, in float64."""
        if self.lanes is None:
            return values(self.after, arrays)
        blocks = [block for graph in self.lanes.graphs for block in values(graph, arrays)]
        return values(self.lanes.join, blocks)


@dataclass
class Watch:
    """What was heard: the steps in order, what fired, and the pass that runs at the moment."""

    steps: list[Step] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    running: str | None = None
    depth: int = 0

    def add(self, name: str, before: Graph, after: Graph, lanes: Any = None) -> None:
        if after is not before or lanes is not None:
            self.steps.append(Step(name, before, after, lanes))
            self.fired[name] += 1

    def may_gain_numbers(self, array: Array, step: Step | None = None) -> Array:
        """Tell where numbers may stand for what the program as written has, by a rule that fired.

        Of one step only where it is such a rule, or the pass that runs it.
        """
        lost = np.zeros(array.shape, bool)
        for rules, is_lost in ((LEAVE_OUT_ZEROS, np.isnan), (KEEP_FROM_OVERFLOW, _is_not_finite)):
            fired = {f"rule {name}" for name in rules} & set(self.fired)
            if fired and (step is None or step.name in {_RULES.RULES_PASS_NAME, *fired}):
                lost |= is_lost(array)
        return lost

    def distinct(self) -> list[Step]:
        """Return the steps, each once."""
        return list({step.key: step for step in self.steps}.values())


def without_overflows(graph: Graph) -> Graph:
    """Return a graph with XLA's forms that do not overflow (docs/values.md).

    It writes `exp(x - y)` for `exp(x) / exp(y)` and `x` for `log(exp(x))`.
    """

    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        sources = [_of_as_many_elements(operand).node for operand in operands]
        is_known = node.op in (ops.divide, ops.log)
        if not is_known or any(x.op is not ops.exponential for x in sources):
            return None
        inner = [ops.reshape(x.operands[0], shape=node.types[0].shape) for x in sources]
        return inner if node.op is ops.log else (ops.exponential(ops.subtract(*inner)),)

    return rebuild(graph, rewrite)


def _of_as_many_elements(value: Value) -> Value:
    """Return what a value is a reshape of, or a sum over axes of one element."""
    node = value.node
    if node.op not in (ops.reshape, ops.broadcast_in_dim, ops.reduce_add):
        return value
    is_same = node.operands[0].type.size == value.type.size
    return _of_as_many_elements(node.operands[0]) if is_same else value


def _is_not_finite(array: Array) -> Array:
    return ~np.isfinite(array)


@contextmanager
def watching() -> Iterator[Watch]:
    """Listen inside of the context."""
    watch = Watch()
    with ExitStack() as stack:
        for owner, name, made in (
            (_PASSES.PassManager, "_run_one", _heard_pass),
            (_PASSES._Run, "_run_body", _heard_body),
            (_RULES, "_replaced", _heard_rules),
            (_RULES, "normal_form", _heard_form("normal form")),
            (_RULES, "fold_transposes", _heard_form("fold transposes")),
            (_FINAL_PASSES, "interchange_row", _heard_lanes),
            (_SIGNATURE.Call, "traced_to_keep_less", _heard_trace),
        ):
            wrapper = made(watch, getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, wrapper))
        yield watch


def _heard_pass(watch: Watch, original: Callable[..., Graph]) -> Callable[..., Graph]:
    def run_one(self: Any, graph: Graph, item: Any) -> Graph:
        watch.running, outer = item.name, watch.running
        result = original(self, graph, item)
        watch.running = outer
        watch.add(item.name, graph, result)
        if result is not graph:
            firsts = (text.partition(":")[0] for text in self.rows[-1].applied)
            watch.fired.update(
                f"rule {first}" for first in firsts if item.name == _RULES.RULES_PASS_NAME
            )
        return result

    return run_one


def _heard_body(watch: Watch, original: Callable[..., Graph]) -> Callable[..., Graph]:
    def run_body(self: Any, body: Graph, log: Any) -> Graph:
        watch.depth += 1
        try:
            return original(self, body, log)
        finally:
            watch.depth -= 1

    return run_body


def _heard_rules(watch: Watch, original: Callable[..., Graph]) -> Callable[..., Graph]:
    """Hear each rule of a round by itself; those in bodies are part of their pass's step."""

    def replaced(graph: Graph, chosen: Sequence[Any]) -> Graph:
        for candidate in () if watch.depth else chosen:
            after = original(graph, [candidate])
            watch.steps.append(Step(f"rule {candidate.rule.name}", graph, after))
        return original(graph, chosen)

    return replaced


def _heard_form(name: str) -> Callable[..., Any]:
    def made(watch: Watch, original: Callable[..., Graph]) -> Callable[..., Graph]:
        def form(graph: Graph) -> Graph:
            result = original(graph)
            if not watch.depth and result is not graph:
                watch.steps.append(Step(name, graph, result))
            return result

        return form

    return made


def _heard_lanes(watch: Watch, original: Callable[..., Any]) -> Callable[..., Any]:
    def interchange_row(graph: Graph, *args: Any) -> Any:
        row, lanes = original(graph, *args)
        if lanes is not None:
            watch.add("loop interchange", graph, graph, lanes)
        return row, lanes

    return interchange_row


def _heard_trace(watch: Watch, original: Callable[..., Any]) -> Callable[..., Any]:
    def traced_to_keep_less(self: Any, large: int | None, *, in_segments: bool) -> Any:
        traced = original(self, large, in_segments=in_segments)
        ways = {"recompute in loops": large is not None, "segment scans": in_segments}
        name = " and ".join(way for way, on in ways.items() if on)
        if traced.graph.fingerprint != self.traced.graph.fingerprint:
            watch.add(name, self.traced.graph, traced.graph)
        return traced

    return traced_to_keep_less
