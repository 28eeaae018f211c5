"""A general product as a product of matrices: its scratch, and how it is lowered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tracer.ir import ShapeDtype
from tracer.ir.library_calls import ProductCall
from tracer.ops.rules import is_float, is_inexact, size_of

Axes = tuple[int, ...]
_COMPUTED_ITEMSIZE = 4
"""XLA:CPU multiplies narrower floats as float32."""
_LONG_SUM = 2048
"""Products from which an inner product is summed in stages, as reductions are."""


def free_axes(ndim: int, batch: Axes, contracting: Axes) -> Axes:
    """Return the axes that are neither batch nor contracting axes."""
    return tuple(axis for axis in range(ndim) if axis not in batch and axis not in contracting)


@dataclass(frozen=True)
class _Side:
    """One operand of a product, with its batch and contracted axes."""

    type: ShapeDtype
    batch: Axes
    inner: Axes

    @property
    def free(self) -> Axes:
        return free_axes(self.type.ndim, self.batch, self.inner)

    @property
    def is_inner_last(self) -> bool:
        """Tell whether the axes lie as (batch, free, inner)."""
        return (*self.batch, *self.free, *self.inner) == tuple(range(self.type.ndim))

    @property
    def is_matrix_like(self) -> bool:
        """Tell whether they lie so or as (batch, inner, free): then XLA makes no copy."""
        is_inner_first = (*self.batch, *self.inner, *self.free) == tuple(range(self.type.ndim))
        return self.is_inner_last or is_inner_first


def _product(left: _Side, right: _Side) -> ProductCall:
    """Return a product of matrices: how large, and where the contracted axes are.

    What is not like a matrix is copied, to contracted axes last on the left, first on the right.
    """
    return ProductCall(
        batch=size_of(left.type, left.batch),
        rows=size_of(left.type, left.free),
        inner=size_of(left.type, left.inner),
        columns=size_of(right.type, right.free),
        itemsize=max(_COMPUTED_ITEMSIZE, left.type.dtype.itemsize),
        left_inner_last=left.is_inner_last or not left.is_matrix_like,
        right_inner_last=right.is_inner_last and right.is_matrix_like,
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
    left, right = _Side(x, lhs_batch, lhs_contracting), _Side(y, rhs_batch, rhs_contracting)
    copies = sum(side.type.nbytes for side in (left, right) if not side.is_matrix_like)
    return copies, _product(left, right)


def lower_product(
    b: Any,
    types: tuple[ShapeDtype, ...],
    x: Any,
    y: Any,
    *,
    lhs_batch: Axes,
    rhs_batch: Axes,
    lhs_contracting: Axes,
    rhs_contracting: Axes,
) -> Any:
    """Lower a product, in the form that is fastest where the form matters."""
    left, right = (
        _Side(x.type, lhs_batch, lhs_contracting),
        _Side(y.type, rhs_batch, rhs_contracting),
    )
    if b.target.kernels.long_sums_in_stages and _is_long_sum(types[0], left):
        return _lower_sum(b, types[0], x, y, left, right)
    if b.prefers_rows_in_products and is_float(types[0].dtype):
        (x, left), (y, right) = _behind_transpose(b, x, left), _behind_transpose(b, y, right)
        product = _product(left, right)
        form = b.target.form_of(product)
        if not form.is_plain:
            return _lower_form(b, types[0], (x, y), (left, right), product, form)
    return b.dot_general(types[0], x, y, left.batch, right.batch, left.inner, right.inner)


def _is_long_sum(type: ShapeDtype, left: _Side) -> bool:
    """Tell whether a product is one long inner product, or one for each element of a batch.

    XLA:CPU takes it for a reduction, of one chain: a million float32 are off by 1e-4. As our own
    reduction it has stages. Narrow floats stay: their products are exact before they are added.
    """
    is_wide = is_inexact(type.dtype) and type.dtype.itemsize >= _COMPUTED_ITEMSIZE
    is_inner = type.size == size_of(left.type, left.batch)
    return is_wide and is_inner and size_of(left.type, left.inner) >= _LONG_SUM


def _lower_sum(b: Any, type: ShapeDtype, x: Any, y: Any, left: _Side, right: _Side) -> Any:
    paired = dict(zip((*left.batch, *left.inner), (*right.batch, *right.inner), strict=True))
    long = [axis for axis, size in enumerate(left.type.shape) if size > 1]
    others = [paired[axis] for axis in long]
    if others != sorted(others):
        ones = [axis for axis in range(right.type.ndim) if axis not in others]
        y = b.transpose(y, (*others, *ones))
    shape = [left.type.shape[axis] for axis in long]
    x, y = (b.reshape(operand.type.with_shape(shape), operand) for operand in (x, y))
    axes = tuple(place for place, axis in enumerate(long) if axis in left.inner)
    batch = [axis for axis in long if axis in left.batch]
    sums = type.with_shape([left.type.shape[axis] for axis in batch])

    def add(_: Any, lhs: Any, rhs: Any) -> tuple[Any]:
        return (b.add(lhs, rhs),)

    initial = (b.splat(0, type.with_shape(())),)
    terms = (b.multiply(x, y),)
    (total,) = b.reduce_in_stages((sums,), terms, initial, axes, add, is_sum=True)
    wanted = [axis for axis in left.batch if axis in batch]
    if wanted != batch:
        total = b.transpose(total, tuple(batch.index(axis) for axis in wanted))
    return b.reshape(type, total)


def _behind_transpose(b: Any, x: Any, side: _Side) -> tuple[Any, _Side]:
    """Read the operand of a transpose in place of its result: XLA would do so anyway."""
    found = b.behind_transpose(x)
    if found is None:
        return x, side
    source, permutation = found
    batch, free, inner = (
        tuple(permutation[axis] for axis in axes) for axes in (side.batch, side.free, side.inner)
    )
    before = _Side(source.type, batch, inner)
    return (source, before) if before.free == free and before.is_matrix_like else (x, side)


def _lower_form(
    b: Any,
    type: ShapeDtype,
    operands: tuple[Any, Any],
    sides: tuple[_Side, _Side],
    sizes: ProductCall,
    form: Any,
) -> Any:
    lead = (sizes.batch,) if sizes.batch != 1 else ()
    matrices = [
        _matrix(b, x, side, lead, inner_last, transposes)
        for x, side, inner_last, transposes in zip(
            operands,
            sides,
            (sizes.left_inner_last, sizes.right_inner_last),
            (form.transposes_left, form.transposes_right),
            strict=True,
        )
    ]
    shape = (sizes.rows, sizes.columns)
    if form.is_swapped:
        matrices, shape = matrices[::-1], shape[::-1]
    (x, inner_x), (y, inner_y) = matrices
    batch = tuple(range(len(lead)))
    result = type.with_shape((*lead, *shape))
    found = b.dot_general(result, x, y, batch, batch, (inner_x,), (inner_y,))
    if form.is_swapped:
        found = b.transpose(found, (*batch, len(lead) + 1, len(lead)))
    return b.reshape(type, found)


def _matrix(
    b: Any, x: Any, side: _Side, lead: Axes, is_inner_last: bool, transposes: bool
) -> tuple[Any, int]:
    """Return an operand as (batch, rows, columns) or (rows, columns), and its contracted axis.

    XLA would take a transpose back into the product, were there no barrier.
    """
    rest = (side.free, side.inner) if is_inner_last else (side.inner, side.free)
    order = (*side.batch, *rest[0], *rest[1])
    if order != tuple(range(side.type.ndim)):
        x = b.transpose(x, order)
    shape = (*lead, *(size_of(side.type, axes) for axes in rest))
    x = b.reshape(side.type.with_shape(shape), x)
    if transposes:
        x = b.stored_by_rows(b.transpose(x, (*range(len(lead)), len(lead) + 1, len(lead))))
    return x, len(lead) + (is_inner_last != transposes)
