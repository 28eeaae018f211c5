"""Products of rows that lie in groups one behind the other, by a loop over blocks of rows.

Source: the tiles of grouped products in MegaBlocks (Gale, Narayanan, Young, Zaharia, 2022), as in
`jax.experimental.pallas.ops.tpu.megablox`: each step takes a block of rows of one group. Their
number is known beforehand but for the groups they belong to; steps that are left over do nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import tracer.numpy as tnp
from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.array.dispatch import apply
from tracer.array.promotion import Dtype
from tracer.autodiff.activity import carries_gradient
from tracer.autodiff.transforms import custom_vjp
from tracer.control import scan
from tracer.lax.slicing import dynamic_index_in_dim, dynamic_slice_in_dim, wide
from tracer.lax.slicing import dynamic_update_index_in_dim as put_index
from tracer.lax.slicing import dynamic_update_slice_in_dim as put_slice
from tracer.numpy.bounds import INDEX_DTYPE

_FEWEST, _MOST = 16, 256
"""Rows of a block: the mean size of a group, within these."""


class _Steps(NamedTuple):
    """The blocks, one an entry: the group, its first row and the one behind its last."""

    group: Array
    first: Array
    last: Array


def _steps(sizes: Array, rows: int, block: int) -> _Steps:
    groups = sizes.shape[0]
    clipped = tnp.clip(convert(wide(sizes), INDEX_DTYPE), 0, rows)
    ends = tnp.minimum(tnp.cumsum(clipped), rows)
    starts = tnp.concatenate([tnp.zeros_like(ends[:1]), ends[:-1]])
    counts = (ends - starts + (block - 1)) // block
    behind = tnp.cumsum(counts)
    # A group has at most block - 1 rows less than its blocks.
    places = tnp.arange((rows + groups * (block - 1)) // block)
    group = tnp.minimum(tnp.searchsorted(behind, places, side="right"), groups - 1)
    first = starts[group] + (places - (behind - counts)[group]) * block
    return _Steps(group, first, tnp.minimum(ends[group], first + block))


def _block(rows: int, groups: int) -> int:
    return min(rows, max(_FEWEST, min(_MOST, rows // groups)))


def _rows(step: _Steps, rows: int, block: int) -> tuple[Array, Array]:
    """Return the start of a block within the array, and which of its rows are of the group."""
    start = tnp.minimum(step.first, rows - block)
    places = start + tnp.arange(block)
    return start, ((places >= step.first) & (places < step.last))[:, None]


def _matrix_product(x: Array, y: Array, summed: tuple[int, int], dtype: Dtype) -> Array:
    return apply(
        ops.dot_general,
        convert(x, dtype),
        convert(y, dtype),
        lhs_batch=(),
        rhs_batch=(),
        lhs_contracting=(summed[0],),
        rhs_contracting=(summed[1],),
    )


def _product(dtype: Dtype, axis: int, x: Array, y: Array, sizes: Array) -> Array:
    """Multiply each row with the matrix of its group.

    Parameters
    ----------
    dtype : dtype
        Of the result.
    axis : int
        The axis of the matrices that is summed over, 0 or 1.
    x : Array, shape (m, k)
        The rows.
    y : Array, shape (g, k, n), or (g, n, k) for axis 1
        The matrices.
    sizes : Array of integers, shape (g,)
        Numbers of rows.

    Returns
    -------
    Array, shape (m, n)
        0 where rows are in no group.
    """
    rows, groups = x.shape[0], y.shape[0]
    nothing = tnp.zeros((rows, y.shape[2 - axis]), dtype)
    if not (nothing.size and y.size):
        return nothing
    block = _block(rows, groups)

    def add(total: Array, step: _Steps) -> tuple[Array, None]:
        start, mine = _rows(step, rows, block)
        # The other rows would bring 0 times infinity into second derivatives.
        part = tnp.where(mine, dynamic_slice_in_dim(x, start, block), 0)
        matrix = dynamic_index_in_dim(y, step.group, keepdims=False)
        old = dynamic_slice_in_dim(total, start, block)
        new = tnp.where(mine, _matrix_product(part, matrix, (1, axis), dtype), old)
        return put_slice(total, new, start, 0), None

    total: Array = scan(add, nothing, _steps(sizes, rows, block))[0]
    return total


def _outer(dtype: Dtype, x: Array, y: Array, sizes: Array) -> Array:
    """Sum the outer products of rows, group by group.

    Parameters
    ----------
    dtype : dtype
        Of the result; floats narrower than float32 are summed in float32.
    x, y : Array, shapes (m, k) and (m, n)
        The rows.
    sizes : Array of integers, shape (g,)
        Numbers of rows.

    Returns
    -------
    Array, shape (g, k, n)
        0 for groups without rows.
    """
    rows, groups = x.shape[0], sizes.shape[0]
    exact = np.dtype("float32") if _is_narrow(dtype) else dtype
    nothing = tnp.zeros((groups, x.shape[1], y.shape[1]), exact)
    if not (nothing.size and rows):
        return convert(nothing, dtype)
    block = _block(rows, groups)

    def add(total: Array, step: _Steps) -> tuple[Array, None]:
        start, mine = _rows(step, rows, block)
        # Both, since 0 times infinity is no number.
        left, right = (tnp.where(mine, dynamic_slice_in_dim(z, start, block), 0) for z in (x, y))
        old = dynamic_index_in_dim(total, step.group, keepdims=False)
        new = old + _matrix_product(left, right, (0, 0), exact)
        return put_index(total, new, step.group, 0), None

    total: Array = scan(add, nothing, _steps(sizes, rows, block))[0]
    return convert(total, dtype)


def _is_narrow(dtype: Dtype) -> bool:
    return dtype.itemsize < 4 and dtype.kind not in "biu"


_product_with_rule = custom_vjp(_product, nondiff_argnums=(0, 1))
_outer_with_rule = custom_vjp(_outer, nondiff_argnums=(0,))


def ragged_product(dtype: Dtype, axis: int, x: Array, y: Array, sizes: Array) -> Array:
    """Multiply as `_product` does; floats have a derivative that keeps nothing."""
    run: Any = _product_with_rule if carries_gradient(dtype) else _product
    return run(dtype, axis, x, y, sizes)  # type: ignore[no-any-return]


def ragged_outer(dtype: Dtype, x: Array, y: Array, sizes: Array) -> Array:
    """Sum as `_outer` does; floats have a derivative that keeps nothing."""
    run: Any = _outer_with_rule if carries_gradient(dtype) else _outer
    return run(dtype, x, y, sizes)  # type: ignore[no-any-return]


def _product_forward(dtype: Dtype, axis: int, *arrays: Array) -> Any:
    return _product(dtype, axis, *arrays), arrays


def _product_backward(dtype: Dtype, axis: int, arrays: Any, cotangent: Array) -> Any:
    x, y, sizes = arrays
    left, right = (cotangent, x) if axis else (x, cotangent)
    of_x = _product(dtype, 1 - axis, cotangent, y, sizes)
    return convert(of_x, x.dtype), convert(_outer(dtype, left, right, sizes), y.dtype), None


def _outer_forward(dtype: Dtype, *arrays: Array) -> Any:
    return _outer(dtype, *arrays), arrays


def _outer_backward(dtype: Dtype, arrays: Any, cotangent: Array) -> Any:
    x, y, sizes = arrays
    of_x = _product(dtype, 1, y, cotangent, sizes)
    of_y = _product(dtype, 0, x, cotangent, sizes)
    return convert(of_x, x.dtype), convert(of_y, y.dtype), None


# The first derivative is a loop that keeps nothing. Further ones are the loops' own: rules that
# call each other would be traced in all orders, for whoever asks for none.
_product_with_rule.defvjp(_product_forward, _product_backward)
_outer_with_rule.defvjp(_outer_forward, _outer_backward)

__all__ = ["ragged_outer", "ragged_product"]
