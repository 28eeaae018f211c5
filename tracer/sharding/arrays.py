"""Put arrays on devices, and read the parts on each device."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import lowering, tree
from tracer.array.array import Array, get_evaluator
from tracer.array.convert import host_array
from tracer.array.dispatch import from_host
from tracer.errors import DeviceError
from tracer.storage import StoredArray, if_stored


def device_put(x: Any, device: Any = None) -> Any:
    """Return arrays on a device, or in parts on a mesh.

    Parameters
    ----------
    x : array-like, arrays in storage, or nested containers of them
        In a run of several processes every process gives the same values. Of an array in storage
        each process reads the parts of its own devices, if it goes to a mesh; else all of it.
    device : Device, str, NamedSharding, or containers of these, optional
        Where to: one place for all, or one for each array (or container of them), in the same
        containers. None: arrays stay where they are, and others go to the default device.

    Returns
    -------
    Array, or containers of them

    Raises
    ------
    ShapeError
        A mesh does not cut an axis into equal parts.
    DeviceError
        There is no such device here.

    Examples
    --------
    >>> import tracer, tracer.numpy as tnp
    >>> from tracer.sharding import Mesh, NamedSharding, PartitionSpec
    >>> mesh = Mesh(tracer.devices("cpu")[:1], "data")
    >>> x = tracer.device_put(tnp.arange(4), NamedSharding(mesh, PartitionSpec("data")))
    >>> x.device.spec
    PartitionSpec('data')
    """
    leaves, structure = tree.flatten(x)
    try:
        places = tree.broadcast_prefix(device, x)
    except ValueError as error:
        raise DeviceError(
            f"the devices are not nested as the arrays are: {device} for {structure}",
            mend="give one device for all, or one for each array, in the same containers",
        ) from error
    return tree.unflatten(structure, list(map(_placed, leaves, places)))


def _placed(leaf: Any, place: Any) -> Array:
    if isinstance(leaf, Array):
        return leaf if place is None else leaf.to_device(place)
    stored = if_stored(leaf)
    if isinstance(stored, StoredArray):
        parts: Any = stored if isinstance(place, lowering.NamedSharding) else np.asarray(stored)
        return get_evaluator().from_host(parts, place)
    return from_host(host_array(leaf), place)


def device_get(x: Any) -> Any:
    """Return arrays as NumPy arrays; all copies start before the first is awaited.

    Parameters
    ----------
    x : array-like, or nested containers of them
        What is no array of tracer's stays what it is.

    Returns
    -------
    ndarray, or containers of them
        Read-only.

    Raises
    ------
    DeviceError
        Parts of an array are in other processes only.

    Examples
    --------
    >>> import tracer, tracer.numpy as tnp
    >>> tracer.device_get({"total": tnp.arange(4).sum()})
    {'total': array(6)}
    """
    leaves, structure = tree.flatten(x)
    for leaf in leaves:
        if isinstance(leaf, Array):
            leaf.copy_to_host_async()
    found = [np.asarray(leaf) if isinstance(leaf, Array) else leaf for leaf in leaves]
    return tree.unflatten(structure, found)


def local_parts(x: Array) -> list[tuple[Any, tuple[slice, ...], np.ndarray[Any, Any]]]:
    """Return the parts of an array on the devices of this process.

    Returns
    -------
    list of (Device, tuple of slice, ndarray)
        The device of each part, which part of the whole array it is, and its values.
    """
    place = x.device
    if not isinstance(place, lowering.NamedSharding):
        return [(place, tuple(slice(0, size) for size in x.shape), np.asarray(x))]
    places = [found for found in place.places(x.shape) if found[0].is_local]
    parts = lowering.local_buffers(x._buffer)
    return [(*found, part) for found, part in zip(places, parts, strict=True)]
