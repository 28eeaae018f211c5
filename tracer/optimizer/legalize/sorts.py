"""Sorts of many elements by NumPy, or as integers of the same order by XLA.

NumPy's sorts use the processor's vectors; XLA's CPU compiler compares element by element. A call of
NumPy is one of Python, which meshes of devices and other platforms do not have (`numpy_sorts`).

XLA has a fast path for one operand and a plain comparison, which NaN does not allow floats. Arrays
that are sorted by a key of up to 32 bits become one operand too: 64 bits with the place below the
key, so that equal keys stay in order. What else is sorted along is taken from its places. Few
elements are left as they are: they are sorted in no time either way, and the integers' operations
would show.

XLA sorts such integers by merging if the sort is to be stable, which takes less time and a buffer
of half a line. Where they are computed anyway they are written out with the axis last: XLA takes
1.3 times as long for lines whose elements lie apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.ops import helpers
from tracer.ops.batch import move_axis
from tracer.ops.rules import is_float
from tracer.ops.sort import PLACE_BITS, sort_call
from tracer.ops.sort_keys import sort_keys, sorted_floats
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Kernels, Target


def integer_sorts_pass(target: Target, *, by_numpy: bool) -> Pass:
    """Return the pass that sorts many elements as integers for a target.

    It leaves out what NumPy sorts as it is, where that is called.
    """
    kernels = target.kernels if by_numpy else target.kernels.without_numpy()
    return Pass(
        "sort as integers", lambda graph, log: _sorted(kernels, graph, log), writes_out_cost=True
    )


def numpy_sorts_pass(target: Target) -> Pass:
    """Return the pass that has NumPy sort arrays of many elements."""
    return Pass("sort by numpy", partial(_by_numpy, target.kernels), writes_out_cost=True)


def _by_numpy(kernels: Kernels, graph: Graph, log: PassLog) -> Graph:
    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        call = sort_call(node.operand_types, **node.params) if node.op is ops.sort else None
        if call is None or not kernels.is_by_numpy(call):
            return None
        if not (call.is_single or call.orders):
            return None
        log.applied.append(f"sort of {', '.join(map(str, node.types))}")
        if call.orders:
            return _by_places(operands, node.params["num_keys"], node.params["dimension"])
        return (ops.numpy_sort(operands[0], dimension=node.params["dimension"]),)

    return rebuild(graph, rewrite)


def _by_places(operands: Sequence[Value], count: int, axis: int) -> list[Value]:
    """Find the order by the last key, of those by the others in turn, and take all in the last."""
    last = operands[0].type.ndim - 1
    order: Value | None = None
    for key in reversed([part for x in operands[:count] for part in _parts(x)]):
        moved = move_axis(key, axis, last)
        if order is None:
            order = ops.numpy_argsort(moved)
        else:
            found = ops.numpy_argsort(helpers.gather_along_axis(moved, order, last))
            order = helpers.gather_along_axis(order, found, last)
    assert order is not None
    order = move_axis(order, last, axis)
    return [_taken(x, order, axis) for x in operands]


def _parts(x: Value) -> list[Value]:
    """Return what orders an array, of dtypes that NumPy finds orders of."""
    if x.dtype.kind == "c":
        return [ops.real(x), ops.imag(x)]
    is_narrow = is_float(x.dtype) and x.dtype.itemsize < 4
    return [helpers.convert(x, np.dtype(np.float32)) if is_narrow else x]


def _sorted(kernels: Kernels, graph: Graph, log: PassLog) -> Graph:
    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        call = sort_call(node.operand_types, **node.params) if node.op is ops.sort else None
        is_by_numpy = call is not None and kernels.is_by_numpy(call)
        if call is None or call.orders or (is_by_numpy and call.is_single):
            return None
        if not is_by_numpy and call.size < kernels.integer_sorts:
            return None
        params = {**node.params, "is_stable": not is_by_numpy and kernels.is_merged(call)}
        if not call.is_copy and params == node.params:
            return None
        log.applied.append(f"sort of {', '.join(map(str, node.types))}")
        (x, *others), one = operands, partial(_in_lines if call.is_copy else _one, params)
        if others:
            return _with_places(one, x, others, params["dimension"])
        return (sorted_floats(one(sort_keys(x)), x.dtype) if call.is_copy else one(x),)

    return rebuild(graph, rewrite)


def _one(params: Mapping[str, Any], x: Value) -> Value:
    return ops.sort(x, **params)[0]  # type: ignore[no-any-return]


def _in_lines(params: Mapping[str, Any], x: Value) -> Value:
    """Sort what is computed anyway as lines that lie together, each in its cache."""
    axis, last = params["dimension"], x.type.ndim - 1
    found = _one({**params, "dimension": last}, move_axis(x, axis, last))
    return move_axis(found, last, axis)


def _with_places(
    one: Callable[[Value], Value], x: Value, others: Sequence[Value], axis: int
) -> list[Value]:
    """Sort a key as the upper half of 64 bits, below which are its places."""
    word = np.dtype(np.uint64 if x.dtype.kind == "u" else np.int64)
    places = ops.iota(shape=x.shape, dtype=word, dimension=axis)
    keys, is_minus = _keys(x)
    low = ops.or_(_left(places, 1), helpers.convert(is_minus, word))
    words = one(ops.or_(_left(helpers.convert(keys, word), PLACE_BITS + 1), low))
    low = ops.and_(words, helpers.full_like(words, (2 << PLACE_BITS) - 1))
    order = _right(low, 1)
    found = _unkeyed(_right(words, PLACE_BITS + 1), ops.and_(low, helpers.ones_like(low)), x.dtype)
    return [found, *(_taken(other, order, axis) for other in others)]


def _keys(x: Value) -> tuple[Value, Value]:
    """Return integers in the order of the elements, and which of these are -0, equal to +0."""
    if not is_float(x.dtype):
        return x, helpers.full(False, x.type.with_dtype(np.bool_))
    keys = sort_keys(x)
    is_minus = ops.compare(keys, helpers.full_like(keys, -1), direction="EQ")
    return ops.add(keys, helpers.convert(is_minus, keys.dtype)), is_minus


def _unkeyed(keys: Value, is_minus: Value, dtype: np.dtype[Any]) -> Value:
    """Return the elements that integers stand for."""
    if not is_float(dtype):
        return helpers.convert(keys, dtype)
    bits = np.dtype(f"int{8 * dtype.itemsize}")
    return sorted_floats(helpers.convert(ops.subtract(keys, is_minus), bits), dtype)


def _taken(x: Value, order: Value, axis: int) -> Value:
    """Return elements of an array in an order; numbered places are the order itself."""
    if x.node.op is ops.iota and x.node.params["dimension"] == axis:
        return helpers.convert(order, x.dtype)
    index = helpers.convert(order, np.dtype(np.int64))
    return helpers.gather_along_axis(x, index, axis)


def _left(x: Value, bits: int) -> Value:
    return ops.shift_left(x, helpers.full_like(x, bits))  # type: ignore[no-any-return]


def _right(x: Value, bits: int) -> Value:
    """Shift right, and keep the sign of what has one."""
    shift = ops.shift_right_logical if x.dtype.kind == "u" else ops.shift_right_arithmetic
    return shift(x, helpers.full_like(x, bits))  # type: ignore[no-any-return]


__all__ = ["integer_sorts_pass", "numpy_sorts_pass"]
