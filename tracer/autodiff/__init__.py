"""Differentiation: functions from Graph to Graph. It knows no particular op, only their rules.

`reverse` holds the reverse mode, `forward` the forward mode made of it, `check` compares both with
finite differences. The functions that users call are in `tracer.autodiff.transforms`.
"""

from tracer.autodiff.check import check_graph
from tracer.autodiff.forward import jvp_graph, linearized, push_forward
from tracer.autodiff.reverse import (
    PullBack,
    ReverseRules,
    pull_back,
    value_and_gradient,
    vjp_graph,
)
from tracer.autodiff.segments import recompute_large, segment_scans

__all__ = [
    "PullBack",
    "ReverseRules",
    "check_graph",
    "jvp_graph",
    "linearized",
    "pull_back",
    "push_forward",
    "recompute_large",
    "segment_scans",
    "value_and_gradient",
    "vjp_graph",
]
