"""Which eigenvalues and singular values NumPy finds, matrix by matrix on every core."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spectra:
    """From how many matrices on, and up to which size. The default is a CPU of several cores.

    Attributes
    ----------
    count : float
        Matrices from which NumPy takes them.
    elements : float
        Elements of all of them from which it does.
    largest : int
        Rows or columns up to which: OpenBLAS takes all cores for larger ones itself.
    """

    count: float = 16
    elements: float = 1 << 14
    largest: int = 64

    def are_by_numpy(self, count: int, rows: int, columns: int) -> bool:
        """Tell whether NumPy decomposes so many matrices of a size."""
        is_many = count >= self.count and count * rows * columns >= max(1, self.elements)
        return is_many and max(rows, columns) <= self.largest


__all__ = ["Spectra"]
