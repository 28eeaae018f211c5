"""The record of the device that a program is planned for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from tracer.ir.library_calls import (
    ConvolutionCall,
    DepthwiseCall,
    DepthwiseGradientCall,
    LibraryCall,
    PanelCall,
    ProductCall,
    ReductionCall,
    ScanCall,
    SelectionCall,
    SmallMatricesCall,
    SortCall,
    SpectrumCall,
    TransformCall,
    TriangleCall,
    argsort_bytes,
)
from tracer.target.interleaving import Interleaving
from tracer.target.packing import Packing
from tracer.target.products import (
    EigenTimes,
    ProductForm,
    ProductMemory,
    ProductPrices,
    choose_form,
    product_memory,
)
from tracer.target.reductions import Reductions
from tracer.target.scans import Scans
from tracer.target.selection import Selection
from tracer.target.sizes import Sizes
from tracer.target.spectra import Spectra
from tracer.target.tiles import Tiles
from tracer.target.transforms import Transforms


@dataclass(frozen=True)
class Prices:
    """What work takes, in seconds and per second.

    The defaults are measured with jaxlib 0.10.2 on 2 cores of an AMD EPYC of family 26
    (docs/planner.md has the rates), and are those of all CPUs: weights of the time model more than
    speeds of a machine. To measure them on first use was tried: docs/planner.md has what came of
    it.

    Attributes
    ----------
    product_rate, vector_rate : float
        Operations a second of one core, single precision: in large matrix products, and in
        element-wise arithmetic.
    product_element_seconds : float
        What each element of a product's result costs one core besides: thin products are slow.
    step_seconds : float
        What each of the steps takes that one core takes one after the other.
    packing_rate : float
        Bytes a second of all cores that a library packs before it multiplies.
    cache_rate, memory_rate, fresh_rate : float
        Bytes a second of all cores: within the cache, to memory, and to memory that is written
        for the first time.
    kernel_seconds : float
        To start one kernel.
    small_kernel_seconds : float
        To start one of many small kernels: 600 on 18 elements each take 12 microseconds.
    small_product_seconds : float
        To call a library for one small product: 200 of 16 x 16 matrices take 180 microseconds, and
        22 as one batch.
    part_seconds : float
        To write one part of a concatenation: 200 parts of 16 to 256 numbers take 70 to 100
        microseconds.
    short_rows : range
        Lengths of rows of float32 that LLVM writes out where a kernel has little else to do: they
        are no vectors.
    short_row_seconds : float
        What each element of such rows takes longer. 100,000 x 40 differences from each row's
        largest as exponentials: 2.8 ms, and 1.0 if they are also divided.
    lanes_seconds : float
        To hand work to other threads and to put the results together.
    planning_rate : float
        Nodes of programs that a planner looks at a second, by which `planning_seconds` is counted.
    compiling_nodes : int
        Nodes that a planner looks at while the device's compiler compiles one.
    parallel_flops : int
        Work below this runs on one core: to wake the others takes as long.
    matrix_elements, matrix_side : int
        What each core has of each product of a batch at least: elements of operands and result, and
        rows or columns; thinner ones are spread sooner. The batch is not spread otherwise: 8 of 64
        x 64 by 64 x 1024 run at 93 Gflop/s on two cores, of 128 x 64 by 64 x 1024 at 182. (One of
        128 x 64 by 64 x 1024 runs at 111, so small single ones gain little by the other cores.)
    """

    product_rate: float = 2.2e11
    vector_rate: float = 2.5e10
    product_element_seconds: float = 1.5e-9
    step_seconds: float = 4.3e-10
    packing_rate: float = 1e10
    cache_rate: float = 1.5e11
    memory_rate: float = 4.5e10
    fresh_rate: float = 5e9
    kernel_seconds: float = 2e-6
    small_kernel_seconds: float = 2e-8
    small_product_seconds: float = 8e-7
    part_seconds: float = 4e-7
    short_rows: range = range(10, 49)
    short_row_seconds: float = 4e-10
    lanes_seconds: float = 2e-4
    planning_rate: float = 2e4
    compiling_nodes: int = 60
    parallel_flops: int = 1 << 16
    matrix_elements: int = 70_000
    matrix_side: int = 64

    @property
    def product_ratio(self) -> int:
        """Operations of a matrix product that take as long as one of others, a power of two."""
        return 1 << round(math.log2(max(1.0, self.product_rate / self.vector_rate)))

    def product_seconds(self, flops: float, elements: int, itemsize: int) -> float:
        """Return about how long one core takes for products of so many elements in all."""
        width = max(1.0, itemsize / 4)
        return flops / self.product_rate * width + elements * self.product_element_seconds


@dataclass(frozen=True)
class Storage:
    """How a device's compiler stores what a program computes. The default is XLA's CPU compiler.

    Attributes
    ----------
    packs : bool
        Libraries copy operands into memory of their own. Products of GPUs and TPUs read them where
        they are, and what their kernels need besides is in XLA's count.
    fuses_reductions : bool
        One kernel reduces a value and reads it again (a softmax), and so does not write over it.
    split_cores : int
        Among which the sums of a product with few results are divided; 0: they are not.
    tile : int
        The side of the tiles in which products are computed, and the least terms of a divided sum.
    accumulator_bytes : int
        Of each number of a divided sum.
    repeats : bool
        Sine, cosine and tangent of real numbers are computed in every kernel that reads them, not
        stored (`Op.repeats`).
    joined : int, optional
        Arrays that are joined within a kernel, at most; None: any number.
    joined_columns : int
        From so many elements of the last axis on, joined along it, they are not.
    copies : int, optional
        How often code is written out for the readers of an element in a kernel, at most.
    fuses_vectors : bool
        A product of vectors, or without contracted axes, is computed in one kernel with what it is
        made of, as any element-wise op.
    fuses_vector_products : bool
        And so is one of a matrix and a vector.
    """

    packs: bool = True
    fuses_reductions: bool = False
    split_cores: int = 0
    tile: int = 128
    accumulator_bytes: int = 4
    repeats: bool = True
    joined: int | None = 8
    joined_columns: int = 128
    copies: int | None = 15
    fuses_vectors: bool = True
    fuses_vector_products: bool = False


LEAST_BARRIER_BYTES = 1025
"""Of barriers in loops on CPUs: smaller ones are left out (`Kernels.least_barrier_bytes`)."""


@dataclass(frozen=True)
class Kernels:
    """Which forms of an op run well there. The default is XLA's CPU compiler.

    Attributes
    ----------
    tiles : Tiles or None
        Of reductions over the features of pairs; None: they are plain loops.
    long_inner_product : float
        Terms from which a product that is one inner product, or one for each element of a batch, is
        written as a sum: it would be one chain.
    summed_product, summed_batch : int
        Rows, columns and terms up to which products of so many pairs of matrices or more are sums:
        the library takes pair by pair. 0: never.
    summed_turned : int
        The same where the right operand's contracted axis is last: its elements are gathered.
    summed_row : int
        Bytes of a row up to which such a sum computes its operands where it reads them. The
        compiler would compute what is longer again for every row and column: with rows of 24
        float32 `y @ ((a * b + c) * a - b)` took seven times as long as by the library.
    products_by_rows : bool
        The library takes products only where the left operand's contracted axis is last. So it is
        with YNNPACK; jaxlib before 0.10 multiplies everything with Eigen.
    barriers_turn_matrices : bool
        Behind a barrier a matrix may lie by columns. So it is from jaxlib 0.11 on.
    eigen : EigenTimes or None
        When the products of a program go to Eigen instead; None: never.
    packed_extremes : bool
        The place of an extreme is found over integers that hold value and place: reductions of
        pairs are not vectorised.
    top_k_in_stages : bool
        The k largest of long rows are found in stages, and those of short rows in rounds.
    numpy_sorts, numpy_integers, numpy_orders : float
        Floats from which NumPy sorts an array, up to 60 times as fast with the processor's vectors;
        integers, which XLA compares without regard to NaN; and keys with others beside, for which
        integers are made and taken apart.
    numpy_line : int
        Elements of a line from which NumPy sorts integers: it calls a function for each line.
    integer_sorts : float
        Elements from which arrays are sorted as one of integers: XLA has a fast path for one array
        and a plain comparison.
    merged_lines : int
        Lines from which such an array is sorted by merging (XLA's stable sort), 1.2 to 1.4 times as
        fast, through a buffer of half a line: much of an array of few lines.
    counted_elements, counted_steps : float
        Elements from which a few places of a sorted array are found by counting, and how many words
        of an element may be compared for that for each step of a sort (of which log2 n are made).
    convolutions_by_library : bool
        The library takes convolutions of up to float32, with the features last.
    direct_features : int
        Features of a group up to which the compiler's plain loops beat the library, which takes
        group by group.
    depthwise_window : int
        Places of a window up to which a depthwise convolution is a sum over them; 0: never.
    depthwise_gradient_window : int
        The same of the gradient for its kernel, a sum of products for each place; and of float64,
        where plain loops go over all features.
    unpadded_window : int
        Of those, up to which no zeros are stored around the array: every term chooses; and up to
        which convolutions of 16 bits are sums.
    narrow_depthwise_elements : int
        Of the result, from which those of 16 bits are sums: a term converts one by one.
    expanded_exponentials : bool
        Exponentials of double precision are written out as polynomials.
    stored_fills : bool
        The number that a mask puts in is read from memory: a compiler that knows it skips masked
        elements one by one instead of computing vectors.
    columns_as_rows : bool
        Columns that are stored become rows of one array: each kernel takes long to compile.
    steps_in_slices : bool
        Loops over steps run slice by slice without a limit, too, where the time model finds that
        faster: not measured where kernels take long to start.
    least_barrier_bytes : int
        Barriers of fewer bytes are left out in loops: XLA:CPU makes one function of a loop that
        small, and its emitter of such functions ends the process at a barrier.
    lanes : bool
        Parts of a program may run side by side, each on a thread of the host.
    host_calls : bool
        A program can call Python while it runs.
    """

    tiles: Tiles | None = field(default_factory=Tiles)
    long_inner_product: float = 2048
    summed_product: int = 8
    summed_batch: int = 16
    summed_turned: int = 8
    summed_row: int = 64
    products_by_rows: bool = True
    eigen: EigenTimes | None = None
    barriers_turn_matrices: bool = False
    packed_extremes: bool = True
    top_k_in_stages: bool = True
    numpy_sorts: float = 128
    numpy_integers: float = 2048
    numpy_orders: float = 1024
    numpy_line: int = 8
    integer_sorts: float = 4096
    merged_lines: int = 4
    counted_elements: float = 1 << 17
    counted_steps: float = 2
    convolutions_by_library: bool = True
    direct_features: int = 4
    depthwise_window: int = 25
    depthwise_gradient_window: int = 49
    unpadded_window: int = 16
    narrow_depthwise_elements: int = 1 << 17
    expanded_exponentials: bool = True
    stored_fills: bool = True
    columns_as_rows: bool = True
    steps_in_slices: bool = True
    least_barrier_bytes: int = LEAST_BARRIER_BYTES
    lanes: bool = True
    host_calls: bool = True

    def is_sum(self, call: ProductCall) -> bool:
        """Tell whether a product of many pairs of small matrices is written as a sum."""
        most = self.summed_product
        if call.right_inner_last:
            most = min(most, self.summed_turned)
        return call.batch >= self.summed_batch and call.side <= most

    def stores_terms(self, call: ProductCall) -> bool:
        """Tell whether the operands of such a sum are stored first."""
        return call.side * call.itemsize > self.summed_row

    def is_by_numpy(self, call: SortCall) -> bool:
        """Tell whether NumPy sorts: the array itself (`is_single`), or integers made of it."""
        if call.is_copy:
            return call.size >= (self.numpy_sorts if call.is_single else self.numpy_orders)
        return call.size >= self.numpy_integers and call.line >= self.numpy_line

    def without_numpy(self) -> Kernels:
        """Return which forms run well where no program calls NumPy."""
        return replace(self, numpy_sorts=math.inf, numpy_integers=math.inf, numpy_orders=math.inf)

    def is_merged(self, call: SortCall) -> bool:
        """Tell whether integers are sorted by merging, through a buffer of half a line."""
        return self.merged_lines * call.line <= call.size

    def sort_memory(self, call: SortCall) -> ProductMemory:
        """Bound what a sort stores besides operands and results."""
        if self.is_by_numpy(call):
            block = argsort_bytes(call.size, call.line) if call.orders else call.apart_bytes
            # Beside a second order are the first and the key in that.
            arrays = 0 if call.is_single else 3 if call.orders > 1 else 1
            return ProductMemory(arrays * call.size * call.itemsize, block, 0)
        if call.size < self.integer_sorts or call.orders:
            return ProductMemory(0, call.packing, 0)
        buffer = call.buffer_bytes if self.is_merged(call) else 0
        return ProductMemory(call.size * call.itemsize if call.is_copy else 0, buffer, 0)

    def is_summed(self, call: DepthwiseCall) -> bool:
        """Tell whether a depthwise convolution is a sum over the places of its window."""
        if not call.is_summed:
            return False
        if call.itemsize < 4:
            is_large = call.elements >= self.narrow_depthwise_elements
            return is_large and call.places <= self.unpadded_window
        is_wide = call.itemsize > 4
        limit = self.depthwise_gradient_window if is_wide else self.depthwise_window
        return call.places <= limit

    def is_padded(self, call: DepthwiseCall) -> bool:
        """Tell whether such a sum reads an array that is stored with its padding."""
        return call.padded > 0 and not (call.may_choose and call.places <= self.unpadded_window)

    def depthwise_bytes(self, call: DepthwiseCall) -> int:
        """Return what a depthwise convolution stores besides operands and result."""
        return call.padded * self.is_padded(call) if self.is_summed(call) else call.by_loops


@dataclass(frozen=True)
class Broadcasts:
    """When what a broadcast repeats is stored first. The default is XLA's CPU compiler.

    Attributes
    ----------
    repetitions : int
        Fewer are computed again.
    worthwhile_flops : int
        Operations that have to be saved: to start a kernel takes as long as so many.
    largest_bytes : int
        What is stored beside what the peak model counts stays small.
    """

    repetitions: int = 16
    worthwhile_flops: int = 1 << 20
    largest_bytes: int = 1 << 18


ACCELERATOR_KERNELS = Kernels(
    tiles=None,
    long_inner_product=math.inf,
    summed_product=0,
    products_by_rows=False,
    packed_extremes=False,
    top_k_in_stages=False,
    numpy_sorts=math.inf,
    numpy_integers=math.inf,
    numpy_orders=math.inf,
    counted_elements=math.inf,
    convolutions_by_library=False,
    depthwise_window=0,
    depthwise_gradient_window=0,
    unpadded_window=0,
    expanded_exponentials=False,
    stored_fills=False,
    columns_as_rows=False,
    steps_in_slices=False,
    lanes=False,
    host_calls=False,
)
"""GPUs and TPUs compile ops as StableHLO has them."""


@dataclass(frozen=True)
class Target:
    """The device that a program is planned for.

    Passes get this record and know nothing else of a machine. The default is a processor with two
    cores whose prices are measured.

    Attributes
    ----------
    name : str
        As a description is written after the platform: "h100", "v5e"; empty for what is here.
    platform : str
        "cpu", "gpu" or "tpu".
    memory_bytes : float
        Memory that may be used.
    cores : int
        Cores that a kernel may use, for the time model. The threads that XLA starts are
        `packing.threads`.
    cache_bytes : int
        The last-level cache; a GPU's second-level cache, a TPU core's vector memory.
    largest_trip : int or None
        The bytes that the slices of a loop's trip may take before larger ones are no faster; None:
        what stays in the cache.
    vector_lanes : int
        Single-precision numbers of the widest vectors.
    prices, product_prices, storage, kernels, packing, selection, sizes
        See there.
    reductions : Reductions or None
        How long reductions go in stages; None where they are compiled well as they are.
    scans : Scans or None
        In which form running sums are fastest; None where the compiler's tree is.
    transforms : Transforms or None
        Which Fourier transforms SciPy finds; None where the compiler finds all.
    spectra : Spectra or None
        Which eigenvalues NumPy finds; None where the device's library finds all.
    broadcasts : Broadcasts or None
        When what a broadcast repeats is stored; None where it is not computed again.
    interleaving : Interleaving or None
        Which small matrices are factored side by side; None where a library takes all.
    description : tuple
        What XLA has to be told of a device that is not here. A GPU: what its `GpuTargetConfigProto`
        names; a TPU: its smallest topology.
    """

    name: str = ""
    platform: str = "cpu"
    memory_bytes: float = math.inf
    cores: int = 2
    cache_bytes: int = 32 << 20
    largest_trip: int | None = None
    vector_lanes: int = 16
    prices: Prices = field(default_factory=Prices)
    product_prices: ProductPrices = field(default_factory=ProductPrices)
    storage: Storage = field(default_factory=Storage)
    kernels: Kernels = field(default_factory=Kernels)
    packing: Packing = field(default_factory=Packing)
    selection: Selection = field(default_factory=Selection)
    sizes: Sizes = field(default_factory=Sizes)
    reductions: Reductions | None = field(default_factory=Reductions)
    scans: Scans | None = field(default_factory=Scans)
    transforms: Transforms | None = field(default_factory=Transforms)
    spectra: Spectra | None = field(default_factory=Spectra)
    broadcasts: Broadcasts | None = field(default_factory=Broadcasts)
    interleaving: Interleaving | None = field(default_factory=Interleaving)
    description: tuple[Any, ...] = ()

    def __hash__(self) -> int:
        """Hash few fields: records are looked up often and rarely differ in the others only."""
        return hash((self.name, self.platform, self.cores, self.cache_bytes, self.memory_bytes))

    @property
    def trip_bytes(self) -> int:
        """The bytes of a loop's trip that is fast: a share of the cache, or what fills a GPU."""
        return self.largest_trip or max(1, self.cache_bytes // 4)

    def form_of(self, call: ProductCall) -> ProductForm:
        """Return the form in which a product is fastest."""
        return choose_form(call, self.product_prices, self.packing)

    def memory_of(self, call: LibraryCall) -> ProductMemory:
        """Bound what a call stores besides operands and result."""
        if isinstance(call, SmallMatricesCall):
            return self._memory_of_matrices(call)
        if isinstance(call, PanelCall | SpectrumCall | TransformCall):
            return ProductMemory(0, self.packing.library_bytes(call), 0)
        if isinstance(call, ConvolutionCall):
            return ProductMemory(0, self.packing.by_convolution(call), 4 * call.windows)
        if isinstance(call, SelectionCall):
            return ProductMemory(self.selection.work(call).alive_bytes, 0, 0)
        if isinstance(call, ReductionCall | ScanCall):
            return ProductMemory(self._staged_bytes(call), 0, 0)
        if isinstance(call, DepthwiseCall):
            return ProductMemory(self.kernels.depthwise_bytes(call), 0, 0)
        if isinstance(call, DepthwiseGradientCall):
            return self._memory_of_gradient(call)
        if isinstance(call, SortCall):
            return self.kernels.sort_memory(call)
        return product_memory(call, self.product_prices, self.packing)

    def _staged_bytes(self, call: ReductionCall | ScanCall) -> int:
        if isinstance(call, ScanCall):
            rules = self.scans
            return call.elements * call.itemsize if rules is None else rules.bytes(call)
        return 0 if self.reductions is None else self.reductions.partial_bytes(call)

    def _memory_of_matrices(self, call: SmallMatricesCall) -> ProductMemory:
        """Bound what many matrices take: side by side, or one by one in the library."""
        if self.interleaving is not None and self.interleaving.chunk(call):
            return ProductMemory(self.interleaving.held_bytes(call), 0, 0)
        if isinstance(call.library, TriangleCall):
            return ProductMemory(0, self.packing.triangle_bytes(call.library), 0)
        return ProductMemory(0, self.packing.panel_bytes(call.library), 0)

    def _memory_of_gradient(self, call: DepthwiseGradientCall) -> ProductMemory:
        """Bound what a depthwise kernel's gradient stores: sums of all places, one by one."""
        if call.places <= self.kernels.depthwise_gradient_window:
            sums = 2 * call.features * call.products.itemsize
            partial = self.memory_of(call.products).transposed
            return ProductMemory(call.places * (sums + partial), 0, 0)
        none = ProductMemory(0, 0, 0)
        found = none if call.library is None else self.memory_of(call.library)
        return replace(found, transposed=call.copied)


DEFAULT_TARGET = Target()

__all__ = [
    "ACCELERATOR_KERNELS",
    "DEFAULT_TARGET",
    "Kernels",
    "Prices",
    "Storage",
    "Target",
]
