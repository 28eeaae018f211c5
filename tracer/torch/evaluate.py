"""From a graph of torch to ops: go through its nodes and apply the rule of each."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tracer.array.array import Array
from tracer.array.convert import broadcast, scalar
from tracer.array.dispatch import from_host
from tracer.compilation.importing import at_source
from tracer.errors import Source, UnsupportedError
from tracer.torch.draws import is_draw
from tracer.torch.sources import source_of
from tracer.torch.table import Node, refusal_of, rule_of
from tracer.torch.types import type_of


def evaluate(
    module: torch.fx.GraphModule, arrays: Sequence[Array], drawn: Mapping[Any, Array]
) -> list[Array | None]:
    """Evaluate a functional graph within the active recording.

    Parameters
    ----------
    module : GraphModule
    arrays : sequence of Array
        One for each input.
    drawn : mapping of Node to Array
        What the nodes that draw random numbers drew.

    Returns
    -------
    list of Array or None
        One for each result.
    """
    values: dict[Any, Any] = dict(drawn)
    rest = iter(arrays)
    for node in module.graph.nodes:
        if node in values:
            continue
        if node.op == "placeholder":
            values[node] = next(rest)
        elif node.op == "get_attr":
            values[node] = _constant(getattr(module, node.target))
        elif node.op == "output":
            return [_read(values, x) for x in node.args[0]]
        else:
            values[node] = _apply(node, values)
    raise AssertionError("a graph has an output")


def _constant(tensor: torch.Tensor) -> Array:
    """Return numbers that are written in the function."""
    type = type_of(tensor)
    value = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if type.dtype.name == "bfloat16":
        return from_host(value.view(torch.int16).numpy().view(type.dtype))
    return from_host(value.numpy())


def _read(values: Mapping[Any, Any], argument: Any) -> Any:
    return torch.fx.node.map_arg(argument, lambda node: values[node])


def _apply(node: Any, values: Mapping[Any, Any]) -> Any:
    args, kwargs = _read(values, node.args), _read(values, node.kwargs)
    if node.target is operator.getitem:
        return args[0][args[1]]
    source = source_of(node)
    function = rule_of(node.target)
    if function is None:
        raise unsupported([(node.target, source)])
    seen = Node(str(node.target), _types(node, source), _values(node), source)
    with at_source(source):
        results = function(seen, *args, **kwargs)
        _check_types(seen, results)
    return results


def _values(node: Any) -> tuple[Any, ...]:
    return torch.fx.node.map_arg(node.args, lambda operand: operand.meta["val"])  # type: ignore[no-any-return]


def _types(node: Any, source: Source | None) -> tuple[Any, ...]:
    value = node.meta.get("val")
    values = value if isinstance(value, tuple | list) else (value,)
    return tuple(None if x is None else type_of(x, source) for x in values)


def _check_types(node: Node, results: Any) -> None:
    """Tell at once where a rule made something else than torch says."""
    found = [results] if isinstance(results, Array) else list(results)
    for array, type in zip(found, node.results, strict=True):
        assert array is None or type is None or array.type == type, (
            f"the rule of {node.name} made {array.type}, not {type}"
        )


def check_supported(graph: torch.fx.Graph) -> None:
    """Raise `UnsupportedError` with all ops that have no rule, and where they are used."""
    found = dict[Any, Source | None]()
    for node in graph.nodes:
        is_op = node.op == "call_function" and node.target is not operator.getitem
        if is_op and rule_of(node.target) is None and not is_draw(node.target):
            found.setdefault(node.target, source_of(node))
    if found:
        raise unsupported(list(found.items()))


def unsupported(found: Sequence[tuple[Any, Source | None]]) -> UnsupportedError:
    """Return the error for ops without a rule."""
    target, where = found[0]
    reason, mend = refusal_of(target) or (
        "has no rule in tracer.torch",
        "write it with other functions of torch; docs/torch.md lists what is known",
    )
    others = "".join(
        f"; also {other}{f' ({place})' if place else ''}" for other, place in found[1:]
    )
    return UnsupportedError(f"torch's {target} {reason}{others}", mend=mend, where=where)


def zeros(type: Any) -> Array:
    """Return zeros of a type."""
    return broadcast(scalar(0, type.dtype), type.shape)
