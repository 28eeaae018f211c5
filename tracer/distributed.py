"""Programs that several processes run together, with JAX's names.

Every process runs the same script, calls `initialize` first, and makes the same calls on the same
meshes. `tracer.devices()` then lists the devices of all processes.
"""

from tracer.lowering.devices.processes import initialize, process_count, process_index, shutdown

__all__ = ["initialize", "process_count", "process_index", "shutdown"]
