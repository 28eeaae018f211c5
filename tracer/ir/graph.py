"""The dataflow graph: values, nodes, the frozen Graph and the Builder that makes one.

`Graph` wraps one `networkx.MultiDiGraph` whose nodes are `Node` objects and whose edges carry the
operand position (the key) and the result index. This is the only file that knows networkx.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tracer.errors import Source, user_source
from tracer.ir.op import BUILDERS, Op, active_builder
from tracer.ir.types import AxisRule, Cost, ShapeDtype

if TYPE_CHECKING:
    import networkx as nx

_KEPT_CHARACTERS = 1000
"""Parameters' text that a node keeps."""


class Value:
    """One result of a node. Compared by identity."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index

    @property
    def type(self) -> ShapeDtype:
        """Shape and dtype."""
        return self.node.types[self.index]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes."""
        return self.node.types[self.index].shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.node.types[self.index].dtype

    def __repr__(self) -> str:
        name = self.node.op.name if self.node.op is not None else "input"
        return f"<{name}.{self.index}: {self.type}>"


class Node:
    """One application of an op. `op` is None for an input of the graph."""

    __slots__ = ("_rules", "op", "operands", "params", "results", "source", "types")

    def __init__(
        self,
        op: Op | None,
        operands: tuple[Value, ...],
        params: Mapping[str, Any],
        types: tuple[ShapeDtype, ...],
        source: Source | None,
    ) -> None:
        self.op = op
        self.operands = operands
        self.params = params
        self.types = types
        self.source = source
        self.results = tuple(Value(self, i) for i in range(len(types)))
        self._rules: dict[str, Any] = {}

    @property
    def cost(self) -> Cost:
        """What one run of the op costs, by its record; worked out once."""
        found: Cost = self._ruled("cost", self.op.cost if self.op is not None else None)
        return found

    @property
    def axes(self) -> AxisRule:
        """How the axes of operands and results correspond, by the op's record."""
        found: AxisRule = self._ruled("axes", self.op.axes if self.op is not None else None)
        return found

    def _ruled(self, name: str, rule: Callable[..., Any] | None) -> Any:
        found = self._rules.get(name)
        if found is None:
            assert rule is not None, "an input has no rules"
            found = self._rules[name] = rule(self.operand_types, self.types, **self.params)
        return found

    @property
    def name(self) -> str:
        """Name of the op, "input" for an input."""
        return self.op.name if self.op is not None else "input"

    @property
    def known_name(self) -> str:
        """The name by which users know the op."""
        known = "" if self.op is None else self.op.known_as
        return known or self.name

    @property
    def operand_types(self) -> tuple[ShapeDtype, ...]:
        """Types of the operands."""
        return tuple([v.node.types[v.index] for v in self.operands])

    @property
    def bodies(self) -> dict[str, Graph | tuple[Graph, ...]]:
        """The parameters that are Graphs (loop bodies, branches)."""
        found: dict[str, Graph | tuple[Graph, ...]] | None = self._rules.get("bodies")
        if found is None:
            found = self._rules["bodies"] = {
                key: value
                for key, value in self.params.items()
                if isinstance(value, Graph)
                or (isinstance(value, tuple) and value and isinstance(value[0], Graph))
            }
        return found

    @property
    def body_graphs(self) -> tuple[Graph, ...]:
        """The same Graphs without their names, one after the other."""
        found: tuple[Graph, ...] | None = self._rules.get("body_graphs")
        if found is None:
            graphs: list[Graph] = []
            for bodies in self.bodies.values():
                graphs.extend(bodies if isinstance(bodies, tuple) else (bodies,))
            found = self._rules["body_graphs"] = tuple(graphs)
        return found

    @property
    def has_effect(self) -> bool:
        """Whether the op, or one in a body, acts on the world outside of the program."""
        found: bool | None = self._rules.get("has_effect")
        if found is None:
            in_bodies = any(body.has_effect for body in self.body_graphs)
            own = self.op is not None and self.op.effect
            found = self._rules["has_effect"] = own or in_bodies
        return found

    @property
    def is_pure(self) -> bool:
        """Whether it may be removed, merged with its like and computed again."""
        return self.op is not None and self.op.pure and not self.has_effect

    def __repr__(self) -> str:
        return f"<{self.name}: {', '.join(map(str, self.types))}>"


class Graph:
    """A frozen dataflow graph: inputs, outputs and the nodes between, in execution order.

    Parameters
    ----------
    inputs : sequence of Value
        Results of input nodes, in order.
    outputs : sequence of Value
        What the graph computes.
    nodes : iterable of Node, optional
        A superset of the nodes in a valid execution order. Those that no output needs are
        dropped, unless they have an effect. By default a depth-first order is used.
    with_effects : bool
        Whether nodes with an effect are kept that no output needs.
    """

    def __init__(
        self,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        nodes: Iterable[Node] | None = None,
        *,
        with_effects: bool = True,
    ) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        known = () if nodes is None else tuple(nodes)
        wanted = [value.node for value in self.outputs]
        if with_effects:
            wanted += [node for node in known if node.has_effect]
        order = _postorder(wanted)
        if nodes is not None:
            needed = set(order)
            order = [node for node in known if node in needed]
        self.nodes: tuple[Node, ...] = tuple(node for node in order if node.op is not None)

    @cached_property
    def has_effect(self) -> bool:
        """Whether a node has an effect, in bodies too."""
        return any(node.has_effect for node in self.nodes)

    @cached_property
    def calls_host(self) -> bool:
        """Whether a node calls Python while the program runs, in bodies too."""
        return any(
            (node.op is not None and node.op.calls_host)
            or any(body.calls_host for body in node.body_graphs)
            for node in self.nodes
        )

    @cached_property
    def dag(self) -> nx.MultiDiGraph[Node]:
        """The networkx graph, frozen; edges carry `key` (operand position) and `result`."""
        import networkx as nx  # here, since it is a seventh of our own import

        dag: nx.MultiDiGraph[Node] = nx.MultiDiGraph()
        dag.add_nodes_from(value.node for value in self.inputs)
        dag.add_nodes_from(self.nodes)
        dag.add_edges_from(
            (value.node, node, position, {"result": value.index})
            for node in self.nodes
            for position, value in enumerate(node.operands)
        )
        return nx.freeze(dag)

    def users(self, node: Node) -> Iterator[tuple[Node, int, int]]:
        """Yield (user, operand position, result index) for every use of a node's results."""
        for user, edges in self.dag.succ[node].items():
            for position, data in edges.items():
                yield user, position, data["result"]

    @property
    def input_types(self) -> tuple[ShapeDtype, ...]:
        """Types of the inputs."""
        return tuple(value.type for value in self.inputs)

    @property
    def output_types(self) -> tuple[ShapeDtype, ...]:
        """Types of the outputs."""
        return tuple(value.type for value in self.outputs)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the structure: equal for graphs that compute the same in the same order."""
        numbers: dict[Value, int] = {}
        parts: list[str] = []
        for value in self.inputs:
            numbers[value] = len(numbers)
            parts.append(str(value.type))
        for node in self.nodes:
            for result in node.results:
                numbers[result] = len(numbers)
            operands = [numbers[value] for value in node.operands]
            parts.append(f"{node.name}{operands}{_params_text(node)}")
        parts.append(str([numbers[value] for value in self.outputs]))
        return hashlib.blake2b("".join(parts).encode(), digest_size=16).hexdigest()


def _params_text(node: Node) -> str:
    """Return a node's parameters as text that is equal exactly when they are; worked out once."""
    found: str | None = node._rules.get("params")
    if found is None:
        params = node.params
        found = "".join([f"{key}={param_key(params[key])};" for key in sorted(params)])
        if len(found) <= _KEPT_CHARACTERS:  # not those of a constant
            node._rules["params"] = found
    return found


def param_key(value: Any) -> Any:
    """Return a hashable stand-in for a parameter that is equal exactly when the parameter is."""
    if isinstance(value, Graph):
        return ("graph", value.fingerprint)
    if isinstance(value, np.ndarray):
        return ("array", value.shape, str(value.dtype), value.tobytes())
    if isinstance(value, tuple):
        return tuple(param_key(item) for item in value)
    # Distinguishes 1, 1.0 and True, and -0.0 from 0.0, which compare equal.
    return (type(value).__name__, repr(value))


def _postorder(wanted: Sequence[Node]) -> list[Node]:
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(wanted)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((v.node, False) for v in reversed(node.operands) if v.node not in seen)
    return order


class Builder:
    """Collects nodes until `finish` freezes them into a Graph.

    Used as a context manager it becomes the builder that op records add their nodes to.

    Examples
    --------
    >>> from tracer import ops
    >>> from tracer.ir import Builder, ShapeDtype
    >>> with Builder() as builder:
    ...     x = builder.input(ShapeDtype((3,), "float32"))
    ...     graph = builder.finish([ops.add(x, x)])
    >>> len(graph.nodes)
    1
    """

    def __init__(self) -> None:
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.source: Source | None = None
        """Source given to new nodes; None means: look for the user's frame."""

    def input(self, type: ShapeDtype, source: Source | None = None) -> Value:
        """Add an input."""
        value = Node(None, (), {}, (type,), source or self.source).results[0]
        self.inputs.append(value)
        return value

    def add(self, op: Op, operands: tuple[Value, ...], params: Mapping[str, Any]) -> Any:
        """Add a node; returns its one result, or a tuple when the op has several."""
        inferred = op.infer(*[v.node.types[v.index] for v in operands], **params)
        single = inferred.__class__ is ShapeDtype
        types: Any = (inferred,) if single else inferred
        node = Node(op, operands, params, types, self.source or user_source())
        self.nodes.append(node)
        return node.results[0] if single else node.results

    def copy(self, node: Node, operands: tuple[Value, ...], **changed: Any) -> tuple[Value, ...]:
        """Add a copy of `node` on other operands of the same types; returns all its results."""
        params = {**node.params, **changed} if changed else node.params
        new = Node(node.op, operands, params, node.types, node.source)
        if params is node.params:
            # The same op on the same types: what its record says of it stays true.
            new._rules = node._rules
        self.nodes.append(new)
        return new.results

    def inline(self, graph: Graph, operands: Sequence[Value]) -> list[Value]:
        """Add a copy of all nodes of `graph` with its inputs bound to `operands`."""
        mapping = dict(zip(graph.inputs, operands, strict=True))
        copy_nodes(self, graph.nodes, mapping)
        return [mapping[value] for value in graph.outputs]

    def finish(self, outputs: Sequence[Value]) -> Graph:
        """Freeze into a Graph; nodes without an effect that no output needs are dropped."""
        return Graph(self.inputs, outputs, self.nodes)

    def __enter__(self) -> Builder:
        BUILDERS.stack.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        BUILDERS.stack.pop()


def copy_nodes(builder: Builder, nodes: Iterable[Node], mapping: dict[Value, Value]) -> None:
    """Copy nodes into `builder`, reading operands through `mapping` and extending it."""
    for node in nodes:
        operands = tuple([mapping[value] for value in node.operands])
        mapping.update(zip(node.results, builder.copy(node, operands), strict=True))


def rebuild(
    graph: Graph, rewrite: Callable[[Builder, Node, tuple[Value, ...]], Sequence[Value] | None]
) -> Graph:
    """Copy a graph, letting `rewrite` replace nodes.

    Parameters
    ----------
    graph : Graph
        The graph to copy.
    rewrite : callable
        `(builder, node, new operands) -> new results`, or None to copy the node unchanged. New
        nodes made by calling ops inherit the source of the node they replace.

    Returns
    -------
    Graph
        The new graph; `graph` itself when nothing was replaced.
    """
    changed = False
    mapping: dict[Value, Value] = {}
    with Builder() as builder:
        for value in graph.inputs:
            mapping[value] = builder.input(value.type, value.node.source)
        for node in graph.nodes:
            operands = tuple([mapping[value] for value in node.operands])
            builder.source = node.source
            results = rewrite(builder, node, operands)
            if results is None:
                results = builder.copy(node, operands)
            else:
                changed = True
            mapping.update(zip(node.results, results, strict=True))
    return builder.finish([mapping[v] for v in graph.outputs]) if changed else graph


def mapped_bodies(node: Node, transform: Callable[[Graph], Graph]) -> dict[str, Any]:
    """Return the parameters of a node whose bodies `transform` changes, changed."""
    changed: dict[str, Any] = {}
    for key, bodies in node.bodies.items():
        many = bodies if isinstance(bodies, tuple) else (bodies,)
        new = tuple([transform(body) for body in many])
        if any(after is not before for after, before in zip(new, many, strict=True)):
            changed[key] = new if isinstance(bodies, tuple) else new[0]
    return changed


def map_bodies(graph: Graph, transform: Callable[[Graph], Graph]) -> Graph:
    """Return the graph with `transform` applied to the bodies of its loops and branches.

    A body keeps its signature. The graph itself comes back when no body changes.
    """
    changes = {node: new for node in graph.nodes if (new := mapped_bodies(node, transform))}

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        return builder.copy(node, operands, **changes[node]) if node in changes else None

    return rebuild(graph, rewrite) if changes else graph


def current_builder() -> Builder:
    """Return the innermost active builder of this thread."""
    builder: Builder = active_builder()
    return builder


def is_building() -> bool:
    """Tell whether a graph is being built in this thread."""
    return bool(BUILDERS.stack)


__all__ = [
    "Builder",
    "Graph",
    "Node",
    "Value",
    "copy_nodes",
    "current_builder",
    "is_building",
    "map_bodies",
    "param_key",
    "rebuild",
]
