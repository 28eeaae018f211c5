"""Arrays spread over several devices: XLA's shardings of them, and copies to and from the host."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from tracer.errors import DeviceError
from tracer.lowering import shims
from tracer.lowering.devices.named_sharding import NamedSharding
from tracer.lowering.run.budget import ASKED
from tracer.lowering.run.failures import absent, execution_failure
from tracer.lowering.run.transfer import start_to_host
from tracer.lowering.shims import Buffer, SeveralDevices, xla_client


@lru_cache(maxsize=4096)
def xla_sharding(sharding: NamedSharding, ndim: int) -> SeveralDevices:
    """Return XLA's form of a sharding of arrays with `ndim` axes."""
    made = xla_client.OpSharding()
    parts = sharding.parts(ndim)
    if sharding.is_fully_replicated:
        made.type = xla_client.OpSharding.Type.REPLICATED
    else:
        mesh = sharding.mesh
        used = [name for names in parts for name in names]
        unused = [name for name in mesh.axis_names if name not in used]
        order = [mesh.axis_names.index(name) for name in (*used, *unused)]
        # Positions in the list of devices, in the order in which the array's parts follow.
        places = np.arange(mesh.size).reshape(mesh.devices.shape).transpose(order)
        copies = sharding.shards(tuple(unused))
        made.type = xla_client.OpSharding.Type.OTHER
        made.tile_assignment_dimensions = [
            *map(sharding.shards, parts), *([copies] if copies > 1 else [])
        ]  # fmt: skip
        made.tile_assignment_devices = [int(place) for place in places.ravel()]
        made.replicate_on_last_tile_dim = copies > 1
    return shims.several_devices([device.raw for device in sharding.mesh.flat], made)


def put_sharded(array: Any, sharding: NamedSharding) -> Buffer:
    """Copy the parts of an array, which may be in storage, to the devices of this process.

    Every process that works with this one calls it with the same array.

    Raises
    ------
    ShapeError
        The mesh does not cut an axis into equal parts.
    DeviceError
        The mesh is not here, or has no device of this process.
    """
    if not sharding.mesh.local:
        raise absent(sharding.mesh)
    places = [place for place in sharding.places(array.shape) if place[0].is_local]
    budget = ASKED.budget  # Read once: another thread may take it back.
    if budget is not None and sharding.platform == "cpu":
        part = math.prod(sharding.shard_shape(array.shape)) * array.dtype.itemsize
        budget.admit_array(len(places) * part)
    try:
        return shims.put_parts(
            array.shape,
            # Copies, as jaxlib fails when some parts are one piece of memory ("bad_function_call").
            [np.array(array[index], order="C") for _, index in places],
            xla_sharding(sharding, len(array.shape)),
            [device.raw for device, _ in places],
        )
    except RuntimeError as error:
        raise execution_failure(error) from error


def get_sharded(
    buffer: Buffer, sharding: NamedSharding, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """Return the values of an array on several devices; blocks.

    Raises
    ------
    DeviceError
        Parts of it are in other processes only.
    """
    places = [place for place in sharding.places(shape) if place[0].is_local]
    if not is_whole_here(sharding, shape):
        raise DeviceError(
            f"an array of shape {shape}, {sharding}, has parts in other processes",
            mend="gather it in all processes together: x.to_device(NamedSharding(mesh, "
            "PartitionSpec())), or out_shardings=PartitionSpec() of the program that makes it; "
            "this process' parts are tracer.sharding.local_parts(x)",
        )
    whole = np.empty(shape, dtype)
    for part, (_, index) in zip(local_buffers(buffer), places, strict=True):
        whole[index] = part
    whole.flags.writeable = False
    return whole


def is_whole_here(sharding: NamedSharding, shape: tuple[int, ...]) -> bool:
    """Tell whether all parts of an array are on devices of this process."""
    if sharding.is_fully_addressable or (sharding.is_fully_replicated and sharding.mesh.local):
        return True
    covered = {str(index) for device, index in sharding.places(shape) if device.is_local}
    return len(covered) == len({str(index) for _, index in sharding.places(shape)})


def local_buffers(buffer: Buffer) -> list[np.ndarray[Any, Any]]:
    """Return the parts on this process' devices, in the order of the mesh; blocks."""
    # All are on their way before the first is waited for.
    start_to_host(buffer._arrays)
    try:
        return [part._single_device_array_to_np_array_did_copy()[0] for part in buffer._arrays]
    except RuntimeError as error:
        raise execution_failure(error, (buffer,)) from error
