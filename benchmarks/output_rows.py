"""How far one output of a program is from another one's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One output: the largest absolute and relative difference."""

    path: str
    absolute: float
    relative: float
    is_exact: bool

    def is_right(self, tolerance: float) -> bool:
        """Tell whether it agrees: integers and bools exactly, others to a tolerance."""
        if self.is_exact:
            return self.absolute == 0
        return min(self.absolute, self.relative) <= tolerance
