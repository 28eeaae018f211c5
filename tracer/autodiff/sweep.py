"""The reverse sweep: copy the forward nodes, then apply their vjp rules in reverse order.

Rules emit nodes with the same ops, so a gradient is an ordinary graph. It can be differentiated
again, and every memory pass sees forward and backward together. A cotangent of None means
zero. Zeros are created only for ops that need them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tracer import ops
from tracer.autodiff.activity import active_values, carries_gradient, wanted_values
from tracer.autodiff.segments import large_bytes
from tracer.errors import NotDifferentiableError, VerifyError, user_source
from tracer.ir import Builder, Graph, Node, NotDifferentiable, ShapeDtype, Value
from tracer.ops.helpers import full
from tracer.ops.sink import sink_invariants

Cotangents = Sequence[Value | None]


class Sweep:
    """One differentiation of one graph, written into `builder`.

    Parameters
    ----------
    builder : Builder
        Where nodes go; it must be the current one.
    graph : Graph
        What is differentiated.
    operands : sequence of Value
        Values of `builder` for the graph's inputs.
    wrt : sequence of int
        Positions of the inputs whose cotangents are asked for.
    outputs : sequence of int
        Positions of the outputs that will be given a cotangent.
    rules : object
        What `Op.linearize` rules receive to differentiate their bodies.
    """

    def __init__(
        self,
        builder: Builder,
        graph: Graph,
        operands: Sequence[Value],
        *,
        wrt: Sequence[int],
        outputs: Sequence[int],
        rules: object,
    ) -> None:
        threshold = large_bytes()
        if threshold is not None:
            # Before differentiation: then cotangents of invariants are pulled back in each step.
            graph = sink_invariants(
                graph, lambda type: type.nbytes > threshold, differentiated=True
            )
        self.builder = builder
        self.graph = graph
        self.wrt = tuple(wrt)
        self.seeded = tuple(outputs)
        self.rules = rules
        self.active = active_values(graph, wrt)
        self.wanted = wanted_values(graph, self.active, outputs)
        self.values: dict[Value, Value] = dict(zip(graph.inputs, operands, strict=True))
        self.pull_backs: dict[Node, Callable[[tuple[Value | None, ...]], Cotangents]] = {}
        self.cotangents: dict[Value, Value] = {}

    def forward(self) -> list[Value]:
        """Emit the forward nodes; returns the values of the outputs."""
        for node in self.graph.nodes:
            operands = tuple([self.values[value] for value in node.operands])
            self.values.update(zip(node.results, self._emit(node, operands), strict=True))
        self.builder.source = None
        return [self.values[value] for value in self.graph.outputs]

    def _emit(self, node: Node, operands: tuple[Value, ...]) -> Sequence[Value]:
        op = node.op
        wanted = tuple([value in self.wanted for value in node.results])
        if op is None or op.linearize is None or not any(wanted):
            return self.builder.copy(node, operands)
        self.builder.source = node.source
        active = tuple([value in self.wanted for value in node.operands])
        with _named(node):
            results, self.pull_backs[node] = op.linearize(
                self.rules, active, wanted, *operands, **node.params
            )
        return tuple(results)

    def backward(self, seeds: Cotangents) -> list[Value | None]:
        """Emit the backward nodes; returns the cotangents of the `wrt` inputs.

        Parameters
        ----------
        seeds : sequence of Value or None
            One cotangent for each position in `outputs`.
        """
        for position, seed in zip(self.seeded, seeds, strict=True):
            self._accumulate(self.graph.outputs[position], seed, None)
        for node in reversed(self.graph.nodes):
            given = tuple([self.cotangents.pop(value, None) for value in node.results])
            if any(g is not None for g in given):
                self._visit(node, given)
        self.builder.source = None
        return [self.cotangents.get(self.graph.inputs[position]) for position in self.wrt]

    def _visit(self, node: Node, given: tuple[Value | None, ...]) -> None:
        self.builder.source = node.source
        with _named(node):
            if node in self.pull_backs:
                results = self.pull_backs[node](given)
            else:
                results = self._apply_vjp(node, given)
        for operand, cotangent in zip(node.operands, results, strict=True):
            self._accumulate(operand, cotangent, node)

    def _apply_vjp(self, node: Node, given: tuple[Value | None, ...]) -> Cotangents:
        vjp = node.op.vjp if node.op is not None else None
        if isinstance(vjp, NotDifferentiable):
            raise NotDifferentiableError(
                f"{node.name} has no gradient: {vjp.reason}", mend=vjp.mend, where=node.source
            )
        if vjp is None:
            raise VerifyError("an input was found among the nodes", mend="report this as a bug")
        operands = [self.values[value] for value in node.operands]
        results = tuple([self.values[value] for value in node.results])
        if len(results) == 1:
            return vjp(given[0], results[0], *operands, **node.params)
        return vjp(given, results, *operands, **node.params)

    def _accumulate(self, value: Value, cotangent: Value | None, node: Node | None) -> None:
        if cotangent is None or value not in self.wanted:
            return
        if cotangent.type is not value.type:
            name = node.name if node is not None else "the caller"
            raise VerifyError(
                f"the vjp of {name} gave a cotangent of type {cotangent.type} to an operand of "
                f"type {value.type}",
                mend="a cotangent has the type of its operand; mend the op's vjp rule",
            )
        known = self.cotangents.get(value)
        self.cotangents[value] = cotangent if known is None else ops.add(known, cotangent)


@contextmanager
def _named(node: Node) -> Iterator[None]:
    """Let a rule that has no derivative name the line of its op, not the one that asks for it."""
    try:
        yield
    except NotDifferentiableError as error:
        if node.source is not None and error.where == user_source():
            error.where = node.source
        raise


def instantiate(cotangent: Value | None, type: ShapeDtype) -> Value:
    """Return the cotangent, or zeros where it is None."""
    return full(0, type) if cotangent is None else cotangent


def inexact_positions(types: Sequence[ShapeDtype]) -> tuple[int, ...]:
    """Return the positions of the types that carry gradients."""
    return tuple(i for i, type in enumerate(types) if carries_gradient(type.dtype))


__all__ = ["Cotangents", "Sweep", "inexact_positions", "instantiate"]
