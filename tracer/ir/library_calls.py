"""Library calls whose memory depends on the device: what an op says, for a target to price.

An op knows the sizes of what it hands to a library. The target (`tracer/target`) knows how much of
it the library packs, and in which form a product is fastest.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProductCall:
    """A product of matrices.

    Attributes
    ----------
    batch, rows, inner, columns : int
        Of the result: batch, rows and columns; and the contracted size.
    itemsize : int
        Bytes of an element, as it is multiplied.
    left_inner_last, right_inner_last : bool
        Whether the contracted axis is the last one of an operand, or comes before the free one.
    has_forms : bool
        Whether it may be written in another form; otherwise it is handed over as it is.
    """

    batch: int
    rows: int
    inner: int
    columns: int
    itemsize: int
    left_inner_last: bool = True
    right_inner_last: bool = False
    has_forms: bool = True

    @property
    def left(self) -> int:
        """Elements of the left operand."""
        return self.batch * self.rows * self.inner

    @property
    def right(self) -> int:
        """Elements of the right operand."""
        return self.batch * self.inner * self.columns

    @property
    def result(self) -> int:
        """Elements of the result."""
        return self.batch * self.rows * self.columns

    @property
    def has_vector(self) -> bool:
        """Whether it is a product with a vector, which libraries do not pack."""
        return 1 in (self.rows, self.columns)


@dataclass(frozen=True)
class TriangleCall:
    """A solve with a triangular matrix from the left, for right-hand sides in rows."""

    size: int
    width: int
    itemsize: int


@dataclass(frozen=True)
class PanelCall:
    """Calls of LAPACK that pack a panel of the other operand.

    Attributes
    ----------
    rows : int
        The smaller side of the matrix that is decomposed or solved with.
    width : int
        Columns of what it is multiplied with: right-hand sides, or its own.
    itemsize : int
        Bytes of an element.
    times : int
        Calls of which each packs.
    workspace : int
        Additional bytes that they take.
    """

    rows: int
    width: int
    itemsize: int
    times: int = 1
    workspace: int = 0


LibraryCall = ProductCall | TriangleCall | PanelCall

__all__ = ["LibraryCall", "PanelCall", "ProductCall", "TriangleCall"]
