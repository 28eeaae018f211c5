"""Walk the nodes of a graph and let each op lower itself through the builder."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracer.errors import LoweringError, TracerError
from tracer.ir import Graph, Node, Value
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.values import Operand
from tracer.lowering.shims import ir

_NODE_NAME = re.compile(r"^[\w]+\.(\d+)$")


def lower_nodes(
    b: ModuleContext, graph: Graph, operands: Sequence[Operand], *, path: str = ""
) -> list[Operand]:
    """Emit every node of `graph` with its inputs bound to `operands`.

    Parameters
    ----------
    b : StableHloBuilder
        What ops receive; the walk itself needs the context only.
    graph : Graph
        Its nodes are emitted in order.
    operands : sequence of Operand
        One for each input.
    path : str
        Prefix of the names that the emitted ops carry; see `node_path`.

    Returns
    -------
    list of Operand
        The graph's outputs.

    Raises
    ------
    LoweringError
        StableHLO does not accept an op; names the op and the user's line.
    """
    values: dict[Value, Operand] = dict(zip(graph.inputs, operands, strict=True))
    enclosing = b.path
    for number, node in enumerate(graph.nodes):
        b.path = f"{path}{node.name}.{number}"
        with ir.Location.name(b.path):
            values.update(zip(node.results, _lower(b, node, values), strict=True))
    b.path = enclosing
    return [values[value] for value in graph.outputs]


def _lower(b: ModuleContext, node: Node, values: dict[Value, Operand]) -> tuple[Operand, ...]:
    assert node.op is not None, "inputs are no nodes of the walk"
    operands = [values[value] for value in node.operands]
    try:
        results = node.op.lower(b, node.types, *operands, **node.params)
    except TracerError:
        raise
    except (ir.MLIRError, TypeError, ValueError) as error:
        types = ", ".join(map(str, node.operand_types))
        raise LoweringError(
            f"{node.name}({types}) could not be lowered to StableHLO: {error}",
            mend="convert the operands to a more common dtype; if it stays, report it as a bug",
            where=node.source,
        ) from error
    return (results,) if isinstance(results, Operand) else tuple(results)


def node_path(op_name: str) -> tuple[int | str, ...]:
    """Map the `op_name` in XLA's metadata back to the node that an instruction came from.

    Parameters
    ----------
    op_name : str
        Such as "add.3", or "while.5/body/add.2" for a node of a loop's body.

    Returns
    -------
    tuple
        Position of the node in `graph.nodes`, then for each nesting the body's name and the
        position in that body's nodes. Empty when the name is not ours.

    Examples
    --------
    >>> node_path("while.5/body/add.2")
    (5, 'body', 2)
    """
    path: list[int | str] = []
    for part in op_name.split("/"):
        found = _NODE_NAME.match(part)
        path.append(int(found[1]) if found else part)
    return tuple(path) if path and isinstance(path[0], int) else ()
