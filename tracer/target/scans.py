"""Forms of running sums, products and extremes: which is fastest, and what it stores."""

from __future__ import annotations

from dataclasses import dataclass

from tracer.ir.library_calls import ScanCall

SHORT_LINE = 8
"""Elements of a line that are combined one after the other."""
_ROWS = 5
"""Rows that a loop over rows has: one of the array as it is and converted, and the products."""
_PIECES = 3
"""A piece, its levels, which take another one up and down, and what is written back."""


@dataclass(frozen=True)
class Scans:
    """From which sizes on the forms are taken. The default is XLA's CPU compiler.

    Attributes
    ----------
    paired_elements : float
        Elements of an array of floats from which they are combined in pairs. Such programs take
        0.2 seconds longer to compile.
    behind, paired_rows : float
        Elements behind the axis from which others are, too, and elements of such an array: XLA and
        NumPy take one after the other. Products of floats go row by row.
    piece : int
        Elements that go through all levels of pairs while they are in the cache.
    fewest : int
        Elements of a level that are left to XLA: each level is a kernel more to compile.
    numpy_elements, numpy_line : float
        Elements of an array and of a line from which NumPy takes integers and extremes.
    """

    paired_elements: float = 1 << 16
    behind: float = 8
    paired_rows: float = 1 << 12
    piece: int = 1 << 15
    fewest: int = 256
    numpy_elements: float = 1024
    numpy_line: float = 64

    def are_by_rows(self, call: ScanCall) -> bool:
        """Tell whether a loop multiplies one row of what lies behind the axis after the other."""
        may_overflow = call.is_product and call.is_inexact
        return may_overflow and call.behind >= self.behind and call.size > 1

    def are_in_pairs(self, call: ScanCall) -> bool:
        """Tell whether pairs of neighbours are combined, and pairs of pairs, piece by piece."""
        if call.size <= SHORT_LINE // 2 or self.are_by_rows(call):
            return False
        if call.behind >= self.behind:
            return call.elements >= self.paired_rows
        return call.is_inexact and call.elements >= self.paired_elements

    def are_by_numpy(self, call: ScanCall) -> bool:
        """Tell whether NumPy combines one element after the other."""
        is_large = call.elements >= self.numpy_elements and call.size >= self.numpy_line
        is_faster = self.are_by_rows(call) or self.are_in_pairs(call)
        return call.is_any_order and is_large and not is_faster

    def bytes(self, call: ScanCall) -> int:
        """Return what is stored besides the operand and the result; of the tree a whole copy."""
        if self.are_by_rows(call):
            return min(call.elements, _ROWS * call.before * call.behind) * call.itemsize
        if self.are_in_pairs(call) and call.elements > self.piece:
            # A part of a line has one row at least, and carries two.
            pieces = _PIECES * (max(self.piece, call.behind) + call.behind)
            return pieces * call.itemsize
        return call.elements * call.itemsize


__all__ = ["SHORT_LINE", "Scans"]
