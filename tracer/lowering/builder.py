"""The StableHLO builder that op records receive: the only file that puts its families together."""

from __future__ import annotations

from tracer.lowering.builder_linalg import LinalgBuilder
from tracer.lowering.builder_reduce import ReduceBuilder


class StableHloBuilder(ReduceBuilder, LinalgBuilder):
    """Emits StableHLO by name. The protocol is in docs/architecture.md."""
