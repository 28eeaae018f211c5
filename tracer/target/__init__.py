"""The device that a program is planned for: one record, read from the machine or a description.

Numbers of a machine stand in this room only, and only here are cores and memory counted.
"""

from tracer.target.accelerators import ACCELERATORS, accelerator
from tracer.target.cores import usable_cores, xla_threads
from tracer.target.current import current_target, planned_for
from tracer.target.host import host_packing, host_target, multiplies_bfloat16
from tracer.target.memory import (
    address_space_left,
    free_bytes,
    usable_bytes,
    xla_address_space,
)
from tracer.target.packing import Packing
from tracer.target.processor import features_of, said_of_processor
from tracer.target.record import (
    DEFAULT_TARGET,
    Kernels,
    Prices,
    Storage,
    Target,
)
from tracer.target.sizes import Sizes

__all__ = [
    "ACCELERATORS",
    "DEFAULT_TARGET",
    "Kernels",
    "Packing",
    "Prices",
    "Sizes",
    "Storage",
    "Target",
    "accelerator",
    "address_space_left",
    "current_target",
    "features_of",
    "free_bytes",
    "host_packing",
    "host_target",
    "multiplies_bfloat16",
    "planned_for",
    "said_of_processor",
    "usable_bytes",
    "usable_cores",
    "xla_address_space",
    "xla_threads",
]
