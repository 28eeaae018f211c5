"""Sizes at which another form of a program becomes the faster one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Where passes stop or begin to rewrite, in elements, bytes, operations, terms and rows.

    They stand for a machine's caches, vectors and the ratio of its speeds. The defaults are
    measured with jaxlib 0.10.2 on 2 cores of AMD EPYC machines; docs/memory-model.md and
    docs/fusion.md say where the rows are.

    Attributes
    ----------
    near_elements : int
        An array of up to so many is in the nearest cache, in whatever order it is read.
    match_elements : int
        A smaller tensor is cheap in any form: sums and products of it are left as they are.
    part_bytes : int
        A smaller concatenation costs less than a kernel for each of its parts.
    direct_terms : int
        Sums of up to so many products of pairs are written out. At 8 features, n = 20,000, that
        takes 1.6 times as long as norms and a product and keeps all digits; at 16, 3 times.
    direct_terms_without_product : int
        The same for sums that no product computes. 1,000 x 10,000 absolute differences in float32:
        at 10 terms a seventh of the time for a maximum over the points, at 32 a third; at 64 XLA's
        reduction is faster.
    written_operations : int
        Operations that a sum becomes at most: each takes about half a millisecond to compile.
    chain_operations : int
        For each element: shorter chains cost little to compute and compile again.
    run_elements : int
        From so many reads on, features that lie side by side are stored in a run each first.
    pack_bytes : int
        Kernels on larger arrays take far longer than it takes to start them.
    pack_flops : int
        Larger products gain nothing from a batch. One of 32 x 32 matrices takes half of these;
        from 64 on batches gain nothing.
    kept_bytes : int
        Smaller blocks stay with the process (lowering/devices/registry.py): the system clears no
        pages for them.
    copy_bytes : int
        A smaller copy costs less than the barrier that avoids it may.
    timed_bytes : int
        Of smaller values the time is that of starting kernels, whichever axis is cut.
    product_rows : int
        Fewer rows make matrix products slow: slices rather exceed the cache.
    vector_rows : int
        Slices have a multiple of so many rows where no divisor of the axis is near.
    thin_rows : int
        A slice of fewer rows is thin. The gradient of a kernel product with 200,000 points,
        float32: 6.3 ns a pair for slices of 10 rows, 1.9 for 20 of 100,000, 1.5 for tiles of 500
        to 8,000 rows.
    long_share, very_long_share : int
        The other axis is so many times as long as a thin slice at least, else a tile has about as
        few rows; and as a slice of more rows, because libraries pack it (100 features, 100 rows of
        100,000: 5.2 ns a pair, 3.9 for tiles).
    merged_rows : int
        About so many rows have tiles whose results are merged, such as the k largest.
    """

    near_elements: int = 1 << 12
    match_elements: int = 1 << 14
    part_bytes: int = 1 << 16
    direct_terms: int = 8
    direct_terms_without_product: int = 32
    written_operations: int = 1024
    chain_operations: int = 32
    run_elements: int = 1 << 20
    pack_bytes: int = 1 << 16
    pack_flops: int = 1 << 17
    kept_bytes: int = 1 << 20
    copy_bytes: int = 1 << 12
    timed_bytes: int = 1 << 20
    product_rows: int = 16
    vector_rows: int = 8
    thin_rows: int = 32
    long_share: int = 64
    very_long_share: int = 1000
    merged_rows: int = 24


__all__ = ["Sizes"]
