"""Reorder: products in an order that takes fewer operations, programs in one with a lower peak."""

from tracer.optimizer.reorder.chains import chains_pass, reorder_chains
from tracer.optimizer.reorder.schedule import SCHEDULE, schedule
from tracer.optimizer.reorder.solves import SOLVES, reassociate_solves
from tracer.optimizer.reorder.ties import force_order

__all__ = [
    "SCHEDULE",
    "SOLVES",
    "chains_pass",
    "force_order",
    "reassociate_solves",
    "reorder_chains",
    "schedule",
]
