"""Which eigenvalues and singular values NumPy finds, matrix by matrix on every core."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spectra:
    """From how many matrices on, and up to which size. The default is a CPU of several cores.

    Attributes
    ----------
    elements : float
        Elements of all matrices from which NumPy takes them: threads start for each call.
    largest : int
        Rows or columns up to which: NumPy decomposes float32 in double precision.
    """

    elements: float = 1 << 17
    largest: int = 16

    def are_by_numpy(self, count: int, rows: int, columns: int) -> bool:
        """Tell whether NumPy decomposes so many matrices of a size."""
        is_small = max(rows, columns) <= self.largest
        return is_small and count * rows * columns >= max(1, self.elements)


__all__ = ["Spectra"]
