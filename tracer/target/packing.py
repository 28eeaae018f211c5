"""What the libraries that XLA:CPU calls pack: their parameters, and the bounds that they give.

The prediction (before anything is compiled) and the count (of a compiled program's HLO) use the
same formulas. They were fitted; benchmarks/results/memory.md has the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tracer.ir.library_calls import (
    ConvolutionCall,
    PanelCall,
    ProductCall,
    SpectrumCall,
    TransformCall,
    TriangleCall,
)


@dataclass(frozen=True)
class Packing:
    """The parameters of the formulas.

    Attributes
    ----------
    threads : int
        Threads that XLA starts, each of which may pack. XLA counts the cores that the process may
        run on and knows no quota, so these can be more than `Target.cores`.
    at_once : int
        Kernels that pack at the same time: XLA:CPU runs what does not read each other side by side.
    ynnpack : bool
        YNNPACK multiplies what it takes; otherwise Eigen does.
    widened, as_given : tuple of str
        Dtypes that are written as float32 before they are multiplied, and whose products come in
        it; those of them that YNNPACK multiplies as they are.
    columns, columns_of_one : int
        Columns of the right operand that each thread of YNNPACK packs at a time, of a batch of
        products and of one.
    elements : int
        Elements of the right operand that it packs at a time, if that is more.
    eigen_depth, eigen_shallow : int
        Rows of the contracted axis that Eigen packs at a time, and the fewest for which a long left
        operand is packed block by block.
    eigen_copies : int
        How often each thread packs when there are several products.
    eigen_long, eigen_tasks, eigen_block, eigen_local : int
        A left operand with `eigen_long` times the rows of the other side, and `eigen_tasks` blocks
        of `eigen_block` elements for each thread, is packed block by block (Eigen's
        `parallelize_by_sharding_dim_only`); the threads then hold `eigen_local` elements.
    panel_rows, panel_elements : int
        Rows of the panel that OpenBLAS packs, and elements of its block of the other side.
    block_bytes, packed_columns : int
        Bytes of the block of right-hand sides that each thread of OpenBLAS packs, at most; it packs
        so many columns at a time.
    solve_by_blocks : int
        Rows of a triangular matrix of which OpenBLAS would pack much for one right-hand side.
    solved_rows : int
        Rows of a block of such a matrix.
    lapack_matrices : int
        Of small matrices OpenBLAS packs at most so many times what they hold.
    convolution_bytes : int
        Eigen packs a convolution's operands in blocks of so many bytes in all; blocks that are
        freed leave gaps.
    transform_lines, transform_bytes_at_once : int
        Lines of a Fourier transform that a thread gathers: so many of so many bytes in all, or one.
    convolved_tables, convolved_copies : int
        Lines that a transform of a long prime stores for all threads, and for each.
    transform_slack : float
        Of all that transforms store, for what the formula does not have.
    image_axes, few_features : int
        Results of convolutions with more axes, or with fewer features, are written twice.
    """

    threads: int = 2
    at_once: int = 2
    ynnpack: bool = True
    widened: tuple[str, ...] = ("float16", "bfloat16")
    as_given: tuple[str, ...] = ()
    columns: int = 64
    columns_of_one: int = 32
    elements: int = 1 << 17
    eigen_depth: int = 768
    eigen_shallow: int = 64
    eigen_copies: int = 8
    eigen_long: int = 8
    eigen_tasks: int = 8
    eigen_block: int = 40_000
    eigen_local: int = 1 << 17
    panel_rows: int = 384
    panel_elements: int = 3 << 16
    block_bytes: int = 860_000
    packed_columns: int = 16
    solve_by_blocks: int = 512
    solved_rows: int = 128
    lapack_matrices: int = 4
    convolution_bytes: int = 3 << 20
    transform_lines: int = 16
    transform_bytes_at_once: int = 2 << 20
    convolved_tables: int = 2
    convolved_copies: int = 4
    transform_slack: float = 1.06
    image_axes: int = 4
    few_features: int = 8

    def by_ynnpack(self, call: ProductCall) -> int:
        """Bound the elements that YNNPACK packs; products with a vector have no packing."""
        if call.has_vector:
            return 0
        each = self.columns_of_one if call.batch == 1 else self.columns
        at_a_time = max(each * self.threads, self.elements // max(1, call.inner))
        return call.batch * call.inner * min(call.columns, at_a_time)

    def by_eigen(self, call: ProductCall) -> int:
        """Bound the elements that Eigen packs.

        A long left operand is packed block by block within each thread when there are enough blocks
        for all threads.
        """
        if call.has_vector:
            return 0
        inner, sides = call.inner, call.rows + call.columns
        if call.batch > 1:
            return sides * self.threads * min(self.eigen_copies * inner, self.eigen_depth)
        is_long = call.rows > self.eigen_long * call.columns and inner >= self.eigen_shallow
        enough = self.eigen_tasks * self.threads * self.eigen_block
        if is_long and call.rows * inner >= enough:
            return call.columns * min(inner, self.eigen_depth) + self.eigen_local
        return sides * min(inner * 4 // 3, self.eigen_depth)

    def library_bytes(self, call: PanelCall | SpectrumCall | TransformCall) -> int:
        """Bound what a library stores for a call besides operands and result."""
        if isinstance(call, PanelCall):
            return self.panel_bytes(call)
        if isinstance(call, SpectrumCall):
            return self.spectrum_bytes(call)
        return self.transform_bytes(call)

    def spectrum_bytes(self, call: SpectrumCall) -> int:
        """Bound what NumPy copies on all threads, and works in."""
        return self.threads * call.thread_bytes

    def panel_bytes(self, call: PanelCall) -> int:
        """Bound what OpenBLAS packs for LAPACK, and LAPACK's workspace."""
        panel = min(call.rows, self.panel_rows) * call.width + self.panel_elements
        most = self.lapack_matrices * call.rows * max(call.rows, call.width)
        return call.times * call.itemsize * min(panel, most) + call.workspace

    def goes_by_blocks(self, call: TriangleCall) -> bool:
        """Tell whether a solve is written as products of blocks, of which nothing is packed."""
        return call.may_go_by_blocks and call.size >= self.solve_by_blocks

    def triangle_bytes(self, call: TriangleCall) -> int:
        """Bound what OpenBLAS packs: each thread packs the matrix, and a block of its columns."""
        if self.goes_by_blocks(call):
            return 0
        rows = min(call.size, self.panel_rows)
        columns = -(-call.width // self.packed_columns) * self.packed_columns
        block = min(self.block_bytes, call.itemsize * rows * columns)
        return min(call.width, self.threads) * (call.itemsize * rows * call.size + block)

    def by_convolution(self, call: ConvolutionCall) -> int:
        """Bound the bytes of a convolution's blocks, and of a result that is written twice."""
        packed = min(self.convolution_bytes, 6 * (call.windows + call.kernel + call.result))
        is_small = call.features < self.few_features
        is_written_twice = call.is_grouped or call.axes > self.image_axes or is_small
        return packed + 4 * call.result * is_written_twice

    def transform_bytes(self, call: TransformCall) -> int:
        """Bound the lines that each thread of DUCC gathers, and what it adds for long primes.

        A line whose length has a prime factor above its root is transformed as a convolution of
        twice its length (Bluestein's algorithm), with two tables that the threads share.
        """
        return max((self._lines_bytes(call, axis) for axis in range(len(call.lengths))), default=0)

    def _lines_bytes(self, call: TransformCall, axis: int) -> int:
        length, is_last = call.lengths[axis], axis == len(call.lengths) - 1
        lines = call.batch * math.prod(call.lengths) // max(1, length)
        line = length * call.itemsize
        gathered = max(1, min(self.transform_lines, self.transform_bytes_at_once // max(1, line)))
        copies = 1 if lines <= 1 or (is_last and not call.is_real) else 2
        shared = 0.0
        if largest_prime_factor(length) ** 2 > length > self.transform_lines:
            shared, copies = self.convolved_tables, self.convolved_copies + 2 * call.is_real
        each = copies * min(gathered, max(1, lines))
        return math.ceil(self.transform_slack * line * (shared + min(self.threads, lines) * each))


@lru_cache(maxsize=1024)
def largest_prime_factor(number: int) -> int:
    """Return the largest prime that divides a number; 1 for numbers below 2."""
    found, factor = 1, 2
    while factor * factor <= number:
        while number % factor == 0:
            found, number = factor, number // factor
        factor += 1
    return max(found, number) if number > 1 else found


__all__ = ["Packing", "largest_prime_factor"]
