"""Sharding: large values are computed in equal parts, one on each device of a mesh."""

from tracer.optimizer.shard.cuts import ANYHOW
from tracer.optimizer.shard.driver import shard_graph
from tracer.optimizer.shard.view import alike_axes, device_view, input_axes, output_axes

__all__ = ["ANYHOW", "alike_axes", "device_view", "input_axes", "output_axes", "shard_graph"]
