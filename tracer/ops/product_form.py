"""How a matrix product is handed to XLA: which operand comes first, and which are transposed.

XLA:CPU gives a product to YNNPACK only if the contracted axis is the last of the left operand;
others go to Eigen, which takes up to 25 times as long (openxla/xla: `IsDotSupportedByYnn` in
xla/backends/cpu/ynn_support.cc; figures in docs/memory-model.md). `x^T y` equals `(y^T x)^T`, so
there is a choice of what to write out transposed: `x`, or `y` and the result.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import lru_cache

_PLAIN_FLOPS = 1 << 18
"""Below, a product takes a few microseconds in any form."""
_PAGED_BYTES = 1 << 20
"""Blocks above this size are new pages of the system in every call (docs/memory-model.md)."""
_LONG_COLUMN = 1 << 14
"""Bytes of a column of the right operand from which single products are packed in one block."""
_COLUMNS, _ELEMENTS = 256, 1 << 17
"""Columns of the right operand that YNNPACK packs at a time, or elements if that is more."""
_THREAD_COLUMNS, _THREAD_COLUMNS_OF_ONE = 64, 32
"""Columns that each thread packs at least, of a batch of products and of one."""
_EIGEN_DEPTH, _EIGEN_SHALLOW = 768, 64
_EIGEN_BLOCK, _EIGEN_LOCAL = 40_000, 1 << 17
"""Elements of a block of the left operand, and what the threads hold at a time of blocks."""
_THREADS = os.cpu_count() or 1
_SMALL_SHARE = 4
"""A copy is small when it takes less than this part of operands and result."""
_IN_CACHE = 1 << 16
"""Elements of a left operand that Eigen packs within the core's own cache."""

# Nanoseconds, measured on two cores of an AMD EPYC machine; only their ratios matter.
_TRANSPOSE_BYTE, _PAGE_BYTE, _PACK_BYTE = 0.11, 0.25, 0.06
_PACK_TRANSPOSED_BYTE = 0.025
_EIGEN, _EIGEN_BATCH, _EIGEN_BATCH_IN_CACHE = 2.4, 1.5, 0.6


@dataclass(frozen=True)
class Sizes:
    """The sizes of a product of matrices.

    Attributes
    ----------
    batch, rows, inner, columns : int
        Of the result: batch, rows and columns; and the contracted size.
    itemsize : int
        Bytes of an element, as it is multiplied.
    """

    batch: int
    rows: int
    inner: int
    columns: int
    itemsize: int

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


@dataclass(frozen=True)
class ProductForm:
    """One way to write a product.

    Attributes
    ----------
    is_swapped : bool
        The right operand comes first, and the result is transposed.
    transposes_left, transposes_right : bool
        That operand is written out transposed before.
    """

    is_swapped: bool = False
    transposes_left: bool = False
    transposes_right: bool = False


PLAIN = ProductForm()
_FORMS = tuple(
    ProductForm(is_swapped, left, right)
    for is_swapped in (False, True)
    for left in (False, True)
    for right in (False, True)
)


@lru_cache(maxsize=4096)
def choose_form(sizes: Sizes, *, left_inner_last: bool, right_inner_last: bool) -> ProductForm:
    """Return the fastest form of a product.

    Parameters
    ----------
    sizes : Sizes
        What is multiplied.
    left_inner_last, right_inner_last : bool
        Whether the contracted axis is the last one of an operand, or stands before the free one.

    Returns
    -------
    ProductForm
        `PLAIN` when nothing else is faster.
    """
    flops = 2 * sizes.result * sizes.inner
    if flops < _PLAIN_FLOPS or min(sizes.rows, sizes.inner, sizes.columns) == 1:
        return PLAIN
    forms = _FORMS
    if left_inner_last:
        # The library takes it as it is: copies of large arrays are not worth what they hold.
        most = (sizes.left + sizes.right + sizes.result) // _SMALL_SHARE
        forms = tuple(form for form in _FORMS if _transposed(form, sizes) <= most)
    return min(forms, key=lambda form: _seconds(form, sizes, left_inner_last, right_inner_last))


def form_bytes(
    form: ProductForm, sizes: Sizes, *, left_inner_last: bool, right_inner_last: bool
) -> int:
    """Bound what a form stores besides operands and result: transposes, and what is packed."""
    places = {"left_inner_last": left_inner_last, "right_inner_last": right_inner_last}
    return _transposed(form, sizes) * sizes.itemsize + packed_bytes(form, sizes, **places)


def packed_bytes(
    form: ProductForm, sizes: Sizes, *, left_inner_last: bool, right_inner_last: bool
) -> int:
    """Bound what the library packs; the bounds are fitted in docs/memory-model.md."""
    first, _, size = _ordered(form, sizes, left_inner_last, right_inner_last)
    packed = _packed_by_library(size) if first else _packed_by_eigen(size)
    return packed * sizes.itemsize


def _packed_by_library(size: Sizes) -> int:
    """Bound the elements that YNNPACK packs; products with a vector have no packing."""
    if 1 in (size.rows, size.columns):
        return 0
    each = _THREAD_COLUMNS_OF_ONE if size.batch == 1 else _THREAD_COLUMNS
    at_a_time = max(each * _THREADS, _ELEMENTS // max(1, size.inner))
    return size.batch * size.inner * min(size.columns, at_a_time)


def _packed_by_eigen(size: Sizes) -> int:
    """Bound the elements that Eigen packs.

    A long left operand is packed block by block within each thread when there are enough blocks
    for all threads (`parallelize_by_sharding_dim_only` in Eigen's TensorContractionThreadPool.h).
    """
    if 1 in (size.rows, size.columns):
        return 0
    if size.batch > 1:
        return (size.rows + size.columns) * _THREADS * min(8 * size.inner, _EIGEN_DEPTH)
    is_long = size.rows > 8 * size.columns and size.inner >= _EIGEN_SHALLOW
    if is_long and size.rows * size.inner >= 8 * _THREADS * _EIGEN_BLOCK:
        return size.columns * min(size.inner, _EIGEN_DEPTH) + _EIGEN_LOCAL
    return (size.rows + size.columns) * min(size.inner * 4 // 3, _EIGEN_DEPTH)


def _transposed(form: ProductForm, sizes: Sizes) -> int:
    """Return the elements that are written out transposed."""
    return (
        form.transposes_left * sizes.left
        + form.transposes_right * sizes.right
        + form.is_swapped * sizes.result
    )


def _ordered(
    form: ProductForm, sizes: Sizes, left_inner_last: bool, right_inner_last: bool
) -> tuple[bool, bool, Sizes]:
    """Return where the contracted axes are in the product as it is written, and its sizes."""
    left, right = left_inner_last != form.transposes_left, right_inner_last != form.transposes_right
    if not form.is_swapped:
        return left, right, sizes
    turned = Sizes(sizes.batch, sizes.columns, sizes.inner, sizes.rows, sizes.itemsize)
    return right, left, turned


def _seconds(
    form: ProductForm, sizes: Sizes, left_inner_last: bool, right_inner_last: bool
) -> float:
    """Estimate what a form costs besides the multiplications, in nanoseconds."""
    first, second, size = _ordered(form, sizes, left_inner_last, right_inner_last)
    if not first:
        # Eigen. All but the plain form of it can only be slower than YNNPACK.
        return _eigen_seconds(sizes, second) if form == PLAIN else math.inf
    return _transposed(form, sizes) * sizes.itemsize * _TRANSPOSE_BYTE + _packing(second, size)


def _eigen_seconds(sizes: Sizes, right_inner_last: bool) -> float:
    """Estimate Eigen's packing; one product at a time its threads hardly help."""
    packed = sizes.left + right_inner_last * sizes.right
    if sizes.batch == 1:
        return _EIGEN * (sizes.left + sizes.right)
    in_cache = sizes.rows * sizes.inner <= _IN_CACHE
    return (_EIGEN_BATCH_IN_CACHE if in_cache else _EIGEN_BATCH) * packed


def _packing(right_inner_last: bool, size: Sizes) -> float:
    """Estimate YNNPACK's packing of the right operand, which it may have to transpose."""
    each = size.itemsize * _PACK_BYTE
    if right_inner_last:
        each += size.itemsize * _PACK_TRANSPOSED_BYTE
    at_a_time = min(size.columns, max(_COLUMNS, _ELEMENTS // size.inner))
    nbytes = size.batch * size.inner * at_a_time * size.itemsize
    # Of a single product with short columns the blocks are smaller.
    has_large_blocks = size.batch > 1 or size.inner * size.itemsize >= _LONG_COLUMN
    is_paged = has_large_blocks and nbytes >= _PAGED_BYTES
    return each * size.right + is_paged * nbytes * _PAGE_BYTE
