"""The evaluator of concrete arrays: compiled programs, kept by the graph's fingerprint."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tracer import lowering
from tracer.array.array import Array, deleted_error, set_evaluator
from tracer.array.convert import forget_scalars
from tracer.autodiff.batching import batch_graph
from tracer.compilation.stored.programs import found_or_compiled
from tracer.errors import DeviceError, TracerError
from tracer.ir import Graph, ShapeDtype
from tracer.optimizer.final_passes import legalized
from tracer.optimizer.passes import PassManager
from tracer.optimizer.pipeline import EXPAND, Context, PlannerOptions


class EagerProgram:
    """A graph compiled for the device of the arrays it is called with."""

    __slots__ = ("_device", "_execute", "_graph", "_others", "_types")

    def __init__(self, graph: Graph, device: lowering.Device) -> None:
        self._graph = graph
        self._device = device
        self._types = graph.output_types
        # By identity: equal devices differ in whether someone named them (`is_uncommitted`).
        self._others: dict[int, EagerProgram] = {}
        self._execute = found_or_compiled(
            "eager",
            graph,
            device,
            lambda: lowering.compile_graph(_legal(graph, device), device=device),
        )

    def __call__(self, *arrays: Array) -> list[Array]:
        """Run; the arrays have the types of the graph's inputs.

        Raises
        ------
        DonatedArrayError
            An array's memory is gone.
        DeviceError
            The arrays are on different devices.
        """
        device = self._device
        if not arrays and device is not lowering.default_device():
            return self._on(lowering.default_device())()
        buffers = []
        for array in arrays:
            buffers.append(array._buffer)
            if array._device is not device:
                return self._elsewhere(arrays)
        try:
            results = self._execute(*buffers)
        except (TracerError, TypeError, ValueError):
            # Only now, as the good path has no time to look at each array.
            for array in arrays:
                if array.is_deleted():
                    raise deleted_error(array) from None
            raise
        return [
            Array(buffer, type, device) for buffer, type in zip(results, self._types, strict=True)
        ]

    def _elsewhere(self, arrays: tuple[Array, ...]) -> list[Array]:
        """Run where arrays were put; arrays that were put nowhere follow them."""
        devices = {a._device for a in arrays if not lowering.is_uncommitted(a._device)}
        if any(isinstance(device, lowering.NamedSharding) for device in devices):
            return self._on_mesh(arrays)
        if len(devices) > 1:
            raise DeviceError(
                f"arrays on different devices: {', '.join(sorted(map(str, devices)))}",
                mend="move them to one device with array.to_device(device)",
            )
        device = devices.pop() if devices else lowering.default_device()
        evaluator = LoweringEvaluator()
        return self._on(device)(*[evaluator.to_device(array, device) for array in arrays])

    def _on(self, device: lowering.Device) -> EagerProgram:
        """Return the same program for another device."""
        found = self._others.get(id(device))
        if found is None:
            found = self._others[id(device)] = EagerProgram(self._graph, device)
        return found

    def _on_mesh(self, arrays: tuple[Array, ...]) -> list[Array]:
        """Run on arrays spread over a mesh; XLA chooses how the results are spread.

        Arrays that were put nowhere go whole to every device of it.
        """
        mesh = next(array._device.mesh for array in arrays if hasattr(array._device, "mesh"))
        whole = lowering.NamedSharding(mesh, lowering.PartitionSpec())
        evaluator, placed = LoweringEvaluator(), []
        for array in arrays:
            if array.is_deleted():
                raise deleted_error(array)
            if lowering.is_uncommitted(array._device):
                array = evaluator.to_device(array, whole)
            if getattr(array._device, "mesh", None) != mesh:
                raise DeviceError(
                    f"arrays on different devices: {array.type} is on {array._device}, and others "
                    f"on {mesh}",
                    mend="place them on one mesh: tracer.device_put(x, NamedSharding(mesh, "
                    "PartitionSpec(...)))",
                )
            placed.append(array)
        inputs = tuple(array._device for array in placed)
        placement = lowering.Placement(mesh, inputs, (None,) * len(self._types))
        legal = _legal(self._graph, mesh.flat[0], on_mesh=True)
        execute = lowering.compile_graph(legal, placement=placement)
        results = execute(*[array._buffer for array in placed])
        assert execute.placement is not None
        return list(map(Array, results, self._types, execute.placement.outputs))


def _legal(graph: Graph, device: lowering.Device, *, on_mesh: bool = False) -> Graph:
    """Return a graph in the forms that a device's compiler takes well.

    Only what an op consists of is written out before. Exponentials stay: what an operation gives
    does not depend on what it is fused with.
    """
    expanded = PassManager().run(graph, (EXPAND,))
    return legalized(expanded, _context(device, on_mesh))[0]


@cache
def _context(device: lowering.Device, on_mesh: bool) -> Context:
    """Return what the passes are made of: how much memory is free now changes none of them."""
    options = PlannerOptions(
        machine=lowering.target_of(device), disabled=frozenset({"expand-exponentials"})
    )
    return Context(options, on_mesh=on_mesh)


def set_default_device(device: lowering.Device | str | None) -> None:
    """Set the device that is used when none is named.

    Parameters
    ----------
    device : Device or str or None
        Such as "gpu:1"; None: as at the start (`TRACER_DEVICE` in the environment, or the first
        TPU, GPU or CPU).

    Raises
    ------
    DeviceError
        There is no such device here.
    """
    lowering.set_default_device(device)
    forget_scalars()


class LoweringEvaluator:
    """Computes with the lowering room."""

    def program(self, graph: Graph) -> EagerProgram:
        """Return the graph compiled for the default device; equal graphs compile once."""
        return EagerProgram(graph, lowering.default_device())

    def from_host(self, value: np.ndarray[Any, Any], device: Any = None) -> Array:
        """Copy a NumPy array to a device (a Device, its name, None for the default one) or mesh."""
        type = ShapeDtype.of(value)
        if isinstance(device, lowering.NamedSharding):
            return Array(lowering.put_sharded(value, device), type, device)
        place = lowering.find_device(device)
        return Array(lowering.to_device(value, place), type, place)

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """Return a read-only NumPy array of the data; blocks."""
        if isinstance(array._device, lowering.NamedSharding):
            return lowering.get_sharded(array._buffer, array._device, array.shape, array.dtype)
        return lowering.to_host(array._buffer)

    def parts_here(self, array: Array) -> str | None:
        """Say which parts of an array are in this process; None where all are."""
        place = array._device
        if not isinstance(place, lowering.NamedSharding):
            return None
        if lowering.is_whole_here(place, array.shape):
            return None
        here = (index for device, index in place.places(array.shape) if device.is_local)
        parts = (", ".join(f"{cut.start}:{cut.stop}" for cut in index) for index in here)
        return ", ".join(f"[{part}]" for part in dict.fromkeys(parts)) or "nothing"

    def start_to_host(self, array: Array) -> None:
        """Start to copy the data to the host; does not block."""
        is_cut = isinstance(array._device, lowering.NamedSharding)
        lowering.start_to_host(array._buffer._arrays if is_cut else (array._buffer,))

    def wait(self, array: Array) -> None:
        """Wait until the data is computed."""
        lowering.block_until_ready(array._buffer)

    def to_device(self, array: Array, device: Any) -> Array:
        """Return an array on a device or mesh: itself, its memory by another name, or a copy.

        Parts on one mesh move between its devices.
        """
        cut = lowering.NamedSharding
        source, place = array._device, device
        if not isinstance(device, cut):
            place = lowering.find_device(device)
        if source is place:
            return array
        if source == place:
            return Array(array._buffer, array._type, place)
        array._require_alive()
        if isinstance(source, cut) and isinstance(place, cut):
            place.shard_shape(array.shape)  # says which axis cannot be cut
            return self._moved(array, place)
        return self.from_host(self.to_host(array), place)

    def _moved(self, array: Array, place: lowering.NamedSharding) -> Array:
        """Return a copy of an array in parts; its devices send the parts directly if they can."""
        execute = lowering.resharding(array._type, array._device, place)
        if execute is None:
            return self.from_host(self.to_host(array), place)
        return Array(execute(array._buffer)[0], array._type, place)

    def place_beside(self, places: Sequence[Any]) -> Any:
        """Return the first place that was given explicitly, whole for arrays in parts, or None."""
        for place in places:
            if isinstance(place, lowering.NamedSharding):
                return lowering.NamedSharding(place.mesh, lowering.PartitionSpec())
            if place is not None and not lowering.is_uncommitted(place):
                return place
        return None

    def copy(self, array: Array) -> Array:
        """Copy an array to where it is; each device copies its part."""
        place = array._device
        if isinstance(place, lowering.NamedSharding):
            return self._moved(array, place)
        return self.from_host(self.to_host(array), place)

    def to_dlpack(self, array: Array) -> Any:
        """Return a DLPack capsule of the data."""
        return lowering.to_dlpack(array._buffer)

    def batch(self, graph: Graph, batched: Sequence[bool], size: int) -> Graph:
        """Return a graph of a whole batch: chosen inputs and all outputs get a first axis."""
        return batch_graph(graph, batched, size, [True] * len(graph.output_types))[0]

    def devices(self) -> list[Any]:
        """Return the devices of this process, the default one first."""
        first = lowering.default_device()
        others = (device for device in lowering.devices() if device.is_local)
        return [first, *(device for device in others if device != first)]

    def from_dlpack(self, value: Any) -> Array:
        """Copy an object that supports DLPack to the default device."""
        place = lowering.default_device()
        buffer = lowering.from_dlpack(value, place)
        host = lowering.to_host(buffer)
        return Array(buffer, ShapeDtype(host.shape, host.dtype), place)

    def place_of(self, code: tuple[int, int]) -> Any:
        """Return the device of DLPack's code and number."""
        return lowering.dlpack_device(*code)

    def share(self, value: Any, type: ShapeDtype | None = None) -> Array:
        """Return an array in the memory of an object that speaks DLPack, which nobody changes.

        Without jax buffers do not know their types: there `type` says what the object is.
        """
        buffer, place = lowering.share_dlpack(value)
        return Array(buffer, type or ShapeDtype(buffer.shape, buffer.dtype), place)


set_evaluator(LoweringEvaluator())
