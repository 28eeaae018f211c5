"""Library calls whose memory depends on the device: what an op says, for a target to price.

An op knows the sizes of what it hands to a library. The target (`tracer/target`) knows how much of
it the library packs, in which form a product is fastest, which reductions go in stages, and which
floats are sorted as integers.
"""

from __future__ import annotations

import math
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
    dtype : str
        The name of the operands' dtype, as they are given.
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
    dtype: str = "float32"
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
    def side(self) -> int:
        """Rows, columns or terms, whichever are most."""
        return max(self.rows, self.inner, self.columns)

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.result * self.inner

    @property
    def has_vector(self) -> bool:
        """Whether it is a product with a vector, which libraries do not pack."""
        return 1 in (self.rows, self.columns)


@dataclass(frozen=True)
class TriangleCall:
    """A solve with a triangular matrix from the left, for right-hand sides that lie by rows.

    Attributes
    ----------
    size, width : int
        Rows of the matrix, and right-hand sides.
    itemsize : int
        Bytes of an element.
    may_go_by_blocks : bool
        Whether it is one real system with one right-hand side, which products of blocks solve too.
    """

    size: int
    width: int
    itemsize: int
    may_go_by_blocks: bool = False


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


@dataclass(frozen=True)
class SmallMatricesCall:
    """An operation on each of many matrices, which a device may do side by side.

    Attributes
    ----------
    count : int
        How many matrices there are.
    rows, width : int
        Rows of a matrix, and the columns of it or of what is solved for, whichever are more.
    itemsize : int
        Bytes of an element as it is computed.
    is_real : bool
        Whether its numbers are real.
    held : int
        Arrays like the matrices of a chunk that it holds beside them: turned, before and after a
        step, turned back.
    library : TriangleCall or PanelCall
        The calls of LAPACK that do the same.
    """

    count: int
    rows: int
    width: int
    itemsize: int
    is_real: bool
    held: int
    library: TriangleCall | PanelCall


@dataclass(frozen=True)
class ConvolutionCall:
    """A convolution of float32, which the library multiplies as matrices.

    Attributes
    ----------
    windows : int
        Elements of one row for every place of the result, with all that its window covers.
    kernel, result : int
        Elements.
    axes, features : int
        Axes of the result, and features that it has.
    is_grouped : bool
        Whether features are in groups.
    """

    windows: int
    kernel: int
    result: int
    axes: int
    features: int
    is_grouped: bool = False


@dataclass(frozen=True)
class DepthwiseCall:
    """A depthwise convolution, which a device may compute as a sum over the window's places.

    Attributes
    ----------
    places : int
        Of the window.
    itemsize, elements : int
        Of the result.
    padded, by_loops : int
        Bytes of the array with its padding, 0 where it has none, and of all that plain loops store.
    is_summed, may_choose : bool
        Whether a sum is faster than plain loops, and whether its terms may choose between elements
        and padding.
    """

    places: int
    itemsize: int
    elements: int
    padded: int
    by_loops: int
    is_summed: bool
    may_choose: bool


@dataclass(frozen=True)
class SelectionCall:
    """The `k` largest of each of `rows` of `size` elements.

    Attributes
    ----------
    rows, size, k : int
    itemsize : int
        Bytes of an element, as it is compared.
    is_float32 : bool
        Whether the library's kernel takes it: others are sorted.
    """

    rows: int
    size: int
    k: int
    itemsize: int
    is_float32: bool = False

    @property
    def comparisons(self) -> int:
        """Return the operations of a heap of the k largest, whatever the device."""
        return self.rows * self.size * max(self.k, 1).bit_length()


@dataclass(frozen=True)
class ReductionCall:
    """A reduction, which a device may do in stages.

    Attributes
    ----------
    shape, axes : tuple of int
        Of the operand, and which of them are reduced.
    itemsize : int
        Bytes of a partial result.
    flops : int
        Operations that an element takes to compute.
    step_flops : int
        Those of a step along a row, beside a sum's.
    is_extreme : bool
        Whether it keeps one of its elements: NaN is looked for in each step.
    is_elementwise : bool
        Whether its elements are computed element by element of arrays in memory.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    itemsize: int
    flops: int = 0
    step_flops: int = 0
    is_extreme: bool = False
    is_elementwise: bool = False

    @property
    def row_flops(self) -> int:
        """What a step along a short row takes, in operations beside a sum's.

        Measured: up to which length lanes are faster, with nothing and one operation for each
        element.
        """
        return self.step_flops + (3 if self.is_extreme else 1) * self.flops


@dataclass(frozen=True)
class DepthwiseGradientCall:
    """The gradient of a depthwise convolution for its kernel.

    Attributes
    ----------
    places, features : int
        Of the kernel.
    products : ReductionCall
        For one of its places the sum of products.
    library : ConvolutionCall or None
        What it is otherwise.
    copied : int
        Bytes that are copied then.
    """

    places: int
    features: int
    products: ReductionCall
    library: ConvolutionCall | None
    copied: int


ORDERED_AT_A_TIME = 1 << 14
"""Elements of many lines whose places are found together: what is held beside fits in a cache."""
_ORDER_BYTES = 24


def argsort_bytes(size: int, line: int) -> int:
    """Return the bytes beside operand and result in which the places of lines are found.

    For each element of those that are ordered at a time its order, its place, the element in its
    order, and whether that is another than the one before.
    """
    return _ORDER_BYTES * min(size, max(line, ORDERED_AT_A_TIME))


def merging_bytes(line: int, itemsize: int) -> int:
    """Return the bytes of half a line of integers, which a stable sort of them goes through."""
    return itemsize * ((line + 1) // 2)


@dataclass(frozen=True)
class SortCall:
    """A sort that a device may do over one array, for one of integers of the same order.

    Attributes
    ----------
    size, line, itemsize : int
        Elements of the array of integers, those along the axis, and the bytes of one.
    is_copy : bool
        Whether that array is another than the one that is sorted.
    packing : int
        Bytes that the sort holds beside its operands where the device does it as it is.
    is_single : bool
        Whether it sorts one array of a dtype that libraries sort as it is.
    orders : int
        How many orders are found, one for each key from the last on, where keys leave no room for
        places beside them in 64 bits: only a library that finds the places of an order helps. 0:
        one array holds all.
    apart_bytes : int
        Bytes of a line whose elements lie apart; 0 where they lie together.
    """

    size: int
    line: int
    itemsize: int
    is_copy: bool
    packing: int
    is_single: bool = False
    orders: int = 0
    apart_bytes: int = 0

    @property
    def buffer_bytes(self) -> int:
        """Bytes of half a line, which merging goes through."""
        return merging_bytes(self.line, self.itemsize)


@dataclass(frozen=True)
class PairwiseCall:
    """A reduction over the features of pairs.

    Attributes
    ----------
    shape : tuple of int
        Of the result: rows and columns come last.
    features : int
        Terms of each pair.
    feature_bytes : int
        Of one feature of a column, in all arrays with such.
    itemsize : int
        Bytes of one result.
    """

    shape: tuple[int, ...]
    features: int
    feature_bytes: int
    itemsize: int


@dataclass(frozen=True)
class TransformCall:
    """A discrete Fourier transform over the last axes.

    Attributes
    ----------
    batch : int
        Transforms.
    lengths : tuple of int
        Of the axes; where half of the last one is stored, of the whole.
    itemsize : int
        Bytes of a complex number.
    is_real : bool
        Whether its result or its operand is real.
    """

    batch: int
    lengths: tuple[int, ...]
    itemsize: int
    is_real: bool

    @property
    def elements(self) -> int:
        """Numbers that are transformed."""
        return self.batch * math.prod(self.lengths)


@dataclass(frozen=True)
class SpectrumCall:
    """Eigenvalues or singular values by NumPy, of some matrices at a time on each thread.

    Attributes
    ----------
    rows, columns : int
        Of a matrix.
    itemsize : int
        Bytes of an element. NumPy copies narrow ones to double precision, real or complex.
    """

    rows: int
    columns: int
    itemsize: int

    @property
    def at_a_time(self) -> int:
        """Matrices that a thread hands to NumPy together."""
        return max(1, _DECOMPOSED_BYTES // max(1, self._matrix_bytes))

    @property
    def thread_bytes(self) -> int:
        """Bound NumPy's copies of them, and what LAPACK works in for one."""
        return (self.at_a_time + _WORKSPACE) * self._matrix_bytes

    @property
    def _matrix_bytes(self) -> int:
        return 2 * self.itemsize * self.rows * self.columns


_DECOMPOSED_BYTES = 1 << 16
_WORKSPACE = 6
"""In matrices: the copy that is decomposed, and what routines work in."""


@dataclass(frozen=True)
class ScanCall:
    """Running sums, products or extremes along one axis.

    Attributes
    ----------
    before, size, behind : int
        Elements of the axes before it, of the axis, and of the axes behind it.
    itemsize : int
        Bytes of an element as it is combined.
    is_inexact : bool
        Whether its elements are floats or complex numbers.
    is_any_order : bool
        Whether another order gives the same, and NumPy takes it as it is.
    is_product : bool
        Whether they are products: those of a part alone may be too large or too small.
    """

    before: int
    size: int
    behind: int
    itemsize: int
    is_inexact: bool
    is_any_order: bool
    is_product: bool

    @property
    def elements(self) -> int:
        """Elements of the array."""
        return self.before * self.size * self.behind


LibraryCall = (
    ProductCall
    | PanelCall
    | ConvolutionCall
    | DepthwiseCall
    | DepthwiseGradientCall
    | SelectionCall
    | ReductionCall
    | ScanCall
    | SmallMatricesCall
    | SortCall
    | SpectrumCall
    | TransformCall
)

__all__ = [
    "ORDERED_AT_A_TIME",
    "ConvolutionCall",
    "DepthwiseCall",
    "DepthwiseGradientCall",
    "LibraryCall",
    "PanelCall",
    "ProductCall",
    "ReductionCall",
    "ScanCall",
    "SelectionCall",
    "SmallMatricesCall",
    "SortCall",
    "SpectrumCall",
    "TransformCall",
    "TriangleCall",
    "argsort_bytes",
    "merging_bytes",
]
