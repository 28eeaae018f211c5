"""A general product as a product of matrices."""

from __future__ import annotations

from dataclasses import dataclass

from tracer.ir import Node, ShapeDtype
from tracer.ir.library_calls import ProductCall
from tracer.ops.rules import is_float, size_of

Axes = tuple[int, ...]
COMPUTED_ITEMSIZE = 4
"""XLA:CPU multiplies narrower floats as float32."""


def free_axes(ndim: int, batch: Axes, contracting: Axes) -> Axes:
    """Return the axes that are neither batch nor contracting axes."""
    return tuple(axis for axis in range(ndim) if axis not in batch and axis not in contracting)


@dataclass(frozen=True)
class Side:
    """One operand of a product, with its batch and contracted axes (`inner`)."""

    type: ShapeDtype
    batch: Axes
    inner: Axes

    @property
    def free(self) -> Axes:
        """The axes that are neither batch nor contracted axes."""
        return free_axes(self.type.ndim, self.batch, self.inner)

    @property
    def is_inner_last(self) -> bool:
        """Tell whether the axes are in the order (batch, free, inner)."""
        return (*self.batch, *self.free, *self.inner) == tuple(range(self.type.ndim))

    @property
    def is_matrix_like(self) -> bool:
        """Tell whether they are in that order or (batch, inner, free): then XLA makes no copy."""
        is_inner_first = (*self.batch, *self.inner, *self.free) == tuple(range(self.type.ndim))
        return self.is_inner_last or is_inner_first

    @property
    def is_read_by_rows(self) -> bool:
        """Tell whether contracted axes come last in it, or in a copy that keeps the last axis."""
        return self.is_inner_last if self.is_matrix_like else self.type.ndim - 1 in self.inner


def sides_of(node: Node) -> tuple[Side, Side]:
    """Return the operands of a `dot_general`, each with its batch and contracted axes."""
    x, y = node.operand_types
    given = node.params
    return (
        Side(x, given["lhs_batch"], given["lhs_contracting"]),
        Side(y, given["rhs_batch"], given["rhs_contracting"]),
    )


def matrix_product(left: Side, right: Side) -> ProductCall:
    """Return a product of matrices: how large, and where the contracted axes are.

    What is not like a matrix is copied, to contracted axes last on the left; on the right, too,
    where the innermost is one of them: rows are copied faster than they are transposed.
    """
    return ProductCall(
        batch=size_of(left.type, left.batch),
        rows=size_of(left.type, left.free),
        inner=size_of(left.type, left.inner),
        columns=size_of(right.type, right.free),
        itemsize=max(COMPUTED_ITEMSIZE, left.type.dtype.itemsize),
        dtype=left.type.dtype.name,
        left_inner_last=left.is_inner_last or not left.is_matrix_like,
        right_inner_last=right.is_read_by_rows,
        has_forms=is_float(left.type.dtype),
    )


def product_of_types(
    x: ShapeDtype,
    y: ShapeDtype,
    *,
    lhs_batch: Axes,
    rhs_batch: Axes,
    lhs_contracting: Axes,
    rhs_contracting: Axes,
) -> tuple[int, ProductCall]:
    """Return the bytes of copies into order, and the product of matrices that is left."""
    left, right = Side(x, lhs_batch, lhs_contracting), Side(y, rhs_batch, rhs_contracting)
    copies = sum(side.type.nbytes for side in (left, right) if not side.is_matrix_like)
    return copies, matrix_product(left, right)
