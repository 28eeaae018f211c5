"""StableHLO modules as functions of tracer's arrays: `tracer.from_stablehlo`."""

from tracer.stablehlo import rules as _rules
from tracer.stablehlo.imported import StableHloFunction, from_stablehlo

del _rules

__all__ = ["StableHloFunction", "from_stablehlo"]
