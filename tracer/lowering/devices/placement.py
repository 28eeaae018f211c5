"""Where a program over several devices takes its inputs and leaves its results, for XLA."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tracer.errors import LoweringError
from tracer.ir import ShapeDtype
from tracer.lowering.devices.mesh import AxisNames, Mesh
from tracer.lowering.devices.named_sharding import NamedSharding, PartitionSpec
from tracer.lowering.run.sharded import xla_sharding
from tracer.lowering.shims import ir, sdy, xla_client

MESH_NAME = "mesh"


@dataclass(frozen=True)
class Placement:
    """How the inputs and outputs of a program are spread over a mesh.

    Attributes
    ----------
    mesh : Mesh
    inputs : tuple of NamedSharding
    outputs : tuple of NamedSharding or None
        None leaves the choice to XLA.
    """

    mesh: Mesh
    inputs: tuple[NamedSharding, ...]
    outputs: tuple[NamedSharding | None, ...]


def declare_mesh(module: Any, mesh: Mesh) -> None:
    """Write a mesh into a module, which then has that many partitions."""
    integer = ir.IntegerType.get_signless(32)
    module.operation.attributes["mhlo.num_partitions"] = ir.IntegerAttr.get(integer, mesh.size)
    module.operation.attributes["mhlo.num_replicas"] = ir.IntegerAttr.get(integer, 1)
    axes = [sdy.MeshAxisAttr.get(name, size) for name, size in mesh.shape.items()]
    with ir.InsertionPoint.at_block_begin(module.body):
        sdy.MeshOp(MESH_NAME, sdy.MeshAttr.get(axes))


def sharding_attribute(parts: Sequence[AxisNames]) -> Any:
    """Return Shardy's attribute of an array whose axes are cut along these mesh axes."""
    return sdy.TensorShardingAttr.get(
        MESH_NAME,
        [
            sdy.DimensionShardingAttr.get(
                [sdy.AxisRefAttr.get(name) for name in names], is_closed=True
            )
            for names in parts
        ],
    )


def sharding_attributes(
    shardings: Sequence[NamedSharding | None], types: Sequence[ShapeDtype]
) -> list[dict[str, Any]]:
    """Return the attributes that say how a function's arguments or results are spread."""
    return [
        {} if sharding is None
        else {"sdy.sharding": sharding_attribute(sharding.parts(type.ndim))}
        for sharding, type in zip(shardings, types, strict=True)
    ]  # fmt: skip


def chosen_outputs(
    raw: Any, placement: Placement, types: Sequence[ShapeDtype]
) -> tuple[NamedSharding, ...]:
    """Return how the results are spread, where XLA was left the choice.

    Raises
    ------
    LoweringError
        XLA's choice cannot be written with axes of the mesh.
    """
    if None not in placement.outputs:
        return placement.outputs  # type: ignore[return-value] # no None in it
    if placement.mesh.size == 1:  # XLA says nothing of one device, which has all.
        whole = NamedSharding(placement.mesh, PartitionSpec())
        return tuple(sharding or whole for sharding in placement.outputs)
    found = []
    for sharding, made, type in zip(
        placement.outputs, raw.get_output_shardings(), types, strict=True
    ):
        wanted = xla_client.HloSharding.from_proto(made)
        chosen = sharding or named_on(placement.mesh, wanted, type.ndim)
        if chosen is None:
            raise LoweringError(
                f"XLA leaves a result, {type}, on {placement.mesh} as {made}, which no "
                "PartitionSpec describes",
                mend="state in out_shardings how the results are spread",
            )
        found.append(chosen)
    return tuple(found)


def named_on(mesh: Mesh, wanted: Any, ndim: int) -> NamedSharding | None:
    """Return XLA's sharding by the names of a mesh; None if they cannot say it."""
    if wanted.is_replicated():
        return NamedSharding(mesh, PartitionSpec())
    tiles = list(wanted.tile_assignment_dimensions())
    for parts in _cuts(mesh, tiles[:ndim], mesh.axis_names):
        sharding = NamedSharding(mesh, PartitionSpec(*parts))
        if xla_sharding(sharding, ndim)._hlo_sharding == wanted:
            return sharding
    return None


def _cuts(mesh: Mesh, tiles: list[int], names: AxisNames) -> Iterator[tuple[AxisNames, ...]]:
    """Yield all ways to cut axes into so many tiles along the mesh axes that are left."""
    if not tiles:
        yield ()
        return
    for count in range(len(names) + 1):
        for chosen in itertools.permutations(names, count):
            parts = 1
            for name in chosen:
                parts *= mesh.shape[name]
            if parts != tiles[0]:
                continue
            left = tuple(name for name in names if name not in chosen)
            for rest in _cuts(mesh, tiles[1:], left):
                yield (chosen, *rest)
