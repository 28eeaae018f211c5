"""Change how arrays are spread over the devices of a mesh, in a program of its own.

XLA's collectives move the parts between devices without the host. So it also works where each of
several processes holds some of the parts.
"""

from __future__ import annotations

from functools import lru_cache

from tracer.ir import Builder, ShapeDtype
from tracer.lowering.devices.named_sharding import NamedSharding
from tracer.lowering.devices.placement import Placement, named_on
from tracer.lowering.run.compiler import compile_graph
from tracer.lowering.run.executable import Executable
from tracer.lowering.run.sharded import xla_sharding


@lru_cache(maxsize=64)
def resharding(type: ShapeDtype, source: NamedSharding, target: NamedSharding) -> Executable | None:
    """Return the program that copies an array from one sharding to another.

    Returns
    -------
    Executable or None
        None where one program cannot do it: the shardings are on other devices, or on meshes of
        the same devices of which neither has axes for both.
    """
    if source.mesh.flat != target.mesh.flat:
        return None
    for mesh in (target.mesh, source.mesh):
        before, after = [
            named_on(mesh, xla_sharding(each, type.ndim)._hlo_sharding, type.ndim)
            for each in (source, target)
        ]
        if before is not None and after is not None:
            with Builder() as builder:
                graph = builder.finish([builder.input(type)])
            return compile_graph(graph, placement=Placement(mesh, (before,), (after,)))
    return None
