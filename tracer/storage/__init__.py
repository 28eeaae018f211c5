"""Arrays in storage, given to compiled functions: read piece by piece while they run."""

from tracer.storage.checkpoints import Checkpoints, Run
from tracer.storage.meter import Meter, metered
from tracer.storage.open import if_stored, open  # noqa: A004 - as files are
from tracer.storage.sink import Sink
from tracer.storage.stored import StoredArray
from tracer.storage.targets import partial_path

__all__ = [
    "Checkpoints",
    "Meter",
    "Run",
    "Sink",
    "StoredArray",
    "if_stored",
    "metered",
    "open",
    "partial_path",
]
