"""Rematerialisation: values that are stored across the peak are recomputed after it."""

from tracer.optimizer.remat.driver import REMATERIALISE_NAME, Rematerialiser
from tracer.optimizer.remat.search import Found, Search

__all__ = ["REMATERIALISE_NAME", "Found", "Rematerialiser", "Search"]
