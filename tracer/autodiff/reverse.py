"""Reverse-mode differentiation as functions from Graph to Graph.

`value_and_gradient` adds the gradient of one output to a graph. `vjp_graph` takes the cotangents of
the outputs as additional inputs. `pull_back` cuts that graph in two at the residuals, the values
that the backward half needs from the forward half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tracer.autodiff.activity import active_outputs, wanted_inputs
from tracer.autodiff.modes import forward_mode
from tracer.autodiff.residuals import cut
from tracer.autodiff.segments import large_bytes, scans_are_segmented, segment_scans
from tracer.autodiff.sweep import Sweep, inexact_positions, instantiate
from tracer.ir import Builder, Graph, Node, Value, bodies_without_effects, without_effects
from tracer.ops.helpers import full


def value_and_gradient(graph: Graph, wrt: Sequence[int], *, output: int = 0) -> Graph:
    """Extend a graph by the gradient of one of its outputs.

    Parameters
    ----------
    graph : Graph
        Its output at position `output` is a floating or complex scalar.
    wrt : sequence of int
        Positions of the inputs to differentiate with respect to, all floating or complex.
    output : int
        Position of the differentiated output; the others are carried along.

    Returns
    -------
    Graph
        Inputs are the graph's; outputs are the graph's outputs, then one gradient for each
        position in `wrt`. For complex inputs the gradient is that of JAX: of a real function
        f(x + iy) it is df/dx - i df/dy.

    Raises
    ------
    NotDifferentiableError
        An op on the way has no derivative.

    Examples
    --------
    >>> from tracer import ops
    >>> from tracer.autodiff import value_and_gradient
    >>> from tracer.ir import Builder, ShapeDtype
    >>> with Builder() as builder:
    ...     x = builder.input(ShapeDtype((), "float32"))
    ...     graph = builder.finish([ops.multiply(x, x)])
    >>> [str(type) for type in value_and_gradient(graph, [0]).output_types]
    ['float32[]', 'float32[]']
    """
    with Builder() as builder:
        primals = _copy_inputs(builder, graph)
        sweep = Sweep(builder, graph, primals, wrt=wrt, outputs=[output], rules=RULES)
        outputs = sweep.forward()
        gradients = sweep.backward([full(1, graph.outputs[output].type)])
        outputs += _instantiate(gradients, graph, wrt)
    return builder.finish(outputs)


def vjp_graph(graph: Graph, wrt: Sequence[int], outputs: Sequence[int] | None = None) -> Graph:
    """Return the graph of the vector-Jacobian product.

    Parameters
    ----------
    graph : Graph
        What is differentiated.
    wrt : sequence of int
        Positions of the inputs whose cotangents are asked for.
    outputs : sequence of int, optional
        Positions of the outputs that are given a cotangent; by default all that are floating or
        complex.

    Returns
    -------
    Graph
        Inputs are the graph's inputs, then the cotangents; outputs are the cotangents of `wrt`.
        The forward nodes that the backward ones need are part of it, without their effects: these
        belong to the graph itself.
    """
    graph = without_effects(graph)
    positions = inexact_positions(graph.output_types) if outputs is None else tuple(outputs)
    with Builder() as builder:
        primals = _copy_inputs(builder, graph)
        seeds = [builder.input(graph.outputs[i].type) for i in positions]
        sweep = Sweep(builder, graph, primals, wrt=wrt, outputs=positions, rules=RULES)
        sweep.forward()
        results = _instantiate(sweep.backward(seeds), graph, wrt)
    return builder.finish(results)


@dataclass(frozen=True)
class PullBack:
    """A vector-Jacobian product in two halves.

    Attributes
    ----------
    forward : Graph
        Inputs are those of the differentiated graph; outputs are its outputs, then residuals.
    backward : Graph
        Inputs are the inputs of the differentiated graph at the positions `inputs`, then the
        residuals, then one cotangent for each seeded output; outputs are the cotangents of `wrt`.
    inputs : tuple of int
        See `backward`.
    seeds : int
        Number of seeded outputs.
    """

    forward: Graph
    backward: Graph
    inputs: tuple[int, ...]
    seeds: int

    @property
    def residuals(self) -> int:
        """Number of values that the forward half keeps for the backward half."""
        return len(self.backward.inputs) - len(self.inputs) - self.seeds


def pull_back(
    graph: Graph,
    wrt: Sequence[int],
    outputs: Sequence[int] | None = None,
    *,
    free: Sequence[int] | None = None,
    saves: Callable[[Node], bool] | None = None,
    drops: Callable[[Node], bool] | None = None,
) -> PullBack:
    """Return the vector-Jacobian product cut in two, so that the forward half runs once.

    Parameters
    ----------
    graph, wrt, outputs
        See `vjp_graph`.
    free : sequence of int, optional
        Positions of the inputs that cost nothing to keep for the backward half; by default all.
    saves : callable, optional
        Tells for a forward node whether its results may be kept for the backward half, which
        then computes all others again; see `residuals.cut` for what is done by default.
    drops : callable, optional
        Tells for a forward node that its results must not be kept, beyond the default.

    Returns
    -------
    PullBack
        What does not depend on a cotangent is in the forward half, except what is made again
        more cheaply than it is kept; see `residuals.cut`.
    """
    positions = inexact_positions(graph.output_types) if outputs is None else tuple(outputs)
    with Builder() as builder:
        primals = _copy_inputs(builder, graph)
        seeds = [builder.input(graph.outputs[i].type) for i in positions]
        sweep = Sweep(builder, graph, primals, wrt=wrt, outputs=positions, rules=RULES)
        results = sweep.forward()
        first = len(builder.nodes)
        cotangents = _instantiate(sweep.backward(seeds), graph, wrt)
    whole = builder.finish(cotangents)
    acting = {node for node in builder.nodes[first:] if node.has_effect}
    cheap = primals if free is None else [primals[i] for i in free]
    later, residuals = cut(whole, primals, seeds, cheap, saves, drops, acting)
    used = tuple(i for i, value in enumerate(primals) if value in residuals)
    kept = [value for value in residuals if value.node.op is not None]
    backward = _isolate([*[primals[i] for i in used], *kept, *seeds], later, cotangents, acting)
    before = [node for node in builder.nodes if node not in acting]
    forward = Graph(primals, [*results, *kept], before)
    return PullBack(forward, backward, used, len(seeds))


def _isolate(
    inputs: Sequence[Value], nodes: Iterable[Node], outputs: Sequence[Value], acting: set[Node]
) -> Graph:
    """Copy `nodes` into a graph of its own in which `inputs` are inputs.

    Only those of `acting` keep their effects: others are forward nodes, which run a second time.
    """
    builder = Builder()
    mapping = {value: builder.input(value.type, value.node.source) for value in inputs}
    for node in nodes:
        operands = tuple([mapping[value] for value in node.operands])
        changed = {} if node in acting else bodies_without_effects(node)
        for old, new in zip(node.results, builder.copy(node, operands, **changed), strict=True):
            mapping.setdefault(old, new)
    return builder.finish([mapping[value] for value in outputs])


def _copy_inputs(builder: Builder, graph: Graph) -> list[Value]:
    return [builder.input(value.type, value.node.source) for value in graph.inputs]


def _instantiate(
    cotangents: Sequence[Value | None], graph: Graph, wrt: Sequence[int]
) -> list[Value]:
    return [
        instantiate(cotangent, graph.inputs[position].type)
        for cotangent, position in zip(cotangents, wrt, strict=True)
    ]


@dataclass(frozen=True)
class ReverseRules:
    """What an op with bodies may ask of this room; it receives it in `Op.linearize`.

    Attributes
    ----------
    vjp_graph, pull_back, active_outputs, wanted_inputs : callable
        The functions of these names.
    scans_are_segmented, segment_scans, large_bytes : callable
        See `segments`.
    forward_mode : callable
        See `modes`.
    """

    vjp_graph: Callable[..., Graph]
    pull_back: Callable[..., PullBack]
    active_outputs: Callable[..., tuple[bool, ...]]
    wanted_inputs: Callable[..., tuple[bool, ...]]
    scans_are_segmented: Callable[[], bool]
    segment_scans: Callable[[bool], AbstractContextManager[None]]
    large_bytes: Callable[[], int | None]
    forward_mode: Callable[[], Callable[..., Graph] | None]


RULES = ReverseRules(
    vjp_graph,
    pull_back,
    active_outputs,
    wanted_inputs,
    scans_are_segmented,
    segment_scans,
    large_bytes,
    forward_mode,
)

__all__ = ["RULES", "PullBack", "pull_back", "value_and_gradient", "vjp_graph"]
