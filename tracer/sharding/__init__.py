"""Arrays and programs on several devices, with JAX's names: meshes, specs, placing data.

`tracer.compile(f, mesh=mesh)` spreads a program by itself; `in_shardings` and `out_shardings` say
how its arguments and results are placed.
"""

from tracer.lowering import Mesh, NamedSharding, PartitionSpec, make_mesh
from tracer.sharding.arrays import device_get, device_put, local_parts
from tracer.sharding.spread import Spread, resolve_spread

__all__ = [
    "Mesh",
    "NamedSharding",
    "PartitionSpec",
    "Spread",
    "device_get",
    "device_put",
    "local_parts",
    "make_mesh",
    "resolve_spread",
]
