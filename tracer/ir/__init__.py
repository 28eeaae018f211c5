"""The intermediate representation: types, op records, graphs. It knows no particular op."""

from tracer.ir.combining import Merge, Piece, Response
from tracer.ir.effects import (
    Effects,
    bodies_without_effects,
    effects_of,
    keeps_order,
    without_effects,
)
from tracer.ir.fused import fused_flops
from tracer.ir.graph import (
    Builder,
    Graph,
    Node,
    Value,
    copy_nodes,
    current_builder,
    is_building,
    map_bodies,
    mapped_bodies,
    param_key,
    rebuild,
)
from tracer.ir.host import HostFunction, Stop, host_function
from tracer.ir.interpret import interpret
from tracer.ir.op import Batching, Chunk, NotDifferentiable, Op, registry
from tracer.ir.parse import parse_graph
from tracer.ir.text import print_graph
from tracer.ir.types import (
    DTYPES_BY_NAME,
    SUPPORTED_DTYPES,
    AxisRule,
    Cost,
    Label,
    ShapeDtype,
    as_dtype,
    require_countable,
)
from tracer.ir.verify import verify, verify_same_signature

__all__ = [
    "DTYPES_BY_NAME",
    "SUPPORTED_DTYPES",
    "AxisRule",
    "Batching",
    "Builder",
    "Chunk",
    "Cost",
    "Effects",
    "Graph",
    "HostFunction",
    "Label",
    "Merge",
    "Node",
    "NotDifferentiable",
    "Op",
    "Piece",
    "Response",
    "ShapeDtype",
    "Stop",
    "Value",
    "as_dtype",
    "bodies_without_effects",
    "copy_nodes",
    "current_builder",
    "effects_of",
    "fused_flops",
    "host_function",
    "interpret",
    "is_building",
    "keeps_order",
    "map_bodies",
    "mapped_bodies",
    "param_key",
    "parse_graph",
    "print_graph",
    "rebuild",
    "registry",
    "require_countable",
    "verify",
    "verify_same_signature",
    "without_effects",
]
