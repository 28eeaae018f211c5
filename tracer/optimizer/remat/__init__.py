"""Rematerialisation: values that are stored across the peak are recomputed after it."""

from tracer.optimizer.remat.driver import REMATERIALISE_NAME, Rematerialiser
from tracer.optimizer.remat.search import RecomputationSearch, RecomputedProgram

__all__ = ["REMATERIALISE_NAME", "RecomputationSearch", "RecomputedProgram", "Rematerialiser"]
