"""Products and sums in an order that takes fewer operations."""

from tracer.optimizer.rewrite.chains.chains import chains_pass, reorder_chains
from tracer.optimizer.rewrite.chains.solves import SOLVES, reassociate_solves
from tracer.optimizer.schedule.control_dependences import force_order, schedule_pass

__all__ = [
    "SOLVES",
    "chains_pass",
    "force_order",
    "reassociate_solves",
    "reorder_chains",
    "schedule_pass",
]
