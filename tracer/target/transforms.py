"""From which sizes on SciPy finds Fourier transforms."""

from __future__ import annotations

from dataclasses import dataclass

from tracer.ir.library_calls import TransformCall

_SINGLE_COMPLEX = 8


@dataclass(frozen=True)
class Transforms:
    """From which sizes on it does. The default is a CPU with AVX-512 (Zen 4).

    Attributes
    ----------
    turned_elements : float
        Elements of an array from which SciPy transforms along other axes than the last ones, for
        which the compiler writes it out transposed.
    elements, lines, line : float
        Elements and lines of an array, and elements of a line, from which SciPy finds transforms
        of complex64 along the last axes, of several lines at once. Of complex128 a vector has too
        few.
    line_bytes : float
        Bytes of such a line up to which: of longer ones several stay in no cache.
    """

    turned_elements: float = 1 << 15
    elements: float = 1 << 19
    lines: float = 4
    line: float = 64
    line_bytes: float = 1 << 17

    def are_by_scipy(self, call: TransformCall, *, is_turned: bool) -> bool:
        """Tell whether SciPy finds a transform.

        Parameters
        ----------
        call : TransformCall
            Over the last axes.
        is_turned : bool
            Whether its operand was transposed, so that they were others.
        """
        if is_turned:
            return call.elements >= max(1, self.turned_elements)
        longest = max(call.lengths)
        is_long_enough = min(call.lengths) >= self.line
        is_short_enough = call.itemsize * longest <= self.line_bytes
        is_large = call.elements >= max(1, self.elements, self.lines * longest)
        is_single = not call.is_real and call.itemsize == _SINGLE_COMPLEX
        return is_single and is_large and is_long_enough and is_short_enough


__all__ = ["Transforms"]
