"""The StableHLO builder that op records receive: the only file that puts its families together."""

from __future__ import annotations

from tracer.lowering.emit.calls import CallBuilder
from tracer.lowering.emit.decompositions import DecompositionBuilder
from tracer.lowering.emit.functions import FunctionBuilder
from tracer.lowering.emit.logarithms import LogarithmBuilder
from tracer.lowering.emit.product import ProductBuilder
from tracer.lowering.emit.window import WindowBuilder


class StableHloBuilder(
    CallBuilder,
    WindowBuilder,
    ProductBuilder,
    DecompositionBuilder,
    LogarithmBuilder,
    FunctionBuilder,
):
    """Emits StableHLO by name. The protocol is in docs/architecture.md."""
