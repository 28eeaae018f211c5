"""Random graphs for property tests: a hypothesis strategy over op records.

A program grows from a pool of values: each step draws one of the `_STEPS` and operands for it. In
"integer" programs every value is int32, where arithmetic wraps and is therefore exact in any order;
in "float" programs values are float64 and kept within about [-3, 3], so that a comparison to a few
thousand roundings means something; "smooth" programs use only what has a gradient without kinks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tracer import ops
from tracer.ir import Builder, Graph, ShapeDtype, Value
from tracer.ops import helpers
from tracer.optimizer.loops.split import SplitSettings

Array = np.ndarray[Any, Any]
SIZES = (1, 2, 3, 4, 5, 7, 11, 13)
MAXIMUM_ELEMENTS = 3000
BOOL, I32 = np.dtype(bool), np.dtype(np.int32)


@dataclass
class Drawer:
    """Draws parts of a program; `pool` holds the values made so far, all of one dtype."""

    draw: Callable[..., Any]
    dtype: np.dtype[Any]
    pool: list[Value]

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def choose(self, items: Any) -> Any:
        items = list(items)
        return items[self.integer(0, len(items) - 1)]

    def value(self, minimum_ndim: int = 0) -> Value:
        """Draw a value, rather one that was made late; give it axes when it has too few."""
        x = self.pool[-1 - self.integer(0, len(self.pool) - 1)]
        while x.type.ndim < minimum_ndim:
            size = self.choose(SIZES)
            if x.type.size * size > MAXIMUM_ELEMENTS:
                size = 1
            shape = (*x.shape, size)
            x = ops.broadcast_in_dim(x, shape=shape, dimensions=tuple(range(x.type.ndim)))
        return x

    def axis(self, x: Value) -> int:
        return self.integer(0, x.type.ndim - 1)

    def axes(self, x: Value) -> tuple[int, ...]:
        count = self.integer(1, x.type.ndim)
        order = self.draw(st.permutations(range(x.type.ndim)))
        return tuple(sorted(order[:count]))

    def partner(self, x: Value) -> Value:
        """Draw a value of the shape of `x`: itself, one of the pool, or one broadcast to it."""
        same = [y for y in self.pool if y.shape == x.shape]
        if same and self.integer(0, 2):
            return self.choose(same)
        return self.fitted(self.value(), x.shape)

    def fitted(self, y: Value, shape: tuple[int, ...]) -> Value:
        """Cut, reduce and broadcast any value to a shape."""
        surplus = y.type.ndim - len(shape)
        if surplus > 0:
            y = ops.reduce_maximum(y, axes=tuple(range(surplus)))
        behind = len(shape) - y.type.ndim
        for axis, size in enumerate(y.shape):
            target = shape[behind + axis]
            if size == 0 and target:
                return helpers.full(1, ShapeDtype(shape, self.dtype))
            if size not in (1, target):
                y = helpers.slice_axis(y, axis, 0, min(size, target) if size > target else 1)
        dimensions = tuple(range(behind, len(shape)))
        return ops.broadcast_in_dim(y, shape=shape, dimensions=dimensions)


def _unary(d: Drawer) -> Value:
    x = d.value()
    if d.dtype == I32:
        return d.choose([ops.negate, ops.abs, ops.not_, ops.sign])(x)
    return d.choose([ops.negate, ops.tanh, ops.sine, ops.logistic, ops.cosine])(x)


def _binary(d: Drawer) -> Value:
    x = d.value()
    y = d.partner(x)
    x, y = d.choose([(x, y), (y, x), (x, x)])
    if d.dtype == I32:
        return d.choose([ops.add, ops.subtract, ops.multiply, ops.maximum, ops.xor])(x, y)
    return helpers.scale(d.choose([ops.add, ops.subtract, ops.multiply])(x, y), 0.5)


def _outer(d: Drawer) -> Value:
    """Combine two values along a new axis each: what broadcasting makes large."""
    x, y = d.value(1), d.value(1)
    x = ops.reduce_maximum(x, axes=tuple(range(2, x.type.ndim))) if x.type.ndim > 2 else x
    y = ops.reduce_maximum(y, axes=tuple(range(1, y.type.ndim))) if y.type.ndim > 1 else y
    shape = (*x.shape, y.shape[0])
    if math.prod(shape) > MAXIMUM_ELEMENTS:
        return ops.negate(x)
    order = d.choose([(0, 1, 2), (1, 2, 0), (2, 0, 1)]) if len(shape) == 3 else (0, 1)
    permuted = tuple(shape[axis] for axis in order)
    places = [order.index(axis) for axis in range(len(shape) - 1)]
    if places != sorted(places):
        order, permuted, places = tuple(range(len(shape))), shape, list(range(len(shape) - 1))
    left = ops.broadcast_in_dim(x, shape=permuted, dimensions=tuple(places))
    last = order.index(len(shape) - 1)
    right = ops.broadcast_in_dim(y, shape=permuted, dimensions=(last,))
    return _bounded(d, ops.subtract(left, right))


def _bounded(d: Drawer, x: Value) -> Value:
    return x if d.dtype == I32 else ops.tanh(x)


def _select(d: Drawer) -> Value:
    x = d.value()
    y, z = d.partner(x), d.partner(x)
    pred = ops.compare(x, y, direction=d.choose(["EQ", "NE", "LT", "LE", "GT", "GE"]))
    return ops.select(pred, y, z)


def _clamp(d: Drawer) -> Value:
    x = d.value()
    return ops.clamp(helpers.full_like(x, -1), x, d.partner(x))


def _convert(d: Drawer) -> Value:
    """There and back through another dtype."""
    x = d.value()
    if d.dtype == I32:
        return ops.convert(ops.convert(x, dtype=np.dtype(np.int64)), dtype=I32)
    return ops.convert(ops.convert(x, dtype=np.dtype(np.complex128)), dtype=d.dtype)


def _reshape(d: Drawer) -> Value:
    x = d.value(1)
    axis = d.axis(x)
    size = x.shape[axis]
    kind = d.integer(0, 3)
    shape = x.shape
    if kind == 0:
        shape = (*shape[:axis], 1, *shape[axis:])
    elif kind == 1 and axis + 1 < len(shape):
        shape = (*shape[:axis], size * shape[axis + 1], *shape[axis + 2 :])
    elif kind == 2 and size > 1:
        factor = next(k for k in range(2, size + 1) if size % k == 0)
        shape = (*shape[:axis], factor, size // factor, *shape[axis + 1 :])
    else:
        shape = tuple(n for n in shape if n != 1)
    return ops.reshape(x, shape=shape)


def _transpose(d: Drawer) -> Value:
    x = d.value(2)
    return ops.transpose(x, permutation=tuple(d.draw(st.permutations(range(x.type.ndim)))))


def _slice(d: Drawer) -> Value:
    x = d.value(1)
    axis = d.axis(x)
    n = x.shape[axis]
    start = d.integer(0, max(n - 1, 0))
    limit = d.integer(start, n)
    starts = tuple(start if i == axis else 0 for i in range(x.type.ndim))
    limits = tuple(limit if i == axis else size for i, size in enumerate(x.shape))
    strides = tuple(d.integer(1, 3) if i == axis else 1 for i in range(x.type.ndim))
    return ops.slice(x, start=starts, limit=limits, strides=strides)


def _pad(d: Drawer) -> Value:
    x = d.value(1)
    axis = d.axis(x)
    one = lambda number: tuple(number if i == axis else 0 for i in range(x.type.ndim))
    low, high, interior = one(d.integer(0, 2)), one(d.integer(0, 2)), one(d.integer(0, 1))
    return ops.pad(x, helpers.scalar(1, d.dtype), low=low, high=high, interior=interior)


def _concatenate(d: Drawer) -> Value:
    x = d.value(1)
    return ops.concatenate(x, d.partner(x), dimension=d.axis(x))


def _reverse(d: Drawer) -> Value:
    x = d.value(1)
    return ops.reverse(x, dimensions=(d.axis(x),))


def _sum(d: Drawer) -> Value:
    x = d.value(1)
    return _bounded(d, ops.reduce_add(x, axes=d.axes(x)))


def _reduce(d: Drawer) -> Value:
    x = d.value(1)
    reductions = [ops.reduce_maximum, ops.reduce_minimum]
    if d.dtype == I32:
        reductions += [ops.reduce_add, ops.reduce_multiply, ops.reduce_and, ops.reduce_or]
    return _bounded(d, _finite(d, d.choose(reductions)(x, axes=d.axes(x))))


def _finite(d: Drawer, x: Value) -> Value:
    """Bring the identities of maximum and minimum (of empty axes) back to small numbers."""
    if d.dtype == I32:
        return x
    return ops.clamp(helpers.full_like(x, -3), x, helpers.full_like(x, 3))


def _softmax(d: Drawer) -> Value:
    """Largest, exponentials and their sum along one axis: loops that wait for one another."""
    x = d.value(2)
    axis = d.axis(x)
    kept = tuple(i for i in range(x.type.ndim) if i != axis)
    spread = lambda row: ops.broadcast_in_dim(row, shape=x.shape, dimensions=kept)
    shifted = ops.subtract(x, spread(ops.reduce_maximum(x, axes=(axis,))))
    if d.dtype == I32:
        return ops.subtract(shifted, spread(ops.reduce_add(shifted, axes=(axis,))))
    weights = ops.exponential(shifted)
    return ops.divide(weights, spread(ops.reduce_add(weights, axes=(axis,))))


def _dot(d: Drawer) -> Value:
    """A product over one axis; the other operand is the same value, or one made to fit."""
    x = d.value(2)
    y = d.choose([x, d.partner(x)])
    order = d.draw(st.permutations(range(x.type.ndim)))
    inner, batch = (order[0],), tuple(order[1:-1] if d.integer(0, 1) else ())
    rest = [n for i, n in enumerate(x.shape) if i not in batch and i not in inner]
    if math.prod(rest) ** 2 * math.prod(x.shape[i] for i in batch) > MAXIMUM_ELEMENTS:
        return ops.negate(x)
    result = ops.dot_general(
        x, y, lhs_batch=batch, rhs_batch=batch, lhs_contracting=inner, rhs_contracting=inner
    )
    return _bounded(d, result)


def _argmax(d: Drawer) -> Value:
    x = d.value(1)
    filled = [axis for axis, n in enumerate(x.shape) if n]
    if not filled:
        return ops.negate(x)
    found = d.choose([ops.argmax, ops.argmin])(x, axis=d.choose(filled), index_dtype=I32)
    return ops.convert(found, dtype=d.dtype) if d.dtype == I32 else _bounded_index(found, d.dtype)


def _bounded_index(found: Value, dtype: np.dtype[Any]) -> Value:
    return helpers.scale(ops.convert(found, dtype=dtype), 0.1)


def _cumulative(d: Drawer) -> Value:
    x = d.value(1)
    op = d.choose([ops.cumulative_add, ops.cumulative_maximum, ops.cumulative_minimum])
    return _bounded(d, op(x, axis=d.axis(x), reverse=bool(d.integer(0, 1))))


def _sort(d: Drawer) -> Value:
    x = d.value(1)
    dimension = d.axis(x)
    places = ops.iota(shape=x.shape, dtype=I32, dimension=dimension)
    values, moved = ops.sort(x, places, dimension=dimension, num_keys=1, is_stable=True)
    if d.integer(0, 1):
        return values
    return ops.convert(moved, dtype=d.dtype) if d.dtype == I32 else _bounded_index(moved, d.dtype)


def _top_k(d: Drawer) -> Value:
    x = d.value(1)
    return ops.top_k(x, k=d.integer(0, x.shape[-1]))[0]


def _iota(d: Drawer) -> Value:
    x = d.value(1)
    line = ops.iota(shape=x.shape, dtype=d.dtype, dimension=d.axis(x))
    return ops.add(x, line) if d.dtype == I32 else ops.add(x, helpers.scale(line, 0.1))


def _gather(d: Drawer) -> Value:
    """Take rows along one axis, at places that are computed and may be out of bounds."""
    x = d.value(1)
    axis = d.axis(x)
    if not x.shape[axis]:
        return ops.negate(x)
    line = ops.iota(shape=(d.choose(SIZES),), dtype=I32, dimension=0)
    indices = ops.subtract(
        ops.multiply(line, helpers.full_like(line, 3)), helpers.full_like(line, 2)
    )
    return ops.gather(
        x,
        ops.reshape(indices, shape=(*indices.shape, 1)),
        offset_dims=tuple(i for i in range(x.type.ndim) if i != axis),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        index_vector_dim=1,
        slice_sizes=tuple(1 if i == axis else n for i, n in enumerate(x.shape)),
    )


def _along_axis(d: Drawer) -> Value:
    """Read, or add, at data-dependent places along one axis; the others are batching axes."""
    x = d.value(1)
    axis = d.axis(x)
    if not x.type.size:
        return ops.negate(x)
    source = ops.sort(
        x,
        ops.iota(shape=x.shape, dtype=I32, dimension=axis),
        dimension=axis,
        num_keys=1,
        is_stable=True,
    )[1]
    if d.integer(0, 1):
        return helpers.scatter_add_along_axis(x.shape, source, x, axis)
    batch = tuple(i for i in range(x.type.ndim) if i != axis)
    return ops.gather(
        x,
        source,
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        index_vector_dim=x.type.ndim,
        slice_sizes=(1,) * x.type.ndim,
        operand_batching_dims=batch,
        start_indices_batching_dims=batch,
    )


def _window(d: Drawer) -> Value:
    """Read or replace a window at a start that is computed."""
    x = d.value(1)
    axis = d.axis(x)
    if not x.shape[axis]:
        return ops.negate(x)
    size = d.integer(1, x.shape[axis])
    start = ops.constant(value=np.array(d.integer(-1, 3), np.int32))
    zero = ops.constant(value=np.zeros((), np.int32))
    starts = [start if i == axis else zero for i in range(x.type.ndim)]
    sizes = x.type.resized(axis, size).shape
    part = ops.dynamic_slice(x, *starts, sizes=sizes)
    if d.integer(0, 1):
        return part
    return ops.dynamic_update_slice(x, ops.negate(part), *starts)


def _factor(d: Drawer) -> Value:
    """Factor and solve small matrices in batches; the matrices are well conditioned."""
    x = d.value(3)
    n = min(x.shape[-1], 3)
    if d.dtype == I32 or not x.type.size:
        return ops.negate(x)
    rows = helpers.slice_axis(x, x.type.ndim - 1, 0, n)
    batch = tuple(range(x.type.ndim - 2))
    last = x.type.ndim - 2
    product = ops.dot_general(
        rows,
        rows,
        lhs_batch=batch,
        rhs_batch=batch,
        lhs_contracting=(last,),
        rhs_contracting=(last,),
    )
    index = lambda axis: ops.iota(shape=product.shape, dtype=I32, dimension=last + axis)
    eye = ops.convert(ops.compare(index(0), index(1), direction="EQ"), dtype=d.dtype)
    lower = ops.cholesky(ops.add(product, helpers.scale(eye, 3)))
    if d.integer(0, 1):
        return _bounded(d, lower)
    right = ops.transpose(rows, permutation=(*batch, last + 1, last))
    params = {"left_side": True, "lower": True, "unit_diagonal": False}
    return _bounded(d, ops.triangular_solve(lower, right, transpose_a="NO_TRANSPOSE", **params))


SMOOTH = (_unary, _binary, _outer, _reshape, _transpose, _slice, _pad, _concatenate, _sum, _softmax)
SMOOTH += (_dot, _reverse, _along_axis, _factor, _convert, _window, _gather)
ALL = (*SMOOTH, _select, _clamp, _reduce, _argmax, _cumulative, _sort, _top_k, _iota)


@dataclass(frozen=True)
class Program:
    """A graph and arrays for it."""

    graph: Graph
    arrays: list[Array]


@st.composite
def programs(draw: Any, kind: str = "integer", maximum_steps: int = 12) -> Program:
    """Draw a program; `kind` is "integer", "float" or "smooth" (one scalar output)."""
    dtype = I32 if kind == "integer" else np.dtype(np.float64)
    sizes = SIZES if kind == "smooth" or draw(st.integers(0, 9)) else (0, *SIZES)
    with Builder() as builder:
        types = [
            ShapeDtype(tuple(draw(st.lists(st.sampled_from(sizes), min_size=0, max_size=2))), dtype)
            for _ in range(draw(st.integers(1, 3)))
        ]
        inputs = [builder.input(type) for type in types]
        drawer = Drawer(draw, dtype, list(inputs))
        steps = SMOOTH if kind == "smooth" else ALL
        for _ in range(draw(st.integers(4, maximum_steps))):
            made = drawer.choose(steps)(drawer)
            if made.type.size <= MAXIMUM_ELEMENTS and made.type.ndim <= 4:
                drawer.pool.append(made)
        outputs = _outputs(drawer, inputs, kind)
        graph = builder.finish(outputs)
    return Program(graph, arrays_for(graph, draw(st.integers(0, 99))))


def _outputs(d: Drawer, inputs: list[Value], kind: str) -> list[Value]:
    if kind != "smooth":
        # Reduced outputs leave large values inside, where they can be split.
        return [_output(d) for _ in range(d.integer(1, 3))]
    wanted = [d.value() for _ in range(d.integer(1, 2))] + inputs
    totals = [
        ops.reduce_add(ops.sine(x), axes=tuple(range(x.type.ndim))) if x.type.ndim else ops.sine(x)
        for x in wanted
    ]
    total = totals[0]
    for other in totals[1:]:
        total = ops.add(total, other)
    return [total]


def _output(d: Drawer) -> Value:
    x = d.value()
    if not x.type.ndim or not d.integer(0, 2):
        return x
    reduction = d.choose([ops.reduce_add, ops.reduce_maximum])
    return reduction(x, axes=d.axes(x))


def arrays_for(graph: Graph, seed: int) -> list[Array]:
    """Return arrays for the inputs of a graph: small whole numbers, or reals in [-1, 1]."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(-9, 10, type.shape).astype(type.dtype)
        if type.dtype.kind == "i"
        else rng.uniform(-1, 1, type.shape).astype(type.dtype)
        for type in graph.input_types
    ]


def settings() -> st.SearchStrategy[SplitSettings]:
    """Draw settings so small that small programs are split, tiled and left with remainders."""
    small = st.sampled_from([0, 1, 8, 40, 100, 300, 1000, 4000])
    return st.builds(
        SplitSettings,
        threshold_bytes=small,
        working_set_bytes=st.sampled_from([1, 64, 200, 700, 2000, 10000]),
        budget_bytes=st.sampled_from([1, 200, 1000, 5000]),
        split_bytes=st.sampled_from([None, None, 1, 100, 1000]),
        trust_fusion=st.booleans(),
    )
