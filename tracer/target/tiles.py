"""When reductions over features of pairs go in tiles, and how large these are.

How is described where it is written (`optimizer/legalize/pairwise.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from tracer.ir.library_calls import PairwiseCall


@dataclass(frozen=True)
class Tiles:
    """The default is XLA's CPU compiler.

    Attributes
    ----------
    cached_share : int
        Of the last cache: features of columns that take less stay there without tiles.
    columns_bytes : int
        Of the features of a tile's columns: they stay in the second cache.
    tile_bytes : int
        Of the results of a tile, which are stored once more.
    stored_bytes : int
        Of an array that the loop over tiles reads and that is computed before: it is stored then.
    least_rows : int
        Rows that read the columns' features again.
    """

    cached_share: int = 2
    columns_bytes: int = 1 << 19
    tile_bytes: int = 1 << 18
    stored_bytes: int = 1 << 18
    least_rows: int = 16

    def tile(self, call: PairwiseCall, cache_bytes: int) -> tuple[int, ...] | None:
        """Return the sizes of a tile; None where plain loops read what is in a cache."""
        *outer, rows, columns = call.shape
        line = call.features * call.feature_bytes
        if self.cached_share * columns * line <= cache_bytes or rows < self.least_rows:
            return None
        few = min(columns, max(1, self.columns_bytes // line))
        some = min(rows, max(1, self.tile_bytes // (few * call.itemsize)))
        return (*(1 for _ in outer), some, few)


__all__ = ["Tiles"]
