"""Products in the form that the device's library takes.

YNNPACK refuses a product whose contracted axis is not the last of the left operand; XLA:CPU then
hands it to Eigen, up to 25 times as slow. `x^T y` is as well `(y^T x)^T`, so there is a choice of
what to write out transposed (`target/products.py`). What is written out is stored behind a barrier,
or XLA would take the transpose back into the product. It would also make `y^T x^T` of a product
that is transposed: so that is stored, too.

What is no matrix, or batch of them, as it lies, XLA copies: the right operand to contracted axes
first, which is a transpose of each matrix of a batch of heads, (batch, places, heads, features).
Here rows stay rows.

Products of many pairs of matrices of up to 8 x 8 go pair by pair in the library: as sums they take
a hundredth to a half of the time (10,000 of 4 x 4 float32 3.8 ms and 0.03, of 8 x 8 0.5 and 0.2).
Where larger ones were timed they are sums, too (10,000 of 16 x 16 on a Xeon 5.1 ms and 1.4; torch
1.25), but not if the right operand's elements would have to be gathered for that.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.ir import Builder, Graph, Node, ShapeDtype, Value, rebuild
from tracer.ir.library_calls import ProductCall
from tracer.ops.product import COMPUTED_ITEMSIZE, Side, matrix_product, sides_of
from tracer.ops.rules import is_float, size_of
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target
from tracer.target.products import ProductForm

Read = tuple[Value, Side]
"""An operand of a product, and which of its axes are contracted."""


def product_forms_pass(target: Target, *, on_mesh: bool) -> Pass:
    """Return the pass that writes products in the forms of a target."""
    # Where XLA's partitioner cuts a matrix, a vector of it could not be cut alike.
    return Pass(
        "lay out products",
        lambda graph, log: _laid_out(target, not on_mesh, graph, log),
        exact=False,
        writes_out_cost=True,
    )


def _laid_out(target: Target, may_be_vectors: bool, graph: Graph, log: PassLog) -> Graph:
    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op in (ops.transpose, ops.convolution) and any(map(_is_product, operands)):
            log.applied.append(
                f"{node.name} of a product to {node.types[0]}: the product is stored"
            )
            return builder.copy(node, tuple(map(_stored_product, operands)))
        if node.op is not ops.dot_general or not is_float(node.types[0].dtype):
            return None
        left, right = (
            _without_single_axes(*_behind_transpose(x, side))
            for x, side in zip(operands, sides_of(node), strict=True)
        )
        product = matrix_product(left[1], right[1])
        if not product.left_inner_last and target.form_of(product).is_plain:
            # Eigen would pack both as they lie: XLA copies less, to contracted axes last.
            left = _behind_transpose(operands[0], sides_of(node)[0])
            product = matrix_product(left[1], right[1])
        is_wide = all(x.dtype.itemsize >= COMPUTED_ITEMSIZE for x in (*operands, *node.results))
        if is_wide and target.kernels.is_sum(product):
            log.applied.append(f"product to {node.types[0]}: sum of {product.inner} terms")
            stored = target.kernels.stores_terms(product)
            found = _sum(left, right, product, stores_operands=stored)
            return (ops.reshape(found, shape=node.types[0].shape),)
        form = target.form_of(product)
        by_rows = product.right_inner_last and not right[1].is_matrix_like
        if form.is_plain and not by_rows and (left[0], right[0]) == operands:
            return None
        done = "copied by rows" if by_rows else "reads before a transpose"
        log.applied.append(f"product to {node.types[0]}: {_described(form) or done}")
        has_all_axes = all(
            len(x.shape) == len(y.shape) for x, y in zip((left[0], right[0]), operands, strict=True)
        )
        if form.is_plain and not by_rows and has_all_axes:
            return (_product(left, right),)
        as_vectors = may_be_vectors and _may_lie_by_columns(product, target)
        found = _in_form(left, right, product, form, as_vectors)
        return (ops.reshape(found, shape=node.types[0].shape),)

    return rebuild(graph, rewrite)


def _may_lie_by_columns(product: ProductCall, target: Target) -> bool:
    """Tell whether XLA may keep a matrix behind a barrier by columns when it asks the library."""
    return target.kernels.barriers_turn_matrices or product.dtype in target.packing.as_given


def _sum(left: Read, right: Read, product: ProductCall, *, stores_operands: bool) -> Value:
    """Write the product of many pairs of small matrices as a sum, stored as a product is.

    Columns come last: they are the lanes of vectors.
    """
    lead = (product.batch,)
    x, _ = _matrix(*left, lead, product.left_inner_last, transposes=False, as_vector=False)
    y, _ = _matrix(*right, lead, product.right_inner_last, transposes=False, as_vector=False)
    shape = (product.batch, product.rows, product.inner, product.columns)
    if stores_operands:
        x, y = ops.optimization_barrier(x, y)
    x = x if product.left_inner_last else _turned(_stored_product(x))
    y = _turned(_stored_product(y)) if product.right_inner_last else y
    terms = ops.multiply(
        ops.broadcast_in_dim(x, shape=shape, dimensions=(0, 1, 2)),
        ops.broadcast_in_dim(y, shape=shape, dimensions=(0, 2, 3)),
    )
    (found,) = ops.optimization_barrier(ops.reduce_add(terms, axes=(2,)))
    return found  # type: ignore[no-any-return]


def _described(form: ProductForm) -> str:
    parts = {
        "swapped": form.is_swapped,
        "left transposed": form.transposes_left,
        "right transposed": form.transposes_right,
    }
    return ", ".join(name for name, holds in parts.items() if holds)


def _product(left: Read, right: Read) -> Value:
    (x, lhs), (y, rhs) = left, right
    return ops.dot_general(  # type: ignore[no-any-return]
        x,
        y,
        lhs_batch=lhs.batch,
        rhs_batch=rhs.batch,
        lhs_contracting=lhs.inner,
        rhs_contracting=rhs.inner,
    )


def _behind_transpose(x: Value, side: Side) -> Read:
    """Read the operand of a transpose in place of its result: XLA would do so anyway."""
    node = _without_names(x).node
    if node.op is not ops.transpose:
        return x, side
    permutation = node.params["permutation"]
    batch, free, inner = (
        tuple(permutation[axis] for axis in axes) for axes in (side.batch, side.free, side.inner)
    )
    before = Side(node.operands[0].type, batch, inner)
    is_alike = before.free == free and before.is_matrix_like
    return (node.operands[0], before) if is_alike else (x, side)


def _without_single_axes(x: Value, side: Side) -> Read:
    """Read an operand without axes of one element, where it is a matrix, or a batch of them, then.

    XLA copies what is in another order, whatever the sizes: one head of the keys of attention,
    (1, places, 1, features), in each of a loop's trips.
    """
    if side.is_matrix_like:
        return x, side
    kept = [axis for axis, size in enumerate(x.shape) if size != 1]
    batch, inner = (
        tuple(kept.index(axis) for axis in axes if axis in kept)
        for axes in (side.batch, side.inner)
    )
    found = Side(ShapeDtype(tuple(x.shape[axis] for axis in kept), x.dtype), batch, inner)
    return (ops.reshape(x, shape=found.type.shape), found) if found.is_matrix_like else (x, side)


def _in_form(
    left: Read, right: Read, product: ProductCall, form: ProductForm, as_vectors: bool
) -> Value:
    """Write a product of matrices, or a batch of them, in a form."""
    lead = (product.batch,) if product.batch != 1 else ()
    first = _matrix(*left, lead, product.left_inner_last, form.transposes_left, as_vectors)
    second = _matrix(*right, lead, product.right_inner_last, form.transposes_right, as_vectors)
    if not form.is_swapped:
        return _product(first, second)
    (found,) = ops.optimization_barrier(_product(second, first))
    return _turned(found)


def _matrix(
    x: Value, side: Side, lead: tuple[int, ...], inner_last: bool, transposes: bool, as_vector: bool
) -> Read:
    """Return an operand as (batch, rows, columns) or (rows, columns), and its contracted axis."""
    rest = (side.free, side.inner) if inner_last else (side.inner, side.free)
    order = (*side.batch, *rest[0], *rest[1])
    if order != tuple(range(side.type.ndim)):
        x = ops.transpose(_stored_product(x), permutation=order)
    x = ops.reshape(x, shape=(*lead, *(size_of(side.type, axes) for axes in rest)))
    if transposes:
        x = _stored_by_rows(_turned(_stored_product(x)), as_vector)
    inner = len(lead) + (inner_last != transposes)
    return x, Side(x.type, tuple(range(len(lead))), (inner,))


def _turned(x: Value) -> Value:
    last = len(x.shape) - 1
    order = (*range(last - 1), last, last - 1)
    return ops.transpose(x, permutation=order)  # type: ignore[no-any-return]


def _stored_by_rows(x: Value, as_vector: bool) -> Value:
    """Store a matrix with its last axis innermost.

    Behind a barrier a matrix may be stored by columns, and from jaxlib 0.11 on that copies it
    twice: to columns, and back to rows for the library. A vector has one layout. But what is
    written as a vector is no copy by XLA's blocked transpose: with 0.10.2 the gradient of a
    perceptron took 2.3 times as long (8,000 x 128 a trip; `python -m benchmarks.planner`). Matrices
    of bfloat16 have to lie by rows earlier, when XLA asks whether the library takes them.
    """
    if not as_vector:
        return ops.optimization_barrier(x)[0]  # type: ignore[no-any-return]
    (stored,) = ops.optimization_barrier(ops.reshape(x, shape=(x.type.size,)))
    return ops.reshape(stored, shape=x.shape)  # type: ignore[no-any-return]


def _stored_product(x: Value) -> Value:
    return ops.optimization_barrier(x)[0] if _is_product(x) else x


def _is_product(x: Value) -> bool:
    """Tell whether a value is a product's result, or a reshape of it."""
    while x.node.op in (ops.reshape, ops.stop_gradient):
        x = x.node.operands[0]
    return x.node.op is ops.dot_general


def _without_names(x: Value) -> Value:
    while x.node.op is ops.stop_gradient:
        x = x.node.operands[0]
    return x


__all__ = ["product_forms_pass"]
