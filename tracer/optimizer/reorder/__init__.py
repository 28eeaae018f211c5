"""Reorder: products in an order that takes fewer operations, programs in one with a lower peak."""

from tracer.optimizer.reorder.chains import chains_pass, reorder_chains
from tracer.optimizer.reorder.schedule import SCHEDULE, schedule
from tracer.optimizer.reorder.ties import force_order

__all__ = ["SCHEDULE", "chains_pass", "force_order", "reorder_chains", "schedule"]
