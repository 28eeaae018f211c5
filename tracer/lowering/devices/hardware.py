"""The record of a device: read from the machine, or from data sheets."""

from __future__ import annotations

from dataclasses import replace

from tracer.lowering import shims
from tracer.lowering.devices.device import Device
from tracer.lowering.devices.registry import find_device
from tracer.target import Target, accelerator, host_target


def target_of(device: Device | str | None = None) -> Target:
    """Return what a device can do and how its compiler stores things.

    Parameters
    ----------
    device : Device or str, optional
        The default device when None.

    Returns
    -------
    Target
        For a CPU its cores, largest cache and memory, as the machine states them now. For
        a GPU or TPU the maker's data sheet.
    """
    place = find_device(device)
    if place.target is not None:
        return place.target
    is_host = place.platform == "cpu"
    return _host() if is_host else accelerator(place.platform, place.kind)


def _host() -> Target:
    """Return this processor's record, with what the installed jaxlib does there."""
    found = host_target()
    # Half of what Eigen gains is that it spreads batches over the cores.
    may_be_faster = shims.EIGEN_MAY_BE_FASTER and found.cores > 1
    kernels = replace(
        found.kernels,
        products_by_rows=shims.PRODUCTS_BY_YNNPACK,
        eigen=found.kernels.eigen if may_be_faster else None,
        barriers_turn_matrices=shims.VERSION >= (0, 11),
    )
    as_given = found.packing.as_given if shims.PRODUCTS_BY_YNNPACK else ()
    return replace(found, kernels=kernels, packing=replace(found.packing, as_given=as_given))
