"""When many small matrices are factored and solved with side by side, in the lanes of vectors.

How is described where it is written (`optimizer/legalize/small_matrices.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tracer.ir.library_calls import SmallMatricesCall


@dataclass(frozen=True)
class Interleaving:
    """Which batches of matrices are taken, and how many at a time.

    The default is XLA's CPU compiler beside OpenBLAS, which takes matrix by matrix, and a
    microsecond or more for each.

    Attributes
    ----------
    least_count : int
        Matrices from which they are taken: to compile takes 0.2 s longer.
    chunk_bytes : int
        Of the matrices that are taken at a time: what they leave stays in the first two caches.
    least_chunk, largest_chunk : int
        Matrices that are taken at a time: fewer fill no vectors, and kernels over more are spread
        over threads, which takes longer than they do.
    largest_bytes : int
        Of one matrix, or of what is solved for: from more on OpenBLAS is as fast.
    """

    least_count: int = 256
    chunk_bytes: int = 48 << 10
    least_chunk: int = 64
    largest_chunk: int = 512
    largest_bytes: int = 1024

    def chunk(self, call: SmallMatricesCall) -> int:
        """Return how many matrices are taken at a time; 0 where a library takes them."""
        nbytes = call.itemsize * call.rows * call.width
        if not call.is_real or call.count < self.least_count:
            return 0
        if not 0 < nbytes <= self.largest_bytes:
            return 0
        most = min(
            call.count, self.largest_chunk, max(self.least_chunk, self.chunk_bytes // nbytes)
        )
        # A divisor leaves no rest, which would be a second program.
        even = (size for size in range(most, most // 2, -1) if call.count % size == 0)
        return next(even, most)

    def held_bytes(self, call: SmallMatricesCall) -> int:
        """Bound what a chunk stores beside the matrices themselves."""
        return call.held * call.itemsize * call.rows * call.width * self.chunk(call)
