"""Random algebra as people write it: products, biases, heads, with operands that stand twice.

What rewrites of sums and products trip over is drawn on purpose: the same value as two operands or
twice among the leaves of a chain, views (`x[None]`, transposes, reshapes, broadcasts) between the
ops of a pattern, axes of size one, slices of one array that begin alike, results that are read
elsewhere too or are outputs twice. Whole numbers wrap around and are exact in every order; complex
ones show a conjugate that got lost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

import tracer.numpy as tnp
from tests.optimizer.random_programs import Program
from tracer.array.trace import trace
from tracer.ir import ShapeDtype

MOST_ELEMENTS = 400
DTYPES = ("int64", "float64", "complex128")


class Algebra:
    """Draws steps; `pool` has what was made so far, the latest last."""

    def __init__(self, draw: Callable[..., Any], pool: list[Any]) -> None:
        self.draw = draw
        self.pool = pool

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def choose(self, items: Any) -> Any:
        items = list(items)
        return items[self.integer(0, len(items) - 1)]

    def value(self, minimum_ndim: int = 0) -> Any:
        """Draw a value, every other time the last one."""
        x = self.pool[-1] if self.integer(0, 1) else self.choose(self.pool)
        while x.ndim < minimum_ndim:
            x = x[None]
        return x

    def grow(self, step: Callable[[Algebra], Any], count: int) -> None:
        """Add what a step makes to the pool, so many times."""
        for _ in range(count):
            self.pool.append(step(self))

    def partner(self, x: Any, fits: Callable[[Any], bool]) -> Any:
        """Draw a value that fits to `x`: itself one time in three, None when there is none."""
        others = [y for y in self.pool if y is not x and fits(y)]
        if fits(x) and (not others or not self.integer(0, 2)):
            return x
        return self.choose(others) if others else None


def _product(d: Algebra) -> Any:
    x = d.value(2)
    y = d.partner(x, functools.partial(_multiplies, x))
    x, y = d.choose([(x, y), (y, x)]) if y is not None and _multiplies(y, x) else (x, y)
    return x @ tnp.swapaxes(x, -1, -2) if y is None else x @ y


def _multiplies(x: Any, y: Any) -> bool:
    """Tell whether `x @ y` has a meaning and a small result."""
    if min(x.ndim, y.ndim) < 1 or x.shape[-1] != y.shape[0 if y.ndim == 1 else -2]:
        return False
    heads = x.shape[:-2], y.shape[:-2]
    return not all(heads) or heads[0] == heads[1]


def _fits(x: Any, y: Any) -> bool:
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return int(np.prod(shape)) <= MOST_ELEMENTS


def _binary(d: Algebra) -> Any:
    x = d.value()
    y = d.partner(x, functools.partial(_fits, x))
    return d.choose([tnp.add, tnp.subtract, tnp.multiply, tnp.multiply])(x, y)


def _bias(d: Algebra) -> Any:
    """Add, or multiply with, what is repeated along the other axes: a row, a column, a number."""
    x = d.value(2)
    y = d.partner(x, lambda y: y.ndim >= 1 and y.shape[-1] == x.shape[-1])
    row = (x if y is None else y).reshape(-1, x.shape[-1])[0]
    return d.choose([tnp.add, tnp.subtract, tnp.multiply])(*d.choose([(x, row), (row, x)]))


def _view(d: Algebra) -> Any:
    x = d.value(1)
    axis = d.integer(0, x.ndim)
    views = [
        lambda: tnp.expand_dims(x, axis),
        lambda: x.T,
        lambda: tnp.swapaxes(x, 0, -1),
        lambda: x.reshape(-1),
        lambda: x.reshape(x.shape[0], -1),
        lambda: tnp.squeeze(x),
        lambda: tnp.broadcast_to(x, (2, *x.shape)) if 2 * x.size <= MOST_ELEMENTS else x.T,
    ]
    return d.choose(views)()


def _slice(d: Algebra) -> Any:
    """Take the first few, or every other one: slices of one array that begin alike."""
    x = d.value(1)
    stop, step = d.integer(1, x.shape[-1]), d.integer(1, 2)
    return x[..., :stop:step] if d.integer(0, 1) else x[: d.integer(1, x.shape[0])]


def _linear(d: Algebra) -> Any:
    """A layer, with a bias or with the input itself added."""
    x = _product(d)
    y = d.partner(x, functools.partial(_fits, x))
    return x if y is None else d.choose([tnp.add, tnp.subtract])(*d.choose([(x, y), (y, x)]))


def _squared(d: Algebra) -> Any:
    """A value with itself, seen through a view."""
    x = _view(d)
    if x.ndim < 2:
        return x * x
    return d.choose([lambda: x * x, lambda: x @ tnp.swapaxes(x, -1, -2), lambda: x * (x + x)])()


def _shared_factor(d: Algebra) -> Any:
    """The sum of two products with one factor in common, or with slices of it."""
    x = d.value(2)
    n = x.shape[-1]
    first, second = d.integer(1, n), d.integer(1, n)
    others = [y for y in d.pool if y.ndim == 2 and y.shape[0] >= n]
    if not others:
        return x
    y, z = d.choose(others)[:first], d.choose(others)[:second]
    terms = x[..., :first] @ y, x[..., :second] @ z
    return d.choose([tnp.add, tnp.subtract])(*terms) if _fits(*terms) else terms[0]


def _sum(d: Algebra) -> Any:
    x = d.value(1)
    return tnp.sum(x, axis=d.integer(0, x.ndim - 1), keepdims=bool(d.integer(0, 1)))


def _scale(d: Algebra) -> Any:
    x = d.value()
    numbers = [y for y in d.pool if y.size == 1 and y.ndim == 0]
    factor = d.choose(numbers) if numbers and d.integer(0, 1) else d.choose([2, -1, 3])
    return x * factor


def _conjugate(d: Algebra) -> Any:
    return d.choose([tnp.conj, tnp.negative])(d.value())


STEPS = (_product, _linear, _linear, _squared, _shared_factor, _binary, _bias, _view, _view)
STEPS += (_slice, _sum, _scale, _conjugate)


@st.composite
def algebra(draw: Any, dtype: str = "int64", maximum_steps: int = 9) -> Program:
    """Draw a program and whole numbers for it, so that sums are exact in every order."""
    n = draw(st.integers(2, 4))
    shapes = [(n, n), (n, n), (n,), (n, n), (1, n), (2, n, n), (n, 1), ()]
    count = draw(st.integers(2, 4))
    types = [ShapeDtype((n, n), dtype)]
    types += [ShapeDtype(draw(st.sampled_from(shapes)), dtype) for _ in range(count - 1)]
    steps = draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=maximum_steps))

    def function(*arrays: Any) -> Any:
        d = Algebra(draw, list(arrays))
        for step in steps:
            made = step(d)
            if made.size <= MOST_ELEMENTS and made.ndim <= 4:
                d.pool.append(made)
        last = d.pool[-1]
        return (last, d.choose([last, d.value()])) if d.integer(0, 1) else last

    graph = trace(function, types).graph
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return Program(graph, [_whole_numbers(rng, type) for type in types])


def _whole_numbers(rng: np.random.Generator, type: ShapeDtype) -> Any:
    real = rng.integers(-3, 4, type.shape).astype(type.dtype)
    if type.dtype.kind != "c":
        return real
    return real + 1j * rng.integers(-3, 4, type.shape)
