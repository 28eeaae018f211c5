"""What the peak model needs to know about a device's compiler: what it stores differently."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from tracer import ops
from tracer.ir import Node

# The side of the tiles in which XLA has a GPU compute products, and the least terms of a sum.
_TILE = 128
_ACCUMULATOR_BYTES = 4


@dataclass(frozen=True)
class Backend:
    """How a device's compiler stores what a program computes. The default is XLA's CPU compiler.

    Attributes
    ----------
    packs : bool
        Libraries copy operands into memory of their own. Products of GPUs and TPUs read them where
        they are, and what their kernels need besides is in XLA's count.
    fuses_reductions : bool
        One kernel reduces a value and reads it again (a softmax), and so does not write over it.
    cores : int
        Among which the sums of a product with few results are divided; 0: they are not.
    """

    packs: bool = True
    fuses_reductions: bool = False
    cores: int = 0

    def partial_sums_bytes(self, node: Node) -> int:
        """Return the bytes of a product's partial sums, where its sums are divided among cores.

        Source: XLA's `SplitK` for GPUs: as many parts, a power of two, as there are cores for each
        tile of the result, of 128 terms at least.
        """
        if not self.cores or node.op is not ops.dot_general:
            return 0
        rule, sizes = node.axes, dict[object, int]()
        for labels, type in zip(rule.operands, node.operand_types, strict=True):
            sizes.update(zip(labels, type.shape, strict=True))
        left, right = (
            math.prod(sizes[label] for label in rule.results[0] if label not in others)
            for others in reversed(rule.operands)
        )
        if 1 in (left, right):  # with a vector: no tiles
            return 0
        batch = node.types[0].size // max(1, left * right)
        tiles = max(1, batch * -(-left // _TILE) * -(-right // _TILE))
        terms = math.prod(sizes[label] for label in rule.reduced)
        parts = min(self.cores // tiles, terms // _TILE)
        if parts < 2:
            return 0
        return (1 << (parts.bit_length() - 1)) * node.types[0].size * _ACCUMULATOR_BYTES


_CPU = Backend()
_CURRENT: ContextVar[Backend] = ContextVar("_CURRENT", default=_CPU)


@contextmanager
def compiled_by(backend: Backend) -> Iterator[None]:
    """Predict what this compiler stores, inside of the context."""
    token = _CURRENT.set(backend)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_backend() -> Backend:
    """Return the compiler whose programs are predicted."""
    return _CURRENT.get()
