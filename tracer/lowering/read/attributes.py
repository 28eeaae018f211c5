"""From MLIR's attributes to Python: numbers, strings, tuples, mappings, arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracer.lowering.shims import cast, chlo, hlo, ir


def _fields(*names: str) -> Callable[[Any], dict[str, Any]]:
    """Return a reader of dimension numbers."""

    def read(numbers: Any) -> dict[str, Any]:
        found = {name: getattr(numbers, name) for name in names}
        return {k: v if isinstance(v, int) else tuple(map(int, v)) for k, v in found.items()}

    return read


def _value(attribute: Any) -> Any:
    return attribute.value


_STRUCTURED: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (hlo.ComparisonDirectionAttr, _value),
    (hlo.ComparisonTypeAttr, _value),
    (hlo.FftTypeAttr, _value),
    (hlo.PrecisionAttr, _value),
    (hlo.RngAlgorithmAttr, _value),
    (hlo.RngDistributionAttr, _value),
    (hlo.TransposeAttr, _value),
    (chlo.ComparisonDirectionAttr, _value),
    (chlo.ComparisonTypeAttr, _value),
    (
        hlo.DotDimensionNumbers,
        _fields(
            "lhs_batching_dimensions",
            "rhs_batching_dimensions",
            "lhs_contracting_dimensions",
            "rhs_contracting_dimensions",
        ),
    ),
    (
        hlo.ConvDimensionNumbers,
        _fields(
            "input_batch_dimension",
            "input_feature_dimension",
            "input_spatial_dimensions",
            "kernel_input_feature_dimension",
            "kernel_output_feature_dimension",
            "kernel_spatial_dimensions",
            "output_batch_dimension",
            "output_feature_dimension",
            "output_spatial_dimensions",
        ),
    ),
    (
        hlo.GatherDimensionNumbers,
        _fields(
            "offset_dims",
            "collapsed_slice_dims",
            "operand_batching_dims",
            "start_indices_batching_dims",
            "start_index_map",
            "index_vector_dim",
        ),
    ),
    (
        hlo.ScatterDimensionNumbers,
        _fields(
            "update_window_dims",
            "inserted_window_dims",
            "input_batching_dims",
            "scatter_indices_batching_dims",
            "scattered_dims_to_operand_dims",
            "index_vector_dim",
        ),
    ),
    (ir.BoolAttr, _value),
    (ir.IntegerAttr, _value),
    (ir.FloatAttr, _value),
    (ir.StringAttr, _value),
    (ir.FlatSymbolRefAttr, _value),
    (ir.DenseI64ArrayAttr, lambda a: tuple(map(int, a))),
    (ir.DenseBoolArrayAttr, lambda a: tuple(map(bool, a))),
    (ir.DenseIntElementsAttr, np.array),
    (ir.ArrayAttr, lambda a: tuple(plain(item) for item in a)),
    (ir.DictAttr, lambda a: _items(a)),
    (ir.UnitAttr, lambda a: True),
)


def plain(attribute: Any) -> Any:
    """Return an attribute as Python has it; MLIR's text where Python has nothing like it."""
    for kind, read in _STRUCTURED:
        if (known := cast(kind, attribute)) is not None:
            return read(known)
    return str(attribute)


def _items(attributes: Any) -> dict[str, Any]:
    return {named.name: plain(named.attr) for named in attributes}


def attributes_of(operation: Any, leave_out: str = "") -> dict[str, Any]:
    """Return the attributes of an operation by name."""
    found = {}
    for item in operation.attributes:
        name = item if isinstance(item, str) else item.name
        if name != leave_out:
            found[name] = plain(operation.attributes[name])
    return found
