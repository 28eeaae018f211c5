"""Forward-mode derivatives from the reverse rules alone, by transposing twice.

The pull-back of f at x is linear in the cotangent. Its own pull-back is therefore its transpose,
which is the Jacobian of f: the push-forward. No op needs a second derivative rule, but a loop of
unknown length, which has no pull-back. Source: J. Townsend, "A new trick for calculating Jacobian
vector products" (2017).
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer.autodiff.modes import in_forward_mode
from tracer.autodiff.reverse import PullBack, pull_back, vjp_graph
from tracer.ir import Builder, Graph
from tracer.ops.helpers import full


def linearized(graph: Graph, wrt: Sequence[int], outputs: Sequence[int] | None = None) -> PullBack:
    """Return the pull-back, cut in two, for `push_forward` alone; see `reverse.pull_back`."""
    with in_forward_mode(jvp_graph):
        return pull_back(graph, wrt, outputs)


def push_forward(halves: PullBack) -> Graph:
    """Transpose the backward half of a pull-back.

    Parameters
    ----------
    halves : PullBack
        From `linearized`.

    Returns
    -------
    Graph
        Inputs are those of `halves.backward` with tangents of the `wrt` inputs in place of the
        cotangents; outputs are the tangents of the seeded outputs.
    """
    backward = halves.backward
    first = len(backward.inputs) - halves.seeds
    everything = range(len(backward.outputs))
    with in_forward_mode(jvp_graph):
        transposed = vjp_graph(backward, range(first, len(backward.inputs)), everything)
    with Builder() as builder:
        given = [builder.input(type) for type in backward.input_types[:first]]
        tangents = [builder.input(type) for type in backward.output_types]
        # A linear function has the same transpose everywhere: nothing reads the zeros.
        point = [full(0, type) for type in backward.input_types[first:]]
        return builder.finish(builder.inline(transposed, [*given, *point, *tangents]))


def jvp_graph(graph: Graph, wrt: Sequence[int], outputs: Sequence[int] | None = None) -> Graph:
    """Return the graph of the Jacobian-vector product.

    Parameters
    ----------
    graph : Graph
        What is differentiated.
    wrt : sequence of int
        Positions of the inputs that are given a tangent.
    outputs : sequence of int, optional
        Positions of the outputs whose tangents are asked for; by default all that are floating
        or complex.

    Returns
    -------
    Graph
        Inputs are the graph's inputs, then the tangents; outputs are the graph's outputs, then
        their tangents.
    """
    halves = linearized(graph, wrt, outputs)
    linear = push_forward(halves)
    with Builder() as builder:
        primals = [builder.input(value.type, value.node.source) for value in graph.inputs]
        tangents = [builder.input(graph.inputs[i].type) for i in wrt]
        results = builder.inline(halves.forward, primals)
        own = len(graph.outputs)
        given = [*(primals[i] for i in halves.inputs), *results[own:], *tangents]
        return builder.finish([*results[:own], *builder.inline(linear, given)])


__all__ = ["jvp_graph", "linearized", "push_forward"]
