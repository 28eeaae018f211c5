"""What indices out of bounds mean, said with NumPy alone: one more element along each axis.

Everything that is out of bounds is sent to that element. Reading finds there what out of bounds
reads; what is written there is cut off again. And how the tests draw such indices.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np

Host = np.ndarray[Any, Any]


def padded(x: Host, fill: Any) -> Host:
    """Return the array with one more element along each axis."""
    return np.pad(x, [(0, 1)] * x.ndim, constant_values=fill)


def cut(x: Host) -> Host:
    """Return the array without it."""
    return x[tuple(slice(0, -1) for _ in x.shape)]


def sent_beyond(index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the index with what is out of bounds at the further element."""
    return _mapped(index, shape, lambda v, n: np.where((v < 0) | (v >= n), n, v))


def clipped(index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the index with what is out of bounds at the nearest element."""
    return _mapped(index, shape, lambda v, n: np.clip(v, 0, n - 1))


def _mapped(index: tuple[Any, ...], shape: tuple[int, ...], change: Any) -> tuple[Any, ...]:
    counted = sum(item is not None and item is not Ellipsis for item in index)
    found: list[Any] = []
    axis = 0
    for item in index if any(item is Ellipsis for item in index) else (*index, Ellipsis):
        if item is None:
            found.append(None)
        elif item is Ellipsis:
            rest = shape[axis : axis + len(shape) - counted]
            found += [Ellipsis, *[slice(0, n) for n in rest]]
            axis += len(rest)
        elif isinstance(item, slice):
            run = range(shape[axis])[item]
            found.append(slice(run.start, None if run.stop < 0 else run.stop, run.step))
            if not len(run):
                found[-1] = slice(0, 0)
            axis += 1
        else:
            values = np.asarray(item)
            values = np.where(values < 0, values + shape[axis], values)
            found.append(change(values, shape[axis])[()])
            axis += 1
    return tuple(found)


class Operand:
    """An item of an index that is an argument of the traced function."""

    def __init__(self, value: Host) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Operand({self.value.tolist()}, {self.value.dtype})"


def filled_in(index: tuple[Any, ...], operands: Any) -> tuple[Any, ...]:
    """Return the index with arrays in place of its operands."""
    given = iter(operands)
    return tuple(next(given) if isinstance(item, Operand) else item for item in index)


def operands_of(index: tuple[Any, ...]) -> list[Host]:
    """Return the values of its operands."""
    return [item.value for item in index if isinstance(item, Operand)]


def _item(size: int) -> st.SearchStrategy[Any]:
    anywhere = st.integers(-2 * size - 1, 2 * size + 1)
    bound = st.none() | st.integers(-size - 2, size + 2)
    step = st.none() | st.integers(-3, 3).filter(bool)
    dtype = st.sampled_from(["int64", "int32", "int8"])
    scalars = st.builds(np.array, anywhere, dtype)
    vectors = st.builds(np.array, st.lists(anywhere, min_size=2, max_size=2), dtype)
    pairs = st.lists(anywhere, min_size=2, max_size=2)
    columns = st.builds(np.array, st.lists(pairs, min_size=3, max_size=3), dtype)
    return (
        (scalars | vectors | columns).map(Operand)
        | scalars.map(Operand)
        | st.integers(-size, size - 1)
        | st.builds(slice, bound, bound, step)
        | st.just(slice(None))
    )


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Draw an index with at least one operand, of every form that NumPy knows but masks."""
    count = draw(st.integers(1, len(shape)))
    items = [draw(_item(size)) for size in shape[:count]]
    if draw(st.booleans()):
        place = draw(st.integers(0, len(items)))
        later = shape[len(shape) - (len(items) - place) :]
        items = [*items[:place], Ellipsis, *[draw(_item(size)) for size in later]]
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    if not any(isinstance(item, Operand) for item in items):
        first = next((i for i, item in enumerate(items) if _is_basic(item)), None)
        if first is None:
            return (Operand(np.array(draw(st.integers(-9, 9)))),)
        items[first] = Operand(np.array(draw(st.integers(-9, 9))))
    return tuple(items)


def _is_basic(item: Any) -> bool:
    return isinstance(item, int | slice)
