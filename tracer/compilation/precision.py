"""The same program in more digits, or fewer, to measure its rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import TracerError
from tracer.ir import SUPPORTED_DTYPES, Builder, Graph, Node, ShapeDtype, Value
from tracer.ops.rules import dtype_kind

Dtype = np.dtype[Any]
Dtypes = Mapping[Dtype, Dtype]
_FLOAT64, _COMPLEX128 = np.dtype("float64"), np.dtype("complex128")

MORE_DIGITS: Dtypes = {
    dtype: _COMPLEX128 if dtype_kind(dtype) == "c" else _FLOAT64
    for dtype in SUPPORTED_DTYPES
    if dtype_kind(dtype) in "fc" and dtype not in (_FLOAT64, _COMPLEX128)
}
"""Every float but the widest, to the widest."""
FEWER_DIGITS: Dtypes = {_FLOAT64: np.dtype("float32"), _COMPLEX128: np.dtype("complex64")}
"""The widest floats, to half of their digits."""


def in_precision(graph: Graph, dtypes: Dtypes) -> Graph:
    """Return a graph that computes the same in other dtypes.

    Parameters
    ----------
    graph : Graph
        The program; ops with an expansion are written out.
    dtypes : mapping of dtype to dtype
        What is computed in another dtype: inputs, results and all between. What exists in its own
        dtype only, such as the bits of a number, is computed in that.

    Returns
    -------
    Graph
        `graph` itself when it has none of the dtypes.
    """
    with Builder() as builder:
        mapping = {
            value: builder.input(_changed(value.type, dtypes), value.node.source)
            for value in graph.inputs
        }
        for node in graph.nodes:
            builder.source = node.source
            operands = [mapping[value] for value in node.operands]
            mapping.update(
                zip(node.results, _in_other(builder, node, operands, dtypes), strict=True)
            )
        found = builder.finish([mapping[value] for value in graph.outputs])
    return graph if found.fingerprint == graph.fingerprint else found


def _in_other(
    builder: Builder, node: Node, operands: Sequence[Value], dtypes: Dtypes
) -> Sequence[Value]:
    """Add a node in other dtypes, or in its own between conversions if it has no other."""
    assert node.op is not None
    params = {name: _param(value, dtypes) for name, value in node.params.items()}
    wanted = [_changed(type, dtypes) for type in node.types]
    try:
        results = _added(builder, node, operands, params)
    except TracerError:
        results = []
    if [value.type for value in results] == wanted:
        return results
    pairs = zip(operands, node.operand_types, strict=True)
    own = [_converted(value, type.dtype) for value, type in pairs]
    results = _added(builder, node, own, node.params)
    return [_converted(value, type.dtype) for value, type in zip(results, wanted, strict=True)]


def _added(
    builder: Builder, node: Node, operands: Sequence[Value], params: Mapping[str, Any]
) -> list[Value]:
    assert node.op is not None
    found = builder.add(node.op, tuple(operands), params)
    return [found] if isinstance(found, Value) else list(found)


def _converted(value: Value, dtype: Dtype) -> Value:
    if value.dtype == dtype:
        return value
    result: Value = ops.convert(value, dtype=dtype)
    return result


def _changed(type: ShapeDtype, dtypes: Dtypes) -> ShapeDtype:
    return type.with_dtype(dtypes.get(type.dtype, type.dtype))


def _param(value: Any, dtypes: Dtypes) -> Any:
    """Return a parameter for other dtypes: a dtype, a constant, the body of a loop."""
    if isinstance(value, Graph):
        return in_precision(value, dtypes)
    if isinstance(value, tuple):
        return tuple([_param(item, dtypes) for item in value])
    if isinstance(value, np.dtype):
        return dtypes.get(value, value)
    if isinstance(value, np.ndarray):
        return in_dtype(value, dtypes)
    return value


def in_dtype(array: np.ndarray[Any, Any], dtypes: Dtypes) -> np.ndarray[Any, Any]:
    """Return an array in its other dtype; what is too large for it is infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtypes.get(array.dtype, array.dtype))


__all__ = ["FEWER_DIGITS", "MORE_DIGITS", "Dtypes", "in_dtype", "in_precision"]
