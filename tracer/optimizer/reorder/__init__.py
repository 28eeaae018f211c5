"""Reorder: the same products in an order that takes fewer operations or bytes."""

from tracer.optimizer.reorder.chains import chains_pass, reorder_chains

__all__ = ["chains_pass", "reorder_chains"]
