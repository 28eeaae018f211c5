"""Value numbering: a program's nodes by op, operands and parameters.

An expression of a rule that the program computes anyway costs nothing. Source: Cocke & Schwartz
1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracer.ir import Graph, Node, Value, param_key
from tracer.optimizer.rewrite.match.structure import seen_through


class Numbering:
    """Finds the nodes of expressions in a graph.

    Parameters
    ----------
    graph : Graph
        The program, without common subexpressions.
    """

    def __init__(self, graph: Graph) -> None:
        self._nodes: dict[Any, Node] = {}
        for node in graph.nodes:
            operands = tuple([seen_through(value) for value in node.operands])
            self._nodes.setdefault(_key(node, operands), node)

    def missing(self, expression: Graph, leaves: Sequence[Value]) -> tuple[list[Node], Value]:
        """Look up an expression.

        Returns
        -------
        list of Node
            The nodes of the expression that the program does not have.
        Value
            The result: of the program where it has it, else of the expression.
        """
        found: dict[Value, Value] = dict(zip(expression.inputs, leaves, strict=True))
        lacking = []
        for node in expression.nodes:
            if seen_through(node.results[0]) is not node.results[0]:
                continue
            operands = tuple([_through(found, value) for value in node.operands])
            known = self._nodes.get(_key(node, operands))
            if known is None:
                lacking.append(node)
            results = node.results if known is None else known.results
            found.update(zip(node.results, results, strict=True))
        return lacking, _through(found, expression.outputs[0])

    def has(self, expression: Graph, leaves: Sequence[Value]) -> bool:
        """Tell whether the program computes an expression."""
        return not self.missing(expression, leaves)[0]


def _through(found: Mapping[Value, Value], value: Value) -> Value:
    return seen_through(found[seen_through(value)])


def _key(node: Node, operands: tuple[Value, ...]) -> Any:
    params = tuple((key, param_key(value)) for key, value in sorted(node.params.items()))
    return node.op, operands, params
