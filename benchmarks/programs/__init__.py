"""Programs that outgrow their memory, as a user would write them (`benchmarks/planner.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.programs import attention, gaussian, kernels, neighbours, networks, pairs
from benchmarks.programs.workload import Size, Workload, make_inputs

WORKLOADS: Mapping[str, Workload] = {
    **kernels.WORKLOADS,
    **neighbours.WORKLOADS,
    **pairs.WORKLOADS,
    **attention.WORKLOADS,
    **gaussian.WORKLOADS,
    **networks.WORKLOADS,
}

__all__ = ["WORKLOADS", "Size", "Workload", "make_inputs"]
