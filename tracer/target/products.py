"""How a matrix product is handed to XLA: which operand comes first, and which are transposed.

XLA:CPU gives a product to YNNPACK only when the contracted axis is the last of the left operand;
others go to Eigen, which takes up to 25 times as long (openxla/xla: `IsDotSupportedByYnn` in
xla/backends/cpu/ynn_support.cc; the figures are in docs/memory-model.md). `x^T y` is as well
`(y^T x)^T`, so there is a choice of what to write out transposed: `x`, or `y` and the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from tracer.ir.library_calls import ProductCall
from tracer.target.packing import Packing


@dataclass(frozen=True)
class ProductPrices:
    """What forms of a product cost besides the multiplications, in nanoseconds for each byte.

    Measured on two cores of an AMD EPYC machine; only their ratios matter.

    Attributes
    ----------
    transpose_byte, page_byte : float
        To write a byte transposed; to have a byte of new pages from the system.
    pack_byte, pack_transposed_byte : float
        To pack a byte with YNNPACK, and what it takes more to transpose it.
    eigen, eigen_batch, eigen_batch_in_cache : float
        For each element that Eigen packs: of one product, of a batch, of a batch of small ones.
    eigen_in_cache : int
        Elements of a left operand that Eigen packs within the core's own cache.
    columns : int
        Columns of the right operand that YNNPACK packs at a time at least.
    plain_flops : int
        Below, a product takes a few microseconds in any form.
    paged_bytes : int
        Blocks above this size are new pages of the system in every call.
    long_column : int
        Bytes of a column of the right operand from which one product is packed in one block.
    small_share : int
        A copy is small when it takes less than this part of operands and result.
    """

    transpose_byte: float = 0.11
    page_byte: float = 0.25
    pack_byte: float = 0.06
    pack_transposed_byte: float = 0.025
    eigen: float = 2.4
    eigen_batch: float = 1.5
    eigen_batch_in_cache: float = 0.6
    eigen_in_cache: int = 1 << 16
    columns: int = 256
    plain_flops: int = 1 << 18
    paged_bytes: int = 1 << 20
    long_column: int = 1 << 14
    small_share: int = 4


SUMMED_IN = {"int8": "int32", "uint8": "int32", "bfloat16": "float32"}
"""What XLA:CPU may be given as it is for products, and the dtype that they are summed in."""

Shares = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class EigenTimes:
    """What Eigen takes of YNNPACK's time for a product, by its kind.

    Eigen's products of float32 are oneDNN's, with kernels of their own for each processor, and
    products of a batch are spread over the cores where YNNPACK multiplies one pair after the other
    (docs/memory-model.md, *Which library*). Measured with jaxlib 0.10.2 on two cores of an Intel
    Xeon (Emerald Rapids), in loops that use their buffers again.

    Attributes
    ----------
    rows : tuple of (float, float)
        Of one product of float32: up to how many rows of the left operand, the share.
    pairs : tuple of (float, float)
        Of batches of float32: up to how many elements of operands and result of each pair, the
        share. In the middle YNNPACK keeps a pair on one core.
    narrow : float
        The share of products, batches too, with many rows, many terms and few columns.
    narrow_rows, narrow_terms, narrow_columns : int
        From how many rows and terms on, and up to how many columns they are narrow.
    depth, depth_of_pairs : int
        Terms up to which both take as long, in one product and in batches.
    turned : float
        What it adds, where the right operand's contracted axis is last, for each time that it has
        more columns than the left one has rows.
    turned_pairs : float
        What that adds in batches, times the rows of the left operand.
    double : float
        The share of any product of float64.
    narrow_types : tuple of (str, float, float)
        Dtypes that YNNPACK multiplies as they are, in the tiles of Intel's AMX: its time over that
        of float32, and the share. Eigen is given them as float32 or int32.
    worth : float
        The products of a program go to Eigen if they take less than this part of the time.
    """

    rows: Shares = ((300, 1.2), (800, 1.07), (1500, 1.0), (math.inf, 0.92))
    pairs: Shares = (
        (4e4, 1.0), (6e4, 0.85), (1.5e5, 0.6), (2.2e5, 0.8), (math.inf, 0.95)
    )  # fmt: skip
    narrow: float = 1.3
    narrow_rows: int = 1000
    narrow_terms: int = 300
    narrow_columns: int = 128
    depth: int = 64
    depth_of_pairs: int = 32
    turned: float = 0.13
    turned_pairs: float = 20.0
    double: float = 1.9
    narrow_types: tuple[tuple[str, float, float], ...] = (
        ("bfloat16", 0.22, 4.5), ("int8", 0.12, 60.0)
    )  # fmt: skip
    worth: float = 0.95

    def seconds(self, call: ProductCall, seconds: float) -> tuple[float, float]:
        """Return what both libraries take, YNNPACK first, for a product as long in float32."""
        for dtype, over_single, share in self.narrow_types:
            if call.dtype == dtype and self._is_ynnpacks(call):
                return over_single * seconds, over_single * share * seconds
        return seconds, self.share(call) * seconds

    def share(self, call: ProductCall) -> float:
        """Return what Eigen takes of YNNPACK's time, about."""
        if not self._is_ynnpacks(call) or not call.has_forms:
            return 1.0
        if call.itemsize > _SINGLE:
            return self.double
        if call.batch > 1:
            share, turned = self._of_pairs(call), self.turned_pairs / call.rows
        else:
            share, turned = self._of_one(call), self.turned * call.columns / call.rows
        return share + turned if call.right_inner_last else share

    def _is_ynnpacks(self, call: ProductCall) -> bool:
        """Tell whether YNNPACK takes a product; others take as long in either case."""
        return call.left_inner_last and not call.has_vector and call.rows > 0

    def _of_one(self, call: ProductCall) -> float:
        if self._is_narrow(call):
            return self.narrow
        return _share_of(self.rows, call.rows) if call.inner > self.depth else 1.0

    def _of_pairs(self, call: ProductCall) -> float:
        if self._is_narrow(call):
            return self.narrow
        each = (call.left + call.right + call.result) // call.batch
        return _share_of(self.pairs, each) if call.inner > self.depth_of_pairs else 1.0

    def _is_narrow(self, call: ProductCall) -> bool:
        is_deep = call.inner >= self.narrow_terms and call.rows >= self.narrow_rows
        return is_deep and call.columns <= self.narrow_columns


def _share_of(shares: Shares, size: int) -> float:
    return next(share for most, share in shares if size <= most)


_SINGLE = 4
"""Bytes of a float32; of a float16 in a product, too."""
_NARROW = 2
"""Bytes of a bfloat16 that the library multiplies as it is."""


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

    @property
    def is_plain(self) -> bool:
        """Whether the product is handed over as it is written."""
        return self == PLAIN


PLAIN = ProductForm()
_FORMS = tuple(
    ProductForm(is_swapped, left, right)
    for is_swapped in (False, True)
    for left in (False, True)
    for right in (False, True)
)


@dataclass(frozen=True)
class ProductMemory:
    """What a product stores besides operands and result, in bytes.

    Attributes
    ----------
    transposed : int
        Operands and results that are written out transposed, and what else XLA counts.
    packing : int
        What the library holds packed at a time, which XLA does not count.
    packed : int
        What it packs in all.
    """

    transposed: int
    packing: int
    packed: int


@lru_cache(maxsize=4096)
def choose_form(call: ProductCall, prices: ProductPrices, packing: Packing) -> ProductForm:
    """Return the fastest form of a product; `PLAIN` when nothing else is faster."""
    is_small = call.flops < prices.plain_flops
    if is_small or not call.has_forms or min(call.rows, call.inner, call.columns) == 1:
        return PLAIN
    forms = _FORMS
    if call.left_inner_last:
        # The library takes it as it is: copies of large arrays are not worth what they hold.
        most = (call.left + call.right + call.result) // prices.small_share
        forms = tuple(form for form in _FORMS if _transposed(form, call) <= most)
    return min(forms, key=lambda form: _nanoseconds(form, call, prices, packing))


@lru_cache(maxsize=4096)
def product_memory(call: ProductCall, prices: ProductPrices, packing: Packing) -> ProductMemory:
    """Bound what a product stores, in its fastest form."""
    form = choose_form(call, prices, packing)
    ordered = _ordered(form, call)
    is_by_ynnpack = packing.ynnpack and ordered.left_inner_last
    by_library = packing.by_ynnpack if is_by_ynnpack else packing.by_eigen
    is_as_given = is_by_ynnpack and call.dtype in packing.as_given and not call.has_vector
    itemsize = _NARROW if is_as_given else call.itemsize
    at_a_time = by_library(ordered) * itemsize
    widened = _widened(call, is_as_given) if call.dtype in packing.widened else 0
    return ProductMemory(
        _transposed(form, call) * itemsize + widened,
        at_a_time,
        call.right * itemsize if at_a_time else 0,
    )


def _transposed(form: ProductForm, call: ProductCall) -> int:
    """Return the elements that are written out transposed."""
    return (
        form.transposes_left * call.left
        + form.transposes_right * call.right
        + form.is_swapped * call.result
    )


def _widened(call: ProductCall, is_as_given: bool) -> int:
    """Return the bytes of float32 that narrower operands become, and that results come in."""
    if call.inner == 1:
        return 0  # XLA multiplies a column by a row itself.
    operands = 0 if is_as_given else call.left + call.right
    return _SINGLE * (operands + call.result)


def _ordered(form: ProductForm, call: ProductCall) -> ProductCall:
    """Return the product as it is written in a form."""
    left = call.left_inner_last != form.transposes_left
    right = call.right_inner_last != form.transposes_right
    if not form.is_swapped:
        return replace(call, left_inner_last=left, right_inner_last=right)
    return replace(
        call, rows=call.columns, columns=call.rows, left_inner_last=right, right_inner_last=left
    )


def _nanoseconds(
    form: ProductForm, call: ProductCall, prices: ProductPrices, packing: Packing
) -> float:
    """Estimate what a form costs besides the multiplications."""
    ordered = _ordered(form, call)
    if not ordered.left_inner_last:
        # Eigen. All but the plain form of it can only be slower than YNNPACK.
        return _by_eigen(call, prices) if form == PLAIN else math.inf
    transposes = _transposed(form, call) * call.itemsize * prices.transpose_byte
    return transposes + _by_ynnpack(ordered, prices, packing)


def _by_eigen(call: ProductCall, prices: ProductPrices) -> float:
    """Estimate Eigen's packing; one product at a time its threads hardly help."""
    packed = call.left + call.right_inner_last * call.right
    if call.batch == 1:
        return prices.eigen * (call.left + call.right)
    in_cache = call.rows * call.inner <= prices.eigen_in_cache
    return (prices.eigen_batch_in_cache if in_cache else prices.eigen_batch) * packed


def _by_ynnpack(call: ProductCall, prices: ProductPrices, packing: Packing) -> float:
    """Estimate YNNPACK's packing of the right operand, which it may have to transpose."""
    each = call.itemsize * prices.pack_byte
    if call.right_inner_last:
        each += call.itemsize * prices.pack_transposed_byte
    at_a_time = min(call.columns, max(prices.columns, packing.elements // call.inner))
    nbytes = call.batch * call.inner * at_a_time * call.itemsize
    # Of a single product with short columns the blocks are smaller.
    has_large_blocks = call.batch > 1 or call.inner * call.itemsize >= prices.long_column
    is_paged = has_large_blocks and nbytes >= prices.paged_bytes
    return each * call.right + is_paged * nbytes * prices.page_byte


__all__ = [
    "PLAIN",
    "SUMMED_IN",
    "EigenTimes",
    "ProductForm",
    "ProductMemory",
    "ProductPrices",
    "choose_form",
]
