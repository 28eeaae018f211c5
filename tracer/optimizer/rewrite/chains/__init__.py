"""Products and sums in an order that takes fewer operations."""

from tracer.optimizer.rewrite.chains.chains import chains_pass, reorder_chains
from tracer.optimizer.rewrite.chains.solves import SOLVES, reassociate_solves

__all__ = [
    "SOLVES",
    "chains_pass",
    "reassociate_solves",
    "reorder_chains",
]
