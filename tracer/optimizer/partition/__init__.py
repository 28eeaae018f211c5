"""Sharding: large values are computed in equal parts, one per device of a mesh."""

from tracer.optimizer.partition.cuts import ANYHOW
from tracer.optimizer.partition.driver import shard_graph, shard_pass
from tracer.optimizer.partition.view import alike_axes, device_view, input_axes, output_axes

__all__ = [
    "ANYHOW",
    "alike_axes",
    "device_view",
    "input_axes",
    "output_axes",
    "shard_graph",
    "shard_pass",
]
