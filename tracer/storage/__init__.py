"""Arrays in storage, given to compiled functions: read piece by piece while they run."""

from tracer.storage.open import if_stored, open  # noqa: A004 - as files are
from tracer.storage.sink import Sink
from tracer.storage.stored import StoredArray

__all__ = ["Sink", "StoredArray", "if_stored", "open"]
