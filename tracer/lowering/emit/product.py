"""Builder methods that keep XLA:CPU from turning products into forms that its library refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracer.lowering import shims
from tracer.lowering.emit.control import ControlBuilder
from tracer.lowering.emit.values import Operand
from tracer.lowering.shims import ir


class ProductBuilder(ControlBuilder):
    """Builder methods of transposes next to products."""

    @property
    def prefers_rows_in_products(self) -> bool:
        """Whether products are fast only where the left operand's contracted axis is last.

        So it is with YNNPACK. jaxlib before 0.10 multiplies everything with Eigen.
        """
        return self.platform == "cpu" and shims.PRODUCTS_BY_YNNPACK

    def behind_transpose(self, x: Operand) -> tuple[Operand, tuple[int, ...]] | None:
        """Return the operand and the permutation of the transpose that `x` comes of, if it does."""
        op = _made_by(x)
        if op is None or op.name != "stablehlo.transpose":
            return None
        return Operand(op.operands[0]), tuple(op.attributes["permutation"])

    def transpose(self, x: Operand, permutation: Sequence[int]) -> Operand:
        """Emit `transpose`.

        XLA makes `y^T x^T` of the transpose of a product, and the library may refuse that. The
        barrier in between prevents it.
        """
        if self.prefers_rows_in_products and _is_product(x):
            (x,) = self.optimization_barrier((x,), "stored products")
        return super().transpose(x, permutation)


def _made_by(x: Operand) -> Any:
    """Return the op that makes an operand; None for an argument of a block."""
    owner = x.raw.owner
    return None if isinstance(owner, ir.Block) else owner


def _is_product(x: Operand) -> bool:
    op = _made_by(x)
    while op is not None and op.name == "stablehlo.reshape":
        op = _made_by(Operand(op.operands[0]))
    return op is not None and op.name == "stablehlo.dot_general"
