"""Rematerialisation: values that are stored over the peak are computed again after it."""

from tracer.optimizer.remat.driver import REMATERIALISE_NAME, Rematerialiser
from tracer.optimizer.remat.search import Found, Search

__all__ = ["REMATERIALISE_NAME", "Found", "Rematerialiser", "Search"]
