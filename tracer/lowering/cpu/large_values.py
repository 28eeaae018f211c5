"""Programs whose values have more elements than XLA:CPU's kernels can count."""

from __future__ import annotations

from collections.abc import Iterator

from tracer.ir import Graph
from tracer.lowering import shims
from tracer.lowering.settings import is_on

_MOST = 1 << 36
"""Values with fewer elements are safe.

XLA:CPU cuts the work of a kernel in tiles of 32 elements, and from jaxlib 0.11 on counts them in an
int of 32 bits, by which it divides: at 2^37 elements that is 0, and the compiler ends the process.
"""


def kernel_options(graph: Graph, platform: str) -> dict[str, str]:
    """Return the backend's options for kernels that are safe for a graph's values.

    Kernels without tiles, if a value is too large. Such a value may be fused away and never
    stored; if not, the allocator says what is missing.
    """
    is_here = shims.TILES_ARE_COUNTED_IN_AN_INT and is_on("untiled kernels")
    if platform != "cpu" or not is_here:
        return {}
    if max(_sizes(graph), default=0) < _MOST:
        return {}
    return {"xla_cpu_disable_tiled_emitter": ""}


def _sizes(graph: Graph) -> Iterator[int]:
    """Yield how many elements the values of a graph and of its bodies have."""
    yield from (type.size for type in graph.input_types)
    for node in graph.nodes:
        yield from (type.size for type in node.types)
        for body in node.body_graphs:
            yield from _sizes(body)
