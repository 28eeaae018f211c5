"""What is stored behind a barrier, since XLA:CPU would fuse it with what reads it, and lose.

* Products, before they are transposed; operands of products, by rows: YNNPACK refuses other forms.
* The fill of a mask, in reductions inside one op (see the pass *store-fills*).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracer.lowering import shims
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.dialect import broadcast_in_dim, reshape, select
from tracer.lowering.emit.values import Operand
from tracer.lowering.settings import is_on
from tracer.lowering.shims import SMALL_LOOP_BYTES, VERSION, hlo, ir

_SELECT, _BROADCAST, _CONSTANT = (
    f"stablehlo.{name}" for name in ("select", "broadcast_in_dim", "constant")
)


def optimization_barrier(
    b: ModuleContext, operands: Sequence[Operand], setting: str = "barriers of passes"
) -> tuple[Operand, ...]:
    """Emit `optimization_barrier`, if the setting that it belongs to is on (`settings`).

    XLA:CPU makes one function of a loop that touches less than a kilobyte, and its emitter of
    such functions ends the process at a barrier. So barriers that small are left out of loops.
    Small calls have the same emitter: no barrier is in one.
    """
    if b.is_in_small_call:
        return tuple(operands)
    small = sum(x.type.nbytes for x in operands) <= SMALL_LOOP_BYTES
    if (b.loops and small and b.platform == "cpu") or not is_on(setting):
        return tuple(operands)
    op = hlo.OptimizationBarrierOp([x.raw for x in operands])
    b.barriers.append(op)
    return tuple(Operand(raw) for raw in op.results)


def kept_in_loop(b: ModuleContext, x: Operand, varying: Operand) -> Operand:
    """Return an operand that XLA takes as changing from trip to trip, where `varying` does.

    What is computed from it stays in the loop; outside of loops it is the operand itself.
    """
    if not b.loops:
        return x
    return optimization_barrier(b, (x, varying), "initial values in loops")[0]


def stored_by_rows(b: ModuleContext, x: Operand) -> Operand:
    """Return an operand that XLA stores with its last axis innermost.

    Behind a barrier a matrix may lie by columns, and from jaxlib 0.11 on that copies it twice:
    to columns, and back to rows for the library. A vector lies in one way. But what is written
    as a vector is no copy by XLA's blocked transpose: with 0.10.2 the gradient of a perceptron
    took 2.3 times as long (8,000 x 128 a trip; `python -m benchmarks.planner`). And where
    XLA's partitioner cuts the values, a vector cannot be cut as the matrix is, and is gathered.
    """
    if b.mesh_axes or VERSION < (0, 11):
        return optimization_barrier(b, (x,), "operands by rows")[0]
    vector = reshape(b, x.type.with_shape((x.type.size,)), x)
    (stored,) = optimization_barrier(b, (vector,), "operands by rows")
    return reshape(b, x.type, stored)


def prefers_rows_in_products(b: ModuleContext) -> bool:
    """Whether products are fast only where the left operand's contracted axis is last.

    So it is with YNNPACK. jaxlib before 0.10 multiplies everything with Eigen.
    """
    return b.platform == "cpu" and shims.PRODUCTS_BY_YNNPACK


def behind_transpose(b: ModuleContext, x: Operand) -> tuple[Operand, tuple[int, ...]] | None:
    """Return the operand and the permutation of the transpose that `x` comes of, if it does."""
    op = _made_by(x)
    if op is None or op.name != "stablehlo.transpose":
        return None
    return Operand(op.operands[0]), tuple(op.attributes["permutation"])


def transpose(b: ModuleContext, x: Operand, permutation: Sequence[int]) -> Operand:
    """Emit `transpose`.

    XLA makes `y^T x^T` of the transpose of a product, and the library may refuse that. The
    barrier in between prevents it.
    """
    if prefers_rows_in_products(b) and _is_product(x):
        (x,) = optimization_barrier(b, (x,), "stored products")
    return Operand(hlo.transpose(x.raw, list(permutation)))


def with_stored_fill(b: ModuleContext, operands: Sequence[Operand]) -> list[Operand]:
    """Return the operands of a reduction inside one op; those that are a constant or `x` read it.

    Where the reduction is a node of the graph, the pass *store-fills* has done it.
    """
    return [_with_stored_fill(b, x) for x in operands]


def _with_stored_fill(b: ModuleContext, x: Operand) -> Operand:
    if _name(x.raw) != _SELECT:
        return x
    chosen, *branches = (Operand(raw) for raw in x.raw.owner.operands)
    stored = [_stored(b, branch) for branch in branches]
    return x if stored == branches else select(b, chosen, *stored)


def _stored(b: ModuleContext, x: Operand) -> Operand:
    """Return an array of one constant as it is read.

    It is a row of the last axis, not one number: a barrier of few bytes may not stand in a
    loop (see `optimization_barrier`).
    """
    value = _constant(x)
    shape = x.shape
    row = x.type.with_shape(shape[-1:])
    if value is None or 0 in shape or row.nbytes <= SMALL_LOOP_BYTES or b.platform != "cpu":
        return x
    fill = ir.DenseElementsAttr.get_splat(b.tensor_type(row), value)
    (stored,) = optimization_barrier(b, (Operand(hlo.constant(fill)),), "stored fills")
    return broadcast_in_dim(b, x.type, stored, (len(shape) - 1,))


def _constant(x: Operand) -> Any:
    """Return MLIR's attribute of the one number that an array consists of; None if unknown."""
    raw = x.raw
    while _name(raw) == _BROADCAST:
        raw = raw.owner.operands[0]
    if _name(raw) != _CONSTANT or x.dtype.kind == "c":
        return None
    elements = ir.DenseElementsAttr(raw.owner.attributes["value"])
    return elements.get_splat_value() if elements.is_splat else None


def _name(raw: Any) -> str:
    """Return the name of the op that makes a value; "" for the argument of a block."""
    return "" if isinstance(raw.owner, ir.Block) else raw.owner.name


def _made_by(x: Operand) -> Any:
    """Return the op that makes an operand; None for an argument of a block."""
    owner = x.raw.owner
    return None if isinstance(owner, ir.Block) else owner


def _is_product(x: Operand) -> bool:
    op = _made_by(x)
    while op is not None and op.name == "stablehlo.reshape":
        op = _made_by(Operand(op.operands[0]))
    return op is not None and op.name == "stablehlo.dot_general"
