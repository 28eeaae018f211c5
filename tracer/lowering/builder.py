"""The StableHLO builder that op records receive: the only file that puts its families together."""

from __future__ import annotations

from tracer.lowering.builder_calls import CallBuilder
from tracer.lowering.builder_decompositions import DecompositionBuilder
from tracer.lowering.builder_functions import FunctionBuilder
from tracer.lowering.builder_logarithms import LogarithmBuilder
from tracer.lowering.builder_product import ProductBuilder
from tracer.lowering.builder_window import WindowBuilder


class StableHloBuilder(
    CallBuilder,
    WindowBuilder,
    ProductBuilder,
    DecompositionBuilder,
    LogarithmBuilder,
    FunctionBuilder,
):
    """Emits StableHLO by name. The protocol is in docs/architecture.md."""
