"""Random programs that are aimed at the pattern of one pass each.

As `algebra_programs` for sums and products: operands that are one value, views between the ops of a
pattern, axes of one element, values that others read or that are results too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.algebra_programs import Algebra
from tests.optimizer.random_programs import Program
from tracer.array.trace import trace
from tracer.ir import ShapeDtype
from tracer.scipy.linalg import solve_triangular

Shapes = list[tuple[int, ...]]
Body = Callable[..., Any]


def _program(draw: Any, shapes: Shapes, function: Body, dtype: str = "float64") -> Program:
    graph = trace(function, [ShapeDtype(shape, dtype) for shape in shapes]).graph
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    if np.dtype(dtype).kind == "i":
        return Program(graph, [rng.integers(-9, 10, s).astype(dtype) for s in shapes])
    return Program(graph, [rng.uniform(-1, 1, shape).astype(dtype) for shape in shapes])


@st.composite
def kernels(draw: Any) -> Program:
    """Sums of what is computed from two broadcast arrays: distances, weighted ones, products."""
    n, m, k = (draw(st.sampled_from([1, 2, 3, 5])) for _ in range(3))
    is_same = draw(st.booleans())
    shapes: Shapes = [(n, k), (n, k) if is_same else (m, k), (k,), (n,), ()]

    def function(*arrays: Any) -> Any:
        x, y, features, rows, number = arrays
        y = x if is_same and draw(st.booleans()) else y
        pool = [x[:, None], y[None], features, rows[:, None, None], number]
        d = Algebra(draw, pool)
        d.grow(_broadcast_step, draw(st.integers(2, 6)))
        whole = tnp.broadcast_to(pool[-1], np.broadcast_shapes(pool[-1].shape, (n, y.shape[0], k)))
        axes = d.choose([(2,), (0,), (1,), (0, 2), (1, 2), (0, 1, 2)])
        total = d.choose([_sum_over, _einsum_over, _squares_over])(whole, axes)
        return (total, d.choose([total, pool[-1], tnp.exp(-total)])) if d.integer(0, 1) else total

    return _program(draw, shapes, function)


def _broadcast_step(d: Algebra) -> Any:
    x, y = d.value(), d.choose(d.pool)
    steps: list[Callable[[], Any]] = [
        lambda: x - y,
        lambda: x - y,
        lambda: x + y,
        lambda: x * y,
        lambda: -x,
        lambda: tnp.abs(x) ** 2,
        lambda: x**2,
        lambda: 2 * x,
        lambda: x / 3,
    ]
    return d.choose(steps)()


def _sum_over(x: Any, axes: tuple[int, ...]) -> Any:
    return tnp.sum(x, axis=axes)


def _squares_over(x: Any, axes: tuple[int, ...]) -> Any:
    return tnp.sum(x * x, axis=axes)


def _einsum_over(x: Any, axes: tuple[int, ...]) -> Any:
    kept = "".join(letter for i, letter in enumerate("abc") if i not in axes)
    return tnp.einsum(f"abc,abc->{kept}", x, x)


@st.composite
def turned(draw: Any, dtype: str = "float64") -> Program:
    """Reductions of what is computed, element by element, from transposed arrays."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 5]), min_size=2, max_size=3)))
    order = draw(st.permutations(range(len(shape))))
    wanted = tuple(shape[axis] for axis in order)

    def function(*arrays: Any) -> Any:
        x, y, vector = arrays
        line = tnp.arange(wanted[-1]).astype(x.dtype)
        pool = [tnp.transpose(x, order), tnp.transpose(y, order), vector, line]
        d = Algebra(draw, pool)
        d.grow(_elementwise_step, draw(st.integers(1, 5)))
        whole = tnp.broadcast_to(pool[-1], wanted)
        axes = tuple(sorted(draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))))
        found = d.choose([tnp.sum, tnp.max, tnp.min, tnp.prod])(whole, axis=axes)
        others = [found, whole, pool[d.integer(0, len(pool) - 1)], tnp.max(whole, axis=axes)]
        return (found, d.choose(others)) if d.integer(0, 1) else found

    return _program(draw, [shape, shape, (wanted[-1],)], function, dtype)


def _elementwise_step(d: Algebra) -> Any:
    x, y = d.value(), d.choose(d.pool)
    steps: list[Callable[[], Any]] = [
        lambda: x - y,
        lambda: x * y,
        lambda: tnp.maximum(x, y),
        lambda: tnp.where(x > y, x, -y),
        lambda: x.astype("float32").astype(x.dtype),
        lambda: tnp.abs(x),
    ]
    return d.choose(steps)()


@st.composite
def joined(draw: Any, dtype: str = "float64") -> Program:
    """Reductions of concatenated parts: one part twice, parts of no or one element."""
    count = draw(st.integers(1, 3))
    sizes = [draw(st.sampled_from([0, 1, 2, 3])) for _ in range(count)]
    sizes[0] += 1
    axis = draw(st.integers(0, 1))
    shapes: Shapes = [(n, 3) if axis == 0 else (3, n) for n in sizes]

    def function(*arrays: Any) -> Any:
        d = Algebra(draw, list(arrays))
        parts = [d.choose(arrays) for _ in range(d.integer(2, 4))] + [arrays[0]]
        pool = [tnp.concatenate(parts, axis=axis)]
        d.pool = pool
        d.grow(_elementwise_step, d.integer(0, 4))
        reductions = [tnp.sum, tnp.max, tnp.min, tnp.prod]
        found = [
            d.choose(reductions)(d.value(), axis=d.choose([(0,), (1,), (0, 1)]))
            for _ in range(d.integer(1, 3))
        ]
        return (*found, d.choose([found[0], tnp.sum(pool[0] * pool[-1])]))

    return _program(draw, shapes, function, dtype)


@st.composite
def lanes(draw: Any, dtype: str = "float64") -> Program:
    """The same steps on many small arrays: an optimiser's, with lanes that share what they read."""
    count = draw(st.integers(4, 6))
    shapes: Shapes = [draw(st.sampled_from([(2,), (2, 3), (1,), (3, 1)])) for _ in range(count)]
    steps = draw(st.integers(1, 4))
    choices = [draw(st.integers(0, 5)) for _ in range(steps)]
    is_loop = draw(st.booleans())

    def update(own: list[Any]) -> list[Any]:
        for number, choice in enumerate(choices):
            others = own[1:] + own[:1]
            makers: list[Callable[[Any, Any], Any]] = [
                lambda x, y: x * 0.5,
                lambda x, y: x - x * x,
                lambda x, y: tnp.maximum(x, 0 * x),
                lambda x, y: x + tnp.sum(y),
                lambda x, y: x * y if x.shape == y.shape else x + 1,
                lambda x, y: (x.reshape(-1) + x.reshape(-1)).reshape(x.shape),
            ]
            own = [makers[choice](x, y) for x, y in zip(own, others, strict=True)]
            if number == 1 and is_loop:
                own[0] = own[0] * 2
        return own

    def function(*arrays: Any) -> Any:
        first = list(arrays)
        if draw(st.booleans()):
            first[1] = first[0]
        if is_loop:
            found = tracer.fori_loop(
                0, 3, lambda _, carry: tuple(update(list(carry))), tuple(first)
            )
        else:
            found = tuple(update(first))
        if draw(st.booleans()):
            return tnp.concatenate([tnp.ravel(x) for x in found])
        return (*found, found[0])

    return _program(draw, shapes, function, dtype)


@st.composite
def solves(draw: Any) -> Program:
    """Triangular solves of sums of products with wide matrices, and sums over the wide axis."""
    m, n = draw(st.integers(1, 3)), draw(st.integers(12, 16))
    shapes: Shapes = [(m, m), (m, n), (m, n), (m, m), (n,)]

    def function(*arrays: Any) -> Any:
        factor, wide, other, square, long = arrays
        factor = tnp.tril(factor) + 3 * tnp.eye(m)
        other = wide if draw(st.booleans()) else other
        d = Algebra(draw, [square @ wide])
        for _ in range(d.integer(1, 5)):
            d.pool.append(_wide_step(d, factor, square, d.choose([wide, other]), long))
        found = solve_triangular(factor, d.value(), lower=True, trans=d.integer(0, 1))
        sums = [
            lambda: found @ wide.T,
            lambda: (found * other).sum(),
            lambda: found @ long,
            lambda: (found * found).sum(),
            lambda: found @ found.T,
            lambda: found.T,
        ]
        results = [d.choose(sums)() for _ in range(d.integer(1, 3))]
        return (*results, wide @ other.T, d.choose([found, d.pool[-1], wide @ wide.T]))

    return _program(draw, shapes, function)


def _wide_step(d: Algebra, factor: Any, square: Any, wide: Any, long: Any) -> Any:
    x, y = d.value(), d.choose([*d.pool, wide])
    steps: list[Callable[[], Any]] = [
        lambda: x + y,
        lambda: x - y,
        lambda: square.T @ x,
        lambda: 2 * x,
        lambda: -x / 3,
        lambda: x - tnp.outer(square[0], long),
        lambda: (x.T @ square).T,
        lambda: solve_triangular(factor, x, lower=True),
    ]
    return d.choose(steps)()


@st.composite
def loops(draw: Any) -> Program:
    """Loops over a small state: parts that are read and written, counters, inner loops."""
    n = draw(st.integers(1, 3))
    trips, inner = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    shapes: Shapes = [(n, 2), (n,), (trips, n)]
    choices = [draw(st.integers(0, 8)) for _ in range(draw(st.integers(1, 4)))]
    is_scan = draw(st.booleans())

    def function(start: Any, row: Any, rows: Any) -> Any:
        if not is_scan:
            found = tracer.fori_loop(
                0, trips, lambda i, s: _stepped(choices, inner, (i, s, row)), start
            )
            return found, (start if draw(st.booleans()) else found)

        def body(state: Any, given: Any) -> Any:
            after = _stepped(choices, inner, (given[1], state, given[0]))
            return after, (after[0], state) if choices[0] % 2 else after[:, 0]

        last, stacked = tracer.scan(body, start, (rows, tnp.arange(trips)))
        again = tracer.scan(
            lambda c, s: (c + tnp.sum(s), s * 2), 0.0, tracer.tree.leaves(stacked)[0]
        )
        return last, stacked, again

    return _program(draw, shapes, function)


def _stepped(choices: list[int], inner: int, given: tuple[Any, Any, Any]) -> Any:
    """Return the state of (n, 2) after the chosen steps, with a counter and a row at hand."""
    i, state, row = given
    for choice in choices:
        state = _STATE_STEPS[choice](i, state, row, inner)
    return state


_STATE_STEPS: list[Callable[..., Any]] = [
    lambda i, s, row, _: s.at[i % row.shape[0], 0].set(row[0]),
    lambda i, s, row, _: s.at[:, 1].add(row),
    lambda i, s, row, _: tnp.stack([s[:, 1], s[:, 0]], axis=1),
    lambda i, s, row, _: s * 0.5 + s[0],
    lambda i, s, row, _: s - tnp.sum(s, axis=0),
    lambda i, s, row, _: tnp.concatenate([s[1:], s[:1]]),
    lambda i, s, row, inner: tracer.fori_loop(
        0, inner, lambda j, t: t * 0.5 + row[j % row.shape[0]], s
    ),
    lambda i, s, row, _: tnp.where(i > 1, s, s[:, ::-1]),
    lambda i, s, row, _: s + tnp.stack([row, row], axis=1) * i,
]


@st.composite
def handed_on(draw: Any, dtype: str = "float64") -> Program:
    """Matrices each of which is made of the last one, with rows or columns whole in turn."""
    shape = tuple(draw(st.sampled_from([1, 2, 3, 5, 8])) for _ in range(2))

    def function(*arrays: Any) -> Any:
        x, y = arrays
        d = Algebra(draw, [x + y, y])
        matrix = d.pool[0]
        made = [matrix]
        for _ in range(d.integer(2, 6)):
            axis = d.integer(0, 1)
            step = d.choose([tnp.cumsum, tnp.sort, _centred, _turned_twice, _looked_back])
            matrix = step(matrix, axis)
            made.append(matrix)
        found = [matrix.sum(d.integer(0, 1))]
        if not d.integer(0, 2):
            found.append(d.choose(made).max(0))
        if not d.integer(0, 3):
            found.append(d.choose(made))
        return tuple(found)

    return _program(draw, [shape, shape], function, dtype)


def _centred(x: Any, axis: int) -> Any:
    return tnp.exp(x - x.max(axis, keepdims=True)) - x.mean(axis, keepdims=True)


def _turned_twice(x: Any, axis: int) -> Any:
    return tnp.cumsum(tnp.sort(x.T, axis), axis).T


def _looked_back(x: Any, axis: int) -> Any:
    """Read the places before, of which a slice has the last ones only."""
    return x + tnp.roll(tnp.cumsum(x, axis), 1, axis)
